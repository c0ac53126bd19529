//! Commands that make children: launches of periodic jobs, and dispatches of parameterized ones.

use std::collections::BTreeMap;

use model::change::Cause;
use model::job::Base64;
use model::{Epoch, JobKey, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! launch_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Launches periodic jobs that are due.
            LaunchJobs(LaunchJobs),
            /// Launches a periodic job at once, at a user's request.
            ForceLaunch(ForceLaunch),
            /// Dispatches a parameterized job.
            DispatchJob(Box<DispatchJob>),
        }
    };
}

/// Launches periodic jobs that are due (N-23). Each launch is checked separately. One that has been made, or whose job has
/// changed meanwhile, is skipped, so that no moment is launched twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchJobs {
    /// The launcher's epoch. The command is refused if this epoch is older than the lease's.
    pub epoch: Epoch,
    /// The launches, at most one for each job.
    pub launches: Vec<Launch>,
}

/// A launch of a periodic job. The id of the child follows from both members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The periodic job.
    pub job: JobKey,
    /// The moment of its schedule, in whole seconds.
    pub moment: Timestamp,
}

impl CommandBody for LaunchJobs {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::DeploymentWatcher,
            class: Class::Rest,
            cause: Cause::JobRegistered,
            // A job that prohibits overlaps is compared with all its children.
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Launches a periodic job at once, even if another child runs (N-23.8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForceLaunch {
    /// The periodic job.
    pub job: JobKey,
}

impl CommandBody for ForceLaunch {
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

/// Dispatches a parameterized job: makes a child with this input (N-24). If a child with the same token exists, nothing is
/// made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchJob {
    /// The parameterized job.
    pub parent: JobKey,
    /// Id of the child.
    pub id: Text,
    /// The payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Base64>,
    /// Values of meta keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<Text, Text>,
    /// Priority of the child; `None` uses the parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Token by which a repeated dispatch is recognized; empty if there is none.
    #[serde(default)]
    pub idempotency_token: Text,
}

impl CommandBody for DispatchJob {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::JobRegistered,
            // A token is compared with those of all children.
            is_expensive: !self.idempotency_token.is_empty(),
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{EPOCH, NOW, job_key};

    impl Sample for LaunchJobs {
        fn samples() -> Vec<Self> {
            vec![Self { epoch: EPOCH, launches: vec![Launch { job: job_key(), moment: NOW }] }]
        }
    }

    impl Sample for ForceLaunch {
        fn samples() -> Vec<Self> {
            vec![Self { job: job_key() }]
        }
    }

    impl Sample for DispatchJob {
        fn samples() -> Vec<Self> {
            let whole = Self {
                parent: job_key(),
                id: "web/dispatch-1700000000-0123abcd".into(),
                payload: Some(Base64(b"input".to_vec())),
                meta: [("key".into(), "value".into())].into(),
                priority: Some(70),
                idempotency_token: "token".into(),
            };
            let plain = Self { payload: None, meta: BTreeMap::new(), priority: None, ..whole.clone() };
            vec![whole, plain]
        }
    }
}
