//! Changes versions of jobs outside their specification: whether they are stable, and the names that users give to them
//! (N-20.3, N-20.4).

use std::sync::Arc;

use model::change::{Change, JobFields};
use model::job::{Job, JobVersionTag};
use model::text::quoted;
use model::{JobKey, Text};
use state::State;
use wire::command::{Done, Handler, SetJobStability, TagJobVersion, UntagJobVersion};
use wire::{Refusal, RefusalKind};

use super::jobs::fields;
use super::versions::{no_version, version_of};
use super::work::{Work, refusal};

impl Handler<SetJobStability> for Work<'_> {
    fn handle(&mut self, command: SetJobStability) -> Result<Done, Refusal> {
        let SetJobStability { job, version, stable } = command;
        let Some(found) = version_of(self.state(), &job, version) else {
            return Err(no_version(&job, version));
        };
        if found.stable != stable {
            let fields = JobFields { stable, ..fields(found) };
            self.apply(Change::JobFields(fields))?;
        }
        Ok(Done::default())
    }
}

/// A version has one name at most. The same name again changes its description.
impl Handler<TagJobVersion> for Work<'_> {
    fn handle(&mut self, command: TagJobVersion) -> Result<Done, Refusal> {
        let TagJobVersion { job, version, name, description, at } = command;
        let state = self.state();
        let current = state.job(&job).map(|current| current.version);
        let version = version.or(current).unwrap_or_default();
        if tagged(state, &job, &name).is_some_and(|found| found.version != version) {
            let (name, id) = (quoted(&name), quoted(&job.id));
            let message = format!("tag {name} already exists on a different version of job {id}");
            return Err(refusal(RefusalKind::Conflict, message));
        }
        let Some(found) = version_of(state, &job, version) else {
            let message = format!("job {} version {version} not found", quoted(&job.id));
            return Err(refusal(RefusalKind::NotFound, message));
        };
        let version_tag = Some(JobVersionTag { name, description, tagged_time: at });
        let fields = JobFields { version_tag, ..fields(found) };
        self.apply(Change::JobFields(fields))?;
        Ok(Done::default())
    }
}

impl Handler<UntagJobVersion> for Work<'_> {
    fn handle(&mut self, command: UntagJobVersion) -> Result<Done, Refusal> {
        let UntagJobVersion { job, name } = command;
        let Some(found) = tagged(self.state(), &job, &name) else {
            let message = format!("tag {} not found on job {}", quoted(&name), quoted(&job.id));
            return Err(refusal(RefusalKind::NotFound, message));
        };
        let fields = JobFields { version_tag: None, ..fields(found) };
        self.apply(Change::JobFields(fields))?;
        Ok(Done::default())
    }
}

/// The version of a job that has a name.
fn tagged<'a>(state: &'a State, job: &JobKey, name: &Text) -> Option<&'a Job> {
    let current = state.job(job)?.create_index;
    let mut versions = state.job_versions(job).filter(|version| version.create_index == current);
    let is_tagged = |version: &&Arc<Job>| version.version_tag.as_ref().is_some_and(|tag| tag.name == *name);
    versions.find(is_tagged).map(|version| &**version)
}
