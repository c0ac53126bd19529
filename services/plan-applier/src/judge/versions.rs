//! Versions of jobs: writing new ones and deleting old ones (N-20).

use std::sync::Arc;

use model::change::Change;
use model::job::{Job, JobSource, JobSpec};
use model::{Index, JobKey, JobVersionKey, Text};
use state::State;
use wire::Refusal;

use super::jobs;
use super::work::Work;

/// How many versions without a tag are kept of a job, and how many sources (`job_tracked_versions`).
pub(super) const VERSIONS_KEPT: usize = 6;

impl Work<'_> {
    /// Writes a job's first or next version. A version without a source gets a copy of the previous one's.
    pub(super) fn write_version(
        &mut self,
        spec: Arc<JobSpec>,
        source: Option<Arc<JobSource>>,
    ) -> Result<(), Refusal> {
        let key = spec.key();
        let current = self.state().job(&key).cloned();
        let mut job = Job::next_version(current.as_deref(), spec, self.index(), self.at());
        // The status before this command. The effects of this command on the status are computed at the end.
        job.status = jobs::status(self.state(), &job);
        let groups: Vec<Text> = job.spec.task_groups.iter().map(|group| Text::clone(&group.name)).collect();
        let version = job.version_key();
        self.apply(Change::Job(Arc::new(job)))?;
        self.store_source(&version, self.index(), source)?;
        if let Some(touched) = self.touch_job(&key) {
            for group in groups {
                touched.summary.groups.entry(group).or_default();
            }
        }
        let surplus = surplus_versions(self.state(), &key);
        if surplus.is_empty() { Ok(()) } else { self.apply(Change::JobVersionsDeleted(surplus)) }
    }
}

/// The versions of a job that exceed the limit: the oldest ones without a tag, except the newest stable one, and except
/// those that an allocation runs (N-20.2).
fn surplus_versions(state: &State, key: &JobKey) -> Vec<JobVersionKey> {
    let untagged = || state.job_versions(key).filter(|version| version.version_tag.is_none());
    let surplus = untagged().count().saturating_sub(VERSIONS_KEPT);
    let newest_stable = state.job_versions(key).rev().find(|version| version.stable);
    let newest_stable = newest_stable.map(|version| version.version_key());
    let versions = untagged().map(|version| version.version_key());
    let oldest = versions.filter(|version| Some(version) != newest_stable.as_ref()).take(surplus);
    oldest.filter(|version| !state.is_version_in_use(version)).collect()
}

/// The index at which a job's specification changed last, for answers; 0 if the job does not exist.
pub(super) fn job_modify_index(state: &State, key: &JobKey) -> Index {
    state.job(key).map_or(Index::ZERO, |job| job.job_modify_index)
}
