//! Deployments: rolling updates from one version of a job to the next.

pub mod description;

use serde::{Deserialize, Serialize};

use crate::text::string_enum;
use crate::{AllocId, DeploymentId, Index, JobVersionKey, Map, Nanos, Text, Timestamp, TraceContext};

string_enum! {
    /// Status of a deployment (N-12.1).
    DeploymentStatus, "deployment status" {
        /// The deployment is in progress.
        Running => "running",
        /// A user paused the deployment.
        Paused => "paused",
        /// The deployment failed.
        Failed => "failed",
        /// The deployment succeeded.
        Successful => "successful",
        /// The deployment was superseded by a newer version or cancelled with its job.
        Cancelled => "cancelled",
        /// The deployment was created, but its region may not start yet.
        Initializing => "initializing",
        /// The deployment waits for other regions.
        Pending => "pending",
        /// The deployment is done in this region and waits for other regions.
        Blocked => "blocked",
        /// The deployment unblocks other regions.
        Unblocking => "unblocking",
    }
}

impl DeploymentStatus {
    /// Whether the status is final. A deployment in any other status is *active*.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Successful | Self::Cancelled)
    }
}

/// The record of a rolling update to one job version (N-12.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// Its id.
    pub id: DeploymentId,
    /// The job version that is rolled out.
    pub job: JobVersionKey,
    /// The job's modify index when the deployment was created.
    pub job_modify_index: Index,
    /// Index of the last change of the job's specification.
    pub job_spec_modify_index: Index,
    /// Whether it is part of a multi-region deployment.
    #[serde(default)]
    pub is_multiregion: bool,
    /// Progress by task group.
    #[serde(default)]
    pub groups: Map<Text, DeploymentGroup>,
    /// Its status.
    pub status: DeploymentStatus,
    /// Human-readable reason for the status.
    #[serde(default)]
    pub status_description: Text,
    /// Priority of the evaluations that it creates; 0 means the job's priority.
    #[serde(default)]
    pub eval_priority: u16,
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
    /// When it was created.
    #[serde(default)]
    pub create_time: Timestamp,
    /// When it last changed.
    #[serde(default)]
    pub modify_time: Timestamp,
    /// Trace context of the plan that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// Settings and progress of one group in a deployment (N-12.3).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentGroup {
    /// Whether a failure rolls the job back to its latest stable version.
    pub auto_revert: bool,
    /// Whether canaries are promoted automatically once all are healthy.
    pub auto_promote: bool,
    /// How long the group may go without a newly healthy allocation; 0 is unlimited.
    pub progress_deadline: Nanos,
    /// Time by which another allocation must become healthy.
    pub require_progress_by: Timestamp,
    /// Whether its canaries were promoted.
    pub promoted: bool,
    /// Its canaries, oldest first.
    pub placed_canaries: Vec<AllocId>,
    /// Desired number of canaries.
    pub desired_canaries: u32,
    /// Desired number of allocations at the end of the deployment.
    pub desired_total: u32,
    /// Number of allocations placed.
    pub placed_allocs: u32,
    /// Number of allocations that became healthy.
    pub healthy_allocs: u32,
    /// Number of allocations that became unhealthy.
    pub unhealthy_allocs: u32,
}

impl DeploymentGroup {
    /// Whether the group has canaries that were not promoted yet.
    pub const fn needs_promotion(&self) -> bool {
        self.desired_canaries > 0 && !self.promoted
    }
}

/// A change of the status of an existing deployment, as part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentUpdate {
    /// The deployment.
    pub id: DeploymentId,
    /// Its new status.
    pub status: DeploymentStatus,
    /// Human-readable reason for the status.
    pub description: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_from_before_there_were_traces_is_read() {
        let untraced = Deployment {
            id: DeploymentId::from_bytes([1; 16]),
            job: JobVersionKey {
                job: crate::JobKey::new("default", "web"),
                create_index: Index(1),
                version: 0,
            },
            job_modify_index: Index(1),
            job_spec_modify_index: Index(1),
            is_multiregion: false,
            groups: Map::default(),
            status: DeploymentStatus::Running,
            status_description: Text::default(),
            eval_priority: 0,
            create_index: Index(2),
            modify_index: Index(2),
            create_time: Timestamp::UNSET,
            modify_time: Timestamp::UNSET,
            trace: None,
        };
        let bytes = rmp_serde::to_vec_named(&untraced).unwrap();
        assert!(!bytes.windows(5).any(|name| name == b"trace"), "the encoding without a trace is unchanged");
        assert_eq!(rmp_serde::from_slice::<Deployment>(&bytes).unwrap(), untraced);
        let traced = Deployment { trace: TraceContext::new(1, 2, 1), ..untraced };
        let bytes = rmp_serde::to_vec_named(&traced).unwrap();
        assert_eq!(rmp_serde::from_slice::<Deployment>(&bytes).unwrap(), traced);
    }
}
