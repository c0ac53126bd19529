//! The last statement of the servers about the node: for the agent's other parts as [`ContactState`], and for observers
//! outside of the agent, such as health checks, as [`Presence`].

use std::time::{Duration, Instant};

use model::Index;
use model::node::NodeStatus;
use tokio::sync::watch;
use wire::node::WorkIndex;
use wire::services::RegisteredServices;

/// The last statement of the servers about the node.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContactState {
    /// The node's status, once it is registered.
    pub(crate) status: Option<NodeStatus>,
    /// The number of registrations. After each one the agent fetches all of its work.
    pub(crate) registrations: u64,
    /// The latest announced index of the node's work.
    pub(crate) work_index: WorkIndex,
    /// Set while the servers want a report of all allocations.
    pub(crate) report_all: Option<Index>,
    /// What is registered of the node's services, at the last answer that said so.
    pub(crate) services: Option<RegisteredServices>,
    /// The last answer from the servers.
    pub(crate) last_contact: Option<LastContact>,
}

/// The last answer from the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastContact {
    /// The time of the answer.
    pub(crate) at: Instant,
    /// The time after it at which the next heartbeat is due.
    pub(crate) ttl: Duration,
}

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
