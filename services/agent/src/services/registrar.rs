//! Registers services in the cluster: sends the sets of allocations that have changed to the servers, one request
//! at a time, and all of them again when the servers say that something else is registered.
//!
//! What is registered survives neither loss nor a restored database by itself. The response to each heartbeat carries a
//! digest of what is registered of the node; the registrar compares it with what it has sent
//! (`docs/architecture/services-in-the-agent.md`).

use std::time::Duration;

use bus::{Bus, RequestError};
use model::{AllocId, Nanos, Text, Timestamp};
use telemetry::metrics::catalogue::{AGENT_SERVICES_FAILED, AGENT_SERVICES_PENDING};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{chain, clock};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use wire::Subject;
use wire::node::WorkIndex;
use wire::services::{
    AllocServices, RegisterServices, RegisteredServices, SERVICE_ALLOCS_MAX, SERVICES_REQUEST_BYTES,
    ServiceInstance, ServicesAnswer, ServicesDigest, ServicesRejection,
};

use super::desired::{AllocSet, Outcome};
use super::registry::Registry;
use crate::node::identity::Identity;
use crate::node::presence::ContactState;
use crate::wait::to_std;

/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the first failure. It doubles with each further one.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// The longest pause after a failure.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How often the sets of allocations are sent again that the servers did not know.
const UNKNOWN_RETRY: Duration = Duration::from_secs(30);
/// The minimum interval between two times that everything is sent again.
const RESEND_INTERVAL: Nanos = Nanos::from_secs(5);

/// Registers services in the cluster.
pub(crate) struct Registrar {
    /// The connection to the servers.
    pub(crate) bus: Bus,
    /// The agent's identity.
    pub(crate) identity: Identity,
    /// The node's datacenter, which is a part of the digest.
    pub(crate) datacenter: Text,
    /// What is to be registered.
    pub(crate) registry: Registry<ServiceInstance>,
    /// The state of the contact with the servers.
    pub(crate) contact_state: watch::Receiver<ContactState>,
}

/// When to send next, and what the servers have confirmed.
#[derive(Debug, Default)]
struct Progress {
    /// Consecutive failures.
    failures: u32,
    /// Not earlier than this.
    not_before: Option<Timestamp>,
    /// The index of the last answer.
    answered: WorkIndex,
    /// When everything was last sent again.
    resent_at: Option<Timestamp>,
}

impl Registrar {
    /// Registers services until it is dropped.
    pub(crate) async fn run(mut self) {
        let (mut progress, outage) = (Progress::default(), Outage::default());
        let mut unknown = interval(UNKNOWN_RETRY);
        unknown.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.due(&progress).map(|due| to_std(due - clock::steady()));
            tokio::select! {
                () = self.registry.changed() => {}
                changed = self.contact_state.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // The servers have answered something.
                    progress.not_before = None;
                    self.compare(&mut progress);
                }
                _ = unknown.tick() => self.registry.desired().retry_unknown(),
                () = sleep(due.unwrap_or_default()), if due.is_some() => {
                    self.send(&mut progress, &outage).await;
                }
            }
            AGENT_SERVICES_PENDING.set(self.registry.desired().pending() as f64);
        }
    }

    /// When to send next; `None` if there is nothing to send, or the node is not registered yet.
    fn due(&self, progress: &Progress) -> Option<Timestamp> {
        let is_registered = self.contact_state.borrow().registrations > 0;
        let at = self.registry.desired().poll_timeout(clock::steady()).filter(|_| is_registered)?;
        Some(progress.not_before.map_or(at, |not_before| at.max(not_before)))
    }

    /// Sends everything again if something else is registered than what was sent.
    fn compare(&mut self, progress: &mut Progress) {
        let Some(registered) = self.contact_state.borrow_and_update().services else { return };
        let (mut desired, now) = (self.registry.desired(), clock::steady());
        let is_early = progress.resent_at.is_some_and(|resent_at| now - resent_at < RESEND_INTERVAL);
        if is_early || !desired.is_settled(now) {
            return;
        }
        let digest = digest(desired.accepted(), &self.datacenter);
        if is_lost(registered, digest, progress.answered) {
            progress.resent_at = Some(now);
            desired.resend();
            let allocs = desired.pending();
            drop(desired);
            tracing::info!(
                allocs,
                "other services are registered of this node than it wants; registering them again"
            );
        }
    }

    async fn send(&mut self, progress: &mut Progress, outage: &Outage) {
        let batch = self.registry.desired().batch(
            SERVICE_ALLOCS_MAX,
            SERVICES_REQUEST_BYTES,
            size_of,
            clock::steady(),
        );
        let (sets, allocs) = self.checked(batch);
        if allocs.is_empty() {
            return;
        }
        let Identity { node, secret, boot } = &self.identity;
        let request = RegisterServices { id: *node, secret: secret.clone(), boot: *boot, allocs };
        let answer = self.bus.request(Subject::NodeServices(*node), &request, ANSWER_TIMEOUT).await;
        match answer {
            Ok(ServicesAnswer { index, rejected }) => {
                (progress.failures, progress.not_before, progress.answered) = (0, None, index);
                self.answered(&sets, &rejected);
                self.registry.attempted(true);
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "services are registered again");
                }
            }
            Err(error) => {
                AGENT_SERVICES_FAILED.add(1);
                let is_refused = matches!(error, RequestError::Refused(_));
                let pause = pause_after(progress.failures, is_refused, rand::random());
                progress.failures = progress.failures.saturating_add(1);
                progress.not_before = Some(clock::steady() + pause);
                self.registry.attempted(false);
                let (now, error) = (clock::monotonic(), chain(&error));
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, now) {
                    tracing::warn!(error, attempts, lasting_secs, "cannot register services; retrying");
                }
            }
        }
    }

    /// Takes out what the servers would refuse, so that it does not stand in the way of the others.
    fn checked(&self, batch: Vec<AllocSet<ServiceInstance>>) -> (Vec<(AllocId, u64)>, Vec<AllocServices>) {
        let (mut sets, mut allocs) = (Vec::new(), Vec::new());
        for AllocSet { alloc, revision, registrations } in batch {
            let mut services = AllocServices { alloc, services: registrations };
            if let Err(reason) = services.check() {
                refused(alloc, &reason);
                // What was registered before must not stay.
                services.services.clear();
                self.registry.desired().refused(alloc, revision);
            }
            sets.push((alloc, revision));
            allocs.push(services);
        }
        (sets, allocs)
    }

    /// Enters what has become of the sets.
    fn answered(&self, sets: &[(AllocId, u64)], rejected: &[(AllocId, ServicesRejection)]) {
        let mut desired = self.registry.desired();
        for (alloc, revision) in sets {
            let outcome = match rejected.iter().find(|(other, _)| other == alloc) {
                None => Outcome::Accepted,
                Some((_, ServicesRejection::Unknown)) => Outcome::Unknown,
                Some((_, ServicesRejection::Refused(reason))) => {
                    refused(*alloc, reason);
                    Outcome::Refused
                }
            };
            desired.settled(*alloc, *revision, outcome);
        }
    }
}

fn refused(alloc: AllocId, reason: &str) {
    AGENT_SERVICES_FAILED.add(1);
    tracing::error!(alloc.id = %alloc, error = reason, "the services of an allocation cannot be registered");
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
