//! Keeping in touch with the servers: registering the node, again whenever it changed, and heartbeats.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Bus, RequestError};
use model::Index;
use model::node::{NodeSpec, NodeStatus};
use telemetry::{attribute, chain, clock};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::Instrument as _;
use wire::node::{Heartbeat, NodeAnswer, Register, WorkIndex};
use wire::{RefusalKind, Subject};

use crate::heartbeats::{Heard, heartbeat_again_after, register_again_after};
use crate::identity::Identity;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the answer to a heartbeat may take: if either is lost, the next one is to come within the servers' grace.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// Changes of the node within this time are registered together.
const CHANGES_GATHERED: Duration = Duration::from_secs(5);

/// How the agent stands with the servers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// The node's status, once it has registered.
    pub(crate) status: Option<NodeStatus>,
    /// Counts its registrations; after each one it looks at all of its work.
    pub(crate) registrations: u64,
    /// How far its work is, as far as it was told.
    pub(crate) work_index: WorkIndex,
    /// Set while the servers want to hear of all its allocations.
    pub(crate) report_all: Option<Index>,
    /// When it was heard last.
    pub(crate) heard: Option<Heard>,
}

/// Keeps in touch.
pub(crate) struct Contact {
    /// The way to the servers.
    pub(crate) bus: Bus,
    /// Who the agent is.
    pub(crate) identity: Identity,
    /// The node as it is now.
    pub(crate) spec: watch::Receiver<Arc<NodeSpec>>,
    /// Where it is told how the agent stands.
    pub(crate) standing: watch::Sender<Standing>,
    /// Called when others find out that the servers do not know the node.
    pub(crate) unknown: Arc<Notify>,
    /// Called when the servers have heard of all allocations: the next heartbeat may make the node ready (N-3.3).
    pub(crate) all_reported: Arc<Notify>,
    /// The first heartbeat comes within this time.
    pub(crate) first_within: Duration,
}

/// Why heartbeats end.
enum Again {
    /// The node changed, or the servers do not know it.
    Register,
}

impl Contact {
    /// Registers and gives signs of life for as long as it runs.
    pub(crate) async fn run(mut self) {
        let mut first_within = Some(self.first_within);
        loop {
            let heard = self.register().await;
            let Again::Register = self.beat(heard, first_within.take().unwrap_or_default()).await;
        }
    }

    async fn register(&mut self) -> Heard {
        loop {
            let spec = Arc::clone(&self.spec.borrow_and_update());
            let register = Register { id: self.identity.node, spec };
            let subject = Subject::NodeRegister(self.identity.node);
            let span = tracing::info_span!(
                parent: None,
                "register node",
                { attribute::NODE_ID } = %self.identity.node
            );
            let answer = self.bus.request::<_, NodeAnswer>(subject, &register, ANSWER_TIMEOUT);
            match answer.instrument(span).await {
                Ok(answer) => {
                    tracing::info!(node.id = %self.identity.node, status = %answer.status, "node registered");
                    let heard = self.hear(&answer);
                    self.standing.send_modify(|standing| standing.registrations += 1);
                    return heard;
                }
                Err(error) => {
                    let refused = matches!(error, RequestError::Refused(_));
                    let pause = register_again_after(refused, rand::random());
                    tracing::warn!(
                        node.id = %self.identity.node, retry_ms = millis(pause), error = chain(&error),
                        "cannot register the node"
                    );
                    sleep(pause).await;
                }
            }
        }
    }

    async fn beat(&mut self, registered: Heard, first_within: Duration) -> Again {
        let ready = self.standing.borrow().status == Some(NodeStatus::Ready);
        let mut last = registered;
        let mut next = if ready { last.ttl } else { first_within.min(last.ttl).mul_f64(rand::random()) };
        let mut register_at: Option<Instant> = None;
        loop {
            let gathered = register_at.map(|at| at.saturating_duration_since(clock::monotonic()));
            tokio::select! {
                () = sleep(next.saturating_sub(clock::monotonic().saturating_duration_since(last.at))) => {}
                () = sleep(gathered.unwrap_or_default()), if gathered.is_some() => return Again::Register,
                Ok(()) = self.spec.changed(), if register_at.is_none() => {
                    register_at = Some(clock::monotonic() + CHANGES_GATHERED);
                    continue;
                }
                () = self.unknown.notified() => return Again::Register,
                () = self.all_reported.notified() => {}
            }
            match self.heartbeat().await {
                Ok(answer) => {
                    last = self.hear(&answer);
                    next = last.ttl;
                }
                Err(RequestError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
                    tracing::warn!(node.id = %self.identity.node, "the servers do not know the node; registering again");
                    return Again::Register;
                }
                Err(error) => {
                    let now = clock::monotonic();
                    let pause = heartbeat_again_after(Some(last), now, rand::random());
                    tracing::warn!(retry_ms = millis(pause), error = chain(&error), "heartbeat not answered");
                    next = now.saturating_duration_since(last.at) + pause;
                }
            }
        }
    }

    async fn heartbeat(&self) -> Result<NodeAnswer, RequestError> {
        let Identity { node, secret, boot } = &self.identity;
        let heartbeat = Heartbeat { id: *node, secret: secret.clone(), boot: *boot };
        self.bus.request(Subject::NodeHeartbeat(*node), &heartbeat, HEARTBEAT_TIMEOUT).await
    }

    fn hear(&self, answer: &NodeAnswer) -> Heard {
        let heard = Heard { at: clock::monotonic(), ttl: Duration::from_millis(answer.ttl_ms.into()) };
        self.standing.send_modify(|standing| {
            if standing.status != Some(answer.status) {
                tracing::info!(node.id = %self.identity.node, status = %answer.status, "node status");
            }
            standing.status = Some(answer.status);
            standing.work_index.hear(answer.work_index);
            standing.report_all = answer.report_all;
            standing.heard = Some(heard);
        });
        heard
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
