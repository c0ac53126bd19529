//! What versions of a job were registered from: kept with the version that it came with, and taken over by those that
//! come without (N-27).

use std::sync::Arc;

use model::change::Change;
use model::job::{JobSource, JobSubmission};
use model::{Index, JobKey, JobVersionKey};
use state::State;
use wire::Refusal;

use super::versions::VERSIONS_KEPT;
use super::work::Work;

impl Work<'_> {
    /// Keeps the source of a version. What is kept of it already stays; one without takes over that of the version before
    /// it.
    pub(super) fn keep_source(
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
        let forgotten = surplus(self.state(), &version.job);
        if forgotten.is_empty() { Ok(()) } else { self.apply(Change::JobSubmissionsDeleted(forgotten)) }
    }
}

/// The versions whose sources are too many, the oldest first (N-27.2); later versions have higher indexes.
fn surplus(state: &State, job: &JobKey) -> Vec<JobVersionKey> {
    let surplus = state.job_submissions(job).count().saturating_sub(VERSIONS_KEPT);
    state.job_submissions(job).take(surplus).map(|submission| submission.version.clone()).collect()
}
