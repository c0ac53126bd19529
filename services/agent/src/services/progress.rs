//! When the registrar sends which sets of services, and what it concludes from the answers ([`Progress`]). Pure: time and
//! chance come from the caller.

use std::time::Duration;

use model::{AllocId, Nanos, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use wire::node::WorkIndex;
use wire::services::{
    AllocServices, RegisteredServices, SERVICE_ALLOCS_MAX, SERVICES_REQUEST_BYTES, ServiceInstance,
    ServicesDigest, ServicesRejection,
};

use super::desired::{AllocSet, Desired, Outcome};

/// The pause after the first failure. It doubles with each further one.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// The longest pause after a failure.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The minimum interval between two times that everything is sent again.
const RESEND_INTERVAL: Nanos = Nanos::from_secs(5);

/// When to send next, and what the servers have confirmed.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Consecutive failures.
    failures: u32,
    /// Not earlier than this.
    not_before: Option<Timestamp>,
    /// The index of the last answer.
    answered: WorkIndex,
    /// When everything was last sent again.
    resent_at: Option<Timestamp>,
}

/// Sets that are to be sent in one request.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The allocations, each with the change that its set is complete up to.
    pub(crate) sets: Vec<(AllocId, u64)>,
    /// The sets, in the same order.
    pub(crate) allocs: Vec<AllocServices>,
    /// The allocations whose set cannot be registered and is replaced by an empty one, each with the reason.
    pub(crate) refused: Vec<(AllocId, Text)>,
}

impl Progress {
    /// When to send next; `None` if there is nothing to send.
    pub(crate) fn due(&self, desired: &Desired<ServiceInstance>, now: Timestamp) -> Option<Timestamp> {
        let at = desired.poll_timeout(now)?;
        Some(self.not_before.map_or(at, |not_before| at.max(not_before)))
    }

    /// The servers have answered something, so the pause after a failure is over.
    pub(crate) fn contacted(&mut self) {
        self.not_before = None;
    }

    /// Sends everything again if something else is registered than what was sent. Returns for how many allocations.
    pub(crate) fn compare(
        &mut self,
        desired: &mut Desired<ServiceInstance>,
        registered: RegisteredServices,
        datacenter: &str,
        now: Timestamp,
    ) -> Option<usize> {
        let is_early = self.resent_at.is_some_and(|resent_at| now - resent_at < RESEND_INTERVAL);
        if is_early || !desired.is_settled(now) || is_planted(Bug::NeverRepairsServices) {
            return None;
        }
        let digest = digest(desired.accepted(), datacenter);
        if !is_lost(registered, digest, self.answered) {
            return None;
        }
        self.resent_at = Some(now);
        desired.resend();
        Some(desired.pending())
    }

    /// The servers have committed sets at this index.
    pub(crate) fn answered(&mut self, index: WorkIndex) {
        (self.failures, self.not_before, self.answered) = (0, None, index);
    }

    /// A request has failed. `chance` is a random number from 0 to 1, by which the pause varies.
    pub(crate) fn failed(&mut self, is_refused: bool, chance: f64, now: Timestamp) {
        let pause = pause_after(self.failures, is_refused, chance);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause);
    }
}

/// The sets of the next request. What the servers would refuse is taken out, so that it does not stand in the way of the
/// others.
pub(crate) fn next_batch(desired: &mut Desired<ServiceInstance>, now: Timestamp) -> Batch {
    let mut batch = Batch::default();
    for set in desired.batch(SERVICE_ALLOCS_MAX, SERVICES_REQUEST_BYTES, size_of, now) {
        let AllocSet { alloc, revision, registrations } = set;
        let mut services = AllocServices { alloc, services: registrations };
        if let Err(reason) = services.check() {
            batch.refused.push((alloc, reason.into()));
            // What was registered before must not stay.
            services.services.clear();
            desired.refused(alloc, revision);
        }
        batch.sets.push((alloc, revision));
        batch.allocs.push(services);
    }
    batch
}

