//! Who of the singletons' holders is alive (design §5). Safety is the epoch's; this only keeps the peace.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::cluster::{Lease, Singleton};
use model::{Epoch, ProcessId};
use wire::command::{LEASE, RenewLease};

/// How long a new applier waits for holders to announce themselves, before a lease that nobody claims is free.
const UNCLAIMED: Duration = Duration::from_secs(1);

/// When each holder was heard last, by this process's own clock.
#[derive(Debug)]
pub(crate) struct Leases {
    since: Instant,
    heard: BTreeMap<Singleton, Heard>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    holder: ProcessId,
    epoch: Epoch,
    at: Instant,
}

impl Leases {
    /// Of a new applier, which has heard nobody yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, heard: BTreeMap::new() }
    }

    /// A holder renewed its lease; `false` if it is not the holder, and is to be told that it was deposed.
    pub(crate) fn renew(&mut self, lease: Option<&Lease>, renew: &RenewLease, now: Instant) -> bool {
        let holds = lease.is_some_and(|lease| lease.holder == renew.process && lease.epoch == renew.epoch);
        if holds {
            self.heard(renew.service, renew.process, renew.epoch, now);
        }
        holds
    }

    /// A lease was taken.
    pub(crate) fn taken(&mut self, lease: &Lease, now: Instant) {
        self.heard(lease.service, lease.holder, lease.epoch, now);
    }

    fn heard(&mut self, service: Singleton, holder: ProcessId, epoch: Epoch, at: Instant) {
        self.heard.insert(service, Heard { holder, epoch, at });
    }

    /// Whether a lease's holder is to be left in peace.
    pub(crate) fn is_live(&self, lease: &Lease, now: Instant) -> bool {
        match self.heard.get(&lease.service) {
            Some(heard) if (heard.holder, heard.epoch) == (lease.holder, lease.epoch) => {
                now.duration_since(heard.at) < LEASE
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
    fn whoever_holds_another_epoch_or_none_is_told_so() {
        let begin = telemetry::clock::monotonic();
        let mut leases = Leases::new(begin);
        let old = RenewLease { service: Singleton::EvalBroker, process: HOLDER, epoch: Epoch(3) };
        assert!(!leases.renew(Some(&LEASE_OF_BROKER), &old, begin));
        assert!(!leases.renew(None, &old, begin));
        let other = RenewLease { process: ProcessId::from_bytes([2; 16]), epoch: Epoch(4), ..old };
        assert!(!leases.renew(Some(&LEASE_OF_BROKER), &other, begin));
    }
}
