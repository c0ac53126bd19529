//! Commands: everything that alters the cluster, for the applier alone.
//!
//! A command says what is wanted; what follows from it (evaluations, statuses, summaries, counters) the applier works
//! out at the command's own index. A sender that does not hear back sends the same request id again.
//!
//! Evaluations that a command makes are [`EvalId::derived`] from its request id, numbered from 0: the sender knows them
//! beforehand, and a command that is judged twice makes the same ones.

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

/// How long a lease lasts without a renewal (design §5).
pub const LEASE: Duration = Duration::from_secs(3);

/// Everything that alters the cluster. Answered by [`Answer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Registers a job, or a new version of it.
    RegisterJob(Box<RegisterJob>),
    /// Stops a job, or forgets it.
    DeregisterJob(DeregisterJob),
    /// Has a job looked at again.
    EvaluateJob(EvaluateJob),
    /// Changes what should happen to allocations next, for instance stops one (N-22.3).
    Transition(Transition),
    /// A scheduler's plan with the outcome of its evaluation.
    SubmitPlan(Box<SubmitPlan>),
    /// What the broker decided about evaluations.
    UpdateEvals(UpdateEvals),
    /// Forgets evaluations.
    DeleteEvals(DeleteEvals),
    /// A node registered.
    RegisterNode(Box<RegisterNode>),
    /// Nodes were heard of, or missed.
    UpdateNodes(UpdateNodes),
    /// Nodes reported how their allocations fare.
    ReportAllocs(ReportAllocs),
    /// Forgets nodes.
    DeregisterNodes(DeregisterNodes),
    /// Says whether a node may get new work.
    SetEligibility(SetEligibility),
    /// What the deployment watcher found.
    UpdateDeployments(UpdateDeployments),
    /// A user gives a deployment up.
    FailDeployment(FailDeployment),
    /// Forgets what nobody needs any more.
    CollectGarbage(CollectGarbage),
    /// Has the jobs that a node concerns looked at again.
    EvaluateNode(EvaluateNode),
    /// Makes a namespace, or changes it.
    SetNamespace(Box<SetNamespace>),
    /// Forgets a namespace.
    DeleteNamespace(DeleteNamespace),
    /// Makes a node pool, or changes it.
    SetNodePool(Box<SetNodePool>),
    /// Forgets a node pool.
    DeleteNodePool(DeleteNodePool),
    /// Sets the scheduler's settings.
    SetSchedulerConfig(SetSchedulerConfig),
    /// Gives the cluster a key to sign with.
    AddRootKey(AddRootKey),
    /// A process wants to be the active one of a singleton.
    TakeLease(TakeLease),
}

impl Command {
    /// Its kind, for spans and logs.
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

/// Registers a job (N-17). The specification has been through admission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterJob {
    /// The job.
    pub spec: Arc<JobSpec>,
    /// What it was made of, to be kept with a version that it makes (N-27); `None` takes over what is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<JobSource>>,
    /// Register only if the job's modify index is this; 0 only if there is no such job (N-17.11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
    /// The evaluation's priority; `None` is the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_priority: Option<u16>,
    /// Whether the counts of the stored job's groups stay (N-17.15).
    #[serde(default)]
    pub preserve_counts: bool,
    /// Whether the resources of the stored job's tasks stay.
    #[serde(default)]
    pub preserve_resources: bool,
}

/// Stops a job, or forgets it (N-21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterJob {
    /// The job.
    pub job: JobKey,
    /// Whether nothing is to be kept of it, its allocations included.
    pub purge: bool,
    /// The evaluation's priority; `None` is the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_priority: Option<u16>,
    /// Whether its tasks stop without their shutdown delay.
    #[serde(default)]
    pub no_shutdown_delay: bool,
}

/// Has a job looked at again (N-22.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateJob {
    /// The job.
    pub job: JobKey,
    /// Whether failed allocations are rescheduled whatever their policy says.
    #[serde(default)]
    pub force_reschedule: bool,
}

/// Changes what should happen to allocations next, and makes one evaluation for each of their jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Which; of any jobs.
    pub allocs: Vec<AllocId>,
    /// What should happen; merged into what was.
    pub transition: DesiredTransition,
    /// What the evaluations are made for: a user's stop, a drain, a deployment.
    pub trigger: EvalTrigger,
}

