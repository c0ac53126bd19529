//! Contact with the servers: registers the node, registers it again when it changes, and sends heartbeats.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Bus, RequestError};
use model::node::{NodeSpec, NodeStatus};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{attribute, chain, clock};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::Instrument as _;
use wire::node::{Heartbeat, NodeResponse, Register};
use wire::{RefusalKind, Subject};

use super::heartbeats::{heartbeat_retry, register_retry};
use crate::node::identity::Identity;
use crate::node::presence::{ContactState, LastContact};

/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nobody may respond to a registration before that is worth a warning: when a whole cluster starts, the agent may
/// be there before the node-tracker is active.
const STARTING: Duration = Duration::from_secs(10);
/// How long to wait for the answer to a heartbeat. If the heartbeat or its answer is lost, the next one must arrive within
/// the servers' grace period.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long changes of the node are batched before it is registered again.
const CHANGES_BATCHED: Duration = Duration::from_secs(5);

/// Keeps contact with the servers.
pub(crate) struct Contact {
    /// The connection to the servers.
    pub(crate) bus: Bus,
    /// The agent's identity.
    pub(crate) identity: Identity,
    /// The node's current specification.
    pub(crate) spec: watch::Receiver<Arc<NodeSpec>>,
    /// Where answers of the servers are recorded.
    pub(crate) contact_state: watch::Sender<ContactState>,
    /// Notified when another part of the agent learns that the servers do not know the node.
    pub(crate) node_unknown: Arc<Notify>,
    /// Notified when all allocations have been reported: the next heartbeat may make the node ready (N-3.3).
    pub(crate) all_reported: Arc<Notify>,
    /// The maximum delay of the first heartbeat.
    pub(crate) first_within: Duration,
}

/// Why the agent stops sending heartbeats.
enum HeartbeatEnd {
    /// The node has changed, or the servers do not know it.
    Register,
}

impl Contact {
    /// Registers the node and sends heartbeats until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut first_within = Some(self.first_within);
        loop {
            let last_contact = self.register().await;
            let HeartbeatEnd::Register =
                self.send_heartbeats(last_contact, first_within.take().unwrap_or_default()).await;
        }
    }

    async fn register(&mut self) -> LastContact {
        let (outage, began) = (Outage::default(), clock::monotonic());
        loop {
            let spec = Arc::clone(&self.spec.borrow_and_update());
            let register = Register { id: self.identity.node, spec };
            let subject = Subject::NodeRegister(self.identity.node);
            let span = tracing::info_span!(
                parent: None,
                "register node",
                { attribute::NODE_ID } = %self.identity.node
            );
            let answer = self.bus.request::<_, NodeResponse>(subject, &register, ANSWER_TIMEOUT);
            match answer.instrument(span).await {
                Ok(answer) => {
                    tracing::info!(node.id = %self.identity.node, status = %answer.status, "node registered");
                    let last_contact = self.record(&answer);
                    self.contact_state.send_modify(|contact_state| contact_state.registrations += 1);
                    return last_contact;
                }
                Err(RequestError::NoResponders)
                    if clock::monotonic().saturating_duration_since(began) < STARTING =>
                {
                    tracing::info!(node.id = %self.identity.node, "no node-tracker is active yet; registering again");
                    sleep(register_retry(false, rand::random())).await;
                }
                Err(error) => {
                    let refused = matches!(error, RequestError::Refused(_));
                    let pause = register_retry(refused, rand::random());
                    let (node, retry_ms, error) = (self.identity.node, millis(pause), chain(&error));
                    if let Some(Repeats { attempts, lasting_secs, .. }) =
                        outage.failed(&error, clock::monotonic())
                    {
                        tracing::warn!(node.id = %node, retry_ms, error, attempts, lasting_secs, "cannot register the node");
                    }
                    sleep(pause).await;
                }
            }
        }
    }

    async fn send_heartbeats(&mut self, registered: LastContact, first_within: Duration) -> HeartbeatEnd {
        let ready = self.contact_state.borrow().status == Some(NodeStatus::Ready);
        let mut last = registered;
        let mut next = if ready { last.ttl } else { first_within.min(last.ttl).mul_f64(rand::random()) };
        let mut register_at: Option<Instant> = None;
        let outage = Outage::default();
        loop {
            let batch_time_left = register_at.map(|at| at.saturating_duration_since(clock::monotonic()));
            tokio::select! {
                () = sleep(next.saturating_sub(clock::monotonic().saturating_duration_since(last.at))) => {}
                () = sleep(batch_time_left.unwrap_or_default()), if batch_time_left.is_some() => return HeartbeatEnd::Register,
                Ok(()) = self.spec.changed(), if register_at.is_none() => {
                    register_at = Some(clock::monotonic() + CHANGES_BATCHED);
                    continue;
                }
                () = self.node_unknown.notified() => return HeartbeatEnd::Register,
                () = self.all_reported.notified() => {}
            }
            match self.heartbeat().await {
                Ok(answer) => {
                    last = self.record(&answer);
                    next = last.ttl;
                    if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic())
                    {
                        tracing::info!(attempts, lasting_secs, "heartbeats are answered again");
                    }
                }
                Err(RequestError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
                    tracing::warn!(node.id = %self.identity.node, "the servers do not know this node; registering again");
                    return HeartbeatEnd::Register;
                }
                Err(error) => {
                    let now = clock::monotonic();
                    let pause = heartbeat_retry(Some(last), now, rand::random());
                    let (retry_ms, error) = (millis(pause), chain(&error));
                    if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, now) {
                        tracing::warn!(retry_ms, error, attempts, lasting_secs, "heartbeat not answered");
                    }
                    next = now.saturating_duration_since(last.at) + pause;
                }
            }
        }
    }

    async fn heartbeat(&self) -> Result<NodeResponse, RequestError> {
        let Identity { node, secret, boot } = &self.identity;
        let heartbeat = Heartbeat { id: *node, secret: secret.clone(), boot: *boot };
        self.bus.request(Subject::NodeHeartbeat(*node), &heartbeat, HEARTBEAT_TIMEOUT).await
    }

    fn record(&self, answer: &NodeResponse) -> LastContact {
        let last_contact =
            LastContact { at: clock::monotonic(), ttl: Duration::from_millis(answer.ttl_ms.into()) };
        self.contact_state.send_modify(|contact_state| {
            if contact_state.status != Some(answer.status) {
                tracing::info!(node.id = %self.identity.node, status = %answer.status, "node status changed");
            }
            contact_state.status = Some(answer.status);
            contact_state.work_index.advance_to(answer.work_index);
            contact_state.report_all = answer.report_all;
            contact_state.services = answer.services;
            contact_state.last_contact = Some(last_contact);
        });
        last_contact
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
