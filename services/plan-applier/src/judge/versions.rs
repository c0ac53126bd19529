//! Versions of jobs: writing new ones and deleting old ones (N-20).

use std::sync::Arc;

use model::change::Change;
use model::job::{Job, JobSpec, JobStatus};
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
        let version = job.version_key();
        self.insert_version(current.as_deref(), job)?;
        self.store_source(&version, self.index(), source)?;
        let surplus = surplus_versions(self.state(), &key, self.inputs().settings.versions_kept);
        if surplus.is_empty() { Ok(()) } else { self.apply(Change::JobVersionsDeleted(surplus)) }
    }

    /// Writes the first version of a child. It has the number and the stability of its parent's version (N-23.4, N-24.6).
    pub(super) fn write_child(&mut self, parent: &Job, spec: Arc<JobSpec>) -> Result<(), Refusal> {
        let first = Job::next_version(None, spec, self.index(), self.at());
        self.insert_version(None, Job { version: parent.version, stable: parent.stable, ..first })
    }

    /// Adds a version in place of the current one, with counters for its groups, and counts it if it is a child.
    fn insert_version(&mut self, current: Option<&Job>, job: Job) -> Result<(), Refusal> {
        let (spec, status, key) = (Arc::clone(&job.spec), job.status, job.key());
        self.apply(Change::Job(Arc::new(job)))?;
        if let Some(touched) = self.touch_job(&key) {
            for group in &spec.task_groups {
                touched.summary.groups.entry(Text::clone(&group.name)).or_default();
            }
        }
        let (same, former) = match current {
            Some(current) if current.spec.parent_id == spec.parent_id => (Some(current.status), None),
            current => (None, current),
        };
        // A child that a user registers again is on its own.
        if let Some(former) = former {
            self.count_child(&former.spec, Some(former.status), JobStatus::Dead);
        }
        self.count_child(&spec, same, status);
        // The limit on running children may have changed.
        if spec.parameterized_job.is_some() && !spec.dispatched {
            self.parents.insert(key);
        }
        Ok(())
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
