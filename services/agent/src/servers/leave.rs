//! Drains the agent's own node before the agent ends (N-10.13). Heartbeats, work and reports go on meanwhile.

use std::time::Duration;

use bus::{Bus, RequestError};
use model::node::DrainSpec;
use telemetry::repeats::{Outage, Repeats};
use telemetry::{chain, clock};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::Subject;
use wire::node::{DrainSelf, OwnDrain};

use crate::node::identity::Identity;
use crate::node::leave_args::Leave;

/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two questions.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An agent that leaves.
pub(crate) struct Leaving {
    /// The connection to the servers.
    pub(crate) bus: Bus,
    /// The agent's identity.
    pub(crate) identity: Identity,
}

impl Leaving {
    /// When `leave` is cancelled, drains the node as the settings say. Returns when nothing has to leave the node any more, or
    /// when the agent gives up.
    pub(crate) async fn drain_after(self, leave: &CancellationToken, settings: Option<Leave>) {
        leave.cancelled().await;
        if let Some(settings) = settings {
            self.drain(settings).await;
        }
    }

    async fn drain(self, leave: Leave) {
        let node = self.identity.node;
        tracing::info!(node.id = %node, within_secs = leave.within.as_secs(), "draining the node before the agent ends");
        match timeout(leave.within, self.drained(leave.drain)).await {
            Ok(()) => tracing::info!(node.id = %node, "the node is drained"),
            Err(_) => tracing::warn!(node.id = %node, "the agent ends before its node is drained"),
        }
    }

    async fn drained(&self, drain: DrainSpec) {
        let outage = Outage::default();
        let mut drain = Some(drain);
        loop {
            match self.ask(drain).await {
                Ok(OwnDrain { is_draining: false, leaving_allocs: 0 }) => return,
                Ok(OwnDrain { .. }) => drain = None,
                Err(error) => {
                    let error = chain(&error);
                    if let Some(Repeats { attempts, lasting_secs, .. }) =
                        outage.failed(&error, clock::monotonic())
                    {
                        tracing::warn!(error, attempts, lasting_secs, "cannot drain the node");
                    }
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn ask(&self, drain: Option<DrainSpec>) -> Result<OwnDrain, RequestError> {
        let Identity { node, secret, .. } = &self.identity;
        let ask = DrainSelf { id: *node, secret: secret.clone(), drain };
        self.bus.request(Subject::NodeDrain(*node), &ask, ANSWER_TIMEOUT).await
    }
}
