//! Commands about deployments.

use model::change::Cause;
use model::{AllocId, DeploymentId, Epoch, Text, Timestamp};
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
            /// Pauses a deployment, or continues it, at a user's request.
            PauseDeployment(PauseDeployment),
            /// Promotes the canaries of a deployment at a user's request.
            PromoteDeployment(PromoteDeployment),
            /// Sets the health of allocations of a deployment at a user's request.
            SetAllocHealth(SetAllocHealth),
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
    /// Promotes all canaries: they are healthy, and their groups do not wait for a user.
    Promote,
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

/// Fails a deployment at a user's request (N-15). If a group asks for it, the job returns to its latest stable version.
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

/// Pauses a deployment, or continues it, at a user's request (N-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseDeployment {
    /// The deployment.
    pub id: DeploymentId,
    /// Whether to pause the deployment. Otherwise it continues.
    pub pause: bool,
}

impl CommandBody for PauseDeployment {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::DeploymentStatusUpdate,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Promotes the canaries of a deployment at a user's request (N-13.5). Groups without canaries that wait for a promotion are
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromoteDeployment {
    /// The deployment.
    pub id: DeploymentId,
    /// The groups to promote; `None` is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Text>>,
}

impl CommandBody for PromoteDeployment {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::DeploymentPromotion,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Sets the health of allocations of a deployment at a user's request (N-15.3). An unhealthy allocation fails the
/// deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAllocHealth {
    /// The deployment.
    pub id: DeploymentId,
    /// The healthy allocations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub healthy: Vec<AllocId>,
    /// The unhealthy allocations. An allocation that is in both lists is unhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhealthy: Vec<AllocId>,
}

impl CommandBody for SetAllocHealth {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::DeploymentAllocHealth,
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
                DeploymentStep::Promote,
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

    impl Sample for PauseDeployment {
        fn samples() -> Vec<Self> {
            vec![Self { id: DEPLOYMENT, pause: true }]
        }
    }

    impl Sample for PromoteDeployment {
        fn samples() -> Vec<Self> {
            vec![
                Self { id: DEPLOYMENT, groups: Some(vec!["web".into()]) },
                Self { id: DEPLOYMENT, groups: None },
            ]
        }
    }

    impl Sample for SetAllocHealth {
        fn samples() -> Vec<Self> {
            vec![
                Self { id: DEPLOYMENT, healthy: vec![ALLOC], unhealthy: Vec::new() },
                Self { id: DEPLOYMENT, healthy: Vec::new(), unhealthy: vec![ALLOC] },
            ]
        }
    }
}
