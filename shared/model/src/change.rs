//! Change sets: what a command did to the cluster, as every replica applies it and the log keeps it.
//!
//! They carry results. A replica stores them and keeps its indexes; it never works anything out, so that processes of
//! different versions cannot drift apart (design §1). A change says what one object is now, or, where many objects
//! change alike, what of them is new. Whole objects carry their indexes and moments; in the shorter forms those are the
//! change set's own and are not repeated.

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
use crate::text::words;
use crate::volume::{CsiVolume, CsiVolumeKey, HostVolume, VolumeClaim};
use crate::{
    AllocId, DeploymentId, EvalId, HostVolumeId, Index, JobKey, JobVersionKey, NodeId, RequestId, Text,
    Timestamp, TraceContext, VolumeClaimId,
};

/// Everything that one command changed, under one index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeSet {
    /// Its place in the log; rises by one from each to the next.
    pub index: Index,
    /// The cluster's time; never before that of an earlier change set.
    pub at: Timestamp,
    /// The command that did it.
    pub request_id: RequestId,
    /// What kind of command that was; event streams name it.
    pub cause: Cause,
    /// The trace that the command was part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The command's answer in encoded form, for whoever repeats the command.
    #[serde(default, with = "byte_string", skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<u8>,
    /// What changed, in this order.
    pub changes: Vec<Change>,
}

