//! Parts of changes other than whole objects: new values of fields of one object or of many objects that change in the
//! same way, and the counts of a job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alloc::{
    AllocCommon, AllocState, ClientStatus, DesiredStatus, DesiredTransition, GroupSummaries, Health,
    NetworkStatus, PackedAssigned, PackedTaskStates, ReportNumber, RescheduleOutcome,
};
use crate::columns::AllocIds;
use crate::deployment::DeploymentStatus;
use crate::eval::EvalStatus;
use crate::job::{JobStatus, JobVersionTag, ScalingEvents};
use crate::node::{NodeEvent, NodeStatus};
use crate::plan::Uneven;
use crate::{AllocId, DeploymentId, EvalId, Index, JobKey, JobVersionKey, NodeId, Text, Timestamp};

/// The fields of a job version that are not part of its specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobFields {
    /// The job version.
    pub key: JobVersionKey,
    /// Its status.
    pub status: JobStatus,
    /// Human-readable reason for the status.
    #[serde(default)]
    pub status_description: Text,
    /// Whether a deployment of the version succeeded.
    #[serde(default)]
    pub stable: bool,
    /// The name that a user has given to the version.
    #[serde(default)]
    pub version_tag: Option<JobVersionTag>,
}

/// Evaluations that changed in the same way. They get the modify index and time of the change set.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalsChanged {
    /// The evaluations.
    pub ids: Vec<EvalId>,
    /// New status and its description. `None` if only the modify index rises, so that the worker of an evaluation uses a
    /// newer snapshot (`docs/architecture/agents.md`).
    pub status: Option<(EvalStatus, Text)>,
    /// The evaluation that follows them.
    pub next_eval: Option<EvalId>,
}

/// The changed fields of a deployment. It gets the modify index and time of the change set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentFields {
    /// The deployment.
    pub id: DeploymentId,
    /// New status and its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<(DeploymentStatus, Text)>,
    /// Progress of its groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<DeploymentProgress>,
}

/// Progress of one group of a deployment: the new values of its counters.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentProgress {
    /// The group.
    pub group: Text,
    /// Number of allocations placed.
    pub placed_allocs: u32,
    /// Number of allocations that became healthy.
    pub healthy_allocs: u32,
    /// Number of allocations that became unhealthy.
    pub unhealthy_allocs: u32,
    /// Time by which further allocations must become healthy.
    pub require_progress_by: Timestamp,
    /// Additional canaries.
    pub new_canaries: Vec<AllocId>,
}

/// Nodes that changed in the same way, for instance because they failed together. They get the modify index of the change
/// set.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesChanged {
    /// The nodes.
    pub ids: Vec<NodeId>,
    /// New status. The time of the change set becomes the time of the status update.
    pub status: Option<NodeStatus>,
    /// An event to append to the events of each node. If there are too many, the oldest event is removed.
    pub event: Option<NodeEvent>,
    /// Index at which they missed a heartbeat; 0 clears it.
    pub last_missed_heartbeat_index: Option<Index>,
    /// Index at which they reported their allocations.
    pub last_alloc_update_index: Option<Index>,
}

/// Counts of a job's allocations and of its children (N-25.4, N-25.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job.
    pub job: JobKey,
    /// Number of allocations by task group and client status.
    pub groups: GroupSummaries,
    /// Number of children by status, if the job is a parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildrenSummary>,
    /// The last scaling events of the task groups (N-26.4). `None` in a change set leaves those of the state as they are,
    /// so that the many changes of the counts do not repeat them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_events: Option<Arc<ScalingEvents>>,
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
}

/// The children of a periodic or parameterized job: their number by status, and what decides about the next ones.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildrenSummary {
    /// Number of pending children, including those that are held back.
    pub pending: u64,
    /// Number of running children.
    pub running: u64,
    /// Number of children that are dead, or have been since the job was registered (N-21.8).
    pub dead: u64,
    /// Number of pending children that are held back by the limit on running children. They have no evaluation yet.
    pub held: u64,
    /// The moment of the last launch of a periodic job, whether it made a child or was skipped (N-23.4).
    pub last_launch: Timestamp,
}

/// Allocations that changed in the same way: each field that is set has the same new value for all of them.
///
/// Columns hold values that differ. A column has one row per id, or is empty.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocsChanged {
    /// The allocations.
    pub ids: AllocIds,
    /// Whether the servers made the change. Agents receive such changes; they do not receive their own reports (N-7.9).
    pub by_servers: bool,
    /// The new common part, after an in-place update.
    pub common: Option<Arc<AllocCommon>>,
    /// New desired status and its description.
    pub desired: Option<(DesiredStatus, Text)>,
    /// Desired transition, merged into the existing one.
    pub transition: Option<DesiredTransition>,
    /// New client status and its description.
    pub client: Option<(ClientStatus, Text)>,
    /// A status to append to the history of client statuses, which is needed when a node reconnects.
    pub append_state: Option<AllocState>,
    /// The delayed evaluation that will reconsider them; `Some(None)` removes it.
    #[serde(with = "nested")]
    pub followup_eval: Option<Option<EvalId>>,
    /// Outcome of the last attempt to reschedule them.
    pub reschedule: Option<RescheduleOutcome>,
    /// The allocation that preempted them.
    pub preempted_by: Option<AllocId>,
    /// Their new health; `Some(None)` removes it. The column `verdicts` sets the health of single allocations.
    #[serde(with = "nested")]
    pub health: Option<Option<Health>>,
    /// Column: number of the report that caused the change.
    pub reports: Vec<ReportNumber>,
    /// Column: task states.
    pub task_states: Vec<PackedTaskStates>,
    /// Column: whether the allocation is healthy and since when. Whether it is a canary does not change.
    pub verdicts: Vec<Option<(bool, Timestamp)>>,
    /// Column: network status of an allocation with a network namespace.
    pub network: Vec<Option<Arc<NetworkStatus>>>,
    /// Column: assigned resources, after an in-place update.
    pub assigned: Vec<PackedAssigned>,
}

impl AllocsChanged {
    /// Returns an error if a column has a different length than the ids.
    pub fn check(&self) -> Result<(), Uneven> {
        let expected = self.ids.len();
        let columns = [
            ("reports", self.reports.len()),
            ("task_states", self.task_states.len()),
            ("verdicts", self.verdicts.len()),
            ("network", self.network.len()),
            ("assigned", self.assigned.len()),
        ];
        for (column, found) in columns {
            if found != 0 && found != expected {
                return Err(Uneven { column, found, expected });
            }
        }
        Ok(())
    }
}

/// The computed classes, quotas, nodes and other resources that gained capacity.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unblocked {
    /// Computed classes of nodes.
    pub classes: Vec<Text>,
    /// Quotas.
    pub quotas: Vec<Text>,
    /// Nodes, for the evaluations of system jobs that wait for them. They are not recorded.
    pub nodes: Vec<NodeId>,
    /// Resources that are not part of a node, such as `csi-volume:<namespace>:<id>`.
    pub resources: Vec<Text>,
}

/// Serializes a nested option: `Some(None)` is an empty list, because null would deserialize to `None`.
mod nested {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer, T: Serialize>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|inner| inner.iter().collect::<Vec<_>>()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Ok(Option::<Vec<T>>::deserialize(deserializer)?.map(|list| list.into_iter().next()))
    }
}
