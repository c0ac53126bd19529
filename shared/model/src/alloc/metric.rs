//! How the choice of nodes went: what was looked at, what was ruled out and why, and the best scores.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text::string_enum;
use crate::{Nanos, NodeId, Text};

/// Counts and reasons of one placement pass (`spec/scheduling.md` ), kept once a group and plan.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocMetric {
    /// Nodes looked at.
    pub nodes_evaluated: u32,
    /// Nodes that some constraint ruled out.
    pub nodes_filtered: u32,
    /// Ready nodes of the job's pool and datacenters.
    pub nodes_in_pool: u32,
    /// The job's node pool.
    pub node_pool: Text,
    /// Ready nodes of that pool by datacenter.
    pub nodes_available: BTreeMap<Text, u32>,
    /// Nodes ruled out, by node class.
    pub class_filtered: BTreeMap<Text, u32>,
    /// Nodes ruled out, by reason.
    pub constraint_filtered: BTreeMap<Text, u32>,
    /// Nodes without room.
    pub nodes_exhausted: u32,
    /// Nodes without room, by node class.
    pub class_exhausted: BTreeMap<Text, u32>,
    /// Nodes without room, by what was short.
    pub dimension_exhausted: BTreeMap<Text, u32>,
    /// Parts of the quota that were used up.
    pub quota_exhausted: Vec<Text>,
    /// What each task asked for in vain.
    pub resources_exhausted: BTreeMap<Text, TaskShortage>,
    /// The best nodes, best first, at most five.
    pub scores: Vec<NodeScore>,
    /// How long the pass took.
    pub allocation_time: Nanos,
    /// Further placements of the group that were not tried after the first had failed.
    pub coalesced_failures: u32,
    /// Everything that kept nodes away, the gravest first; only where there was no node, or a bad one.
    pub reasons: Vec<Reason>,
}

/// Something that keeps a group from nodes. A node may have several; the counts above name the first of each only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What it is, in the words of the counts above: a constraint, or what is short.
    pub name: Text,
    /// How many nodes it keeps away.
    pub nodes: u32,
    /// How many of them nothing else does.
    pub alone: u32,
    /// How little is missing, if it is an amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

/// The least that is missing of an amount on some node: among those that nothing else keeps away, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// In MHz, MB or allocations.
    pub amount: u32,
    /// On how many nodes just that is missing.
    pub nodes: u32,
}

/// Resources that a task asked for in vain.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskShortage {
    /// In MHz.
    pub cpu_mhz: u32,
    /// In MB.
    pub memory_mb: u32,
}

string_enum! {
    /// What a node's rank is made of (`spec/scheduling.md` §§6.4 to 6.6).
    Scorer, "scorer" {
        /// How full, or how empty, the node becomes.
        Binpack => "binpack",
        /// How well the shape of what is free suits what is asked (design §8).
        Align => "align",
        /// Devices with the attributes that are preferred.
        Devices => "devices",
        /// Others of the same group on the node.
        JobAntiAffinity => "job-anti-affinity",
        /// Whether it failed there before.
        ReschedulePenalty => "node-reschedule-penalty",
        /// Attributes that are preferred.
        NodeAffinity => "node-affinity",
        /// Whether it evens out the group's spread.
        AllocationSpread => "allocation-spread",
        /// How unimportant those are that would have to make room.
        Preemption => "preemption",
    }
}

/// How well one node suited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeScore {
    /// The node.
    pub node_id: NodeId,
    /// What each scorer gave it, in the scorers' order.
    pub scores: Vec<(Scorer, f64)>,
    /// Their mean, by which nodes are ranked.
    pub normalized: f64,
}
