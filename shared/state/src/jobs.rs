//! [`JobTable`]: the versions, sources and summaries of jobs. A version is kept as long as anything refers to it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use model::change::{JobFields, JobSummary};
use model::job::{Job, JobSubmission, JobType};
use model::{Index, JobKey, JobVersionKey};

use crate::btree::BTree;
use crate::error::Inconsistent;

#[derive(Debug, Clone, Default)]
pub(crate) struct JobTable {
    current: BTree<JobKey, Arc<Job>>,
    versions: BTree<JobVersionKey, Arc<Job>>,
    /// The sources of versions. Not every version has one, and a source may outlive its version for a short time.
    submissions: BTree<JobVersionKey, Arc<JobSubmission>>,
    summaries: BTree<JobKey, Arc<JobSummary>>,
    /// The last index at which a scheduler's plan for the job was accepted.
    plan_indexes: BTree<JobKey, Index>,
    /// Jobs of type system that are not stopped. A change of any node concerns them (N-5.2).
    system: BTree<JobKey, ()>,
    /// The current jobs by the index of their last change; `None` if lists are out of scope.
    by_change: Option<BTree<(Index, JobKey), ()>>,
}

impl JobTable {
    /// Creates an empty table.
    pub(crate) fn new(with_lists: bool) -> Self {
        Self { by_change: with_lists.then(BTree::new), ..Self::default() }
    }

    pub(crate) fn current(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.current.get(key)
    }

    pub(crate) fn version(&self, key: &JobVersionKey) -> Option<&Arc<Job>> {
        self.versions.get(key)
    }