/// A scheduler's plan with the outcome of its evaluation, as one command (design §6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubmitPlan {
    /// What the scheduler proposes; an empty plan counts as one.
    pub plan: Plan,
    /// What becomes of the evaluation if the plan is taken whole.
    pub outcome: Outcome,
    /// The version of the worker's scheduler.
    pub scheduler_version: u16,
}

/// What the broker decided about evaluations: too many deliveries, duplicates, made needless.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateEvals {
    /// The broker's epoch; an older one than the lease's is refused.
    pub epoch: Epoch,
    /// What changes of evaluations that there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<EvalUpdate>,
    /// New evaluations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Evaluation>,
    /// Records of room gained before this index are of no use to any blocked evaluation any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget_unblocked_before: Option<Index>,
}

/// Evaluations that change alike; dropped for those that are terminal or gone meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalUpdate {
    /// Which.
    pub ids: Vec<EvalId>,
    /// Where they stand now.
    pub status: EvalStatus,
    /// The same in words.
    #[serde(default)]
    pub description: Text,
    /// The evaluation that follows them; `None` leaves what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<EvalId>,
    /// Leaves out those that changed after this index: a pending evaluation whose index was raised stands for something
    /// that happened since, and must not be made needless by what was decided before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_changed_since: Option<Index>,
}

/// The most evaluations that one [`DeleteEvals`] names (`spec/scheduling.md` §12, *ids per delete request*).
pub const EVALS_DELETED_MAX: usize = 7_281;

/// Forgets evaluations whatever state they are in, while all of them rest (http-api §15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteEvals {
    /// Which.
    pub ids: Vec<EvalId>,
}

/// A node registered (N-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The node.
    pub id: NodeId,
    /// What its agent said.
    pub spec: Arc<NodeSpec>,
}

/// Nodes were heard of, or missed: those of which the same is to be said, because they fail together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateNodes {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// What was found.
    pub sign: NodeSign,
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// What happened, for the events of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<NodeEvent>,
}

/// Whether a node was heard of. Which status follows from it the applier decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeSign {
    /// It gave a sign of life, and asks to be ready (N-3.3 to N-3.7).
    Heard,
    /// Its heartbeat is overdue (N-4.7).
    Missed,
}

/// Nodes reported how their allocations fare (N-7.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportAllocs {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The reports, each of one node.
    pub reports: Vec<NodeReport>,
}

/// One node's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// The boot that its agent is in.
    pub boot: u32,
    /// Set when these are all its allocations that are not terminal (design §6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_since: Option<Index>,
    /// The allocations.
    pub allocs: Vec<AllocReport>,
}

/// Forgets nodes (N-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterNodes {
    /// Which.
    pub nodes: Vec<NodeId>,
}

/// Says whether a node may get new work (N-9.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetEligibility {
    /// The node.
    pub node: NodeId,
    /// Whether it may.
    pub eligibility: Eligibility,
}

/// What the deployment watcher found (N-14). Each finding is judged by itself; one that no longer holds, for instance
/// because its deployment has ended meanwhile, is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateDeployments {
    /// The watcher's epoch; an older one than the lease's is refused.
    pub epoch: Epoch,
    /// At most one for each deployment.
    pub findings: Vec<DeploymentFinding>,
}

/// What was found of one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentFinding {
    /// The deployment.
    pub id: DeploymentId,
    /// What should come of it.
    pub step: DeploymentStep,
}

/// What should come of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeploymentStep {
    /// Its job is to be looked at: allocations became healthy that no evaluation has seen.
    Advance,
    /// These allocations are unhealthy, and are to be replaced within the deployment.
    Replace {
        /// Which; at least one.
        allocs: Vec<AllocId>,
    },
    /// It fails: these allocations are unhealthy and nothing may replace them.
    FailUnhealthy {
        /// Which; at least one.
        allocs: Vec<AllocId>,
    },
    /// It fails: some group had to make progress by this moment or before, and made none.
    FailLate {
        /// The moment.
        progress_by: Timestamp,
    },
}

/// A user gives a deployment up (N-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailDeployment {
    /// The deployment.
    pub id: DeploymentId,
}

/// The most objects that one [`CollectGarbage`] names: a slice that holds nobody up.
pub const GARBAGE_SLICE_MAX: usize = 500;

/// Forgets what nobody needs any more. Whatever is needed again meanwhile is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectGarbage {
    /// What changed after this stays.
    pub before: Timestamp,
    /// What to forget.
    pub garbage: Garbage,
}

