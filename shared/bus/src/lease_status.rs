//! The leases of a process, from its own observation. The replica's information about leases may be old: while there is
//! no applier, no change set tells a process that its lease has run out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::Epoch;

/// The reason for the loss of a lease that has run out.
const NOT_RENEWED: &str = "not renewed in time";

/// The last lease of a service that a process has held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseStatus {
    /// The process holds it.
    Held {
        /// The epoch of the lease.
        epoch: Epoch,
        /// When it runs out unless it is renewed.
        until: Instant,
    },
    /// The process has lost it.
    Lost {
        /// The epoch of the lease.
        epoch: Epoch,
        /// When it was lost.
        at: Instant,
        /// Why.
        reason: String,
    },
}

/// The last leases of a process, by service. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LeaseStatuses(Arc<Mutex<BTreeMap<&'static str, LeaseStatus>>>);

impl LeaseStatuses {
    /// The last lease of a service at the time `now`; `None` if the process has never held one.
    pub fn get(&self, service: &str, now: Instant) -> Option<LeaseStatus> {
        let status = self.lock().get(service).cloned()?;
        match status {
            LeaseStatus::Held { epoch, until } if until <= now => {
                Some(LeaseStatus::Lost { epoch, at: until, reason: NOT_RENEWED.to_owned() })
            }
            LeaseStatus::Held { .. } | LeaseStatus::Lost { .. } => Some(status),
        }
    }

    /// Records that the process holds the lease of a service until this time.
    pub fn held(&self, service: &'static str, epoch: Epoch, until: Instant) {
        self.lock().insert(service, LeaseStatus::Held { epoch, until });
    }

    /// Records that the process does not hold the lease of a service any more. Does nothing if it has lost it before.
    pub fn lost(&self, service: &'static str, now: Instant, reason: &str) {
        if let Some(status) = self.lock().get_mut(service)
            && let LeaseStatus::Held { epoch, until } = *status
        {
            *status = LeaseStatus::Lost { epoch, at: until.min(now), reason: reason.to_owned() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, LeaseStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use telemetry::clock;

    use super::*;

    #[test]
    fn a_lease_is_held_until_it_runs_out_or_is_lost() {
        let leases = LeaseStatuses::default();
        let begin = clock::monotonic();
        let at = |secs| begin + Duration::from_secs(secs);
        let held = |until| Some(LeaseStatus::Held { epoch: Epoch(4), until });
        let lost =
            |at, reason: &str| Some(LeaseStatus::Lost { epoch: Epoch(4), at, reason: reason.to_owned() });
        assert_eq!(leases.get("it", at(0)), None);
        leases.lost("it", at(0), "never held");
        assert_eq!(leases.get("it", at(0)), None);
        leases.held("it", Epoch(4), at(3));
        assert_eq!(leases.get("it", at(2)), held(at(3)));
        assert_eq!(leases.get("it", at(5)), lost(at(3), NOT_RENEWED));
        leases.held("it", Epoch(4), at(8));
        leases.lost("it", at(6), "deposed");
        leases.lost("it", at(7), "dropped");
        assert_eq!(leases.get("it", at(7)), lost(at(6), "deposed"));
    }
}
