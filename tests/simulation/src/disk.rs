//! [`Disk`]: the data of processes that outlives them. Only agents have any.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::ClientStatus;
use model::{AllocId, Nanos, Text, Timestamp};
use wire::node::WorkIndex;

/// The data that a process leaves on its disk.
#[derive(Debug, Default)]
pub(crate) struct Disk(pub(crate) Option<AgentDisk>);

/// What survives a crash of the agent: its boot number, the state of its tasks, and their processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentDisk {
    pub(crate) boot: u32,
    pub(crate) allocs: BTreeMap<AllocId, Task>,
    /// Allocations whose state is damaged.
    pub(crate) unreadable: BTreeSet<AllocId>,
    /// The number of processes that run of each allocation.
    pub(crate) processes: BTreeMap<AllocId, u32>,
}

/// An allocation of the node.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) status: ClientStatus,
    pub(crate) index: WorkIndex,
    /// What the servers have acknowledged: the status, and whether there is a verdict on its health.
    pub(crate) acknowledged: Option<(ClientStatus, bool)>,
    pub(crate) count: u32,
    /// The name under which it is registered, if it is.
    pub(crate) service: Option<Text>,
    /// Whether it ends by itself.
    pub(crate) is_batch: bool,
    /// Whether the agent decides on its health.
    pub(crate) is_judged: bool,
    /// When its process was started.
    pub(crate) started_at: Option<Nanos>,
    /// When the agent decided that it is healthy.
    pub(crate) healthy_at: Option<Timestamp>,
}

impl Task {
    /// What there is to report.
    pub(crate) fn reported(&self) -> (ClientStatus, bool) {
        (self.status, self.healthy_at.is_some())
    }
}
