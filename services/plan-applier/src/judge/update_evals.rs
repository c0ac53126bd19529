//! Applies the broker's decisions about evaluations: failed, superseded, and followed up.

use std::collections::BTreeSet;

use model::change::{Change, EvalsChanged};
use model::cluster::Singleton;
use model::eval::Evaluation;
use model::{EvalId, Index, JobKey};
use state::State;
use wire::Refusal;
use wire::command::{Done, EvalUpdate, Handler, UpdateEvals};

use super::work::Work;

/// Evaluations that have become terminal, changed or been deleted since the decision are skipped, together with their
/// follow-ups.
impl Handler<UpdateEvals> for Work<'_> {
    fn handle(&mut self, command: UpdateEvals) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::EvalBroker, command.epoch)?;
        let mut skipped = BTreeSet::new();
        for update in command.updates {
            update_group(self, update, &mut skipped)?;
        }
        for eval in command.creates {
            if is_valid_create(self.state(), &eval, &skipped) {
                self.insert_eval(eval)?;
            }
        }
        if let Some(before) = command.forget_unblocked_before
            && self.state().unblocked().any(|(_, index)| index < before)
        {
            self.apply(Change::UnblockedForgotten(before))?;
        }
        Ok(Done::default())
    }
}

fn update_group(
    work: &mut Work<'_>,
    update: EvalUpdate,
    skipped: &mut BTreeSet<EvalId>,
) -> Result<(), Refusal> {
    let EvalUpdate { ids, status, description, next_eval, unless_changed_since } = update;
    let since = unless_changed_since.unwrap_or(Index(u64::MAX));
    let (ids, stale): (Vec<EvalId>, Vec<EvalId>) = ids.into_iter().partition(|id| {
        let eval = work.state().eval(*id);
        eval.is_some_and(|eval| !eval.status.is_terminal() && eval.modify_index <= since)
    });
    skipped.extend(stale);
    if ids.is_empty() {
        return Ok(());
    }
    let evals = ids.iter().filter_map(|id| work.state().eval(*id));
    let jobs: BTreeSet<JobKey> = evals.map(|eval| eval.job.clone()).collect();
    for job in jobs {
        work.touch_job(&job);
    }
    let status = Some((status, description));
    work.apply(Change::EvalsChanged(EvalsChanged { ids, status, next_eval }))
}

/// Whether a new evaluation has a job, and its predecessor was updated here.
fn is_valid_create(state: &State, eval: &Evaluation, skipped: &BTreeSet<EvalId>) -> bool {
    let follows = |previous| state.eval(previous).is_some() && !skipped.contains(&previous);
    state.job(&eval.job).is_some() && state.eval(eval.id).is_none() && eval.previous_eval.is_none_or(follows)
}