    /// The versions of a job, oldest incarnation and version first.
    pub(crate) fn versions<'a>(
        &'a self,
        key: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Job>> + use<'a> {
        self.versions.range(all_versions(key)).map(|(_, job)| job)
    }

    pub(crate) fn submission(&self, key: &JobVersionKey) -> Option<&Arc<JobSubmission>> {
        self.submissions.get(key)
    }

    /// The sources of the versions of a job, oldest incarnation and version first.
    pub(crate) fn submissions<'a>(
        &'a self,
        key: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<JobSubmission>> + use<'a> {
        self.submissions.range(all_versions(key)).map(|(_, submission)| submission)
    }

    /// The current jobs by namespace and id.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.current.values()
    }

    /// The current jobs with keys in `range`.
    pub(crate) fn range(
        &self,
        range: impl std::ops::RangeBounds<JobKey>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.current.range(range).map(|(_, job)| job)
    }

    /// The current jobs, ordered by the index of their last change.
    pub(crate) fn by_change(
        &self,
        range: impl std::ops::RangeBounds<(Index, JobKey)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        let keys = self.by_change.iter().flat_map(move |by_change| {
            by_change.range((range.start_bound(), range.end_bound())).map(|((_, key), ())| key)
        });
        keys.filter_map(|key| self.current.get(key))
    }

    /// The current jobs of type system that are not stopped.
    pub(crate) fn system(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.system.keys().filter_map(|key| self.current.get(key))
    }

    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    pub(crate) fn summary(&self, key: &JobKey) -> Option<&Arc<JobSummary>> {
        self.summaries.get(key)
    }

    pub(crate) fn plan_index(&self, key: &JobKey) -> Index {
        self.plan_indexes.get(key).copied().unwrap_or_default()
    }

    /// Records the index of an accepted plan. Nothing is recorded for a deleted job: its evaluations have finished, and for
    /// that reason late plans are refused.
    pub(crate) fn set_plan_index(&mut self, key: &JobKey, index: Index) {
        if self.current.contains_key(key) {
            self.plan_indexes.insert(key.clone(), index);
        }
    }

    pub(crate) fn upsert(&mut self, job: Arc<Job>) {
        let key = job.version_key();
        let is_current = self.current.get(&key.job).is_none_or(|current| current.version_key() <= key);
        if is_current {
            let before = self.current.insert(key.job.clone(), Arc::clone(&job));
            self.update_by_change(&key.job, before.map(|before| before.modify_index), job.modify_index);
            if job.spec.kind == JobType::System && !job.spec.stop {
                self.system.insert(key.job.clone(), ());
            } else {
                self.system.remove(&key.job);
            }
        }
        self.versions.insert(key, job);
    }

    pub(crate) fn set_fields(&mut self, fields: &JobFields, index: Index) -> Result<(), Inconsistent> {
        let missing = || Inconsistent::NoJobVersion(Box::new(fields.key.clone()));
        let version = self.versions.get_mut(&fields.key).ok_or_else(missing)?;
        let job = Job {
            status: fields.status,
            status_description: fields.status_description.clone(),
            stable: fields.stable,
            version_tag: fields.version_tag.clone(),
            modify_index: index,
            ..Job::clone(version)
        };
        let job = Arc::new(job);
        *version = Arc::clone(&job);
        if let Some(current) = self.current.get_mut(&fields.key.job)
            && current.version_key() == fields.key
        {
            let before = std::mem::replace(current, job).modify_index;
            self.update_by_change(&fields.key.job, Some(before), index);
        }
        Ok(())
    }

    /// Moves a job in the list by last change from index `before` to `index`.
    fn update_by_change(&mut self, key: &JobKey, before: Option<Index>, index: Index) {
        let Some(by_change) = &mut self.by_change else { return };
        if let Some(before) = before {
            by_change.remove(&(before, key.clone()));
        }
        by_change.insert((index, key.clone()), ());
    }

    pub(crate) fn delete(&mut self, key: &JobKey) {
        let versions: Vec<_> = self.versions(key).map(|job| job.version_key()).collect();
        self.delete_versions(&versions);
        let submissions: Vec<_> = self.submissions(key).map(|one| one.version.clone()).collect();
        self.delete_submissions(&submissions);
        if let Some(job) = self.current.remove(key)
            && let Some(by_change) = &mut self.by_change
        {
            by_change.remove(&(job.modify_index, key.clone()));
        }
        self.summaries.remove(key);
        self.plan_indexes.remove(key);
        self.system.remove(key);
    }

    pub(crate) fn delete_versions(&mut self, keys: &[JobVersionKey]) {
        for key in keys {
            self.versions.remove(key);
        }
    }

    /// Stores the source of a version. If it equals the source of another version of the job, the two share memory. Most
    /// versions have the source of the previous one, also if they were loaded separately.
    pub(crate) fn set_submission(&mut self, mut submission: JobSubmission) {
        let equal = self.submissions(&submission.version.job).find(|one| one.source == submission.source);
        if let Some(equal) = equal {
            submission.source = Arc::clone(&equal.source);
        }
        self.submissions.insert(submission.version.clone(), Arc::new(submission));
    }

    pub(crate) fn copy_submission(&mut self, from: &JobVersionKey, to: &JobVersionKey, index: Index) {
        let Some(submission) = self.submissions.get(from) else { return };
        let source = Arc::clone(&submission.source);
        let copy = JobSubmission { version: to.clone(), job_modify_index: index, source, is_copy: true };
        self.submissions.insert(to.clone(), Arc::new(copy));
    }

    pub(crate) fn delete_submissions(&mut self, keys: &[JobVersionKey]) {
        for key in keys {
            self.submissions.remove(key);
        }
    }

    /// Stores a summary. One without scaling events leaves those of the stored one as they are.
    pub(crate) fn set_summary(&mut self, mut summary: Arc<JobSummary>) {
        let stored = self.summaries.get(&summary.job);
        if summary.scaling_events.is_none()
            && let Some(events) = stored.and_then(|stored| stored.scaling_events.clone())
        {
            Arc::make_mut(&mut summary).scaling_events = Some(events);
        }
        self.summaries.insert(summary.job.clone(), summary);
    }
}

/// The keys of all versions of all incarnations of a job.
fn all_versions(key: &JobKey) -> RangeInclusive<JobVersionKey> {
    let bound = |index, version| JobVersionKey { job: key.clone(), create_index: Index(index), version };
    bound(0, 0)..=bound(u64::MAX, u64::MAX)
}
