//! Between agents and the node-tracker. Agents are told state, not orders (design §6).

use std::sync::Arc;

use model::alloc::{Allocation, ClientStatus, NetworkStatus, PackedTaskStates};
use model::job::Job;
use model::node::{NodeSpec, NodeStatus};
use model::{AllocId, Index, NodeId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// An agent registers its node, or what has changed of it (N-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Register {
    /// The node.
    pub id: NodeId,
    /// All that the agent says of it, its secret and boot number included.
    pub spec: Arc<NodeSpec>,
}

/// An agent is there, and asks to be ready (N-3.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: model::node::Secret,
    /// The boot that the agent is in.
    pub boot: u32,
}

/// How a node stands after it registered or gave a sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAnswer {
    /// Its status.
    pub status: NodeStatus,
    /// When the next heartbeat is due, in milliseconds.
    pub ttl_ms: u32,
    /// The index of its work; an agent that is behind asks for it.
    pub work_index: Index,
    /// Set for a node that is not ready yet after it was missing: the agent then reports all its allocations that are
    /// not terminal, with this index, until it is ready (design §6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_all: Option<Index>,
}

/// Asks for what changed of a node's work since an index (N-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskWork {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: model::node::Secret,
    /// The work index that the agent has; 0 for all.
    pub since: Index,
    /// How long to wait for something newer, in milliseconds.
    pub timeout_ms: u32,
}

/// A node's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The index that this work is at.
    pub index: Index,
    /// Every allocation that the node should know of, with the index at which the servers changed it last. What an
    /// agent has and does not find here is gone.
    pub allocs: Vec<(AllocId, Index)>,
    /// Those of them that changed since the index asked for, whole.
    pub changed: Vec<WorkAlloc>,
}

/// An allocation with the version of the job that it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkAlloc {
    /// The allocation.
    pub alloc: Box<Allocation>,
    /// Its job.
    pub job: Arc<Job>,
}

/// How a node's allocations fare (N-7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: model::node::Secret,
    /// The boot that the agent is in; reports of another are dropped.
    pub boot: u32,
    /// Set when these are all its allocations that are not terminal, as asked for by [`NodeAnswer::report_all`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_since: Option<Index>,
    /// The allocations.
    pub allocs: Vec<AllocReport>,
}

/// How one allocation fares. Only what the agent knows best is in it (N-7.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocReport {
    /// The allocation.
    pub id: AllocId,
    /// Counts this boot's reports of the allocation; with the boot it makes the `ReportNumber`. One that is not newer
    /// than the last taken is dropped.
    pub count: u32,
    /// How it fares.
    pub status: ClientStatus,
    /// The same in words.
    pub description: Text,
    /// How its tasks fare.
    pub task_states: PackedTaskStates,
    /// The address in a network of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Arc<NetworkStatus>>,
    /// The verdict on its health, once there is one, and when it fell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<(bool, Timestamp)>,
}

/// Tells an agent how far its work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The index of its work.
    pub work_index: Index,
}

kinds! {
    Register => "node.register",
    Heartbeat => "node.heartbeat",
    NodeAnswer => "node.answer",
    AskWork => "node.ask-work",
    Work => "node.work",
    Report => "node.report",
    Wake => "agent.wake",
}
