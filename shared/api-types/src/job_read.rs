//! Objects that describe a job besides the job itself: list entries, counts of allocations, and the submitted source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Multiregion;

/// A job in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobListStub {
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// The periodic or parameterized job that this job is an instance of; empty if it is none.
    #[serde(rename = "ParentID")]
    pub parent_id: Option<String>,
    /// Display name.
    pub name: Option<String>,
    /// Absent in responses of servers without namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Eligible datacenters; entries may be globs such as `dc*`.
    pub datacenters: Option<Vec<String>>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// Regions it is registered in.
    pub multiregion: Option<Multiregion>,
    /// `service`, `batch`, `system` or `sysbatch`.
    pub r#type: Option<String>,
    /// Jobs of a higher priority are scheduled first.
    pub priority: Option<i64>,
    /// Whether it is a periodic job.
    pub periodic: Option<bool>,
    /// Whether it is a parameterized job.
    pub parameterized_job: Option<bool>,
    /// Whether it was stopped.
    pub stop: Option<bool>,
    /// `pending`, `running` or `dead`.
    pub status: Option<String>,
    /// Human-readable reason for the status.
    pub status_description: Option<String>,
    /// Counts of allocations and instances.
    pub job_summary: Option<JobSummary>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Index of the last change of the specification.
    pub job_modify_index: Option<u64>,
    /// When its version was registered: Unix time in nanoseconds.
    pub submit_time: Option<i64>,
    /// Arbitrary key-value pairs set by the user; null unless the request asks for them.
    pub meta: Option<BTreeMap<String, String>>,
}

/// Counts of a job's allocations and instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSummary {
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Allocations by group.
    pub summary: Option<BTreeMap<String, TaskGroupSummary>>,
    /// Instances of a periodic or parameterized job.
    pub children: Option<JobChildrenSummary>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}

/// Number of allocations of a group, by client status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupSummary {
    /// Not placed yet.
    pub queued: Option<i64>,
    /// Ended successfully.
    pub complete: Option<i64>,
    /// Ended in failure.
    pub failed: Option<i64>,
    /// Now running.
    pub running: Option<i64>,
    /// Placed, but not running yet.
    pub starting: Option<i64>,
    /// On nodes that are down.
    pub lost: Option<i64>,
    /// On nodes that are disconnected.
    pub unknown: Option<i64>,
}

/// Number of instances of a periodic or parameterized job, by status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobChildrenSummary {
    /// Not placed yet.
    pub pending: Option<i64>,
    /// Running.
    pub running: Option<i64>,
    /// Dead.
    pub dead: Option<i64>,
    /// Pending because the limit on running instances holds them back. Nomad does not have it, so it is left out if there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<i64>,
}

/// The text that a job was registered from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSubmission {
    /// The job file.
    pub source: Option<String>,
    /// `hcl2` or `json`.
    pub format: Option<String>,
    /// Variables that were set one by one. Submitters URL-escape the values.
    pub variable_flags: Option<BTreeMap<String, String>>,
    /// Text of a variable file.
    pub variables: Option<String>,
    /// The job's namespace.
    pub namespace: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The job's version.
    pub version: Option<u64>,
    /// `JobModifyIndex` of that version.
    pub job_modify_index: Option<u64>,
}

/// The counts of a job's groups, and who changed them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobScaleStatus {
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The job's namespace.
    pub namespace: Option<String>,
    /// Index of the change set that created the job.
    pub job_create_index: Option<u64>,
    /// Index of the last change of the job's specification.
    pub job_modify_index: Option<u64>,
    /// Whether the job was stopped.
    pub job_stopped: Option<bool>,
    /// The groups by name.
    pub task_groups: Option<BTreeMap<String, TaskGroupScaleStatus>>,
}

/// The counts of a group. Allocations that have ended, and canaries, are not counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupScaleStatus {
    /// The group's count.
    pub desired: Option<i64>,
    /// Allocations that should run.
    pub placed: Option<i64>,
    /// Allocations that run.
    pub running: Option<i64>,
    /// Allocations that are healthy in their deployment.
    pub healthy: Option<i64>,
    /// Allocations that are unhealthy in their deployment.
    pub unhealthy: Option<i64>,
    /// The last requests to scale the group, the newest first.
    pub events: Option<Vec<ScalingEvent>>,
}

/// A record of a request to scale a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingEvent {
    /// When it was carried out: Unix time in nanoseconds.
    pub time: Option<i64>,
    /// The requested count; null if the request only recorded something.
    pub count: Option<i64>,
    /// The count before.
    pub previous_count: Option<i64>,
    /// A message for people.
    pub message: Option<String>,
    /// Whether the message is about an error.
    pub error: Option<bool>,
    /// Arbitrary data of the requester.
    pub meta: Option<BTreeMap<String, Value>>,
    /// The evaluation that it created.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// Index of the change set that recorded it.
    pub create_index: Option<u64>,
}

/// A scaling policy in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingPolicyListStub {
    /// UUID of the policy.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Whether the autoscaler should act.
    pub enabled: Option<bool>,
    /// `horizontal`: a group's count is scaled.
    pub r#type: Option<String>,
    /// The namespace, the job and the group.
    pub target: Option<BTreeMap<String, String>>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}
