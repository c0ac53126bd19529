//! Registers services in the cluster: sends the sets of allocations that have changed to the servers, one request
//! at a time, and all of them again when the servers say that something else is registered.
//!
//! What is registered survives neither loss nor a restored database by itself. The response to each heartbeat carries a
//! digest of what is registered of the node; the registrar compares it with what it has sent
//! (`docs/architecture/services-in-the-agent.md`).

use std::time::Duration;

use bus::{Bus, RequestError};
use model::{AllocId, Text, Timestamp};
use telemetry::metrics::catalogue::{AGENT_SERVICES_FAILED, AGENT_SERVICES_PENDING};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{chain, clock};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use wire::Subject;
use wire::services::{RegisterServices, ServiceInstance, ServicesAnswer};

use super::progress::{Batch, Progress, enter, next_batch};
use super::registry::Registry;
use crate::node::identity::Identity;
use crate::node::presence::ContactState;
use crate::wait::to_std;

/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the sets of allocations are sent again that the servers did not know.
const UNKNOWN_RETRY: Duration = Duration::from_secs(30);

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
                    progress.contacted();
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
        if is_registered { progress.due(&self.registry.desired(), clock::steady()) } else { None }
    }

    /// Sends everything again if something else is registered than what was sent.
    fn compare(&mut self, progress: &mut Progress) {
        let Some(registered) = self.contact_state.borrow_and_update().services else { return };
        let resent = {
            let mut desired = self.registry.desired();
            progress.compare(&mut desired, registered, &self.datacenter, clock::steady())
        };
        if let Some(allocs) = resent {
            tracing::info!(
                allocs,
                "other services are registered of this node than it wants; registering them again"
            );
        }
    }

    async fn send(&mut self, progress: &mut Progress, outage: &Outage) {
        let Batch { sets, allocs, refused } = next_batch(&mut self.registry.desired(), clock::steady());
        refused.iter().for_each(|(alloc, reason)| log_refused(*alloc, reason));
        if allocs.is_empty() {
            return;
        }
        let Identity { node, secret, boot } = &self.identity;
        let request = RegisterServices { id: *node, secret: secret.clone(), boot: *boot, allocs };
        let answer = self.bus.request(Subject::NodeServices(*node), &request, ANSWER_TIMEOUT).await;
        match answer {
            Ok(ServicesAnswer { index, rejected }) => {
                progress.answered(index);
                let refused = enter(&mut self.registry.desired(), &sets, rejected);
                refused.iter().for_each(|(alloc, reason)| log_refused(*alloc, reason));
                self.registry.attempted(true);
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "services are registered again");
                }
            }
            Err(error) => {
                AGENT_SERVICES_FAILED.add(1);
                let is_refused = matches!(error, RequestError::Refused(_));
                progress.failed(is_refused, rand::random(), clock::steady());
                self.registry.attempted(false);
                let (now, error) = (clock::monotonic(), chain(&error));
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, now) {
                    tracing::warn!(error, attempts, lasting_secs, "cannot register services; retrying");
                }
            }
        }
    }
}

fn log_refused(alloc: AllocId, reason: &Text) {
    AGENT_SERVICES_FAILED.add(1);
    tracing::error!(alloc.id = %alloc, error = &**reason, "the services of an allocation cannot be registered");
}
