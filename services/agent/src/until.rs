//! Waits for conditions on watched values.

use tokio::sync::watch;

/// Waits until the watched value satisfies the condition, and returns it. If the sender is dropped first, it waits forever:
/// the sender's owner has ended, and the waiting task is dropped, too.
pub(crate) async fn until<T: Clone>(watched: &watch::Receiver<T>, condition: impl FnMut(&T) -> bool) -> T {
    let found = watched.clone().wait_for(condition).await.map(|value| T::clone(&value)).ok();
    match found {
        Some(value) => value,
        None => std::future::pending().await,
    }
}
