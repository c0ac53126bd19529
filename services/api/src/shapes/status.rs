//! A job in the list of statuses (http-api A.3), with its allocations, newest deployment and children.

use std::sync::Arc;

use model::deployment::{Deployment, DeploymentStatus};
use model::job::Job;
use serde::Serialize;
use state::{AllocRef, State};

/// Prefix of the meta keys of jobs that were made by Nomad Pack.
const PACK_META: &str = "pack.";

/// Status of a job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct JobStatus {
    #[serde(rename = "ID")]
    id: String,
    namespace: String,
    name: String,
    #[serde(rename = "Type")]
    kind: &'static str,
    node_pool: String,
    datacenters: Vec<String>,
    priority: u16,
    version: u64,
    submit_time: i64,
    modify_index: u64,
    /// `None` if there are none.
    allocs: Option<Vec<AllocStatus>>,
    group_count_sum: u64,
    /// `None` if no children are shown.
    child_statuses: Option<Vec<&'static str>>,
    #[serde(rename = "ParentID")]
    parent_id: String,
    latest_deployment: Option<LatestDeployment>,
    stop: bool,
    is_pack: bool,
    status: &'static str,
}

/// Status of an allocation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocStatus {
    #[serde(rename = "ID")]
    id: String,
    group: String,
    client_status: &'static str,
    #[serde(rename = "NodeID")]
    node_id: String,
    deployment_status: AllocHealth,
    job_version: u64,
    #[serde(rename = "FollowupEvalID")]
    followup_eval_id: String,
    has_paused_task: bool,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocHealth {
    canary: bool,
    healthy: Option<bool>,
}

/// Status of a job's newest deployment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct LatestDeployment {
    #[serde(rename = "ID")]
    id: String,
    is_active: bool,
    job_version: u64,
    status: &'static str,
    status_description: String,
    all_auto_promote: bool,
    requires_promotion: bool,
}

fn unless_empty<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    Some(items.collect()).filter(|items: &Vec<T>| !items.is_empty())
}

/// Whether a job only launches child jobs.
pub(crate) fn is_parent(job: &Job) -> bool {
    let spec = &job.spec;
    spec.periodic.is_some() || (spec.parameterized_job.is_some() && !spec.dispatched)
}

impl JobStatus {
    /// Status of a job, with its objects since it was created.
    pub(crate) fn new<'a>(state: &State, job: &'a Job, children: impl Iterator<Item = &'a Arc<Job>>) -> Self {
        let (spec, key) = (&job.spec, job.key());
        let mut allocs: Vec<_> = state
            .allocs_of_job(&key)
            .filter(|alloc| alloc.common().job.create_index == job.create_index)
            .collect();
        allocs.sort_by_key(|alloc| (alloc.create_index(), alloc.id()));
        let deployment = state.latest_deployment(&key);
        let deployment = deployment.filter(|latest| latest.job.create_index == job.create_index);
        Self {
            id: spec.id.to_string(),
            namespace: spec.namespace.to_string(),
            name: spec.name.to_string(),
            kind: spec.kind.as_str(),
            node_pool: spec.node_pool.to_string(),
            datacenters: spec.datacenters.iter().map(ToString::to_string).collect(),
            priority: spec.priority,
            version: job.version,
            submit_time: job.submit_time.0,
            modify_index: job.modify_index.0,
            allocs: unless_empty(allocs.into_iter().map(AllocStatus::new)),
            group_count_sum: spec.task_groups.iter().map(|group| u64::from(group.count)).sum(),
            child_statuses: unless_empty(children.map(|child| child.status.as_str())),
            parent_id: spec.parent_id.to_string(),
            latest_deployment: deployment.map(|deployment| LatestDeployment::new(deployment)),
            stop: spec.stop,
            is_pack: spec.meta.keys().any(|key| key.starts_with(PACK_META)),
            status: job.status.as_str(),
        }
    }
}

impl AllocStatus {
    fn new(alloc: AllocRef<'_>) -> Self {
        let health = alloc.health();
        Self {
            id: alloc.id().to_string(),
            group: alloc.group_name().to_string(),
            client_status: alloc.client_status().as_str(),
            node_id: alloc.node_id().to_string(),
            deployment_status: health.map_or_else(AllocHealth::default, |health| AllocHealth {
                canary: health.canary,
                healthy: health.healthy,
            }),
            job_version: alloc.common().job.version,
            followup_eval_id: alloc.extra().followup_eval.map(|id| id.to_string()).unwrap_or_default(),
            has_paused_task: alloc.task_states().any_paused(),
        }
    }
}

impl LatestDeployment {
    fn new(deployment: &Deployment) -> Self {
        let is_running = deployment.status == DeploymentStatus::Running;
        let mut with_canaries = deployment.groups.values().filter(|group| group.desired_canaries > 0);
        let requires_promotion = is_running && with_canaries.clone().any(|group| !group.promoted);
        Self {
            id: deployment.id.to_string(),
            is_active: !deployment.status.is_terminal(),
            job_version: deployment.job.version,
            status: deployment.status.as_str(),
            status_description: deployment.status_description.to_string(),
            all_auto_promote: is_running && with_canaries.all(|group| group.auto_promote),
            requires_promotion,
        }
    }
}
