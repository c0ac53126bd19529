//! How an agent stands with the servers, for those outside of it who ask.

use std::time::Duration;

use model::node::NodeStatus;
use tokio::sync::watch;

use crate::contact::Standing;

/// How one agent stands with the servers. Clones share it; give one to [`run_connecting`](crate::run_connecting).
#[derive(Debug, Clone, Default)]
pub struct Presence(watch::Sender<Standing>);

/// What the servers last said of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The node's status.
    pub status: NodeStatus,
    /// How long ago they said it.
    pub heard_ago: Duration,
    /// How long after that the next heartbeat was due.
    pub ttl: Duration,
}

impl Presence {
    /// The node's registration; `None` before the first one.
    pub fn registration(&self) -> Option<Registration> {
        let standing = self.0.borrow();
        let (status, heard) = standing.status.zip(standing.heard)?;
        Some(Registration { status, heard_ago: heard.at.elapsed(), ttl: heard.ttl })
    }

    pub(crate) fn standing(&self) -> watch::Sender<Standing> {
        self.0.clone()
    }
}
