//! Commands: requests to the plan applier that change the cluster's state.
//!
//! A command states the intended change. The applier computes the consequences (evaluations, statuses, summaries,
//! counters) at the command's own index. A sender that gets no response sends the command again with the same request
//! id.
//!
//! The ids of evaluations that a command creates are [`EvalId::derived`] from its request id, numbered from 0. So the
//! sender knows them in advance, and a command that is executed twice creates the same ids.

use std::sync::Arc;
use std::time::Duration;

use model::alloc::DesiredTransition;
use model::cluster::{Namespace, NodePool, SchedulerConfig, Singleton};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{JobSource, JobSpec};
use model::keyring::RootKey;
use model::node::{Eligibility, NodeEvent, NodeSpec};
use model::plan::{Outcome, Plan};
use model::{AllocId, DeploymentId, Epoch, EvalId, Index, JobKey, NodeId, ProcessId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
use crate::node::AllocReport;

/// Duration of a lease that is not renewed (`docs/architecture/leases.md`).
pub const LEASE: Duration = Duration::from_secs(3);

/// A request to change the cluster's state. The response is [`Answer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Registers a job, or a new version of it.
    RegisterJob(Box<RegisterJob>),
    /// Stops a job, or deletes it.
    DeregisterJob(DeregisterJob),
    /// Creates an evaluation for a job.
    EvaluateJob(EvaluateJob),
    /// Changes the desired transition of allocations, for instance to stop one (N-22.3).
    Transition(Transition),
    /// Submits a scheduler's plan together with the outcome of its evaluation.
    SubmitPlan(Box<SubmitPlan>),
    /// Commits the broker's decisions about evaluations.
    UpdateEvals(UpdateEvals),
    /// Deletes evaluations.
    DeleteEvals(DeleteEvals),
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
    /// Commits the deployment watcher's findings.
    UpdateDeployments(UpdateDeployments),
    /// Fails a deployment at a user's request.
    FailDeployment(FailDeployment),
    /// Deletes objects that are no longer needed.
    CollectGarbage(CollectGarbage),
    /// Creates evaluations for the jobs that a node concerns.
    EvaluateNode(EvaluateNode),
    /// Creates or updates a namespace.
    SetNamespace(Box<SetNamespace>),
    /// Deletes a namespace.
    DeleteNamespace(DeleteNamespace),
    /// Creates or updates a node pool.
    SetNodePool(Box<SetNodePool>),
    /// Deletes a node pool.
    DeleteNodePool(DeleteNodePool),
    /// Replaces the scheduler configuration.
    SetSchedulerConfig(SetSchedulerConfig),
    /// Adds a signing key to the cluster.
    AddRootKey(AddRootKey),
    /// Requests the lease of a singleton service for a process.
    TakeLease(TakeLease),
}

impl Command {
    /// Name of the command's kind, for spans and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RegisterJob(_) => "RegisterJob",
            Self::DeregisterJob(_) => "DeregisterJob",
            Self::EvaluateJob(_) => "EvaluateJob",
            Self::Transition(_) => "Transition",
            Self::SubmitPlan(_) => "SubmitPlan",
            Self::UpdateEvals(_) => "UpdateEvals",
            Self::DeleteEvals(_) => "DeleteEvals",
            Self::RegisterNode(_) => "RegisterNode",
            Self::UpdateNodes(_) => "UpdateNodes",
            Self::ReportAllocs(_) => "ReportAllocs",
            Self::DeregisterNodes(_) => "DeregisterNodes",
            Self::SetEligibility(_) => "SetEligibility",
            Self::UpdateDeployments(_) => "UpdateDeployments",
            Self::FailDeployment(_) => "FailDeployment",
            Self::CollectGarbage(_) => "CollectGarbage",
            Self::EvaluateNode(_) => "EvaluateNode",
            Self::SetNamespace(_) => "SetNamespace",
            Self::DeleteNamespace(_) => "DeleteNamespace",
            Self::SetNodePool(_) => "SetNodePool",
            Self::DeleteNodePool(_) => "DeleteNodePool",
            Self::SetSchedulerConfig(_) => "SetSchedulerConfig",
            Self::AddRootKey(_) => "AddRootKey",
            Self::TakeLease(_) => "TakeLease",
        }
    }
}

