//! Evaluations, and what a scheduler tells about its search for nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{PlanAnnotations, Resources, Time};

/// A reason to compare what a job wants with what runs. Omits what is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Evaluation {
    /// UUID.
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Namespace of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// That of the job, unless the request gave another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Type of the job, which names the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// Why it was made, such as `job-register` or `node-update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The job's index when it was made, for information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_modify_index: Option<u64>,
    /// The node that it is about, if it is about one.
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// That node's index when it was made, for information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_modify_index: Option<u64>,
    /// The deployment that it is about, or that it made.
    #[serde(rename = "DeploymentID", skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<String>,
    /// `pending`, `blocked`, `complete`, `failed` or `canceled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why it has that status, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_description: Option<String>,
    /// Nanoseconds to wait before it becomes ready; legacy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<i64>,
    /// When it becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<Time>,
    /// The evaluation that carries on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<String>,
    /// The evaluation that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_eval: Option<String>,
    /// The evaluation that waits for resources for what could not be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_eval: Option<String>,
    /// The chain through these three; absent unless the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_evals: Option<Vec<EvaluationStub>>,
    /// Why allocations could not be placed, by group.
    #[serde(rename = "FailedTGAllocs", skip_serializing_if = "Option::is_none")]
    pub failed_tg_allocs: Option<BTreeMap<String, AllocMetric>>,
    /// What it would change, for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_annotations: Option<PlanAnnotations>,
    /// Whether nodes of a computed class are feasible, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_eligibility: Option<BTreeMap<String, bool>>,
    /// The quota that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_limit_reached: Option<String>,
    /// What was missing apart from nodes, such as a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_non_node_resources: Option<Vec<String>>,
    /// Whether feasibility depends on more than the class, so that any node may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escaped_computed_class: Option<bool>,
    /// Whether it is a dry run that wants annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotate_plan: Option<bool>,
    /// What is still to be placed, by group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_allocations: Option<BTreeMap<String, i64>>,
    /// Internal; never shown.
    #[serde(rename = "LeaderACL", skip_serializing_if = "Option::is_none")]
    pub leader_acl: Option<String>,
    /// Index of the state that was scheduled on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_index: Option<u64>,
    /// Index of the change set that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_time: Option<i64>,
    /// Trace of what made it, in hex digits; only where there is one. Not in Nomad's API.
    #[serde(rename = "TraceID", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// An evaluation among related ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvaluationStub {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Namespace of the job.
    pub namespace: Option<String>,
    /// That of the job, unless the request gave another.
    pub priority: Option<i64>,
    /// Type of the job, which names the scheduler.
    pub r#type: Option<String>,
    /// Why it was made.
    pub triggered_by: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The node that it is about, if it is about one.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// The deployment that it is about, or that it made.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Option<String>,
    /// `pending`, `blocked`, `complete`, `failed` or `canceled`.
    pub status: Option<String>,
    /// Why it has that status, for people.
    pub status_description: Option<String>,
    /// When it becomes ready.
    pub wait_until: Option<Time>,
    /// The evaluation that carries on.
    pub next_eval: Option<String>,
    /// The evaluation that made it.
    pub previous_eval: Option<String>,
    /// The evaluation that waits for resources for what could not be placed.
    pub blocked_eval: Option<String>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    pub modify_time: Option<i64>,
}

/// How the scheduler looked for a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocMetric {
    /// Nodes looked at.
    pub nodes_evaluated: Option<i64>,
    /// Nodes that did not fulfil the constraints.
    pub nodes_filtered: Option<i64>,
    /// Ready nodes in the node pool and datacenters.
    pub nodes_in_pool: Option<i64>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// The same by datacenter.
    pub nodes_available: Option<BTreeMap<String, i64>>,
    /// Nodes that did not fulfil the constraints, by node class.
    pub class_filtered: Option<BTreeMap<String, i64>>,
    /// Nodes that did not fulfil the constraints, by constraint.
    pub constraint_filtered: Option<BTreeMap<String, i64>>,
    /// Nodes without enough resources.
    pub nodes_exhausted: Option<i64>,
    /// Nodes without enough resources, by node class.
    pub class_exhausted: Option<BTreeMap<String, i64>>,
    /// Nodes without enough resources, by what was missing.
    pub dimension_exhausted: Option<BTreeMap<String, i64>>,
    /// Dimensions of the quota that were exceeded.
    pub quota_exhausted: Option<Vec<String>>,
    /// What was asked for where resources were missing, by task.
    pub resources_exhausted: Option<BTreeMap<String, Resources>>,
    /// Legacy, always null.
    pub scores: Option<BTreeMap<String, f64>>,
    /// The best nodes, best first.
    pub score_meta_data: Option<Vec<NodeScoreMeta>>,
    /// Nanoseconds that the search took.
    pub allocation_time: Option<i64>,
    /// Further allocations of the group that failed for the same reason.
    pub coalesced_failures: Option<i64>,
}

/// How desirable a node was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeScoreMeta {
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// Parts of the score by name, such as `binpack`.
    pub scores: Option<BTreeMap<String, f64>>,
    /// Their mean, which decides.
    pub norm_score: Option<f64>,
}
