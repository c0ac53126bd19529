//! Commands about deployments.

use model::change::Cause;
use model::{AllocId, DeploymentId, Epoch, Timestamp};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! deployment_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Commits the deployment watcher's findings.
            UpdateDeployments(UpdateDeployments),
            /// Fails a deployment at a user's request.
            FailDeployment(FailDeployment),
        }
    };
}

/// The deployment watcher's findings (N-14). Each finding is checked separately. A finding that no longer holds, for
/// instance because its deployment has ended, is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateDeployments {
    /// The watcher's epoch. The command is refused if this epoch is older than the lease's.
    pub epoch: Epoch,
    /// The findings, at most one for each deployment.
    pub findings: Vec<DeploymentFinding>,
}

impl CommandBody for UpdateDeployments {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::DeploymentWatcher,
            class: Class::Rest,
            cause: Cause::DeploymentStatusUpdate,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// A finding about one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentFinding {
    /// The deployment.
    pub id: DeploymentId,
    /// The step that the deployment needs.
    pub step: DeploymentStep,
}

/// A step of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeploymentStep {
    /// Creates an evaluation for the job: allocations became healthy after the last evaluation.
    Advance,
    /// Replaces unhealthy allocations within the deployment.
    Replace {
        /// The allocations; at least one.
        allocs: Vec<AllocId>,
    },
    /// Fails the deployment: these allocations are unhealthy and may not be replaced.
    FailUnhealthy {
        /// The allocations; at least one.
        allocs: Vec<AllocId>,
    },
    /// Fails the deployment: a group missed its progress deadline.
    FailLate {
        /// The latest progress deadline that counts as missed.
        progress_by: Timestamp,
    },
}

/// Fails a deployment at a user's request (N-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailDeployment {
    /// The deployment.
    pub id: DeploymentId,
}

impl CommandBody for FailDeployment {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::DeploymentStatusUpdate,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{ALLOC, DEPLOYMENT, EPOCH, NOW};

    impl Sample for UpdateDeployments {
        fn samples() -> Vec<Self> {
            let steps = [
                DeploymentStep::Advance,
                DeploymentStep::Replace { allocs: vec![ALLOC] },
                DeploymentStep::FailUnhealthy { allocs: vec![ALLOC] },
                DeploymentStep::FailLate { progress_by: NOW },
            ];
            let findings = steps.map(|step| DeploymentFinding { id: DEPLOYMENT, step });
            vec![Self { epoch: EPOCH, findings: findings.to_vec() }]
        }
    }

    impl Sample for FailDeployment {
        fn samples() -> Vec<Self> {
            vec![Self { id: DEPLOYMENT }]
        }
    }
}
