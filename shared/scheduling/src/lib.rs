//! The scheduler: what should become of a job, given a snapshot of the cluster. Data in, data out.
//!
//! Nothing here waits, writes, reads a clock or draws lots: moments and ids come from the caller, so that a snapshot
//! has exactly one plan. It proposes only; the plan applier decides what lands.
//!
//! The way of an attempt: `reconcile` says which allocations stay, stop and are missing; `feasible` which nodes will do;
//! `rank` how well; `place` chooses one after the other, `placing` for whole groups and their older versions
//! (`downgrade`); `draft` and `outcome` write down the plan and what becomes of the evaluation; `metrics` is what is told
//! of it. `unbuilt` names what jobs may ask for and this form does not know.

mod columns;
mod downgrade;
mod draft;
mod dry_run;
mod feasible;
mod generic;
mod hash;
mod metrics;
mod outcome;
mod place;
mod placing;
mod preempt;
mod rank;
mod reconcile;
mod room;
#[cfg(test)]
mod scene;
mod system;
mod unbuilt;
mod undisturbed;

pub use dry_run::{DryRun, dry_run};

use model::Timestamp;
use model::eval::{EvalTrigger, Evaluation};
use model::job::JobType;
use model::plan::{Outcome, Plan};
use state::State;

/// One attempt at an evaluation: what to look at, and when.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The cluster, at least at the evaluation's wait index and, after a refusal, at the refresh index.
    pub state: &'a State,
    /// The evaluation.
    pub eval: &'a Evaluation,
    /// The latest of the worker's clock, the snapshot's time and the evaluation's `wait_until` (design §4, *Time*).
    pub now: Timestamp,
    /// How many attempts came to nothing since the last one that made progress (`spec/scheduling.md` ). At the
    /// limit of the job's type the proposal is an empty plan with a failed outcome, and an evaluation that waits for what
    /// could not be placed. Attempts that were refused as stale do not count.
    pub fruitless: u8,
    /// Whether somebody moves deployments on, as in every running system. Otherwise update blocks are passed over: no deployment is made, for nothing
    /// would end it, and all that has to be replaced is replaced at once.
    pub rollouts: bool,
    /// Whether to tell of every placement how its node was chosen; otherwise that is done for groups of few placements
    /// and for dry runs, and of others one placement speaks for all.
    pub explain: bool,
}

/// Where new ids come from: sixteen bytes each, of which no two are the same.
pub type NewId<'a> = &'a mut dyn FnMut() -> [u8; 16];

/// What a scheduler makes of an evaluation. Plan and outcome are submitted as one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// What should change; may be empty.
    pub plan: Plan,
    /// What becomes of the evaluation if the plan is taken whole.
    pub outcome: Outcome,
}

/// Works out what brings the evaluation's job to where it should be.
///
/// The same attempt with the same ids always gives the same proposal. An evaluation with a trigger that its scheduler does
/// not take is no error: its outcome is `failed`. So is that of a job which asks for something that is not built;
/// its description names it.
pub fn schedule(attempt: &Attempt<'_>, new_id: NewId<'_>) -> Proposal {
    if !takes(attempt.eval.kind, &attempt.eval.trigger) {
        return outcome::unknown_trigger(attempt);
    }
    // A job that is to stop may come as a service, whatever it is; one that was registered anew meanwhile is what
    // it is now.
    let wanted = attempt.state.job(&attempt.eval.job).filter(|job| !job.spec.stop);
    let kind = wanted.map_or(attempt.eval.kind, |job| job.spec.kind);
    match kind {
        JobType::Service | JobType::Batch => generic::schedule(attempt, kind, new_id),
        JobType::System | JobType::SysBatch => system::schedule(attempt, kind, new_id),
    }
}

/// Whether the scheduler of a type takes evaluations of a trigger.
fn takes(kind: JobType, trigger: &EvalTrigger) -> bool {
    let of_nodes = matches!(kind, JobType::System | JobType::SysBatch);
    match trigger {
        EvalTrigger::JobRegister
        | EvalTrigger::JobDeregister
        | EvalTrigger::NodeDrain
        | EvalTrigger::NodeUpdate
        | EvalTrigger::AllocStop
        | EvalTrigger::RollingUpdate
        | EvalTrigger::DeploymentWatcher
        | EvalTrigger::FailedFollowUp
        | EvalTrigger::QueuedAllocs
        | EvalTrigger::Preemption
        | EvalTrigger::JobScaling
        | EvalTrigger::Reconnect => true,
        EvalTrigger::PeriodicJob => kind != JobType::System,
        EvalTrigger::MaxPlanAttempts
        | EvalTrigger::AllocFailure
        | EvalTrigger::MaxDisconnectTimeout
        | EvalTrigger::AllocReschedule => !of_nodes,
        EvalTrigger::Scheduled | EvalTrigger::Other(_) => false,
    }
}

#[cfg(test)]
mod tests;
