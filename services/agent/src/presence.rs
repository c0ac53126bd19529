//! The node's registration with the servers, for observers outside of the agent, such as health checks.

use std::time::Duration;

use model::node::NodeStatus;
use tokio::sync::watch;

use crate::contact::ContactState;

/// The registration of one agent's node. Clones share it; pass one to [`run_connecting`](crate::run_connecting).
#[derive(Debug, Clone, Default)]
pub struct Presence(watch::Sender<ContactState>);

/// The servers' last answer about the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The node's status.
    pub status: NodeStatus,
    /// The time since the answer.
    pub last_contact_ago: Duration,
    /// The time after the answer at which the next heartbeat was due.
    pub ttl: Duration,
}

impl Presence {
    /// Returns the node's registration, or `None` before the first one.
    pub fn registration(&self) -> Option<Registration> {
        let contact_state = self.0.borrow();
        let (status, last_contact) = contact_state.status.zip(contact_state.last_contact)?;
        Some(Registration { status, last_contact_ago: last_contact.at.elapsed(), ttl: last_contact.ttl })
    }

    pub(crate) fn contact_state(&self) -> watch::Sender<ContactState> {
        self.0.clone()
    }
}
