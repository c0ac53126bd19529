//! Consequences of any change to a job: its summary, its status, and its parent's counts of children (N-25).

use std::ops::Bound;
use std::sync::Arc;

use model::alloc::{ClientStatus, GroupSummary};
use model::change::{Change, ChildrenSummary, JobFields, JobSummary};
use model::job::{Job, JobSpec, JobStatus, JobType};
use model::{JobKey, JobVersionKey, Text};
use state::State;
use wire::Refusal;

use super::work::{TouchedJob, Work};

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

    /// Counts a child in the summary of its parent: a new one, or one whose status changes (N-25.7). Nothing is counted for
    /// other jobs, and for a parent that is gone.
    pub(super) fn count_child(&mut self, child: &JobSpec, before: Option<JobStatus>, after: JobStatus) {
        if child.parent_id.is_empty() || before == Some(after) {
            return;
        }
        let parent = JobKey { namespace: Text::clone(&child.namespace), id: Text::clone(&child.parent_id) };
        if after == JobStatus::Dead {
            self.parents.insert(parent.clone());
        }
        let Some(touched) = self.touch_job(&parent) else { return };
        let children = touched.summary.children.get_or_insert_default();
        if let Some(before) = before {
            let counter = child_counter(children, before);
            *counter = counter.saturating_sub(1);
        }
        let counter = child_counter(children, after);
        *counter = counter.saturating_add(1);
    }

    /// Writes summaries and statuses that have changed: those of children first, because parents count them. In the order of
    /// keys, a child comes after its parent.
    pub(super) fn write_jobs(&mut self) -> Result<(), Refusal> {
        let mut end = None;
        while let Some(key) = self.last_child_before(end.as_ref()) {
            if let Some(touched) = self.jobs.remove(&key) {
                self.write_job(&key, touched)?;
            }
            end = Some(key);
        }
        for (key, touched) in std::mem::take(&mut self.jobs) {
            self.write_job(&key, touched)?;
        }
        Ok(())
    }

    /// The last touched job before a key that is a child.
    fn last_child_before(&self, end: Option<&JobKey>) -> Option<JobKey> {
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let before: (Bound<&JobKey>, Bound<&JobKey>) = (Bound::Unbounded, end);
        let is_child = |key: &JobKey| self.state().job(key).is_some_and(|job| !job.spec.parent_id.is_empty());
        let touched = self.jobs.range::<JobKey, _>(before).rev();
        touched.map(|(key, _)| key).find(|key| is_child(key)).cloned()
    }

    fn write_job(&mut self, key: &JobKey, touched: TouchedJob) -> Result<(), Refusal> {
        let Some(job) = self.state().job(key).cloned() else { return Ok(()) };
        let stored = self.state().job_summary(key);
        if stored.is_none_or(|stored| **stored != touched.summary) {
            // Events that have not changed are not repeated.
            let known = stored.and_then(|stored| stored.scaling_events.clone());
            let scaling_events =
                touched.summary.scaling_events.clone().filter(|_| known != touched.summary.scaling_events);
            let summary = JobSummary { modify_index: self.index(), scaling_events, ..touched.summary };
            self.apply(Change::JobSummary(Arc::new(summary)))?;
        }
        let status = status(self.state(), &job);
        if status != job.status {
            self.apply(Change::JobFields(JobFields { status, ..fields(&job) }))?;
            self.count_child(&job.spec, Some(job.status), status);
        }
        Ok(())
    }
}

fn child_counter(children: &mut ChildrenSummary, status: JobStatus) -> &mut u64 {
    match status {
        JobStatus::Pending => &mut children.pending,
        JobStatus::Running => &mut children.running,
        JobStatus::Dead => &mut children.dead,
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
