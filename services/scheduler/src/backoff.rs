//! Pauses before more evaluations are dequeued, after failures that no evaluation caused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Index;
use state::Replica;

use crate::attempt::ReturnReason;

/// Shortest and longest pause after the replica was behind, unless it catches up first.
const BEHIND: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(50));
/// Shortest and longest pause after no applier answered, unless the state changes first.
const NO_APPLIER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Pause if this scheduler is too old.
const OUTDATED: Duration = Duration::from_secs(30);

/// A delay that doubles with each failure until a success.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    limit: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) const fn new((base, limit): (Duration, Duration)) -> Self {
        Self { base, limit, failures: 0 }
    }

    /// Records a failure. Returns the delay before the next try.
    pub(crate) fn failed(&mut self) -> Duration {
        let delay = self.base.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.limit);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Records a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether the last result was a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }
}

/// Pauses dequeuing for all workers of a process. They share a replica and a connection, so a failure of one affects
/// all.
#[derive(Debug)]
pub(crate) struct DequeuePause(Mutex<PauseState>);

#[derive(Debug)]
struct PauseState {
    behind: Backoff,
    no_applier: Backoff,
    pause: Option<Pause>,
}

/// A pause. It ends when the replica reaches `index`, or after `at_most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    index: Option<Index>,
    at_most: Duration,
}

impl Default for DequeuePause {
    fn default() -> Self {
        let (behind, no_applier) = (Backoff::new(BEHIND), Backoff::new(NO_APPLIER));
        Self(Mutex::new(PauseState { behind, no_applier, pause: None }))
    }
}

impl DequeuePause {
    /// An evaluation was finished.
    pub(crate) fn succeeded(&self) {
        let mut state = self.lock();
        state.behind.reset();
        state.no_applier.reset();
    }

    /// An evaluation was returned to the broker. `replica_index` is the replica's index.
    pub(crate) fn returned(&self, why: ReturnReason, replica_index: Index) {
        let mut state = self.lock();
        // Evaluations that fail at the same time count as one failure.
        if state.pause.is_some() {
            return;
        }
        state.pause = match why {
            ReturnReason::Behind(index) => Some(Pause { index: Some(index), at_most: state.behind.failed() }),
            ReturnReason::NoApplier => {
                Some(Pause { index: Some(replica_index.next()), at_most: state.no_applier.failed() })
            }
            ReturnReason::Outdated => Some(Pause { index: None, at_most: OUTDATED }),
            ReturnReason::Superseded | ReturnReason::Stopping => None,
        };
    }

    /// Waits until the pause is over: until its time is up or the replica has reached its index.
    pub(crate) async fn wait(&self, replica: &Replica) {
        let Some(Pause { index, at_most }) = self.lock().pause else { return };
        let caught_up = async {
            match index {
                Some(index) => drop(replica.wait_for(index).await),
                None => std::future::pending().await,
            }
        };
        // Both results end the pause.
        let _ = tokio::time::timeout(at_most, caught_up).await;
        self.lock().pause = None;
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        // Poisoning is ignored, because every change under the lock is complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use state::State;

    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_until_a_success() {
        let mut backoff = Backoff::new((Duration::from_millis(20), Duration::from_millis(100)));
        let waits = [(); 5].map(|()| backoff.failed().as_millis());
        assert_eq!(waits, [20, 40, 80, 100, 100]);
        backoff.reset();
        assert_eq!(backoff.failed().as_millis(), 20);
        backoff.failures = u32::MAX;
        assert_eq!(backoff.failed().as_millis(), 100);
    }

    #[test]
    fn concurrent_failures_count_once_and_an_outdated_scheduler_waits_longest() {
        let dequeue_pause = DequeuePause::default();
        let at_most =
            |dequeue_pause: &DequeuePause| dequeue_pause.lock().pause.take().map(|wait| wait.at_most);
        dequeue_pause.returned(ReturnReason::Behind(Index(9)), Index(4));
        dequeue_pause.returned(ReturnReason::Behind(Index(8)), Index(4));
        assert_eq!(at_most(&dequeue_pause), Some(BEHIND.0));
        dequeue_pause.returned(ReturnReason::Behind(Index(9)), Index(4));
        assert_eq!(at_most(&dequeue_pause), Some(BEHIND.0 * 2));
        dequeue_pause.succeeded();
        dequeue_pause.returned(ReturnReason::Behind(Index(9)), Index(4));
        assert_eq!(at_most(&dequeue_pause), Some(BEHIND.0));
        dequeue_pause.returned(ReturnReason::Superseded, Index(4));
        assert_eq!(at_most(&dequeue_pause), None);
        dequeue_pause.returned(ReturnReason::Outdated, Index(4));
        assert_eq!(at_most(&dequeue_pause), Some(OUTDATED));
    }

    #[tokio::test]
    async fn a_replica_that_has_caught_up_is_not_waited_for() {
        let dequeue_pause = DequeuePause::default();
        let replica = Replica::new(State::default());
        dequeue_pause.returned(ReturnReason::Behind(Index(0)), Index(0));
        dequeue_pause.wait(&replica).await;
        assert_eq!(dequeue_pause.lock().pause, None);
    }
}
