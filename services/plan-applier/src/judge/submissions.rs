//! The sources that versions of jobs were registered from. A source is stored with its version; a version without one gets
//! a copy of the previous version's source (N-27).

use std::sync::Arc;

use model::change::Change;
use model::job::{JobSource, JobSubmission};
use model::{Index, JobKey, JobVersionKey};
use state::State;
use wire::Refusal;

use super::versions::VERSIONS_KEPT;
use super::work::Work;

impl Work<'_> {
    /// Stores the source of a version. An existing source is kept. A version without a source gets a copy of the source of
    /// the version before it.
    pub(super) fn store_source(
        &mut self,
        version: &JobVersionKey,
        job_modify_index: Index,
        source: Option<Arc<JobSource>>,
    ) -> Result<(), Refusal> {
        let state = self.state();
        if state.job_submission(version).is_some() {
            return Ok(());
        }
        let before = version.version.checked_sub(1);
        let before = before.map(|before| JobVersionKey { version: before, ..version.clone() });
        let before = before.filter(|before| state.job_submission(before).is_some());
        match (source, before) {
            (Some(source), _) => {
                let version = version.clone();
                let submission = JobSubmission { version, job_modify_index, source, is_copy: false };
                self.apply(Change::JobSubmission(Box::new(submission)))?;
            }
            (None, Some(from)) => {
                self.apply(Change::JobSubmissionCopied { from, to: version.clone() })?;
            }
            (None, None) => return Ok(()),
        }
        let surplus = surplus(self.state(), &version.job);
        if surplus.is_empty() { Ok(()) } else { self.apply(Change::JobSubmissionsDeleted(surplus)) }
    }
}

/// The versions whose sources exceed the limit, the oldest first (N-27.2). Later versions have higher indexes.
fn surplus(state: &State, job: &JobKey) -> Vec<JobVersionKey> {
    let surplus = state.job_submissions(job).count().saturating_sub(VERSIONS_KEPT);
    state.job_submissions(job).take(surplus).map(|submission| submission.version.clone()).collect()
}
