//! Commands about nodes, among them nodes' reports about their allocations.

use std::sync::Arc;

use model::change::Cause;
use model::node::{Eligibility, NodeSpec};
use model::{Epoch, Index, NodeId};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::node::AllocReport;
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! node_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Registers a node.
            RegisterNode(Box<RegisterNode>),
            /// Reports that nodes sent a heartbeat or missed one.
            UpdateNodes(UpdateNodes),
            /// Reports the status of allocations, for one or several nodes.
            ReportAllocs(ReportAllocs),
            /// Deletes nodes.
            DeregisterNodes(DeregisterNodes),
            /// Sets whether a node may get new allocations.
            SetEligibility(SetEligibility),
            /// Lets a node get no new allocations, because plans are rejected on it again and again.
            MarkRejectedNode(MarkRejectedNode),
            /// Creates evaluations for the jobs that a node concerns.
            EvaluateNode(EvaluateNode),
        }
    };
}

/// Registers a node (N-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The node.
    pub id: NodeId,
    /// The specification that its agent reported.
    pub spec: Arc<NodeSpec>,
}

impl CommandBody for RegisterNode {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::NodeTracker,
            class: Class::Nodes,
            cause: Cause::NodeRegistration,
            is_expensive: false,
            is_deferrable: false,
        }
    }
}

/// Reports that several nodes sent a heartbeat or missed one. One command covers all of them, because nodes fail
/// together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateNodes {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The observation: a heartbeat, or a missed one.
    pub sign: NodeLiveness,
    /// The nodes.
    pub nodes: Vec<NodeId>,
}

impl CommandBody for UpdateNodes {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::NodeTracker,
            class: Class::Nodes,
            cause: Cause::NodeStatus,
            is_expensive: true,
            is_deferrable: false,
        }
    }
}

/// Whether a node is alive. The applier decides which status follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeLiveness {
    /// The node sent a heartbeat, and requests to be ready (N-3.3 to N-3.7).
    #[serde(rename = "Heard")]
    Alive,
    /// Its heartbeat is overdue (N-4.7).
    Missed,
}

/// Reports the status of allocations, for one or several nodes (N-7.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportAllocs {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The reports, one for each node.
    pub reports: Vec<NodeReport>,
}

impl CommandBody for ReportAllocs {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::NodeTracker,
            class: Class::Nodes,
            cause: Cause::AllocationUpdated,
            is_expensive: false,
            is_deferrable: false,
        }
    }
}

/// One node's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// Boot number of its agent.
    pub boot: u32,
    /// Set if the report covers all non-terminal allocations of the node (`docs/architecture/agents.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_since: Option<Index>,
    /// Reports of the allocations.
    pub allocs: Vec<AllocReport>,
}

/// Deletes nodes (N-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterNodes {
    /// The nodes.
    pub nodes: Vec<NodeId>,
}

impl CommandBody for DeregisterNodes {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Nodes,
            cause: Cause::NodeDeregistration,
            is_expensive: true,
            is_deferrable: false,
        }
    }
}

/// Sets whether a node may get new allocations (N-9.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetEligibility {
    /// The node.
    pub node: NodeId,
    /// The node's new eligibility.
    pub eligibility: Eligibility,
}

impl CommandBody for SetEligibility {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Nodes,
            cause: Cause::NodeEligibility,
            is_expensive: true,
            is_deferrable: false,
        }
    }
}

/// Lets a node get no new allocations, because plans are rejected on it again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkRejectedNode {
    /// The node.
    pub node: NodeId,
}

impl CommandBody for MarkRejectedNode {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::PlanApplier,
            class: Class::Nodes,
            cause: Cause::NodeEligibility,
            is_expensive: false,
            is_deferrable: false,
        }
    }
}

/// Creates evaluations for the jobs that a node concerns (http-api §17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateNode {
    /// The node.
    pub node: NodeId,
}

impl CommandBody for EvaluateNode {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Nodes,
            cause: Cause::NodeStatus,
            is_expensive: true,
            is_deferrable: false,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{EPOCH, INDEX, NODE, alloc_report, node_spec};

    impl Sample for RegisterNode {
        fn samples() -> Vec<Self> {
            vec![Self { epoch: EPOCH, id: NODE, spec: node_spec() }]
        }
    }

    impl Sample for UpdateNodes {
        fn samples() -> Vec<Self> {
            vec![Self { epoch: EPOCH, sign: NodeLiveness::Missed, nodes: vec![NODE] }]
        }
    }

    impl Sample for ReportAllocs {
        fn samples() -> Vec<Self> {
            let report =
                NodeReport { node: NODE, boot: 13, all_since: Some(INDEX), allocs: vec![alloc_report()] };
            vec![Self { epoch: EPOCH, reports: vec![report] }]
        }
    }

    impl Sample for DeregisterNodes {
        fn samples() -> Vec<Self> {
            vec![Self { nodes: vec![NODE] }]
        }
    }

    impl Sample for SetEligibility {
        fn samples() -> Vec<Self> {
            vec![Self { node: NODE, eligibility: Eligibility::Ineligible }]
        }
    }

    impl Sample for MarkRejectedNode {
        fn samples() -> Vec<Self> {
            vec![Self { node: NODE }]
        }
    }

    impl Sample for EvaluateNode {
        fn samples() -> Vec<Self> {
            vec![Self { node: NODE }]
        }
    }
}
