//! Evaluations that follow from a plan: the outcome of its own evaluation, evaluations that the scheduler requested, and
//! those of jobs with preempted allocations.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::change::{Change, EvalsChanged};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::plan::Outcome;
use model::{EvalId, Index, JobKey, Timestamp};
use state::State;
use wire::{Refusal, RefusalKind};

use super::super::work::{Work, refusal};

/// Refuses an outcome that does not belong to this evaluation.
pub(super) fn check(state: &State, outcome: &Outcome, eval: &Evaluation) -> Result<(), Refusal> {
    let is_same = |other: &Evaluation| other.job == eval.job;
    let fault = if outcome.eval.id != eval.id || !is_same(&outcome.eval) {
        "outcome of another evaluation"
    } else if outcome.eval.status == EvalStatus::Pending {
        "outcome that leaves its evaluation pending"
    } else if !outcome.creates.iter().all(is_same) {
        "evaluation of another job"
    } else if outcome.creates.iter().any(|create| state.eval(create.id).is_some()) {
        "evaluation already exists"
    } else {
        return Ok(());
    };
    Err(refusal(RefusalKind::Invalid, fault))
}

/// Creates one evaluation for each existing job with preempted allocations.
pub(super) fn evaluate_preempted_jobs(work: &mut Work<'_>, jobs: BTreeSet<JobKey>) -> Result<(), Refusal> {
    for key in jobs {
        let Some(job) = work.state().job(&key).cloned() else { continue };
        work.create_eval(&key, job.spec.kind, job.spec.priority, EvalTrigger::Preemption, |_| {})?;
    }
    Ok(())
}

/// For a partly accepted plan, creates the follow-up evaluations that its allocations refer to (`docs/architecture/evaluations.md`).
pub(super) fn write_followups(
    work: &mut Work<'_>,
    outcome: Outcome,
    followups: &BTreeSet<EvalId>,
    snapshot_index: Index,
) -> Result<(), Refusal> {
    let mut creates = outcome.creates.into_iter().filter(|create| followups.contains(&create.id));
    creates.try_for_each(|create| work.insert_eval(Evaluation { snapshot_index, ..create }))
}

/// For a fully accepted plan, writes the outcome and the evaluations that the scheduler requested.
pub(super) fn write(
    work: &mut Work<'_>,
    eval: &Evaluation,
    outcome: Outcome,
    snapshot_index: Index,
) -> Result<(), Refusal> {
    let Outcome { eval: decided, creates } = outcome;
    if decided.status == EvalStatus::Complete && decided.failed_groups.is_empty() {
        cancel_blocked(work, eval, snapshot_index)?;
    }
    for create in creates {
        work.insert_eval(Evaluation { snapshot_index, ..create })?;
    }
    work.count_queued(&eval.job, &decided.queued);
    let decided = Evaluation {
        snapshot_index,
        next_eval: decided.next_eval.or(eval.next_eval),
        create_index: eval.create_index,
        create_time: eval.create_time,
        modify_index: work.index(),
        // The modify time is always after the create time.
        modify_time: work.at().max(Timestamp(eval.create_time.0.saturating_add(1))),
        trace: eval.trace,
        ..*decided
    };
    work.apply(Change::EvalOutcome(Arc::new(decided)))
}

/// Cancels the job's blocked evaluations, except those whose snapshot is newer than that of this attempt.
fn cancel_blocked(work: &mut Work<'_>, eval: &Evaluation, snapshot_index: Index) -> Result<(), Refusal> {
    let is_superseded = |other: &Evaluation| {
        other.status == EvalStatus::Blocked && other.id != eval.id && other.snapshot_index <= snapshot_index
    };
    let live = work.state().live_evals_of_job(&eval.job);
    let ids: Vec<EvalId> = live.filter(|other| is_superseded(other)).map(|other| other.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let status = Some((EvalStatus::Canceled, format!("evaluation \"{}\" successful", eval.id).into()));
    work.apply(Change::EvalsChanged(EvalsChanged { ids, status, next_eval: None }))
}
