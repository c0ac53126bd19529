//! Deployments: the progress of a rollout, group by group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Time;

/// The record of a rolling update to one job version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Deployment {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The version that is rolled out.
    pub job_version: Option<u64>,
    /// The job's modify index when the deployment was created.
    pub job_modify_index: Option<u64>,
    /// The job's `JobModifyIndex` when the deployment was created.
    pub job_spec_modify_index: Option<u64>,
    /// The job's create index, which distinguishes the job from a purged one with the same id.
    pub job_create_index: Option<u64>,
    /// Whether it is part of a multi-region rollout.
    pub is_multiregion: Option<bool>,
    /// Progress by group.
    pub task_groups: Option<BTreeMap<String, DeploymentState>>,
    /// Such as `running`, `paused`, `successful`, `failed` or `cancelled`.
    pub status: Option<String>,
    /// Human-readable reason for the status.
    pub status_description: Option<String>,
    /// Priority of the evaluations that the rollout creates; 0 means the job's priority.
    pub eval_priority: Option<i64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    pub modify_time: Option<i64>,
    /// Trace id of the request that started it, in hex digits, if there is one. Not part of Nomad's API.
    #[serde(rename = "TraceID", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// The rollout of one group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentState {
    /// Whether a failure rolls the job back to its latest stable version.
    pub auto_revert: Option<bool>,
    /// Whether canaries are promoted once all are healthy.
    pub auto_promote: Option<bool>,
    /// Nanoseconds without a newly healthy allocation after which the rollout fails; 0 is never.
    pub progress_deadline: Option<i64>,
    /// When the rollout fails unless there is progress.
    pub require_progress_by: Option<Time>,
    /// Whether the canaries were promoted.
    pub promoted: Option<bool>,
    /// Ids of the canaries.
    pub placed_canaries: Option<Vec<String>>,
    /// How many canaries are wanted.
    pub desired_canaries: Option<i64>,
    /// How many allocations are wanted.
    pub desired_total: Option<i64>,
    /// How many were placed.
    pub placed_allocs: Option<i64>,
    /// How many became healthy.
    pub healthy_allocs: Option<i64>,
    /// How many became unhealthy.
    pub unhealthy_allocs: Option<i64>,
}
