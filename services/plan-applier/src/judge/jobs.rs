//! Consequences of any change to a job: its summary and its status (N-25).

use std::sync::Arc;

use model::alloc::{ClientStatus, GroupSummary};
use model::change::{Change, JobFields, JobSummary};
use model::job::{Job, JobStatus, JobType};
use model::{JobKey, JobVersionKey, Text};
use state::State;
use wire::Refusal;

use super::work::Work;

impl Work<'_> {
    /// The summary of a group in the current incarnation of the job. Allocations of older incarnations are not counted
    /// (N-25.6).
    fn group_summary(&mut self, version: &JobVersionKey, group: &Text) -> Option<&mut GroupSummary> {
        let touched = self.touch_job(&version.job)?;
        if touched.create_index != version.create_index {
            return None;
        }
        touched.summary.groups.get_mut(group)
    }

    /// Counts new allocations of a group (N-25.4).
    pub(super) fn count_starting(&mut self, version: &JobVersionKey, group: &Text, count: u32) {
        if let Some(summary) = self.group_summary(version, group) {
            summary.starting += count;
            summary.queued = summary.queued.saturating_sub(count);
        }
    }

    /// Counts allocations of a group whose client status changes. The counts of failed and complete ones only grow
    /// (N-25.4).
    pub(super) fn count_status_change(
        &mut self,
        version: &JobVersionKey,
        group: &Text,
        [before, after]: [ClientStatus; 2],
        count: u32,
    ) {
        if before == after {
            return;
        }
        let Some(summary) = self.group_summary(version, group) else { return };
        if !matches!(before, ClientStatus::Complete | ClientStatus::Failed) {
            let counter = counter(summary, before);
            *counter = counter.saturating_sub(count);
        }
        *counter(summary, after) += count;
    }

    /// Sets how many allocations of each group an evaluation left unplaced.
    pub(super) fn count_queued<'q>(
        &mut self,
        job: &JobKey,
        queued: impl IntoIterator<Item = (&'q Text, &'q u32)>,
    ) {
        let Some(touched) = self.touch_job(job) else { return };
        for (group, queued) in queued {
            if let Some(summary) = touched.summary.groups.get_mut(group) {
                summary.queued = *queued;
            }
        }
    }

    /// Writes summaries and statuses that have changed.
    pub(super) fn write_jobs(&mut self) -> Result<(), Refusal> {
        for (key, touched) in std::mem::take(&mut self.jobs) {
            let Some(job) = self.state().job(&key).cloned() else { continue };
            let stored = self.state().job_summary(&key);
            if stored.is_none_or(|stored| **stored != touched.summary) {
                // Events that have not changed are not repeated.
                let known = stored.and_then(|stored| stored.scaling_events.clone());
                let scaling_events = touched
                    .summary
                    .scaling_events
                    .clone()
                    .filter(|_| known != touched.summary.scaling_events);
                let summary = JobSummary { modify_index: self.index(), scaling_events, ..touched.summary };
                self.apply(Change::JobSummary(Arc::new(summary)))?;
            }
            let status = status(self.state(), &job);
            if status != job.status {
                self.apply(Change::JobFields(JobFields { status, ..fields(&job) }))?;
            }
        }
        Ok(())
    }
}

fn counter(summary: &mut GroupSummary, status: ClientStatus) -> &mut u32 {
    match status {
        ClientStatus::Pending => &mut summary.starting,
        ClientStatus::Running => &mut summary.running,
        ClientStatus::Complete => &mut summary.complete,
        ClientStatus::Failed => &mut summary.failed,
        ClientStatus::Lost => &mut summary.lost,
        ClientStatus::Unknown => &mut summary.unknown,
    }
}

/// The fields of a version that are not part of its specification.
pub(super) fn fields(job: &Job) -> JobFields {
    JobFields {
        key: job.version_key(),
        status: job.status,
        status_description: Text::clone(&job.status_description),
        stable: job.stable,
        version_tag: job.version_tag.clone(),
    }
}

/// The status of a job according to its allocations, evaluations and deployments (N-25.1). A dead job stays dead, even
/// after its evaluations are deleted, until it has a live allocation, evaluation or deployment.
pub(super) fn status(state: &State, job: &Job) -> JobStatus {
    let key = job.key();
    if job.spec.kind == JobType::System || job.spec.template().is_some() {
        return if job.spec.stop { JobStatus::Dead } else { JobStatus::Running };
    }
    let is_rolling_out = || state.deployments_of_job(&key).any(|deployment| !deployment.status.is_terminal());
    if state.live_alloc_count(&key) > 0 || is_rolling_out() {
        return JobStatus::Running;
    }
    if state.live_evals_of_job(&key).next().is_some() {
        return JobStatus::Pending;
    }
    let is_over = job.spec.stop || job.status == JobStatus::Dead || state.evals_of_job(&key).next().is_some();
    if is_over { JobStatus::Dead } else { JobStatus::Pending }
}
