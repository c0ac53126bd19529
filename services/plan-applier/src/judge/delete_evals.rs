//! Deletes evaluations at a user's request, whatever the state of their jobs. This is permitted only while the broker is
//! paused (http-api §15, R-11.8).

use std::collections::BTreeSet;

use model::JobKey;
use model::change::Change;
use wire::command::{DeleteEvals, Done, EVALS_DELETED_MAX, Handler};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// Evaluations that do not exist any more are skipped.
impl Handler<DeleteEvals> for Work<'_> {
    fn handle(&mut self, command: DeleteEvals) -> Result<Done, Refusal> {
        let DeleteEvals { mut ids } = command;
        if ids.len() > EVALS_DELETED_MAX {
            let message = format!(
                "{} evaluations are more than the {EVALS_DELETED_MAX} that may go at once",
                ids.len()
            );
            return Err(refusal(RefusalKind::Invalid, message));
        }
        let is_paused = self.state().scheduler_config().is_some_and(|config| config.pause_eval_broker);
        if !is_paused {
            let message = "eval broker is enabled; eval broker must be paused to delete evals";
            return Err(refusal(RefusalKind::NotReady, message));
        }
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| self.state().eval(*id).is_some());
        if ids.is_empty() {
            return Ok(Done::default());
        }
        let evals = ids.iter().filter_map(|id| self.state().eval(*id));
        let jobs: BTreeSet<JobKey> = evals.map(|eval| eval.job.clone()).collect();
        for job in &jobs {
            self.touch_job(job);
        }
        self.apply(Change::EvalsDeleted(ids))?;
        Ok(Done::default())
    }
}
