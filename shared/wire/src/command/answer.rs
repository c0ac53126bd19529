//! The applier's response to a command.

use model::{AllocId, Epoch, EvalId, Index, NodeId, Text};
use serde::{Deserialize, Serialize};

/// The applier's response to a command that it does not refuse ([`Refusal`](crate::Refusal)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The command was committed, or there was nothing to do.
    Done(Done),
    /// The command was not carried out, or its outcome is unknown. The sender may send the same request id again.
    Retry {
        /// The reason.
        reason: Text,
    },
}

/// Result of a command that was carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// The index at which the command was committed, or the state's index if there was nothing to do.
    pub index: Index,
    /// Whether the command changed the state.
    pub written: bool,
    /// Modify index of the object that the command was about, if it was about a single one.
    pub object_index: Index,
    /// The evaluations that resulted. Those that the command itself created are in the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evals: Vec<EvalId>,
    /// Result of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanResult>,
    /// Epoch of a lease that was granted or renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// For a command that batches several nodes: the nodes whose part was refused, because they are unknown or may not
    /// report in their current status (N-7.3).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_nodes: Vec<NodeId>,
    /// For a command that batches several allocations: the allocations whose part was refused, because they are unknown, have
    /// ended, or belong to another node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_allocs: Vec<AllocId>,
    /// The version that the job returns to, because its deployment failed (N-15.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverted_version: Option<u64>,
}

/// Maximum number of nodes in [`PlanResult::rejected_nodes`]. The response is stored in the log, so it has to be small.
pub const REJECTED_NODES_MAX: usize = 64;

/// Result of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanResult {
    /// How much of the plan was accepted.
    pub verdict: PlanVerdict,
    /// The index that the next attempt's snapshot must have reached; 0 if there is no requirement.
    #[serde(default)]
    pub refresh_index: Index,
    /// Nodes on which the plan did not fit; at most [`REJECTED_NODES_MAX`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_nodes: Vec<NodeId>,
}

/// How much of a plan was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanVerdict {
    /// All of it, together with the outcome.
    Whole,
    /// A part of it. The evaluation stays pending.
    Part,
    /// Nothing: the plan was verified, and no part of it fitted. Counts as an attempt.
    Nothing,
    /// Nothing: the plan was not verified, because its snapshot was too old. Does not count as an attempt (`docs/architecture/evaluations.md`).
    Stale,
}

impl PlanVerdict {
    /// Whether any part of the plan was accepted. The scheduler then starts counting its attempts anew.
    pub const fn progress(self) -> bool {
        match self {
            Self::Whole | Self::Part => true,
            Self::Nothing | Self::Stale => false,
        }
    }
}
