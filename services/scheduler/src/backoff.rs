//! How long workers hold back after something went wrong that is no evaluation's fault.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Index;
use state::Replica;

use crate::attempt::Why;

/// How long a worker waits whose replica was behind, unless it catches up.
const BEHIND: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(50));
/// How long it waits without an applier, unless the state moves on.
const NO_APPLIER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How long it waits when its scheduler is too old.
const OUTDATED: Duration = Duration::from_secs(30);

/// Waits that double with each failure until something goes well.
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

    /// Something went wrong; how long to wait.
    pub(crate) fn failed(&mut self) -> Duration {
        let delay = self.base.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.limit);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Something went well.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether something went wrong since something last went well.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }
}

/// What keeps a process's workers from taking more evaluations. They share a replica and a connection, so what one of
/// them met, the others would.
#[derive(Debug)]
pub(crate) struct HoldBack(Mutex<Trouble>);

#[derive(Debug)]
struct Trouble {
    behind: Backoff,
    no_applier: Backoff,
    waits_for: Option<WaitsFor>,
}

/// What workers wait for before they take evaluations again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WaitsFor {
    index: Option<Index>,
    at_most: Duration,
}

impl Default for HoldBack {
    fn default() -> Self {
        let (behind, no_applier) = (Backoff::new(BEHIND), Backoff::new(NO_APPLIER));
        Self(Mutex::new(Trouble { behind, no_applier, waits_for: None }))
    }
}

impl HoldBack {
    /// An evaluation was finished.
    pub(crate) fn well(&self) {
        let mut trouble = self.lock();
        trouble.behind.reset();
        trouble.no_applier.reset();
    }

    /// An evaluation was given back. `seen` is the replica's index.
    pub(crate) fn given_back(&self, why: Why, seen: Index) {
        let mut trouble = self.lock();
        // Several that fail together are one failure.
        if trouble.waits_for.is_some() {
            return;
        }
        trouble.waits_for = match why {
            Why::Behind(index) => Some(WaitsFor { index: Some(index), at_most: trouble.behind.failed() }),
            Why::NoApplier => {
                Some(WaitsFor { index: Some(seen.next()), at_most: trouble.no_applier.failed() })
            }
            Why::Outdated => Some(WaitsFor { index: None, at_most: OUTDATED }),
            Why::Overtaken | Why::Stopping => None,
        };
    }

    /// Waits as long as need be: until time is up, or the replica has what was missed.
    pub(crate) async fn wait(&self, replica: &Replica) {
        let Some(WaitsFor { index, at_most }) = self.lock().waits_for else { return };
        let caught_up = async {
            match index {
                Some(index) => drop(replica.wait_for(index).await),
                None => std::future::pending().await,
            }
        };
        // Which of the two it was makes no difference.
        let _ = tokio::time::timeout(at_most, caught_up).await;
        self.lock().waits_for = None;
    }

    fn lock(&self) -> MutexGuard<'_, Trouble> {
        // Every change under the lock is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use state::State;

    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_until_something_goes_well() {
        let mut backoff = Backoff::new((Duration::from_millis(20), Duration::from_millis(100)));
        let waits = [(); 5].map(|()| backoff.failed().as_millis());
        assert_eq!(waits, [20, 40, 80, 100, 100]);
        backoff.reset();
        assert_eq!(backoff.failed().as_millis(), 20);
        backoff.failures = u32::MAX;
        assert_eq!(backoff.failed().as_millis(), 100);
    }

    #[test]
    fn those_that_fail_together_fail_once_and_the_worst_wait_is_for_the_outdated() {
        let hold_back = HoldBack::default();
        let at_most = |hold_back: &HoldBack| hold_back.lock().waits_for.take().map(|wait| wait.at_most);
        hold_back.given_back(Why::Behind(Index(9)), Index(4));
        hold_back.given_back(Why::Behind(Index(8)), Index(4));
        assert_eq!(at_most(&hold_back), Some(BEHIND.0));
        hold_back.given_back(Why::Behind(Index(9)), Index(4));
        assert_eq!(at_most(&hold_back), Some(BEHIND.0 * 2));
        hold_back.well();
        hold_back.given_back(Why::Behind(Index(9)), Index(4));
        assert_eq!(at_most(&hold_back), Some(BEHIND.0));
        hold_back.given_back(Why::Overtaken, Index(4));
        assert_eq!(at_most(&hold_back), None);
        hold_back.given_back(Why::Outdated, Index(4));
        assert_eq!(at_most(&hold_back), Some(OUTDATED));
    }

    #[tokio::test]
    async fn a_replica_that_has_caught_up_is_not_waited_for() {
        let hold_back = HoldBack::default();
        let replica = Replica::new(State::default());
        hold_back.given_back(Why::Behind(Index(0)), Index(0));
        hold_back.wait(&replica).await;
        assert_eq!(hold_back.lock().waits_for, None);
    }
}
