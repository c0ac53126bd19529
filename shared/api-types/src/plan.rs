//! Answers to changes of a job: what was or would be done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::AllocListStub;

/// What a plan changes, for people.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlanAnnotations {
    /// Changes by group, counted.
    #[serde(rename = "DesiredTGUpdates")]
    pub desired_tg_updates: Option<BTreeMap<String, DesiredUpdates>>,
    /// Allocations that have to go.
    pub preempted_allocs: Option<Vec<AllocListStub>>,
}

/// A group's changes, counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredUpdates {
    /// Left as they are.
    pub ignore: Option<u64>,
    /// Placed newly.
    pub place: Option<u64>,
    /// Moved off a draining node.
    pub migrate: Option<u64>,
    /// Stopped without replacement.
    pub stop: Option<u64>,
    /// Updated without a restart.
    pub in_place_update: Option<u64>,
    /// Stopped and placed anew.
    pub destructive_update: Option<u64>,
    /// Placed as canaries.
    pub canary: Option<u64>,
    /// Of other jobs, that have to go.
    pub preemptions: Option<u64>,
    /// Marked unknown with their node.
    pub disconnect: Option<u64>,
    /// Back with their node.
    pub reconnect: Option<u64>,
    /// Failed ones placed elsewhere at once.
    pub reschedule_now: Option<u64>,
    /// Failed ones placed elsewhere after a delay.
    pub reschedule_later: Option<u64>,
}

/// The answer to registering a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRegisterResponse {
    /// The evaluation that was made; empty for periodic and parameterized jobs.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// Index of that evaluation.
    pub eval_create_index: Option<u64>,
    /// Index of the last change of the specification.
    pub job_modify_index: Option<u64>,
    /// What is allowed but probably not meant.
    pub warnings: Option<String>,
    /// Index that the answer is based on.
    pub index: Option<u64>,
    /// How long ago the server last heard from its leader, in nanoseconds.
    pub last_contact: Option<i64>,
    /// Whether a leader is known.
    pub known_leader: Option<bool>,
    /// Where the next page begins; empty at the end and for answers without pages.
    pub next_token: Option<String>,
}

/// The answer to stopping a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDeregisterResponse {
    /// The evaluation that was made; empty for periodic and parameterized jobs and if there is no such
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
    /// Index that the answer is based on.
    pub index: Option<u64>,
    /// How long ago the server last heard from its leader, in nanoseconds.
    pub last_contact: Option<i64>,
    /// Whether a leader is known.
    pub known_leader: Option<bool>,
    /// Where the next page begins; empty at the end and for answers without pages.
    pub next_token: Option<String>,
}
