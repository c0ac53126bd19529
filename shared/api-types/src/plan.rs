//! Responses to changes of a job, and the annotations of a dry run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::AllocListStub;

/// Human-readable summary of what a plan changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlanAnnotations {
    /// Number of changes by group and kind.
    #[serde(rename = "DesiredTGUpdates")]
    pub desired_tg_updates: Option<BTreeMap<String, DesiredUpdates>>,
    /// Allocations that are preempted.
    pub preempted_allocs: Option<Vec<AllocListStub>>,
}

/// Number of changes of a group, by kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredUpdates {
    /// Unchanged.
    pub ignore: Option<u64>,
    /// Placed.
    pub place: Option<u64>,
    /// Migrated from a draining node.
    pub migrate: Option<u64>,
    /// Stopped without a replacement.
    pub stop: Option<u64>,
    /// Updated without a restart.
    pub in_place_update: Option<u64>,
    /// Stopped and replaced.
    pub destructive_update: Option<u64>,
    /// Placed as canaries.
    pub canary: Option<u64>,
    /// Allocations of other jobs that are preempted.
    pub preemptions: Option<u64>,
    /// Marked unknown because their node is disconnected.
    pub disconnect: Option<u64>,
    /// Reconnected with their node.
    pub reconnect: Option<u64>,
    /// Failed allocations that are rescheduled at once.
    pub reschedule_now: Option<u64>,
    /// Failed allocations that are rescheduled after a delay.
    pub reschedule_later: Option<u64>,
}

/// The response to registering a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRegisterResponse {
    /// The evaluation that was created; empty for periodic and parameterized jobs.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// Index of that evaluation.
    pub eval_create_index: Option<u64>,
    /// Index of the last change of the specification.
    pub job_modify_index: Option<u64>,
    /// Settings that are valid but probably not intended.
    pub warnings: Option<String>,
    /// Index of the state that the response is based on.
    pub index: Option<u64>,
    /// How long ago the server last heard from its leader, in nanoseconds.
    pub last_contact: Option<i64>,
    /// Whether a leader is known.
    pub known_leader: Option<bool>,
    /// Where the next page begins; empty on the last page and in responses without pages.
    pub next_token: Option<String>,
}

/// The response to stopping a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDeregisterResponse {
    /// The evaluation that was created; empty for periodic and parameterized jobs, and if there is no such
    /// job.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// Index of that evaluation.
    pub eval_create_index: Option<u64>,
    /// Index of the stop.
    pub job_modify_index: Option<u64>,
    /// Always empty.
    #[serde(rename = "VolumeEvalID")]
    pub volume_eval_id: Option<String>,
    /// Always 0.
    pub volume_eval_index: Option<u64>,
    /// Index of the state that the response is based on.
    pub index: Option<u64>,
    /// How long ago the server last heard from its leader, in nanoseconds.
    pub last_contact: Option<i64>,
    /// Whether a leader is known.
    pub known_leader: Option<bool>,
    /// Where the next page begins; empty on the last page and in responses without pages.
    pub next_token: Option<String>,
}