words! {
    /// What made a change set: the events that users follow are named after it (`spec/http-api.md` §26).
    Cause, "cause" {
        /// A job was registered.
        JobRegistered => "JobRegistered",
        /// A job was stopped or purged.
        JobDeregistered => "JobDeregistered",
        /// A job was to be looked at again.
        JobEvaluated => "JobEvaluated",
        /// Allocations were told what should happen to them next.
        AllocTransition => "AllocTransition",
        /// A scheduler's plan, or its word that there is nothing to do, was taken.
        PlanResult => "PlanResult",
        /// Evaluations were given up, made needless, or forgotten by a user.
        EvaluationUpdated => "EvaluationUpdated",
        /// A node registered.
        NodeRegistration => "NodeRegistration",
        /// Nodes were forgotten.
        NodeDeregistration => "NodeDeregistration",
        /// Whether a node may get new work was changed.
        NodeEligibility => "NodeEligibility",
        /// What became of deployments.
        DeploymentStatusUpdate => "DeploymentStatusUpdate",
        /// What nobody needs any more was forgotten.
        Garbage => "Garbage",
        /// Nodes were heard of, or missed.
        NodeStatus => "NodeStatus",
        /// Nodes reported how their allocations fare.
        AllocationUpdated => "AllocationUpdated",
        /// A node pool was made or changed.
        NodePoolUpserted => "NodePoolUpserted",
        /// A node pool was forgotten.
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
    /// A version of a job, new or changed. The last version of the last incarnation is the current one.
    Job(Arc<Job>),
    /// What changed of a job's version beside its specification.
    JobFields(JobFields),
    /// A job is gone with all its versions, their sources, and what its allocations added up to.
    JobDeleted(JobKey),
    /// Old versions of a job are gone.
    JobVersionsDeleted(Vec<JobVersionKey>),
    /// What a version of a job was registered from.
    JobSubmission(Box<JobSubmission>),
    /// A version of a job took over the source of another one, if there is one; that may be large.
    JobSubmissionCopied {
        /// The version that has it.
        from: JobVersionKey,
        /// The one that has it too now; the specification changed to it at the change set's index.
        to: JobVersionKey,
    },
    /// Sources of versions are gone.
    JobSubmissionsDeleted(Vec<JobVersionKey>),
    /// What a job's allocations, or its children, add up to.
    JobSummary(Arc<JobSummary>),
    /// An evaluation, new or changed.
    Eval(Arc<Evaluation>),
    /// What a scheduler made of an evaluation. Stored as any other, but only this tells the broker that a lease is
    /// done with; the evaluation's snapshot index is that of the attempt (design §6).
    EvalOutcome(Arc<Evaluation>),
    /// A scheduler's attempt on a job was taken, in whole or in part: none from an older snapshot may be after it, and
    /// whoever takes up the evaluation again needs a snapshot that has it.
    PlanApplied {
        /// The job.
        job: JobKey,
        /// The evaluation.
        eval_id: EvalId,
    },
    /// Evaluations that exist changed alike.
    EvalsChanged(EvalsChanged),
    /// Evaluations are gone.
    EvalsDeleted(Vec<EvalId>),
    /// A deployment, new or changed.
    Deployment(Arc<Deployment>),
    /// What changed of a deployment, in short.
    DeploymentFields(Box<DeploymentFields>),
    /// Deployments are gone.
    DeploymentsDeleted(Vec<DeploymentId>),
    /// A node, new or registered again.
    Node(Box<Node>),
    /// What the servers know of a node changed.
    NodeServerSide {
        /// The node.
        id: NodeId,
        /// What they know now.
        server: Box<NodeServerSide>,
    },
    /// Nodes that exist changed alike.
    NodesChanged(Box<NodesChanged>),
    /// Nodes are gone.
    NodesDeleted(Vec<NodeId>),
    /// New allocations. Those that they replace learn who their successors are (N-8.3).
    AllocsPlaced(Box<Placements>),
    /// Allocations that exist changed alike.
    AllocsChanged(Box<AllocsChanged>),
    /// One allocation, whole; for what no shorter form fits.
    Alloc(Box<Allocation>),
    /// Allocations are gone.
    AllocsDeleted(AllocIds),
    /// The scheduler's settings.
    SchedulerConfig(SchedulerConfig),
    /// A node pool, new or changed.
    NodePool(Box<NodePool>),
    /// A node pool is gone.
    NodePoolDeleted(Text),
    /// A namespace, new or changed.
    Namespace(Box<Namespace>),
    /// A namespace is gone.
    NamespaceDeleted(Text),
    /// A dynamic host volume, new or changed.
    HostVolume(Box<HostVolume>),
    /// A dynamic host volume is gone.
    HostVolumeDeleted(HostVolumeId),
    /// A CSI volume, new or changed.
    CsiVolume(Box<CsiVolume>),
    /// A CSI volume is gone.
    CsiVolumeDeleted(CsiVolumeKey),
    /// A claim of a sticky volume, new or changed.
    VolumeClaim(Box<VolumeClaim>),
    /// A claim of a sticky volume is gone.
    VolumeClaimDeleted(VolumeClaimId),
    /// A key to sign with, new or changed.
    RootKey(Box<RootKey>),
    /// A singleton's lease changed hands.
    Lease(Lease),
    /// Something gained room, for which evaluations may have waited.
    Unblocked(Unblocked),
    /// Records of room gained before this index are forgotten.
    UnblockedForgotten(Index),
}

/// What changes of a job's version beside its specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobFields {
    /// Which version.
    pub key: JobVersionKey,
    /// Its status.
    pub status: JobStatus,
    /// The same in words.
    #[serde(default)]
    pub status_description: Text,
    /// Whether it proved itself in a deployment.
    #[serde(default)]
    pub stable: bool,
    /// The name that a user gave it.
    #[serde(default)]
    pub version_tag: Option<JobVersionTag>,
}

/// Evaluations that changed alike; they move to the change set's index and moment.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalsChanged {
    /// Which.
    pub ids: Vec<EvalId>,
    /// Where they stand now, in a word and in words; `None` where only the index rises, so that whoever works on one
    /// looks at a newer state (design §10).
    pub status: Option<(EvalStatus, Text)>,
    /// The evaluation that follows them.
    pub next_eval: Option<EvalId>,
}

/// What changed of a deployment; it moves to the change set's index and moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentFields {
    /// The deployment.
    pub id: DeploymentId,
    /// Where it stands now, in a word and in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<(DeploymentStatus, Text)>,
    /// How its groups are getting on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<DeploymentProgress>,
}

