//! What is read about jobs besides the job itself: list entries, counts of allocations, and the submitted text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Multiregion;

/// A job in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobListStub {
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// The periodic or parameterized job that it is an instance of, else empty.
    #[serde(rename = "ParentID")]
    pub parent_id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// Left out by servers that have none.
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
    /// Higher goes first.
    pub priority: Option<i64>,
    /// Whether it is a periodic job.
    pub periodic: Option<bool>,
    /// Whether it is a parameterized job.
    pub parameterized_job: Option<bool>,
    /// Whether it was stopped.
    pub stop: Option<bool>,
    /// `pending`, `running` or `dead`.
    pub status: Option<String>,
    /// Why it has that status, for people.
    pub status_description: Option<String>,
    /// Allocations and instances, counted.
    pub job_summary: Option<JobSummary>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Index of the last change of the specification.
    pub job_modify_index: Option<u64>,
    /// When its version was registered: Unix time in nanoseconds.
    pub submit_time: Option<i64>,
    /// Free key-value pairs of the user's; null unless the request asks for them.
    pub meta: Option<BTreeMap<String, String>>,
}

/// A job's allocations and instances, counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSummary {
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The namespace it lives in.
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

/// A group's allocations, counted by client status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupSummary {
    /// Wanted, but not placed yet.
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

/// Instances of a periodic or parameterized job, counted by status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobChildrenSummary {
    /// Not placed yet.
    pub pending: Option<i64>,
    /// With allocations that run.
    pub running: Option<i64>,
    /// At their end.
    pub dead: Option<i64>,
}

/// The text that a job was registered from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSubmission {
    /// The job file.
    pub source: Option<String>,
    /// `hcl2` or `json`.
    pub format: Option<String>,
    /// Variables given one by one; values are URL-escaped by submitters.
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
    /// The job's index of that version.
    pub job_modify_index: Option<u64>,
}
