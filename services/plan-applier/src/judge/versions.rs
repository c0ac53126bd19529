//! Versions of jobs: writing a new one, and forgetting old ones (N-20).

use std::sync::Arc;

use model::change::Change;
use model::job::{Job, JobSource, JobSpec, JobStatus};
use model::{Index, JobKey, JobVersionKey, Text};
use state::State;
use wire::Refusal;

use super::jobs;
use super::work::Work;

/// How many versions without a tag are kept of a job, and how many sources (`job_tracked_versions`).
pub(super) const VERSIONS_KEPT: usize = 6;

impl Work<'_> {
    /// Writes a job's first version, or its next one; one that comes without a source takes over what is kept.
    pub(super) fn write_version(
        &mut self,
        spec: Arc<JobSpec>,
        source: Option<Arc<JobSource>>,
    ) -> Result<(), Refusal> {
        let key = spec.key();
        let current = self.state().job(&key).cloned();
        let mut job = Job {
            spec,
            version: current.as_ref().map_or(0, |current| current.version + 1),
            status: current.as_ref().map_or(JobStatus::default(), |current| current.status),
            submit_time: self.at(),
            create_index: current.as_ref().map_or(self.index(), |current| current.create_index),
            modify_index: self.index(),
            job_modify_index: self.index(),
            ..Job::default()
        };
        // What has come of it so far; what this command adds to that is looked at in the end.
        job.status = jobs::status(self.state(), &job);
        let groups: Vec<Text> = job.spec.task_groups.iter().map(|group| Text::clone(&group.name)).collect();
        let version = job.version_key();
        self.apply(Change::Job(Arc::new(job)))?;
        self.keep_source(&version, self.index(), source)?;
        if let Some(touched) = self.touch_job(&key) {
            for group in groups {
                touched.summary.groups.entry(group).or_default();
            }
        }
        let forgotten = surplus_versions(self.state(), &key);
        if forgotten.is_empty() { Ok(()) } else { self.apply(Change::JobVersionsDeleted(forgotten)) }
    }
}

/// The versions of a job that are one too many: the oldest without a tag, but neither the newest stable one (N-20.2) nor
/// any that an allocation runs.
fn surplus_versions(state: &State, key: &JobKey) -> Vec<JobVersionKey> {
    let untagged = || state.job_versions(key).filter(|version| version.version_tag.is_none());
    let surplus = untagged().count().saturating_sub(VERSIONS_KEPT);
    let newest_stable = state.job_versions(key).rev().find(|version| version.stable);
    let newest_stable = newest_stable.map(|version| version.version_key());
    let versions = untagged().map(|version| version.version_key());
    let oldest = versions.filter(|version| Some(version) != newest_stable.as_ref()).take(surplus);
    oldest.filter(|version| !state.is_version_in_use(version)).collect()
}

/// The index at which a job's specification changed last, for answers; 0 where there is no such job.
pub(super) fn job_modify_index(state: &State, key: &JobKey) -> Index {
    state.job(key).map_or(Index::ZERO, |job| job.job_modify_index)
}
