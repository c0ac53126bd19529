//! Commands: everything that alters the cluster, for the applier alone.
//!
//! A command says what is wanted; what follows from it (evaluations, statuses, summaries, counters) the applier works
//! out at the command's own index. A sender that does not hear back sends the same request id again.

use std::sync::Arc;

use model::alloc::DesiredTransition;
use model::cluster::{SchedulerConfig, Singleton};
use model::eval::Evaluation;
use model::job::JobSpec;
use model::node::{NodeEvent, NodeSpec, NodeStatus};
use model::plan::{Outcome, Plan};
use model::{AllocId, Epoch, EvalId, Index, JobKey, NodeId, ProcessId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
use crate::node::AllocReport;

/// Everything that alters the cluster.
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
    /// A node registered.
    RegisterNode(Box<RegisterNode>),
    /// Nodes changed their status, or are thought to have.
    UpdateNodes(UpdateNodes),
    /// Nodes reported how their allocations fare.
    ReportAllocs(ReportAllocs),
    /// Forgets nodes.
    DeregisterNodes(DeregisterNodes),
    /// Sets the scheduler's settings.
    SetSchedulerConfig(SetSchedulerConfig),
    /// A process wants to be the active one of a singleton.
    TakeLease(TakeLease),
}

/// Registers a job (N-17). The specification has been through admission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterJob {
    /// The job.
    pub spec: Arc<JobSpec>,
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
    /// The id of the evaluation to make; given by the sender, so that its answer can be followed from the start.
    pub eval_id: EvalId,
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
    /// The id of the evaluation to make.
    pub eval_id: EvalId,
}

/// Has a job looked at again (N-22.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateJob {
    /// The job.
    pub job: JobKey,
    /// Whether failed allocations are rescheduled whatever their policy says.
    #[serde(default)]
    pub force_reschedule: bool,
    /// The id of the evaluation to make.
    pub eval_id: EvalId,
}

/// Changes what should happen to allocations next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Which.
    pub allocs: Vec<AllocId>,
    /// What should happen; merged into what was.
    pub transition: DesiredTransition,
    /// The id of the evaluation to make.
    pub eval_id: EvalId,
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
    /// Evaluations as they should be now; dropped where they are terminal meanwhile.
    pub updates: Vec<Evaluation>,
    /// New evaluations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Evaluation>,
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

/// Nodes changed their status, or are thought to have. Those that fail together come together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateNodes {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The nodes.
    pub nodes: Vec<NodeStatusUpdate>,
}

/// A node's status as somebody wants it; the applier decides what it becomes (N-3.3 to N-3.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatusUpdate {
    /// The node.
    pub id: NodeId,
    /// The status asked for.
    pub status: NodeStatus,
    /// What happened, for the node's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<NodeEvent>,
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

/// Sets the scheduler's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSchedulerConfig {
    /// All of them.
    pub config: SchedulerConfig,
    /// Set only if the settings' modify index is this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
}

/// A process wants to be the active one of a singleton (design §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
}

/// The active process of a singleton still is there. No command: nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch that it holds.
    pub epoch: Epoch,
}

/// The applier's answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Committed, or rightly nothing to do.
    Done(Done),
    /// Not done, and doing it again would not help.
    Refused(Refusal),
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
    /// The evaluations that came of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evals: Vec<EvalId>,
    /// What became of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanResult>,
    /// The epoch of a lease that was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanResult {
    /// Whether all of it was taken, and the outcome with it.
    pub whole: bool,
    /// Whether any of it was taken: progress, which gives the scheduler all its attempts back.
    pub progress: bool,
    /// The index that the next attempt's snapshot must have reached; 0 where there need be none.
    pub refresh_index: Index,
    /// Nodes on which it did not fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_nodes: Vec<NodeId>,
}

/// Why a command was refused, in a word for programs and in a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The word.
    pub kind: RefusalKind,
    /// The sentence; what the API answers.
    pub message: Text,
}

/// Kinds of refusals, as far as callers tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// What it is about is not there.
    NotFound,
    /// It was for another state of things: a compare-and-set failed, a node's secret is another.
    Conflict,
    /// It asks for what may not be.
    Invalid,
    /// The sender is not the active one of its service any more, or its program is too old.
    Deposed,
    /// The request id is older than what is remembered: whether it was carried out must be looked up.
    OutcomeUnknown,
}

kinds! {
    Command => "command",
    RenewLease => "lease.renew",
    Answer => "command.answer",
}
