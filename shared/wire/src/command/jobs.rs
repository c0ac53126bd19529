//! Commands about jobs and their allocations.

use std::sync::Arc;

use model::alloc::DesiredTransition;
use model::change::Cause;
use model::eval::EvalTrigger;
use model::job::{JobSource, JobSpec};
use model::{AllocId, Index, JobKey};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! job_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Registers a job, or a new version of it.
            RegisterJob(Box<RegisterJob>),
            /// Stops a job, or deletes it.
            DeregisterJob(DeregisterJob),
            /// Creates an evaluation for a job.
            EvaluateJob(EvaluateJob),
            /// Changes the desired transition of allocations, for instance to stop one (N-22.3).
            Transition(Transition),
        }
    };
}

/// Registers a job (N-17). Admission has already validated and completed the specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterJob {
    /// Specification of the job.
    pub spec: Arc<JobSpec>,
    /// The source that the specification was made from, stored with the new version (N-27). `None` copies the source of
    /// the previous version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<JobSource>>,
    /// Registers only if the job's modify index has this value; 0 requires that the job does not exist (N-17.11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
    /// Priority of the evaluation; `None` uses the job's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_priority: Option<u16>,
    /// Whether the stored job's group counts replace those of `spec` (N-17.15).
    #[serde(default)]
    pub preserve_counts: bool,
    /// Whether the stored job's task resources replace those of `spec`.
    #[serde(default)]
    pub preserve_resources: bool,
}

impl CommandBody for RegisterJob {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::JobRegistered,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Stops a job, or deletes it (N-21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeregisterJob {
    /// The job.
    pub job: JobKey,
    /// Whether to delete the job with everything that belongs to it, including its allocations.
    pub purge: bool,
    /// Priority of the evaluation; `None` uses the job's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_priority: Option<u16>,
    /// Whether its tasks stop without their shutdown delay.
    #[serde(default)]
    pub no_shutdown_delay: bool,
}

impl CommandBody for DeregisterJob {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::JobDeregistered,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Creates an evaluation for a job (N-22.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateJob {
    /// The job.
    pub job: JobKey,
    /// Whether failed allocations are rescheduled regardless of their reschedule policy.
    #[serde(default)]
    pub force_reschedule: bool,
}

impl CommandBody for EvaluateJob {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::JobEvaluated,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Changes the desired transition of allocations, and creates one evaluation for each of their jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The allocations; they may belong to several jobs.
    pub allocs: Vec<AllocId>,
    /// The new desired transition; merged into the existing one.
    pub transition: DesiredTransition,
    /// Trigger of the evaluations: a user's stop, a drain, a deployment.
    pub trigger: EvalTrigger,
}

impl CommandBody for Transition {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::AllocTransition,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{ALLOC, INDEX, job_key, job_source, job_spec};

    impl Sample for RegisterJob {
        fn samples() -> Vec<Self> {
            vec![Self {
                spec: job_spec(),
                source: Some(job_source()),
                enforce_index: Some(INDEX),
                eval_priority: Some(70),
                preserve_counts: true,
                preserve_resources: true,
            }]
        }
    }

    impl Sample for DeregisterJob {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key(), purge: true, eval_priority: Some(70), no_shutdown_delay: true }]
        }
    }

    impl Sample for EvaluateJob {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key(), force_reschedule: true }]
        }
    }

    impl Sample for Transition {
        fn samples() -> Vec<Self> {
            vec![Self {
                allocs: vec![ALLOC],
                transition: DesiredTransition { migrate: Some(true), ..DesiredTransition::default() },
                trigger: EvalTrigger::NodeDrain,
            }]
        }
    }
}
