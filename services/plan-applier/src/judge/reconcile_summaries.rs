//! Computes the summaries of jobs from scratch (N-25.8).

use model::JobKey;
use model::alloc::{ClientStatus, GroupSummaries, GroupSummary};
use model::change::ChildrenSummary;
use model::job::{Job, JobStatus};
use state::State;
use wire::command::{Done, Handler, RECONCILED_SUMMARIES_MAX, ReconcileSummaries};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

impl Handler<ReconcileSummaries> for Work<'_> {
    fn handle(&mut self, command: ReconcileSummaries) -> Result<Done, Refusal> {
        let count = command.jobs.len();
        if count > RECONCILED_SUMMARIES_MAX {
            let message = format!(
                "{count} jobs are more than the {RECONCILED_SUMMARIES_MAX} that may be reconciled at once"
            );
            return Err(refusal(RefusalKind::Invalid, message));
        }
        for key in &command.jobs {
            let Some(job) = self.state().job(key).cloned() else { continue };
            let (groups, children) = (groups(self.state(), &job), children(self.state(), &job));
            if let Some(touched) = self.touch_job(key) {
                touched.summary.groups = groups;
                touched.summary.children = children.or(touched.summary.children);
            }
        }
        // Nothing else changes, and totals are written at the end only if something has changed.
        self.write_jobs()?;
        Ok(Done::default())
    }
}

/// The counts of a job's groups, from the allocations of its current incarnation that exist. How many allocations wait to
/// be placed only evaluations tell, which may be deleted, so these counts stay.
fn groups(state: &State, job: &Job) -> GroupSummaries {
    let key = job.key();
    let stored = state.job_summary(&key);
    let mut groups = GroupSummaries::default();
    for group in job.spec.task_groups.iter() {
        let queued = stored.and_then(|stored| stored.groups.get(&group.name)).map_or(0, |group| group.queued);
        groups.insert(group.name.clone(), GroupSummary { queued, ..GroupSummary::default() });
    }
    let allocs = state.allocs_of_job(&key);
    for alloc in allocs.filter(|alloc| alloc.common().job.create_index == job.create_index) {
        let group = groups.entry(alloc.group_name().clone()).or_default();
        let counter = match alloc.client_status() {
            ClientStatus::Pending => &mut group.starting,
            ClientStatus::Running => &mut group.running,
            ClientStatus::Complete => &mut group.complete,
            ClientStatus::Failed => &mut group.failed,
            ClientStatus::Lost => &mut group.lost,
            ClientStatus::Unknown => &mut group.unknown,
        };
        *counter = counter.saturating_add(1);
    }
    groups
}

/// The counts of a periodic or parameterized job's children that exist; `None` for other jobs.
fn children(state: &State, job: &Job) -> Option<ChildrenSummary> {
    job.spec.template()?;
    let prefix = format!("{}/", job.spec.id);
    let first = JobKey::new(&*job.spec.namespace, &*prefix);
    let of_prefix = state
        .jobs_in(first..)
        .take_while(|child| child.spec.namespace == job.spec.namespace && child.spec.id.starts_with(&prefix));
    // What is launched or released next follows from the rest of the summary, so it stays.
    let stored = state.job_summary(&job.key()).and_then(|stored| stored.children).unwrap_or_default();
    let mut counts = ChildrenSummary { pending: 0, running: 0, dead: 0, ..stored };
    for child in of_prefix.filter(|child| child.spec.parent_id == job.spec.id) {
        match child.status {
            JobStatus::Pending => counts.pending += 1,
            JobStatus::Running => counts.running += 1,
            JobStatus::Dead => counts.dead += 1,
        }
    }
    Some(counts)
}