/// Registers a job (N-17). Admission has already validated and completed the specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterJob {
    /// Specification of the job.
    pub spec: Arc<JobSpec>,
    /// The source that the specification was made from, stored with the new version (N-27). `None` copies the source of
    /// the previous version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<JobSource>>,
    /// Registers only if the job's modify index has this value; 0 requires that the job does not exist (N-17.11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
    /// Priority of the evaluation; `None` uses the job's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_priority: Option<u16>,
    /// Whether the stored job's group counts replace those of `spec` (N-17.15).
    #[serde(default)]
    pub preserve_counts: bool,
    /// Whether the stored job's task resources replace those of `spec`.
    #[serde(default)]
    pub preserve_resources: bool,
}

/// Stops a job, or deletes it (N-21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterJob {
    /// The job.
    pub job: JobKey,
    /// Whether to delete the job with everything that belongs to it, including its allocations.
    pub purge: bool,
    /// Priority of the evaluation; `None` uses the job's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_priority: Option<u16>,
    /// Whether its tasks stop without their shutdown delay.
    #[serde(default)]
    pub no_shutdown_delay: bool,
}

/// Creates an evaluation for a job (N-22.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateJob {
    /// The job.
    pub job: JobKey,
    /// Whether failed allocations are rescheduled regardless of their reschedule policy.
    #[serde(default)]
    pub force_reschedule: bool,
}

/// Changes the desired transition of allocations, and creates one evaluation for each of their jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The allocations; they may belong to several jobs.
    pub allocs: Vec<AllocId>,
    /// The new desired transition; merged into the existing one.
    pub transition: DesiredTransition,
    /// Trigger of the evaluations: a user's stop, a drain, a deployment.
    pub trigger: EvalTrigger,
}

/// A scheduler's plan with the outcome of its evaluation, as one command (`docs/architecture/evaluations.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubmitPlan {
    /// The proposed plan. An empty plan counts as a plan.
    pub plan: Plan,
    /// The evaluation's outcome if the whole plan is accepted.
    pub outcome: Outcome,
    /// Version of the worker's scheduler.
    pub scheduler_version: u16,
}

/// The broker's decisions about evaluations: delivered too often, duplicate, or superseded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateEvals {
    /// The broker's epoch. The command is refused if this epoch is older than the lease's.
    pub epoch: Epoch,
    /// Changes of existing evaluations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<EvalUpdate>,
    /// New evaluations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Evaluation>,
    /// Deletes unblock records older than this index, because no blocked evaluation needs them any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget_unblocked_before: Option<Index>,
}

/// One change for several evaluations. Evaluations that are terminal or deleted when the command is executed are
/// skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalUpdate {
    /// The evaluations.
    pub ids: Vec<EvalId>,
    /// The new status.
    pub status: EvalStatus,
    /// Description of the new status.
    #[serde(default)]
    pub description: Text,
    /// The evaluation that follows them; `None` keeps the existing value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<EvalId>,
    /// Skips evaluations that changed after this index. A pending evaluation whose index was raised represents a later
    /// event, and a decision from before that event must not mark it as superseded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_changed_since: Option<Index>,
}

/// Maximum number of evaluations in one [`DeleteEvals`] (`docs/rules/scheduling.md` §12, *ids per delete request*).
pub const EVALS_DELETED_MAX: usize = 7_281;

/// Deletes evaluations in any status. Refused unless the broker is paused (http-api §15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteEvals {
    /// The evaluations.
    pub ids: Vec<EvalId>,
}

/// Registers a node (N-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The node.
    pub id: NodeId,
    /// What its agent reported.
    pub spec: Arc<NodeSpec>,
}

/// Reports that several nodes sent a heartbeat or missed one. One command covers all of them, because nodes fail
/// together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateNodes {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// What was observed.
    pub sign: NodeLiveness,
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// The event that is added to each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<NodeEvent>,
}

/// Whether a node is alive. The applier decides which status follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeLiveness {
    /// The node sent a heartbeat, and requests to be ready (N-3.3 to N-3.7).
    Heard,
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

/// Sets whether a node may get new allocations (N-9.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetEligibility {
    /// The node.
    pub node: NodeId,
    /// The node's new eligibility.
    pub eligibility: Eligibility,
}

/// The deployment watcher's findings (N-14). Each finding is checked separately. A finding that no longer holds, for
/// instance because its deployment has ended, is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateDeployments {
    /// The watcher's epoch. The command is refused if this epoch is older than the lease's.
    pub epoch: Epoch,
    /// The findings, at most one for each deployment.
    pub findings: Vec<DeploymentFinding>,
}

