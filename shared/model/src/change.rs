//! Change sets: the effects of one command on the state, as the log stores them and replicas apply them.
//!
//! A change set contains results. A replica stores them and updates its lookup tables, but never computes consequences, so
//! that processes of different versions cannot diverge (`docs/architecture/commit-path.md`). A change holds the new value of one object, or the new
//! values of some fields if many objects change in the same way. Whole objects contain their indexes and timestamps. The
//! shorter forms take the index and timestamp of the change set.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alloc::{
    AllocCommon, AllocState, Allocation, ClientStatus, DesiredStatus, DesiredTransition, GroupSummaries,
    Health, NetworkStatus, PackedAssigned, PackedTaskStates, ReportNumber, RescheduleOutcome,
};
use crate::cluster::{Lease, Namespace, NodePool, SchedulerConfig};
use crate::columns::AllocIds;
use crate::deployment::{Deployment, DeploymentStatus};
use crate::eval::{EvalStatus, Evaluation};
use crate::job::{Job, JobStatus, JobSubmission, JobVersionTag};
use crate::keyring::RootKey;
use crate::node::{Node, NodeEvent, NodeServerSide, NodeStatus};
use crate::plan::{Placements, Uneven};
use crate::text::string_enum;
use crate::volume::{CsiVolume, CsiVolumeKey, HostVolume, VolumeClaim};
use crate::{
    AllocId, DeploymentId, EvalId, HostVolumeId, Index, JobKey, JobVersionKey, NodeId, RequestId, Text,
    Timestamp, TraceContext, VolumeClaimId,
};

/// All changes of one command, under one index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeSet {
    /// Number of the change set in the log; rises by one with each change set.
    pub index: Index,
    /// Cluster time of the change set; never earlier than that of an earlier change set.
    pub at: Timestamp,
    /// Request id of the command.
    pub request_id: RequestId,
    /// Kind of command. Event streams name events after it.
    pub cause: Cause,
    /// Trace context of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The encoded response to the command, which is sent again if the command is repeated.
    #[serde(default, with = "byte_string", skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<u8>,
    /// The changes, in the order in which they are applied.
    pub changes: Vec<Change>,
}

