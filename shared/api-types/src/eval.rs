//! Evaluations, and the metrics of a scheduler's search for nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{PlanAnnotations, Resources, Time};

/// A request to the scheduler to reconsider one job. Empty fields are omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Evaluation {
    /// UUID.
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Namespace of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The priority of the job, unless the request set another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Type of the job, which selects the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// Why it was created, such as `job-register` or `node-update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The job's modify index when the evaluation was created, for information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_modify_index: Option<u64>,
    /// The node that caused it, if a node did.
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// That node's modify index when the evaluation was created, for information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_modify_index: Option<u64>,
    /// The deployment that caused it, or that it created.
    #[serde(rename = "DeploymentID", skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<String>,
    /// `pending`, `blocked`, `complete`, `failed` or `canceled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Human-readable reason for the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_description: Option<String>,
    /// Nanoseconds to wait before it becomes ready; legacy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<i64>,
    /// When it becomes ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<Time>,
    /// The evaluation that follows this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_eval: Option<String>,
    /// The evaluation that created this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_eval: Option<String>,
    /// The blocked evaluation that waits for capacity for the allocations that could not be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_eval: Option<String>,
    /// The evaluations linked by the three fields above; absent unless the request asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_evals: Option<Vec<EvaluationStub>>,
    /// Why allocations could not be placed, by group.
    #[serde(rename = "FailedTGAllocs", skip_serializing_if = "Option::is_none")]
    pub failed_tg_allocs: Option<BTreeMap<String, AllocMetric>>,
    /// The changes that a dry run would make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_annotations: Option<PlanAnnotations>,
    /// Whether the nodes of a computed class are feasible, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_eligibility: Option<BTreeMap<String, bool>>,
    /// The quota that was exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_limit_reached: Option<String>,
    /// Missing resources that are not nodes, such as a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_non_node_resources: Option<Vec<String>>,
    /// Whether feasibility depends on more than the computed class, so that any new node may unblock the evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escaped_computed_class: Option<bool>,
    /// Whether this is a dry run that requests annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotate_plan: Option<bool>,
    /// Number of allocations still to be placed, by group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_allocations: Option<BTreeMap<String, i64>>,
    /// Internal; never shown.
    #[serde(rename = "LeaderACL", skip_serializing_if = "Option::is_none")]
    pub leader_acl: Option<String>,
    /// Index of the snapshot that the scheduler used.
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
    /// Trace id of the request that created it, in hex digits, if there is one. Not part of Nomad's API.
    #[serde(rename = "TraceID", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Summary of a related evaluation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvaluationStub {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Namespace of the job.
    pub namespace: Option<String>,
    /// The priority of the job, unless the request set another.
    pub priority: Option<i64>,
    /// Type of the job, which selects the scheduler.
    pub r#type: Option<String>,
    /// Why it was created.
    pub triggered_by: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The node that caused it, if a node did.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// The deployment that caused it, or that it created.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Option<String>,
    /// `pending`, `blocked`, `complete`, `failed` or `canceled`.
    pub status: Option<String>,
    /// Human-readable reason for the status.
    pub status_description: Option<String>,
    /// When it becomes ready.
    pub wait_until: Option<Time>,
    /// The evaluation that follows this one.
    pub next_eval: Option<String>,
    /// The evaluation that created this one.
    pub previous_eval: Option<String>,
    /// The blocked evaluation that waits for capacity for the allocations that could not be placed.
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

/// Metrics of the scheduler's search for a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocMetric {
    /// Nodes evaluated.
    pub nodes_evaluated: Option<i64>,
    /// Nodes that did not satisfy the constraints.
    pub nodes_filtered: Option<i64>,
    /// Ready nodes in the node pool and datacenters.
    pub nodes_in_pool: Option<i64>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// Ready nodes in the node pool, by datacenter.
    pub nodes_available: Option<BTreeMap<String, i64>>,
    /// Nodes that did not satisfy the constraints, by node class.
    pub class_filtered: Option<BTreeMap<String, i64>>,
    /// Nodes that did not satisfy the constraints, by constraint.
    pub constraint_filtered: Option<BTreeMap<String, i64>>,
    /// Nodes without enough resources.
    pub nodes_exhausted: Option<i64>,
    /// Nodes without enough resources, by node class.
    pub class_exhausted: Option<BTreeMap<String, i64>>,
    /// Nodes without enough resources, by the exhausted dimension.
    pub dimension_exhausted: Option<BTreeMap<String, i64>>,
    /// Dimensions of the quota that were exceeded.
    pub quota_exhausted: Option<Vec<String>>,
    /// Resources that were requested and not available, by task.
    pub resources_exhausted: Option<BTreeMap<String, Resources>>,
    /// Legacy, always null.
    pub scores: Option<BTreeMap<String, f64>>,
    /// The best nodes, best first.
    pub score_meta_data: Option<Vec<NodeScoreMeta>>,
    /// Nanoseconds that the search took.
    pub allocation_time: Option<i64>,
    /// Further allocations of the group that failed for the same reason.
    pub coalesced_failures: Option<i64>,
    /// All reasons that exclude nodes, the most important first. Not part of Nomad's API: only in responses to requests that
    /// ask for reasons, if no node was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<PlacementReason>>,
}

/// A reason that excludes nodes for a group. Several reasons may apply to one node. Not part of Nomad's API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlacementReason {
    /// A constraint, or an exhausted dimension.
    pub name: Option<String>,
    /// Number of nodes that it excludes.
    pub nodes: Option<i64>,
    /// Number of nodes that only this reason excludes.
    pub alone: Option<i64>,
    /// The smallest amount that is missing on any node, in MHz or MB, if the reason is an amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<i64>,
    /// Number of nodes on which exactly this amount is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_nodes: Option<i64>,
}

/// The score of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeScoreMeta {
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// Parts of the score by name, such as `binpack`.
    pub scores: Option<BTreeMap<String, f64>>,
    /// Mean of the parts, by which nodes are ranked.
    pub norm_score: Option<f64>,
}
