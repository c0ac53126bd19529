//! The scheduler as pure functions: an evaluation and a snapshot of the cluster go in, a plan and an outcome come out.
//!
//! The crate does no I/O, and reads neither a clock nor a source of random numbers. Times and ids come from the caller,
//! so a snapshot has exactly one plan. The crate only proposes; the plan applier verifies and commits.
//!
//! Steps of an attempt: `reconcile` compares the job with its allocations and decides which to keep, stop, update and
//! place; `feasible` finds the nodes that satisfy a group's constraints; `rank` scores them; `place` chooses a node for
//! one placement request at a time; `placing` places whole groups, also in an older version of the job (`downgrade`);
//! `draft` and `outcome` build the plan and the evaluation's new status; `metrics` updates the placement metrics.

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
mod steady_state;
mod system;
#[cfg(test)]
mod testing;

pub use dry_run::{DryRun, dry_run};

use model::Timestamp;
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Constraint, JobType};
use model::plan::{Outcome, Plan};
use state::{NodeRef, State};

/// One attempt at an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Snapshot of the cluster, at the evaluation's wait index or later; after a refusal, at the refresh index or
    /// later.
    pub state: &'a State,
    /// The evaluation.
    pub eval: &'a Evaluation,
    /// The latest of the worker's clock, the snapshot's time and the evaluation's `wait_until` (`docs/architecture/evaluations.md`).
    pub now: Timestamp,
    /// Number of attempts without progress since the last attempt that made progress (`docs/rules/scheduling.md`,
    /// When it reaches the limit of the job's type, the proposal is an empty plan with a failed outcome, and a
    /// blocked evaluation for what could not be placed. Attempts that were refused as stale do not count.
    pub attempts_without_progress: u8,
    /// Whether deployments are supported, that is, whether a deployment watcher moves them on; true in every running
    /// system. Otherwise update blocks are ignored: no deployment is created, because nothing would end it, and all
    /// allocations that have to be replaced are replaced at once.
    pub rollouts: bool,
    /// Whether to record metrics for every placement. Otherwise metrics are recorded for every placement only in small
    /// groups and dry runs; in other groups all placements share the metrics of one.
    pub explain: bool,
}

/// Source of new ids: sixteen bytes each, all different.
pub type NewId<'a> = &'a mut dyn FnMut() -> [u8; 16];

/// The scheduler's proposal for an evaluation. Plan and outcome are submitted as one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Changes to the cluster; may be empty.
    pub plan: Plan,
    /// The evaluation's new status if the plan is committed in full, and the evaluations to create.
    pub outcome: Outcome,
}

/// The first bound of a constraint with the operator `version`, such as `>= 1.2, < 2`, that is malformed.
pub fn malformed_version(bounds: &str) -> Option<&str> {
    feasible::Bounds::malformed(bounds, feasible::Rules::Version)
}

/// The first bound of a constraint with the operator `semver` that is malformed.
pub fn malformed_semver(bounds: &str) -> Option<&str> {
    feasible::Bounds::malformed(bounds, feasible::Rules::Semver)
}

/// Whether a node satisfies constraints that are not those of a job, such as those of a host volume
/// (`docs/rules/http-api.md` §22). What constrains placements against each other counts as satisfied.
pub fn meets(constraints: &[Constraint], node: NodeRef<'_>) -> bool {
    constraints.iter().all(|constraint| feasible::Condition::of_constraint(constraint).holds_on(node))
}

/// Computes the changes that bring the evaluation's job to its desired state.
///
/// The same attempt with the same ids always gives the same proposal. A trigger that the scheduler does not accept is
/// not an error: the outcome is `failed`. The outcome is also `failed` if the job needs a feature that is not
/// implemented; the status description names the feature.
pub fn schedule(attempt: &Attempt<'_>, new_id: NewId<'_>) -> Proposal {
    if !accepts(attempt.eval.kind, &attempt.eval.trigger) {
        return outcome::unknown_trigger(attempt);
    }
    // The evaluation of a deregistered job has type `service` whatever the job's type is. If the job was
    // registered again since, its current type applies.
    let job = attempt.state.job(&attempt.eval.job).filter(|job| !job.spec.stop);
    let kind = job.map_or(attempt.eval.kind, |job| job.spec.kind);
    match kind {
        JobType::Service | JobType::Batch => generic::schedule(attempt, kind, new_id),
        JobType::System | JobType::SysBatch => system::schedule(attempt, kind, new_id),
    }
}

/// Whether the scheduler of a type accepts evaluations with a trigger.
fn accepts(kind: JobType, trigger: &EvalTrigger) -> bool {
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
