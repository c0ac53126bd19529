//! Scheduling metrics: nodes that were evaluated, nodes that were excluded and why, and the best scores.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text::string_enum;
use crate::{Nanos, NodeId, Text};

/// Metrics of one placement pass (`docs/rules/scheduling.md` ), stored once per group and plan.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocMetric {
    /// Nodes evaluated.
    pub nodes_evaluated: u32,
    /// Nodes that do not satisfy a constraint.
    pub nodes_filtered: u32,
    /// Ready nodes of the job's pool and datacenters.
    pub nodes_in_pool: u32,
    /// The job's node pool.
    pub node_pool: Text,
    /// Ready nodes of that pool by datacenter.
    pub nodes_available: BTreeMap<Text, u32>,
    /// Nodes that do not satisfy a constraint, by node class.
    pub class_filtered: BTreeMap<Text, u32>,
    /// Nodes that do not satisfy a constraint, by constraint.
    pub constraint_filtered: BTreeMap<Text, u32>,
    /// Nodes without enough resources.
    pub nodes_exhausted: u32,
    /// Nodes without enough resources, by node class.
    pub class_exhausted: BTreeMap<Text, u32>,
    /// Nodes without enough resources, by the exhausted dimension.
    pub dimension_exhausted: BTreeMap<Text, u32>,
    /// Dimensions of the quota that were exceeded.
    pub quota_exhausted: Vec<Text>,
    /// Resources that tasks requested and that were not available, by task.
    pub resources_exhausted: BTreeMap<Text, TaskShortage>,
    /// The best nodes, best first, at most five.
    pub scores: Vec<NodeScore>,
    /// Duration of the pass.
    pub allocation_time: Nanos,
    /// Further placements of the group that were skipped after the first had failed.
    pub coalesced_failures: u32,
    /// All reasons that exclude nodes, the most important first. Recorded only if no node was found, or a bad one.
    pub reasons: Vec<Reason>,
}

/// A reason that excludes nodes for a group. Several reasons may apply to one node; the counts of [`AllocMetric`] contain
/// only the first reason of each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Name of the reason, as in the counts of [`AllocMetric`]: a constraint or an exhausted dimension.
    pub name: Text,
    /// Number of nodes that it excludes.
    pub nodes: u32,
    /// Number of nodes that only this reason excludes.
    pub alone: u32,
    /// The smallest missing amount, if the reason is an amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

/// The smallest amount that is missing on any node. If there are nodes that only this reason excludes, only those nodes
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The amount in MHz, MB or allocations.
    pub amount: u32,
    /// Number of nodes on which exactly this amount is missing.
    pub nodes: u32,
}

/// Resources that a task requested and that were not available.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskShortage {
    /// In MHz.
    pub cpu_mhz: u32,
    /// In MB.
    pub memory_mb: u32,
}

string_enum! {
    /// A component of a node's score (`docs/rules/scheduling.md` §§6.4 to 6.6).
    Scorer, "scorer" {
        /// How full, or how empty, the node becomes.
        Binpack => "binpack",
        /// How similar the free resources are to the request in proportion (`docs/architecture/scheduling.md`).
        Align => "align",
        /// Whether devices have preferred attributes.
        Devices => "devices",
        /// Other allocations of the same group on the node.
        JobAntiAffinity => "job-anti-affinity",
        /// Whether the allocation failed on the node before.
        ReschedulePenalty => "node-reschedule-penalty",
        /// Whether the node has preferred attributes.
        NodeAffinity => "node-affinity",
        /// Whether the node improves the group's spread.
        AllocationSpread => "allocation-spread",
        /// How low the priority of the preempted allocations is.
        Preemption => "preemption",
    }
}

/// The score of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeScore {
    /// The node.
    pub node_id: NodeId,
    /// The components of the score, in the order of [`Scorer`].
    pub scores: Vec<(Scorer, f64)>,
    /// Mean of the components, by which nodes are ranked.
    pub normalized: f64,
}