/// A finding about one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentFinding {
    /// The deployment.
    pub id: DeploymentId,
    /// The step that the deployment needs.
    pub step: DeploymentStep,
}

/// A step of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeploymentStep {
    /// Creates an evaluation for the job: allocations became healthy after the last evaluation.
    Advance,
    /// Replaces unhealthy allocations within the deployment.
    Replace {
        /// The allocations; at least one.
        allocs: Vec<AllocId>,
    },
    /// Fails the deployment: these allocations are unhealthy and may not be replaced.
    FailUnhealthy {
        /// The allocations; at least one.
        allocs: Vec<AllocId>,
    },
    /// Fails the deployment: a group missed its progress deadline.
    FailLate {
        /// The latest progress deadline that counts as missed.
        progress_by: Timestamp,
    },
}

/// Fails a deployment at a user's request (N-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailDeployment {
    /// The deployment.
    pub id: DeploymentId,
}

/// Maximum number of objects in one [`CollectGarbage`], so that a slice does not delay other commands.
pub const GARBAGE_SLICE_MAX: usize = 500;

/// Deletes objects that are no longer needed. Objects that are needed again are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectGarbage {
    /// Objects that changed after this time are kept.
    pub before: Timestamp,
    /// The objects to delete.
    pub garbage: Garbage,
}

/// Objects of one kind that are no longer needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Garbage {
    /// Terminal allocations.
    Allocs {
        /// The allocations.
        ids: Vec<AllocId>,
        /// Whether their jobs are deleted next. If so, it does not matter that the record of completed batch work is
        /// lost.
        with_jobs: bool,
    },
    /// Evaluations that have no allocations left.
    Evals(Vec<EvalId>),
    /// Dead jobs that have no evaluations and no allocations left.
    Jobs(Vec<JobKey>),
    /// Terminal deployments.
    Deployments(Vec<DeploymentId>),
    /// Nodes that are down and have no live allocations.
    Nodes(Vec<NodeId>),
}

/// Requests that the active applier collects all garbage, regardless of its age. This is not a command: the
/// garbage that is found becomes commands. The response, [`GarbageCollectionStarted`], is sent when the collection starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForceGarbageCollection {}

/// The garbage collection has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GarbageCollectionStarted {}

/// Creates evaluations for the jobs that a node concerns (http-api §17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateNode {
    /// The node.
    pub node: NodeId,
}

/// Creates or updates a namespace (http-api §19). The sender has validated it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNamespace {
    /// The namespace. The applier sets its indexes.
    pub namespace: Namespace,
}

/// Deletes a namespace, if it has no non-terminal jobs or allocations, and no volumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// Name of the namespace.
    pub name: Text,
}

/// Creates or updates a node pool (http-api §17). The sender has validated it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNodePool {
    /// The node pool. The applier sets its indexes.
    pub pool: NodePool,
}

/// Deletes a node pool, if it has no nodes and no non-terminal jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNodePool {
    /// Name of the node pool.
    pub name: Text,
}

/// Replaces the scheduler configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSchedulerConfig {
    /// The whole configuration.
    pub config: SchedulerConfig,
    /// Replaces the configuration only if its modify index has this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
}

/// Adds a signing key to the cluster, unless the cluster has one. Its private half is already stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddRootKey {
    /// The key. The applier sets its creation time and its indexes.
    pub key: RootKey,
}

/// Requests the lease of a singleton service for a process (`docs/architecture/leases.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch of a holder that no longer responds. Its lease is granted before it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Epoch>,
}

/// Checks whether the active process of a singleton is alive. *No responders* means that it is gone. The response is
/// [`HolderAlive`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeHolder {}

/// The active process of a singleton is alive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderAlive {}

/// Renews the lease of a singleton's active process. This is not a command: nothing is written. The response is
/// [`Answer`], in which `Done` holds the epoch. If the epoch is not the lease's, the request is refused as deposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch of its lease.
    pub epoch: Epoch,
}

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

kinds! {
    Command => "command",
    RenewLease => "lease.renew",
    ForceGarbageCollection => "garbage.force",
    GarbageCollectionStarted => "garbage.begun",
    ProbeHolder => "lease.ask-holder",
    HolderAlive => "lease.holding",
    Answer => "command.answer",
}
