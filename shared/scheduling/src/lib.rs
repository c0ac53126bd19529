//! The scheduler: what should become of a job, given a snapshot of the cluster. Data in, data out.
//!
//! Nothing here waits, writes, reads a clock or draws lots: moments and ids come from the caller, so that a snapshot
//! has exactly one plan. It proposes only; the plan applier decides what lands.
//!
//! The way of an attempt: `reconcile` says which allocations stay, stop and are missing; `feasible` which nodes will do;
//! `rank` how well; `place` chooses one after the other; `draft` and `outcome` write down the plan and what becomes of
//! the evaluation; `metrics` is what is told of it. `unbuilt` names what jobs may ask for and this form does not know.

mod draft;
mod feasible;
mod generic;
mod hash;
mod metrics;
mod outcome;
mod place;
mod rank;
mod reconcile;
#[cfg(test)]
mod scene;
mod unbuilt;

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

/// Why there is no proposal. The evaluation goes back to the broker, and this counts as a delivery. (An evaluation with a
/// trigger that no scheduler takes is no error: its outcome is `failed`, R-1.6. So is that of a job which asks for
/// something that is not built; its description names it.)
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No scheduler for jobs of this type is built yet.
    #[error("there is no {0} scheduler yet")]
    NotBuilt(JobType),
}

/// Works out what brings the evaluation's job to where it should be.
///
/// The same attempt with the same ids always gives the same proposal.
///
/// # Errors
/// [`Error::NotBuilt`] for jobs that run on every node.
pub fn schedule(attempt: &Attempt<'_>, new_id: NewId<'_>) -> Result<Proposal, Error> {
    // A job that is to stop comes here whatever its type is; one that was registered anew meanwhile does not.
    let wanted = attempt.state.job(&attempt.eval.job).filter(|job| !job.spec.stop);
    for kind in [attempt.eval.kind].into_iter().chain(wanted.map(|job| job.spec.kind)) {
        match kind {
            JobType::Service | JobType::Batch => {}
            JobType::System | JobType::SysBatch => return Err(Error::NotBuilt(kind)),
        }
    }
    if matches!(attempt.eval.trigger, EvalTrigger::Scheduled | EvalTrigger::Other(_)) {
        return Ok(outcome::unknown_trigger(attempt));
    }
    Ok(generic::schedule(attempt, new_id))
}

#[cfg(test)]
mod tests;