/// Enters what has become of sets. Returns the allocations that the servers have refused, each with the reason.
pub(crate) fn enter(
    desired: &mut Desired<ServiceInstance>,
    sets: &[(AllocId, u64)],
    rejected: Vec<(AllocId, ServicesRejection)>,
) -> Vec<(AllocId, Text)> {
    for (alloc, revision) in sets {
        let outcome = match rejected.iter().find(|(other, _)| other == alloc) {
            None => Outcome::Accepted,
            Some((_, ServicesRejection::Unknown)) => Outcome::Unknown,
            Some((_, ServicesRejection::Refused(_))) => Outcome::Refused,
        };
        desired.settled(*alloc, *revision, outcome);
    }
    let refused = rejected.into_iter().filter_map(|(alloc, rejection)| match rejection {
        ServicesRejection::Refused(reason) => Some((alloc, reason)),
        ServicesRejection::Unknown => None,
    });
    refused.collect()
}

/// The size of a registration in a request.
fn size_of(service: &ServiceInstance) -> usize {
    AllocServices { alloc: AllocId::from_bytes([0; 16]), services: vec![service.clone()] }.bytes()
}

/// The digest of registrations.
fn digest<'a>(
    services: impl Iterator<Item = (AllocId, &'a ServiceInstance)>,
    datacenter: &str,
) -> ServicesDigest {
    let mut digest = ServicesDigest::default();
    for (alloc, service) in services {
        digest.add(alloc, datacenter, service);
    }
    digest
}

/// Whether the servers have registered something else than what was sent. A digest from before the last answer does not
/// count.
fn is_lost(registered: RegisteredServices, sent: ServicesDigest, answered: WorkIndex) -> bool {
    let is_old = registered.at.history == answered.history && registered.at.index < answered.index;
    !is_old && registered.digest != sent
}

/// The pause after a failure, of which there were some before. A refusal does not pass as quickly as the loss of a message.
fn pause_after(failures: u32, is_refused: bool, chance: f64) -> Nanos {
    let doubled = RETRY_MIN.saturating_mul(2_u32.saturating_pow(failures)).min(RETRY_MAX);
    let base = if is_refused { RETRY_MAX } else { doubled };
    let pause = base.mul_f64(1.0 + chance / 2.0);
    Nanos(i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use model::service::registration_id;
    use model::{HistoryId, Index};

    use super::*;
    use crate::testing::alloc_id;

    fn instance(name: &str) -> ServiceInstance {
        let id = registration_id(alloc_id(1), "group-app", name, "http");
        ServiceInstance { id: id.into(), name: name.into(), ..ServiceInstance::default() }
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses = [0, 1, 2, 20, u32::MAX].map(|failures| pause_after(failures, false, 0.0).to_string());
        assert_eq!(pauses, ["100ms", "200ms", "400ms", "5s", "5s"]);
        assert_eq!(pause_after(0, true, 0.0), Nanos::from_secs(5));
        assert_eq!(pause_after(0, false, 1.0).to_string(), "150ms");
    }

    #[test]
    fn a_difference_counts_unless_it_is_from_before_the_last_answer() {
        let history = HistoryId::default();
        let at = |index| WorkIndex { history, index: Index(index) };
        let one = instance("web");
        let sent = digest([(alloc_id(1), &one)].into_iter(), "dc1");
        let nothing = ServicesDigest::default();
        let registered = |index, digest| RegisteredServices { at: at(index), digest };
        assert!(!is_lost(registered(7, sent), sent, at(7)));
        assert!(is_lost(registered(7, nothing), sent, at(7)));
        assert!(!is_lost(registered(6, nothing), sent, at(7)), "the answer was on its way");
        let restored = WorkIndex { history: HistoryId::from_bytes([1; 16]), index: Index(1) };
        assert!(is_lost(RegisteredServices { at: restored, digest: nothing }, sent, at(7)));
    }
}
