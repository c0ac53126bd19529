//! Rules about registering a job: which changes a specification may not make (N-17.12), and which version it writes.
//!
//! The API applies these rules when it admits a job, a dry run when it tries one out, and the applier at the index of
//! the command.

use std::sync::Arc;

use super::{Job, JobSpec, JobType};
use crate::{Index, Timestamp};

/// A kind of job that is only a template for other jobs: nothing is placed for it, and it is never evaluated (R-1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum Template {
    /// Launches jobs at certain times.
    #[display("periodic")]
    Periodic,
    /// Launches a job for each dispatch.
    #[display("parameterized")]
    Parameterized,
}

/// A change that a registration may not make to a job (N-17.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenChange {
    /// The type of the job changes.
    #[error("cannot update job from type \"{from}\" to \"{to}\"")]
    Type {
        /// The type of the stored job.
        from: JobType,
        /// The type in the registration.
        to: JobType,
    },
    /// The job is a template and becomes another kind of job.
    #[error("cannot update {0} job to being non-{0}")]
    FromTemplate(Template),
    /// The job becomes a template.
    #[error("cannot update non-{0} job to being {0}")]
    ToTemplate(Template),
    /// Whether the job was created by a dispatch changes.
    #[error("cannot change whether a job is dispatched")]
    Dispatched,
    /// A new job claims to be created by a dispatch.
    #[error("job can't be submitted with 'Dispatched' set")]
    NewDispatched,
}

impl JobSpec {
    /// The kind of template that the job is; `None` for a job that is run itself, which includes dispatched ones.
    pub fn template(&self) -> Option<Template> {
        if self.periodic.is_some() {
            Some(Template::Periodic)
        } else if self.parameterized_job.is_some() && !self.dispatched {
            Some(Template::Parameterized)
        } else {
            None
        }
    }

    /// Checks that the specification may be registered in place of the stored one, or as a new job if there is none. A
    /// stopped job is not exempt (N-17.12).
    ///
    /// # Errors
    /// The first change that is forbidden.
    pub fn check_change(&self, stored: Option<&Self>) -> Result<(), ForbiddenChange> {
        let Some(stored) = stored else {
            return if self.dispatched { Err(ForbiddenChange::NewDispatched) } else { Ok(()) };
        };
        if self.kind != stored.kind {
            return Err(ForbiddenChange::Type { from: stored.kind, to: self.kind });
        }
        let templates = [
            (Template::Periodic, stored.periodic.is_some(), self.periodic.is_some()),
            (Template::Parameterized, stored.parameterized_job.is_some(), self.parameterized_job.is_some()),
        ];
        for (template, was, is) in templates {
            match (was, is) {
                (true, false) => return Err(ForbiddenChange::FromTemplate(template)),
                (false, true) => return Err(ForbiddenChange::ToTemplate(template)),
                (true, true) | (false, false) => {}
            }
        }
        if self.dispatched != stored.dispatched {
            return Err(ForbiddenChange::Dispatched);
        }
        Ok(())
    }
}

impl Job {
    /// The version that registering `spec` writes after the current one, or as the first one if there is none, at this
    /// index and time. It keeps the status of the current version.
    pub fn next_version(current: Option<&Self>, spec: Arc<JobSpec>, index: Index, at: Timestamp) -> Self {
        let first =
            Self { spec, submit_time: at, modify_index: index, job_modify_index: index, ..Self::default() };
        match current {
            None => Self { create_index: index, ..first },
            Some(current) => Self {
                version: current.version + 1,
                status: current.status,
                create_index: current.create_index,
                ..first
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobStatus, ParameterizedJobConfig, PeriodicConfig};

    fn service() -> JobSpec {
        JobSpec::default()
    }

    fn periodic() -> JobSpec {
        JobSpec { periodic: Some(PeriodicConfig::default()), ..service() }
    }

    fn parameterized() -> JobSpec {
        JobSpec { parameterized_job: Some(ParameterizedJobConfig::default()), ..service() }
    }

    fn dispatched(spec: JobSpec) -> JobSpec {
        JobSpec { dispatched: true, ..spec }
    }

    #[test]
    fn a_dispatched_job_is_no_template() {
        let template = |spec: JobSpec| spec.template().map(|template| template.to_string());
        assert_eq!(template(service()), None);
        assert_eq!(template(periodic()).as_deref(), Some("periodic"));
        assert_eq!(template(parameterized()).as_deref(), Some("parameterized"));
        assert_eq!(template(dispatched(parameterized())), None);
    }

    #[test]
    fn a_job_does_not_turn_into_another_kind() {
        let batch = || JobSpec { kind: JobType::Batch, ..service() };
        let stopped = JobSpec { stop: true, ..batch() };
        let forbidden = [
            (batch(), service(), r#"cannot update job from type "batch" to "service""#),
            (stopped, service(), r#"cannot update job from type "batch" to "service""#),
            (periodic(), service(), "cannot update periodic job to being non-periodic"),
            (service(), periodic(), "cannot update non-periodic job to being periodic"),
            (parameterized(), service(), "cannot update parameterized job to being non-parameterized"),
            (service(), parameterized(), "cannot update non-parameterized job to being parameterized"),
            (service(), dispatched(service()), "cannot change whether a job is dispatched"),
            (dispatched(service()), service(), "cannot change whether a job is dispatched"),
        ];
        for (stored, new, text) in forbidden {
            assert_eq!(new.check_change(Some(&stored)).unwrap_err().to_string(), text);
        }
        for spec in [service(), periodic(), parameterized(), dispatched(parameterized())] {
            let changed = JobSpec { priority: 70, ..spec.clone() };
            assert_eq!(changed.check_change(Some(&spec)), Ok(()));
        }
    }

    #[test]
    fn a_new_job_is_anything_but_dispatched() {
        for spec in [service(), periodic(), parameterized()] {
            assert_eq!(spec.check_change(None), Ok(()));
        }
        let error = dispatched(parameterized()).check_change(None).unwrap_err();
        assert_eq!(error.to_string(), "job can't be submitted with 'Dispatched' set");
    }

    #[test]
    fn a_version_follows_the_current_one() {
        let (spec, at) = (Arc::new(service()), Timestamp(5));
        let first = Job::next_version(None, Arc::clone(&spec), Index(3), at);
        assert_eq!((first.version, first.status, first.submit_time), (0, JobStatus::Pending, at));
        assert_eq!([first.create_index, first.modify_index, first.job_modify_index], [Index(3); 3]);
        let first = Job { status: JobStatus::Running, stable: true, ..first };
        let second = Job::next_version(Some(&first), spec, Index(4), at);
        assert_eq!((second.version, second.status, second.stable), (1, JobStatus::Running, false));
        assert_eq!(second.create_index, Index(3));
        assert_eq!([second.modify_index, second.job_modify_index], [Index(4); 2]);
    }
}
