//! The sources that versions of jobs were registered from. A source is stored with its version (N-27). A version that was
//! registered without one gets a copy of the previous version's source; one that returns to an older version, the older
//! version's.

use std::sync::Arc;

use model::change::Change;
use model::job::{JobSource, JobSubmission};
use model::{Index, JobKey, JobVersionKey};
use state::State;
use wire::Refusal;

use super::work::Work;

/// Where the source of a new version comes from.
pub(super) enum NewSource {
    /// The version gets this source.
    Given(Arc<JobSource>),
    /// The version gets a copy of the source of the version before it.
    Previous,
    /// The version has no source.
    Absent,
}

impl NewSource {
    /// The source of an older version to which the job returns.
    pub(super) fn of_version(state: &State, version: &JobVersionKey) -> Self {
        state.job_submission(version).map_or(Self::Absent, |found| Self::Given(Arc::clone(&found.source)))
    }
}

impl Work<'_> {
    /// Stores the source of a version. An existing source is kept.
    pub(super) fn store_source(
        &mut self,
        version: &JobVersionKey,
        job_modify_index: Index,
        source: NewSource,
    ) -> Result<(), Refusal> {
        let state = self.state();
        if state.job_submission(version).is_some() {
            return Ok(());
        }
        match source {
            NewSource::Given(source) => {
                let version = version.clone();
                let submission = JobSubmission { version, job_modify_index, source, is_copy: false };
                self.apply(Change::JobSubmission(Box::new(submission)))?;
            }
            NewSource::Previous => {
                let before = version.version.checked_sub(1);
                let before = before.map(|before| JobVersionKey { version: before, ..version.clone() });
                let before = before.filter(|before| state.job_submission(before).is_some());
                let Some(from) = before else { return Ok(()) };
                self.apply(Change::JobSubmissionCopied { from, to: version.clone() })?;
            }
            NewSource::Absent => return Ok(()),
        }
        let surplus = surplus(self.state(), &version.job, self.inputs().settings.versions_kept);
        if surplus.is_empty() { Ok(()) } else { self.apply(Change::JobSubmissionsDeleted(surplus)) }
    }
}

/// The versions whose sources exceed the limit, the oldest first (N-27.2). Later versions have higher indexes.
fn surplus(state: &State, job: &JobKey, kept: usize) -> Vec<JobVersionKey> {
    let surplus = state.job_submissions(job).count().saturating_sub(kept);
    state.job_submissions(job).take(surplus).map(|submission| submission.version.clone()).collect()
}
