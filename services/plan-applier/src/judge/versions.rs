//! Versions of jobs: writing new ones and deleting old ones (N-20).

use std::sync::Arc;

use model::change::Change;
use model::job::{Job, JobSpec};
use model::text::quoted;
use model::{Index, JobKey, JobVersionKey, Text};
use state::State;
use wire::{Refusal, RefusalKind};

use super::jobs;
use super::submissions::NewSource;
use super::work::{Work, refusal};

impl Work<'_> {
    /// Writes a job's first or next version.
    pub(super) fn write_version(&mut self, spec: Arc<JobSpec>, source: NewSource) -> Result<(), Refusal> {
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
        let surplus = surplus_versions(self.state(), &key, self.inputs().settings.versions_kept);
        if surplus.is_empty() { Ok(()) } else { self.apply(Change::JobVersionsDeleted(surplus)) }
    }
}

/// The versions of a job that exceed the limit: the oldest ones without a tag, except the newest stable one, and except
/// those that an allocation runs (N-20.2).
fn surplus_versions(state: &State, key: &JobKey, kept: usize) -> Vec<JobVersionKey> {
    let untagged = || state.job_versions(key).filter(|version| version.version_tag.is_none());
    let surplus = untagged().count().saturating_sub(kept);
    let newest_stable = state.job_versions(key).rev().find(|version| version.stable);
    let newest_stable = newest_stable.map(|version| version.version_key());
    let versions = untagged().map(|version| version.version_key());
    let oldest = versions.filter(|version| Some(version) != newest_stable.as_ref()).take(surplus);
    oldest.filter(|version| !state.is_version_in_use(version)).collect()
}

/// A version of a job in its current incarnation. `None` if there is no such job or version.
pub(super) fn version_of<'a>(state: &'a State, key: &JobKey, version: u64) -> Option<&'a Arc<Job>> {
    let current = state.job(key)?;
    state.job_version(&JobVersionKey { version, ..current.version_key() })
}

/// The refusal of a command about a version that does not exist.
pub(super) fn no_version(key: &JobKey, version: u64) -> Refusal {
    let (id, namespace) = (quoted(&key.id), quoted(&key.namespace));
    let message = format!("job {id} in namespace {namespace} at version {version} not found");
    refusal(RefusalKind::NotFound, message)
}

/// The index at which a job's specification changed last, for answers; 0 if the job does not exist.
pub(super) fn job_modify_index(state: &State, key: &JobKey) -> Index {
    state.job(key).map_or(Index::ZERO, |job| job.job_modify_index)
}
