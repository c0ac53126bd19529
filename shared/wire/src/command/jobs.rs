//! Commands about jobs and their allocations.

use std::sync::Arc;

use model::alloc::DesiredTransition;
use model::change::Cause;
use model::eval::EvalTrigger;
use model::job::{JobSource, JobSpec, ScalingMeta};
use model::{AllocId, Index, JobKey, Text, Timestamp};
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
            /// Registers an older version of a job again, as a new version.
            RevertJob(RevertJob),
            /// Changes the count of a task group, or only records that somebody wanted to.
            ScaleJob(ScaleJob),
            /// Marks a version of a job as stable, or as not stable.
            SetJobStability(SetJobStability),
            /// Gives a version of a job a name.
            TagJobVersion(TagJobVersion),
            /// Removes the name of a version of a job.
            UntagJobVersion(UntagJobVersion),
            /// Creates an evaluation for a job.
            EvaluateJob(EvaluateJob),
            /// Computes the summaries of jobs from scratch.
            ReconcileSummaries(ReconcileSummaries),
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

/// Registers an older version of a job again, as a new version that is not stopped (N-20.5). Admission has already validated
/// the older version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertJob {
    /// The job.
    pub job: JobKey,
    /// The older version.
    pub version: u64,
    /// Reverts only if this is the job's current version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_version: Option<u64>,
}

impl CommandBody for RevertJob {
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

/// Maximum size of the message and the data of a scaling event, in bytes. The state keeps some events of each task group.
pub const SCALING_NOTE_BYTES_MAX: usize = 64 << 10;

/// Changes the count of a task group, or only records an event (N-26).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleJob {
    /// The job.
    pub job: JobKey,
    /// The task group.
    pub group: Text,
    /// The new count; `None` only records an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Maximum total count of the job's groups (N-19.3).
    pub count_max: u32,
    /// A message for people.
    #[serde(default)]
    pub message: Text,
    /// Whether the message is about an error.
    #[serde(default)]
    pub error: bool,
    /// Arbitrary data of the requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<ScalingMeta>,
    /// Scales only if the job's modify index has this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
}

impl ScaleJob {
    /// Size of the message and the data in bytes. The data count as JSON.
    pub fn note_bytes(&self) -> usize {
        let meta = self.meta.iter().flatten();
        let meta = meta.map(|(name, value)| name.len().saturating_add(value.to_string().len()));
        meta.fold(self.message.len(), usize::saturating_add)
    }
}

impl CommandBody for ScaleJob {
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

/// Marks a version of a job as stable, or as not stable (N-20.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetJobStability {
    /// The job.
    pub job: JobKey,
    /// The version.
    pub version: u64,
    /// Whether it is stable.
    pub stable: bool,
}

impl CommandBody for SetJobStability {
    fn info(&self) -> CommandInfo {
        version_updated()
    }
}

/// Gives a version of a job a name, so that the version is kept (N-20.3). It replaces the version's earlier name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagJobVersion {
    /// The job.
    pub job: JobKey,
    /// The version; `None` is the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The name.
    pub name: Text,
    /// Human-readable description.
    #[serde(default)]
    pub description: Text,
    /// When the user asked for it.
    pub at: Timestamp,
}

impl CommandBody for TagJobVersion {
    fn info(&self) -> CommandInfo {
        version_updated()
    }
}

/// Removes the name of a version of a job (N-20.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntagJobVersion {
    /// The job.
    pub job: JobKey,
    /// The name.
    pub name: Text,
}

impl CommandBody for UntagJobVersion {
    fn info(&self) -> CommandInfo {
        version_updated()
    }
}

/// The properties of commands that change a version of a job outside its specification.
fn version_updated() -> CommandInfo {
    CommandInfo {
        sender: Role::Api,
        class: Class::Rest,
        cause: Cause::JobVersionUpdated,
        is_expensive: false,
        is_deferrable: true,
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

/// Maximum number of jobs in one [`ReconcileSummaries`], so that it does not delay other commands.
pub const RECONCILED_SUMMARIES_MAX: usize = 500;

/// Computes the summaries of jobs from scratch, from their allocations (N-25.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconcileSummaries {
    /// The jobs. Those that do not exist are skipped.
    pub jobs: Vec<JobKey>,
}

impl CommandBody for ReconcileSummaries {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::Settings,
            is_expensive: true,
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
    use crate::samples::{ALLOC, INDEX, NOW, job_key, job_source, job_spec};

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

    impl Sample for RevertJob {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key(), version: 1, prior_version: Some(2) }]
        }
    }

    impl Sample for ScaleJob {
        fn samples() -> Vec<Self> {
            vec![Self {
                job: job_key(),
                group: "app".into(),
                count: Some(3),
                count_max: 50_000,
                message: "more load".into(),
                error: true,
                meta: Some(ScalingMeta::from([("load".to_owned(), 1.5.into())])),
                enforce_index: Some(INDEX),
            }]
        }
    }

    impl Sample for SetJobStability {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key(), version: 1, stable: true }]
        }
    }

    impl Sample for TagJobVersion {
        fn samples() -> Vec<Self> {
            let [name, description] = ["golden", "the good one"].map(Text::from);
            vec![Self { job: job_key(), version: Some(1), name, description, at: NOW }]
        }
    }

    impl Sample for UntagJobVersion {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key(), name: "golden".into() }]
        }
    }

    impl Sample for EvaluateJob {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key(), force_reschedule: true }]
        }
    }

    impl Sample for ReconcileSummaries {
        fn samples() -> Vec<Self> {
            vec![Self { jobs: vec![job_key()] }]
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
