//! Waiting for what others change.

use tokio::sync::watch;

/// Waits until what is watched is so, and answers it. For ever if nobody can change it any more: whoever could has let go,
/// and what hangs on it is let go of, too.
pub(crate) async fn until<T: Clone>(watched: &watch::Receiver<T>, so: impl FnMut(&T) -> bool) -> T {
    let found = watched.clone().wait_for(so).await.map(|value| T::clone(&value)).ok();
    match found {
        Some(value) => value,
        None => std::future::pending().await,
    }
}
