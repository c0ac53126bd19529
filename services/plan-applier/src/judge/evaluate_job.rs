//! Evaluates a job again, optionally forcing failed allocations to be rescheduled whatever their policy (N-22.2).

use model::alloc::{ClientStatus, DesiredTransition};
use model::change::AllocsChanged;
use model::columns::AllocIds;
use model::eval::EvalTrigger;
use model::job::{Job, ReschedulePolicy};
use state::AllocRef;
use wire::command::{Done, EvaluateJob, Handler};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

impl Handler<EvaluateJob> for Work<'_> {
    fn handle(&mut self, command: EvaluateJob) -> Result<Done, Refusal> {
        let Some(job) = self.state().job(&command.job).cloned() else {
            return Err(refusal(RefusalKind::NotFound, "job not found"));
        };
        if let Some(template) = job.spec.template() {
            return Err(refusal(RefusalKind::Invalid, format!("can't evaluate {template} job")));
        }
        if command.force_reschedule {
            force_reschedules(self, &job)?;
        }
        self.create_eval(&command.job, job.spec.kind, job.spec.priority, EvalTrigger::JobRegister, |_| {})?;
        Ok(Done { object_index: job.job_modify_index, ..Done::default() })
    }
}

/// Marks the failed allocations that have no replacement.
fn force_reschedules(work: &mut Work<'_>, job: &Job) -> Result<(), Refusal> {
    let allocs = work.state().allocs_of_job(&job.key());
    let mut ids: Vec<_> = allocs.filter(|alloc| may_force(*alloc, job)).map(|alloc| alloc.id()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    ids.sort_unstable();
    work.change_allocs(AllocsChanged {
        ids: AllocIds(ids),
        by_servers: true,
        transition: Some(DesiredTransition { force_reschedule: Some(true), ..DesiredTransition::default() }),
        ..AllocsChanged::default()
    })
}

fn may_force(alloc: AllocRef<'_>, job: &Job) -> bool {
    let is_enabled = |policy: &ReschedulePolicy| policy.unlimited || policy.attempts > 0;
    alloc.common().job.create_index == job.create_index
        && alloc.client_status() == ClientStatus::Failed
        && alloc.extra().next.is_none()
        && alloc.transition().force_reschedule != Some(true)
        && job
            .spec
            .group(alloc.group_name())
            .is_some_and(|(_, group)| group.reschedule_policy.as_ref().is_some_and(is_enabled))
}