string_enum! {
    /// The kind of command that caused a change set. Events in event streams are named after it (`docs/rules/http-api.md` §26).
    Cause, "cause" {
        /// A job was registered.
        JobRegistered => "JobRegistered",
        /// A job was stopped or purged.
        JobDeregistered => "JobDeregistered",
        /// A user requested an evaluation of a job.
        JobEvaluated => "JobEvaluated",
        /// The desired transitions of allocations were set.
        AllocTransition => "AllocTransition",
        /// A scheduler's plan was accepted, or its outcome that there is nothing to do.
        PlanResult => "PlanResult",
        /// Evaluations failed, were superseded, or were deleted by a user.
        EvaluationUpdated => "EvaluationUpdated",
        /// A node registered.
        NodeRegistration => "NodeRegistration",
        /// Nodes were deleted.
        NodeDeregistration => "NodeDeregistration",
        /// The scheduling eligibility of a node was changed.
        NodeEligibility => "NodeEligibility",
        /// The status of deployments changed.
        DeploymentStatusUpdate => "DeploymentStatusUpdate",
        /// Garbage was collected.
        Garbage => "Garbage",
        /// The status of nodes changed: heartbeats arrived or were missed.
        NodeStatus => "NodeStatus",
        /// Nodes reported the state of their allocations.
        AllocationUpdated => "AllocationUpdated",
        /// A node pool was created or changed.
        NodePoolUpserted => "NodePoolUpserted",
        /// A node pool was deleted.
        NodePoolDeleted => "NodePoolDeleted",
        /// Settings of the cluster changed.
        Settings => "Settings",
        /// A singleton's lease changed hands.
        Lease => "Lease",
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A job version was created or replaced. The last version of the last incarnation is the current one.
    Job(Arc<Job>),
    /// Fields of a job version outside its specification changed.
    JobFields(JobFields),
    /// A job was deleted, with all its versions, their sources and its summary.
    JobDeleted(JobKey),
    /// Old versions of a job were deleted.
    JobVersionsDeleted(Vec<JobVersionKey>),
    /// The source from which a job version was registered was stored.
    JobSubmission(Box<JobSubmission>),
    /// A job version took over the source of another version, if there is one. The source itself is not repeated,
    /// because it may be large.
    JobSubmissionCopied {
        /// The version that has the source.
        from: JobVersionKey,
        /// The version that gets the same source. The specification changed to it at the change set's index.
        to: JobVersionKey,
    },
    /// Sources of job versions were deleted.
    JobSubmissionsDeleted(Vec<JobVersionKey>),
    /// The counts of a job's allocations, or of its children, changed.
    JobSummary(Arc<JobSummary>),
    /// An evaluation was created or replaced.
    Eval(Arc<Evaluation>),
    /// A scheduler's outcome for an evaluation. It is stored like any other evaluation, but only this change ends the
    /// broker's lease. The evaluation's snapshot index is that of the attempt (`docs/architecture/evaluations.md`).
    EvalOutcome(Arc<Evaluation>),
    /// A scheduler's plan for a job was accepted, in whole or in part. No plan from an older snapshot is accepted after
    /// it, and the next attempt on the evaluation needs a snapshot that includes it.
    PlanApplied {
        /// The job.
        job: JobKey,
        /// The evaluation.
        eval_id: EvalId,
    },
    /// Existing evaluations changed in the same way.
    EvalsChanged(EvalsChanged),
    /// Evaluations were deleted.
    EvalsDeleted(Vec<EvalId>),
    /// A deployment was created or replaced.
    Deployment(Arc<Deployment>),
    /// Fields of a deployment changed.
    DeploymentFields(Box<DeploymentFields>),
    /// Deployments were deleted.
    DeploymentsDeleted(Vec<DeploymentId>),
    /// A node registered, for the first time or again.
    Node(Box<Node>),
    /// The server side of a node changed.
    NodeServerSide {
        /// The node.
        id: NodeId,
        /// Its new server side.
        server: Box<NodeServerSide>,
    },
    /// Existing nodes changed in the same way.
    NodesChanged(Box<NodesChanged>),
    /// Nodes were deleted.
    NodesDeleted(Vec<NodeId>),
    /// Allocations were placed. Each allocation that they replace gets the id of its successor (N-8.3).
    AllocsPlaced(Box<Placements>),
    /// Existing allocations changed in the same way.
    AllocsChanged(Box<AllocsChanged>),
    /// One allocation was created or replaced. Used if no shorter form fits.
    Alloc(Box<Allocation>),
    /// Allocations were deleted.
    AllocsDeleted(AllocIds),
    /// The scheduler configuration changed.
    SchedulerConfig(SchedulerConfig),
    /// A node pool was created or changed.
    NodePool(Box<NodePool>),
    /// A node pool was deleted.
    NodePoolDeleted(Text),
    /// A namespace was created or changed.
    Namespace(Box<Namespace>),
    /// A namespace was deleted.
    NamespaceDeleted(Text),
    /// A dynamic host volume was created or changed.
    HostVolume(Box<HostVolume>),
    /// A dynamic host volume was deleted.
    HostVolumeDeleted(HostVolumeId),
    /// A CSI volume was created or changed.
    CsiVolume(Box<CsiVolume>),
    /// A CSI volume was deleted.
    CsiVolumeDeleted(CsiVolumeKey),
    /// A claim of a sticky volume was created or changed.
    VolumeClaim(Box<VolumeClaim>),
    /// A claim of a sticky volume was deleted.
    VolumeClaimDeleted(VolumeClaimId),
    /// A root key was created or changed.
    RootKey(Box<RootKey>),
    /// A singleton's lease changed hands.
    Lease(Lease),
    /// Capacity was gained that blocked evaluations may wait for.
    Unblocked(Unblocked),
    /// Records of capacity gained before this index were deleted.
    UnblockedForgotten(Index),
}

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
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
}

/// Number of children of a periodic or parameterized job, by status.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "one count per job status")]
pub struct ChildrenSummary {
    pub pending: u64,
    pub running: u64,
    pub dead: u64,
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

/// Serializes bytes as one byte string.
mod byte_string {
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        crate::bytes::deserialize(deserializer, "bytes", |bytes| Ok(bytes.to_vec()))
    }
}
