//! Commands about drains of nodes.

use std::collections::BTreeMap;

use model::change::Cause;
use model::node::DrainSpec;
use model::{AllocId, Epoch, NodeId, Text};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! drain_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Starts, changes or cancels the drain of a node.
            UpdateDrain(UpdateDrain),
            /// Starts the drain of a node whose agent ends.
            DrainOwnNode(DrainOwnNode),
            /// Marks allocations of draining nodes to migrate.
            DrainAllocs(DrainAllocs),
            /// Completes drains of nodes.
            CompleteDrains(CompleteDrains),
        }
    };
}

/// The maximum number of allocations that one command marks: ids of 36 characters in 256 KiB (N-10.9).
pub const DRAINED_ALLOCS_MAX: usize = 7_281;

/// Starts, changes or cancels the drain of a node (N-9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateDrain {
    /// The node.
    pub node: NodeId,
    /// The drain; `None` cancels it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSpec>,
    /// Whether the node may get new work again. It counts only without a drain.
    #[serde(default)]
    pub mark_eligible: bool,
    /// Arbitrary key-value pairs of the operator.
    #[serde(default)]
    pub meta: BTreeMap<Text, Text>,
    /// Accessor id of the token that requests it.
    #[serde(default)]
    pub accessor_id: Text,
}

impl CommandBody for UpdateDrain {
    fn info(&self) -> CommandInfo {
        CommandInfo { sender: Role::Api, ..node_drain() }
    }
}

/// Starts the drain of a node whose agent ends, at the agent's request (N-10.13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainOwnNode {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The node.
    pub node: NodeId,
    /// The drain.
    pub drain: DrainSpec,
}

impl CommandBody for DrainOwnNode {
    fn info(&self) -> CommandInfo {
        CommandInfo { sender: Role::NodeTracker, ..node_drain() }
    }
}

/// Marks allocations of draining nodes to migrate, and evaluates their jobs (N-10.9). Allocations that are not on a
/// draining node any more, or have ended, are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainAllocs {
    /// The deployment watcher's epoch.
    pub epoch: Epoch,
    /// The allocations; at most [`DRAINED_ALLOCS_MAX`].
    pub allocs: Vec<AllocId>,
}

impl CommandBody for DrainAllocs {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::DeploymentWatcher,
            class: Class::Rest,
            cause: Cause::AllocTransition,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Completes drains: what is left on each node is marked to migrate, and the drain is over (N-10.4, N-10.11). A drain that
/// is not over on the newest state is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteDrains {
    /// The deployment watcher's epoch.
    pub epoch: Epoch,
    /// The drains, at most one for each node.
    pub drains: Vec<DrainEnd>,
}

impl CommandBody for CompleteDrains {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::DeploymentWatcher,
            class: Class::Rest,
            cause: Cause::NodeDrain,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// The end of one drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainEnd {
    /// The node.
    pub node: NodeId,
    /// Whether the deadline has passed. Otherwise nothing is left that the drain waits for.
    pub deadline_reached: bool,
}

/// The properties of commands that change the drain of a node, but for the sender.
fn node_drain() -> CommandInfo {
    CommandInfo {
        sender: Role::Api,
        class: Class::Nodes,
        cause: Cause::NodeDrain,
        is_expensive: true,
        is_deferrable: false,
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use model::Nanos;

    use super::*;
    use crate::command::Sample;
    use crate::samples::{ALLOC, EPOCH, NODE};

    const DRAIN: DrainSpec = DrainSpec { deadline: Nanos::SECOND, ignore_system_jobs: true };

    impl Sample for UpdateDrain {
        fn samples() -> Vec<Self> {
            let [key, value, accessor_id] = ["message", "maintenance", "token:acls-disabled"].map(Text::from);
            let meta = BTreeMap::from([(key, value)]);
            vec![Self { node: NODE, drain: Some(DRAIN), mark_eligible: true, meta, accessor_id }]
        }
    }

    impl Sample for DrainOwnNode {
        fn samples() -> Vec<Self> {
            vec![Self { epoch: EPOCH, node: NODE, drain: DRAIN }]
        }
    }

    impl Sample for DrainAllocs {
        fn samples() -> Vec<Self> {
            vec![Self { epoch: EPOCH, allocs: vec![ALLOC] }]
        }
    }

    impl Sample for CompleteDrains {
        fn samples() -> Vec<Self> {
            vec![Self { epoch: EPOCH, drains: vec![DrainEnd { node: NODE, deadline_reached: true }] }]
        }
    }
}
