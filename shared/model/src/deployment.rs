//! Deployments: how a version of a job takes over from the one before.

use serde::{Deserialize, Serialize};

use crate::text::words;
use crate::{AllocId, DeploymentId, Index, JobVersionKey, Map, Nanos, Text, Timestamp, TraceContext};

words! {
    /// Where a deployment stands (N-12.1).
    DeploymentStatus, "deployment status" {
        /// It goes on.
        Running => "running",
        /// A user stopped it for a while.
        Paused => "paused",
        /// It did not succeed.
        Failed => "failed",
        /// It did.
        Successful => "successful",
        /// Something newer took its place.
        Cancelled => "cancelled",
        /// Made, but its region may not start yet.
        Initializing => "initializing",
        /// Waits for other regions.
        Pending => "pending",
        /// Done here, waits for other regions.
        Blocked => "blocked",
        /// Lets other regions go on.
        Unblocking => "unblocking",
    }
}

impl DeploymentStatus {
    /// Whether nothing more will come of it; all others are *active*.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Successful | Self::Cancelled)
    }
}

/// How a version of a job takes over (N-12.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// Its id.
    pub id: DeploymentId,
    /// The version that takes over.
    pub job: JobVersionKey,
    /// The job's modify index when it began.
    pub job_modify_index: Index,
    /// The index at which the job's specification changed last.
    pub job_spec_modify_index: Index,
    /// Whether other regions take part.
    #[serde(default)]
    pub is_multiregion: bool,
    /// Each group's part.
    #[serde(default)]
    pub groups: Map<Text, DeploymentGroup>,
    /// Where it stands.
    pub status: DeploymentStatus,
    /// The same in words.
    #[serde(default)]
    pub status_description: Text,
    /// The priority of the evaluations that it makes; 0 is the job's.
    #[serde(default)]
    pub eval_priority: u16,
    /// The index that made it.
    #[serde(default)]
    pub create_index: Index,
    /// The last index that changed it.
    #[serde(default)]
    pub modify_index: Index,
    /// When it was made.
    #[serde(default)]
    pub create_time: Timestamp,
    /// When it changed last.
    #[serde(default)]
    pub modify_time: Timestamp,
    /// The trace of the plan that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// A group's part in a deployment (N-12.3).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentGroup {
    /// Whether the last stable version comes back when it fails.
    pub auto_revert: bool,
    /// Whether healthy canaries are promoted unasked.
    pub auto_promote: bool,
    /// How long it may go without progress; 0 is for ever.
    pub progress_deadline: Nanos,
    /// The moment by which there must be progress.
    pub require_progress_by: Timestamp,
    /// Whether its canaries were promoted.
    pub promoted: bool,
    /// Its canaries, oldest first.
    pub placed_canaries: Vec<AllocId>,
    /// How many canaries it should have.
    pub desired_canaries: u32,
    /// How many allocations it should have in the end.
    pub desired_total: u32,
    /// How many were placed.
    pub placed_allocs: u32,
    /// How many became healthy.
    pub healthy_allocs: u32,
    /// How many became unhealthy.
    pub unhealthy_allocs: u32,
}

/// A change of an existing deployment's status, as plans carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentUpdate {
    /// The deployment.
    pub id: DeploymentId,
    /// Its new status.
    pub status: DeploymentStatus,
    /// The same in words.
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
        assert!(!bytes.windows(5).any(|name| name == b"trace"), "it is written as it always was");
        assert_eq!(rmp_serde::from_slice::<Deployment>(&bytes).unwrap(), untraced);
        let traced = Deployment { trace: TraceContext::new(1, 2, 1), ..untraced };
        let bytes = rmp_serde::to_vec_named(&traced).unwrap();
        assert_eq!(rmp_serde::from_slice::<Deployment>(&bytes).unwrap(), traced);
    }
}
