//! [`Leases`]: which holders of the singletons' leases are alive (`docs/architecture/leases.md`). Safety depends on the epochs only; liveness
//! only prevents needless takeovers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::cluster::{Lease, Singleton};
use model::{Epoch, ProcessId};
use wire::command::{LEASE, RenewLease};

/// How long a new applier waits for holders to renew. After that, a lease that nobody has renewed is free.
const UNCLAIMED: Duration = Duration::from_secs(1);

/// The last renewal of each holder, by this process's own clock.
#[derive(Debug)]
pub(crate) struct Leases {
    since: Instant,
    renewals: BTreeMap<Singleton, Renewal>,
}

#[derive(Debug, Clone, Copy)]
struct Renewal {
    holder: ProcessId,
    epoch: Epoch,
    at: Instant,
}

impl Leases {
    /// The leases as a new applier knows them: without any renewal.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, renewals: BTreeMap::new() }
    }

    /// Records the renewal of a lease. Returns `false` if the sender does not hold the lease and has to be told that it was
    /// deposed.
    pub(crate) fn renew(&mut self, lease: Option<&Lease>, renew: &RenewLease, now: Instant) -> bool {
        let holds = lease.is_some_and(|lease| lease.holder == renew.process && lease.epoch == renew.epoch);
        if holds {
            self.record(renew.service, renew.process, renew.epoch, now);
        }
        holds
    }

    /// Records that a lease was granted.
    pub(crate) fn grant(&mut self, lease: &Lease, now: Instant) {
        self.record(lease.service, lease.holder, lease.epoch, now);
    }

    fn record(&mut self, service: Singleton, holder: ProcessId, epoch: Epoch, at: Instant) {
        self.renewals.insert(service, Renewal { holder, epoch, at });
    }

    /// Whether a lease's holder is alive, so that no other process may take the lease.
    pub(crate) fn is_live(&self, lease: &Lease, now: Instant) -> bool {
        match self.renewals.get(&lease.service) {
            Some(renewal) if (renewal.holder, renewal.epoch) == (lease.holder, lease.epoch) => {
                now.duration_since(renewal.at) < LEASE
            }
            Some(_) | None => now.duration_since(self.since) < UNCLAIMED,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Index;

    use super::*;

    const HOLDER: ProcessId = ProcessId::from_bytes([1; 16]);
    const LEASE_OF_BROKER: Lease =
        Lease { service: Singleton::EvalBroker, holder: HOLDER, epoch: Epoch(4), modify_index: Index(9) };

    #[test]
    fn a_holder_is_live_for_a_lease_after_each_renewal() {
        let begin = telemetry::clock::monotonic();
        let mut leases = Leases::new(begin);
        let renew = RenewLease { service: Singleton::EvalBroker, process: HOLDER, epoch: Epoch(4) };
        assert!(leases.renew(Some(&LEASE_OF_BROKER), &renew, begin + UNCLAIMED));
        assert!(leases.is_live(&LEASE_OF_BROKER, begin + UNCLAIMED + LEASE / 2));
        assert!(!leases.is_live(&LEASE_OF_BROKER, begin + UNCLAIMED + LEASE));
    }

    #[test]
    fn a_new_applier_leaves_holders_a_second_to_announce_themselves() {
        let begin = telemetry::clock::monotonic();
        let leases = Leases::new(begin);
        assert!(leases.is_live(&LEASE_OF_BROKER, begin));
        assert!(!leases.is_live(&LEASE_OF_BROKER, begin + UNCLAIMED));
    }

    #[test]
    fn renewals_with_another_epoch_or_none_are_refused() {
        let begin = telemetry::clock::monotonic();
        let mut leases = Leases::new(begin);
        let old = RenewLease { service: Singleton::EvalBroker, process: HOLDER, epoch: Epoch(3) };
        assert!(!leases.renew(Some(&LEASE_OF_BROKER), &old, begin));
        assert!(!leases.renew(None, &old, begin));
        let other = RenewLease { process: ProcessId::from_bytes([2; 16]), epoch: Epoch(4), ..old };
        assert!(!leases.renew(Some(&LEASE_OF_BROKER), &other, begin));
    }
}
