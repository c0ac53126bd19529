//! Helpers for waiting: for a condition on a watched value, and for a duration of a job file.

use std::time::Duration;

use model::Nanos;
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

/// Converts a duration for timers. A negative duration becomes zero.
pub(crate) fn to_std(duration: Nanos) -> Duration {
    Duration::from_nanos(u64::try_from(duration.0).unwrap_or(0))
}
