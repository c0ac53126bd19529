//! A scheduler's plan, and what becomes of its evaluation (design §6, R-3.14 and following).
//!
//! Every attempt is judged by the snapshot that it was made from. Which attempts count at all is decided here, which
//! nodes can take what is planned for them in `verify`, what of a plan lands in `fields`, and which evaluations follow in
//! `outcome`.

mod fields;
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
use wire::command::{Done, PlanResult, PlanVerdict, REJECTED_NODES_MAX, SubmitPlan};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

use fields::Taken;

pub(super) fn submit_plan(work: &mut Work<'_>, command: SubmitPlan) -> Result<Done, Refusal> {
    let SubmitPlan { mut plan, outcome, scheduler_version } = command;
    if scheduler_version != SCHEDULER_VERSION {
        let message = format!(
            "plan disallowed: calling scheduler version is {scheduler_version}; applier version is {SCHEDULER_VERSION}"
        );
        return Err(refusal(RefusalKind::Outdated, message));
    }
    let eval = admit(work.state(), &plan)?;
    outcome::check(work.state(), &outcome, &eval)?;
    if let Some(refresh_index) = refresh_index(work.state(), &plan, &eval) {
        return Ok(answer(PlanVerdict::Stale, refresh_index, Vec::new()));
    }
    if work.state().job(&eval.job).is_none_or(|job| job.spec.stop) {
        // Stopped since (N-8.1). Whoever looks at that has an evaluation of its own.
        plan.placements.clear();
    }
    let (snapshot_index, all_at_once) = (plan.snapshot_index, plan.all_at_once);
    let is_late = snapshot_index < eval.modify_index && !is_planted(Bug::LetsOldSnapshotsFinish);
    let verified = verify::verify(work.state(), &eval.job, &plan);
    let fits = verified.rejected.is_empty();
    let taken = Taken::new(work, &eval.job, plan, &verified);
    if (!fits && all_at_once) || (taken.is_empty() && (!fits || is_late)) {
        // An attempt that could not have finished its evaluation does not count.
        let verdict = if is_late { PlanVerdict::Stale } else { PlanVerdict::Nothing };
        let tables = [Table::Allocs, Table::Nodes].map(|table| work.state().table_index(table));
        let refresh_index = tables.into_iter().fold(snapshot_index.max(eval.modify_index), Index::max);
        return Ok(answer(verdict, refresh_index, verified.rejected));
    }
    work.touch_job(&eval.job);
    work.apply(Change::PlanApplied { job: eval.job.clone(), eval_id: eval.id })?;
    let followups = taken.followups.clone();
    let victims = taken.write(work)?;
    outcome::evaluate_victims(work, victims)?;
    let is_part = (!fits && !is_planted(Bug::FinishesAfterAPart)) || is_late;
    if is_part {
        outcome::write_followups(work, outcome, &followups, snapshot_index)?;
        return Ok(answer(PlanVerdict::Part, work.index(), verified.rejected));
    }
    outcome::write(work, &eval, outcome, snapshot_index)?;
    Ok(answer(PlanVerdict::Whole, Index::ZERO, Vec::new()))
}

fn answer(verdict: PlanVerdict, refresh_index: Index, mut rejected_nodes: Vec<NodeId>) -> Done {
    rejected_nodes.truncate(REJECTED_NODES_MAX);
    Done { plan: Some(PlanResult { verdict, refresh_index, rejected_nodes }), ..Done::default() }
}

/// The evaluation that a plan is for. Refuses, for good, one that nobody waits for any more, and one that contradicts
/// itself.
fn admit(state: &State, plan: &Plan) -> Result<Arc<Evaluation>, Refusal> {
    let Some(eval) = state.eval(plan.eval_id) else {
        return Err(refusal(RefusalKind::NotFound, format!("evaluation {} does not exist", plan.eval_id)));
    };
    if eval.status.is_terminal() {
        let message = format!("evaluation {} is {} already", eval.id, eval.status);
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
            let message = format!("plan for job {} speaks of job {version}", eval.job);
            Err(refusal(RefusalKind::Invalid, message))
        }
        None => Ok(Arc::clone(eval)),
    }
}

/// The versions that allocations are placed in, or moved to.
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

/// The index that a snapshot for this job must have reached, if that of the plan has not: another attempt was taken
/// meanwhile, the job was registered, or a version that it speaks of was forgotten.
fn refresh_index(state: &State, plan: &Plan, eval: &Evaluation) -> Option<Index> {
    let job = state.job(&eval.job);
    let registered = job.filter(|_| plan.job.is_none()).map(|job| job.create_index);
    let forgotten = versions(plan).any(|version| state.job_version(version).is_none());
    let forgotten = job.filter(|_| forgotten).map(|job| job.job_modify_index);
    let indexes = [Some(state.plan_index(&eval.job)), registered, forgotten].into_iter().flatten();
    indexes.max().filter(|index| *index > plan.snapshot_index && !is_planted(Bug::TakesTwoPlansOfAJob))
}