/// How a group of a deployment is getting on: its counters as they are now.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentProgress {
    /// The group.
    pub group: Text,
    /// How many were placed.
    pub placed_allocs: u32,
    /// How many became healthy.
    pub healthy_allocs: u32,
    /// How many became unhealthy.
    pub unhealthy_allocs: u32,
    /// The moment by which there must be more.
    pub require_progress_by: Timestamp,
    /// Canaries that came in addition.
    pub new_canaries: Vec<AllocId>,
}

/// Nodes that changed alike, for instance because they failed together; they move to the change set's index.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesChanged {
    /// Which.
    pub ids: Vec<NodeId>,
    /// Their status, written at the change set's moment.
    pub status: Option<NodeStatus>,
    /// What happened to them; the oldest event goes where there are too many.
    pub event: Option<NodeEvent>,
    /// The index at which they were found missing; 0 when that is over.
    pub last_missed_heartbeat_index: Option<Index>,
    /// The index at which they reported their allocations.
    pub last_alloc_update_index: Option<Index>,
}

/// What a job's allocations, and its children, add up to (N-25.4, N-25.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job.
    pub job: JobKey,
    /// By task group.
    pub groups: GroupSummaries,
    /// Of a parent, how its children fare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildrenSummary>,
    /// The index that made it.
    #[serde(default)]
    pub create_index: Index,
    /// The last index that changed it.
    #[serde(default)]
    pub modify_index: Index,
}

/// How a parent's children fare.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "one count a job status")]
pub struct ChildrenSummary {
    pub pending: u64,
    pub running: u64,
    pub dead: u64,
}

/// Allocations that changed alike: the same new value of each field that is set, for all of them.
///
/// Columns hold what differs; they have a row for each id, or none at all.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocsChanged {
    /// Which.
    pub ids: AllocIds,
    /// Whether the servers did it. Such changes reach the agents, whose own reports do not come back to them (N-7.9).
    pub by_servers: bool,
    /// What they share, after an update in place.
    pub common: Option<Arc<AllocCommon>>,
    /// What the servers want, and why.
    pub desired: Option<(DesiredStatus, Text)>,
    /// What should happen to them next; merged into what was.
    pub transition: Option<DesiredTransition>,
    /// How they fare, in a word and in words.
    pub client: Option<(ClientStatus, Text)>,
    /// A status to add to those that reconnection looks back at.
    pub append_state: Option<AllocState>,
    /// The delayed evaluation that will look at them again; `Some(None)` is none any more.
    #[serde(with = "nested")]
    pub followup_eval: Option<Option<EvalId>>,
    /// How the last attempt to reschedule them ended.
    pub reschedule: Option<RescheduleOutcome>,
    /// The allocation that they made room for.
    pub preempted_by: Option<AllocId>,
    /// Their health, all of it; `Some(None)` is none any more. For single verdicts there is a column.
    #[serde(with = "nested")]
    pub health: Option<Option<Health>>,
    /// Column: the reports that say so.
    pub reports: Vec<ReportNumber>,
    /// Column: how their tasks fare.
    pub task_states: Vec<PackedTaskStates>,
    /// Column: verdicts on their health and when they fell; marks of canaries stay.
    pub verdicts: Vec<Option<(bool, Timestamp)>>,
    /// Column: the address in a network of their own.
    pub network: Vec<Option<Arc<NetworkStatus>>>,
    /// Column: what they got of their node, after an update in place.
    pub assigned: Vec<PackedAssigned>,
}

impl AllocsChanged {
    /// Refuses columns of another length than the ids'.
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

/// What gained room: computed classes, quotas, nodes, or other resources by name.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unblocked {
    /// Computed classes of nodes.
    pub classes: Vec<Text>,
    /// Quotas.
    pub quotas: Vec<Text>,
    /// Nodes, for the evaluations of system jobs that wait for them. Of these no record is kept.
    pub nodes: Vec<NodeId>,
    /// Resources that no node brings, such as `csi-volume:<namespace>:<id>`.
    pub resources: Vec<Text>,
}

/// `Some(None)` as a list of none, which a format's null would make `None`.
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

/// Bytes as one byte string.
mod byte_string {
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        crate::bytes::deserialize(deserializer, "bytes", |bytes| Ok(bytes.to_vec()))
    }
}