/// Objects of one kind that nobody needs any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Garbage {
    /// Allocations that have ended.
    Allocs {
        /// Which.
        ids: Vec<AllocId>,
        /// Whether their jobs go next, which makes it harmless to forget that their work is done.
        with_jobs: bool,
    },
    /// Evaluations of which no allocation is left.
    Evals(Vec<EvalId>),
    /// Jobs that are over, and of which neither is left.
    Jobs(Vec<JobKey>),
    /// Deployments that are over.
    Deployments(Vec<DeploymentId>),
    /// Nodes that are gone.
    Nodes(Vec<NodeId>),
}

/// Has the active applier look for everything that may be forgotten, whatever its age. No command: what it finds
/// becomes commands. Answered by [`GarbageBegun`] as soon as it has begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForceGarbage {}

/// Garbage is being collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GarbageBegun {}

/// Has the jobs looked at again that a node concerns (http-api §17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateNode {
    /// The node.
    pub node: NodeId,
}

/// Makes a namespace, or changes it (http-api §19). What it says has been checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNamespace {
    /// It; its indexes are the applier's.
    pub namespace: Namespace,
}

/// Forgets a namespace, if nothing lives in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// Its name.
    pub name: Text,
}

/// Makes a node pool, or changes it (http-api §17). What it says has been checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNodePool {
    /// It; its indexes are the applier's.
    pub pool: NodePool,
}

/// Forgets a node pool, if no node and no job is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNodePool {
    /// Its name.
    pub name: Text,
}

/// Sets the scheduler's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSchedulerConfig {
    /// All of them.
    pub config: SchedulerConfig,
    /// Set only if the settings' modify index is this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
}

/// Gives the cluster a key to sign with, unless it has one. Its private half is kept already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddRootKey {
    /// The key; its moment and indexes are those of the command.
    pub key: RootKey,
}

/// A process wants to be the active one of a singleton (design §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch whose holder is gone: nobody listens in its place any more. That lease is free before it has run out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Epoch>,
}

/// Asks the active process of a singleton whether it is there. No responders: it is gone. Answered by [`Holding`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskHolder {}

/// The active process of a singleton is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {}

/// The active process of a singleton still is there. No command: nothing is written. Answered by [`Answer`], where
/// `Done` names the epoch; one that is not the lease's is refused as deposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch that it holds.
    pub epoch: Epoch,
}

/// The applier's answer to a command that it does not refuse ([`Refusal`](crate::Refusal)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Committed, or rightly nothing to do.
    Done(Done),
    /// Not done, or not known whether done; the same request id may be sent again.
    Retry {
        /// Why.
        reason: Text,
    },
}

/// A command was carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// The index at which it was committed, or on which *nothing to do* was judged.
    pub index: Index,
    /// Whether anything was written.
    pub written: bool,
    /// The modify index of the object that the command was about, where it was about one.
    pub object_index: Index,
    /// The evaluations that came of it; those that it made itself in the order of their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evals: Vec<EvalId>,
    /// What became of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanResult>,
    /// The epoch of a lease that was taken or renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Nodes whose part of a command that gathers several was refused: unknown ones, and those that may not report as
    /// they stand (N-7.3).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_nodes: Vec<NodeId>,
}

/// The most nodes that [`PlanResult::rejected_nodes`] names: the answer lies in the log.
pub const REJECTED_NODES_MAX: usize = 64;

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanResult {
    /// How much of it was taken.
    pub verdict: PlanVerdict,
    /// The index that the next attempt's snapshot must have reached; 0 where there need be none.
    #[serde(default)]
    pub refresh_index: Index,
    /// Nodes on which it did not fit; at most [`REJECTED_NODES_MAX`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_nodes: Vec<NodeId>,
}

/// How much of a plan was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanVerdict {
    /// All of it, and the outcome with it.
    Whole,
    /// Some of it; the evaluation stays pending.
    Part,
    /// It was judged, and nothing of it fitted. Counts as an attempt.
    Nothing,
    /// It was not judged, because it was made from too old a snapshot. Does not count (design §6).
    Stale,
}

impl PlanVerdict {
    /// Whether anything of it was taken, which gives the scheduler all its attempts back.
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
    ForceGarbage => "garbage.force",
    GarbageBegun => "garbage.begun",
    AskHolder => "lease.ask-holder",
    Holding => "lease.holding",
    Answer => "command.answer",
}
