//! [`Disk`]: the data of processes that outlives them. Only agents have any.

use std::collections::{BTreeMap, BTreeSet};

use model::AllocId;
use model::alloc::ClientStatus;
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
    /// The status that the servers have acknowledged.
    pub(crate) acknowledged: Option<ClientStatus>,
    pub(crate) count: u32,
}
