//! Applies a scheduler's plan and the outcome of its evaluation (`docs/architecture/evaluations.md`, R-3.14 and following).
//!
//! Every attempt is judged by the snapshot that it was made from. This file decides which attempts count at all; `verify`
//! decides which nodes can take what is planned for them; `accepted` computes the accepted part of a plan; `outcome` writes
//! the evaluations that follow.

mod accepted;
mod outcome;
mod special;
mod verify;

use std::sync::Arc;

use model::change::Change;
use model::eval::Evaluation;
use model::plan::{Plan, Update};
use model::{Index, JobVersionKey, NodeId};
use planted_bugs::{Bug, is_planted};
use state::{State, Table};
use wire::broker::SCHEDULER_VERSION;
use wire::command::{Done, Handler, PlanResult, PlanVerdict, REJECTED_NODES_MAX, SubmitPlan};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

use accepted::AcceptedPlan;

impl Handler<SubmitPlan> for Work<'_> {
    fn handle(&mut self, command: SubmitPlan) -> Result<Done, Refusal> {
        let SubmitPlan { mut plan, outcome, scheduler_version } = command;
        if scheduler_version != SCHEDULER_VERSION {
            let message = format!(
                "plan disallowed: calling scheduler version is {scheduler_version}; applier version is {SCHEDULER_VERSION}"
            );
            return Err(refusal(RefusalKind::Outdated, message));
        }
        let eval = admit(self.state(), &plan)?;
        outcome::check(self.state(), &outcome, &eval)?;
        if let Some(refresh_index) = refresh_index(self.state(), &plan, &eval) {
            return Ok(answer(PlanVerdict::Stale, refresh_index, Vec::new()));
        }
        if self.state().job(&eval.job).is_none_or(|job| job.spec.stop) {
            // The job was stopped after the snapshot (N-8.1). The stop has created an evaluation of its own.
            plan.placements.clear();
        }
        let (snapshot_index, all_at_once) = (plan.snapshot_index, plan.all_at_once);
        let is_late = snapshot_index < eval.modify_index && !is_planted(Bug::CompletesFromStaleSnapshot);
        let verified = verify::verify(self.state(), &eval.job, &plan);
        let fits = verified.rejected.is_empty();
        let accepted = AcceptedPlan::new(self, &eval.job, plan, &verified);
        if (!fits && all_at_once) || (accepted.is_empty() && (!fits || is_late)) {
            // An attempt that could not have finished its evaluation does not count.
            let verdict = if is_late { PlanVerdict::Stale } else { PlanVerdict::Nothing };
            let tables = [Table::Allocs, Table::Nodes].map(|table| self.state().table_index(table));
            let refresh_index = tables.into_iter().fold(snapshot_index.max(eval.modify_index), Index::max);
            return Ok(answer(verdict, refresh_index, verified.rejected));
        }
        self.touch_job(&eval.job);
        self.apply(Change::PlanApplied { job: eval.job.clone(), eval_id: eval.id })?;
        let followups = accepted.followups.clone();
        let preempted_jobs = accepted.write(self)?;
        outcome::evaluate_preempted_jobs(self, preempted_jobs)?;
        let is_part = (!fits && !is_planted(Bug::CompletesAfterPartialPlan)) || is_late;
        if is_part {
            outcome::write_followups(self, outcome, &followups, snapshot_index)?;
            return Ok(answer(PlanVerdict::Part, self.index(), verified.rejected));
        }
        outcome::write(self, &eval, outcome, snapshot_index)?;
        Ok(answer(PlanVerdict::Whole, Index::ZERO, Vec::new()))
    }
}

fn answer(verdict: PlanVerdict, refresh_index: Index, mut rejected_nodes: Vec<NodeId>) -> Done {
    rejected_nodes.truncate(REJECTED_NODES_MAX);
    Done { plan: Some(PlanResult { verdict, refresh_index, rejected_nodes }), ..Done::default() }
}

/// The evaluation of a plan. Refuses, permanently, a plan whose evaluation is terminal or deleted, and a plan that
/// contradicts itself.
fn admit(state: &State, plan: &Plan) -> Result<Arc<Evaluation>, Refusal> {
    let Some(eval) = state.eval(plan.eval_id) else {
        return Err(refusal(RefusalKind::NotFound, format!("evaluation {} does not exist", plan.eval_id)));
    };
    if eval.status.is_terminal() {
        let message = format!("evaluation {} is already {}", eval.id, eval.status);
        return Err(refusal(RefusalKind::Conflict, message));
    }
    if plan.snapshot_index > state.index() {
        let message = format!("snapshot {} is ahead of index {}", plan.snapshot_index, state.index());
        return Err(refusal(RefusalKind::Conflict, message));
    }
    if let Some(version) = &plan.job {
        let current = state.job(&eval.job).map(|job| job.create_index);
        if version.job == eval.job && current != Some(version.create_index) {
            let message = format!("job {version} has been purged");
            return Err(refusal(RefusalKind::Conflict, message));
        }
    }
    for placements in &plan.placements {
        placements.check().map_err(|error| refusal(RefusalKind::Invalid, error.to_string()))?;
    }
    let deployment = plan.deployment.iter().map(|deployment| &deployment.job);
    let is_foreign = |version: &&JobVersionKey| {
        version.job != eval.job || plan.job.as_ref().map(|job| job.create_index) != Some(version.create_index)
    };
    match plan.job.iter().chain(versions(plan)).chain(deployment).find(is_foreign) {
        Some(version) => {
            let message = format!("plan for job {} refers to job {version}", eval.job);
            Err(refusal(RefusalKind::Invalid, message))
        }
        None => Ok(Arc::clone(eval)),
    }
}

/// The versions in which a plan places allocations, or to which it updates them.
fn versions(plan: &Plan) -> impl Iterator<Item = &JobVersionKey> {
    let placed = plan.placements.iter().map(|placements| &placements.common.job);
    let moved = plan.updates.iter().filter_map(|updates| match &updates.change {
        Update::InPlace(common) => Some(&common.job),
        Update::Unknown { .. }
        | Update::Reconnect
        | Update::RescheduleLater { .. }
        | Update::RescheduleFailed => None,
    });
    placed.chain(moved)
}

/// The index that a snapshot for this job must have reached, if the plan's snapshot has not: since then, another attempt
/// was accepted, the job was registered, or a version that the plan refers to was deleted.
fn refresh_index(state: &State, plan: &Plan, eval: &Evaluation) -> Option<Index> {
    let job = state.job(&eval.job);
    let registered = job.filter(|_| plan.job.is_none()).map(|job| job.create_index);
    let is_deleted = versions(plan).any(|version| state.job_version(version).is_none());
    let deleted = job.filter(|_| is_deleted).map(|job| job.job_modify_index);
    let indexes = [Some(state.plan_index(&eval.job)), registered, deleted].into_iter().flatten();
    indexes.max().filter(|index| *index > plan.snapshot_index && !is_planted(Bug::AcceptsConcurrentPlans))
}
