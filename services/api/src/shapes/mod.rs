//! Objects of the API that `model` does not convert by itself, because they combine several objects or omit parts of one:
//! list entries, responses to writes, statuses of jobs (`status`), instances of services (`services`), and resource usage
//! (`usage`).

pub(crate) mod services;
pub(crate) mod status;
pub(crate) mod usage;

use api_types::{
    AllocListStub, EvaluationStub, JobChildrenSummary, JobListStub, NodeListStub, TaskGroupSummary,
};
use model::alloc::{NetworkStatus, ReportNumber};
use model::change::JobSummary;
use model::job::Job;
use model::node::Node;
use serde::Serialize;
use state::{AllocRef, State};
use wire::command::Done;

use crate::http;

pub(crate) use services::{Choice, targets};

/// Response to a registration or an evaluation of a job (http-api A.9).
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Registered {
    #[serde(rename = "EvalID")]
    pub(crate) eval_id: String,
    pub(crate) eval_create_index: u64,
    pub(crate) job_modify_index: u64,
    pub(crate) warnings: String,
    #[serde(flatten)]
    pub(crate) meta: Meta,
}

/// Response to a deregistration.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Deregistered {
    #[serde(rename = "EvalID")]
    pub(crate) eval_id: String,
    pub(crate) eval_create_index: u64,
    pub(crate) job_modify_index: u64,
    #[serde(rename = "VolumeEvalID")]
    pub(crate) volume_eval_id: String,
    pub(crate) volume_eval_index: u64,
    #[serde(flatten)]
    pub(crate) meta: Meta,
}

impl Registered {
    /// From the outcome of a command about a job.
    pub(crate) fn new(done: &Done, warnings: String) -> Self {
        Self {
            eval_id: done.evals.first().map(ToString::to_string).unwrap_or_default(),
            eval_create_index: done.evals.first().map_or(0, |_| done.index.0),
            job_modify_index: done.object_index.0,
            warnings,
            meta: Meta { index: done.index.0, ..Meta::default() },
        }
    }
}

impl Deregistered {
    /// From the outcome of a deregistration. All fields are zero if the job did not exist (N-21.2).
    pub(crate) fn new(done: &Done) -> Self {
        if !done.written {
            return Self::default();
        }
        let Registered { eval_id, eval_create_index, job_modify_index, meta, .. } =
            Registered::new(done, String::new());
        Self { eval_id, eval_create_index, job_modify_index, meta, ..Self::default() }
    }
}

/// Fields of the response headers that the reference repeats in many bodies.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Meta {
    pub(crate) index: u64,
    pub(crate) last_contact: u64,
    pub(crate) known_leader: bool,
    pub(crate) next_token: String,
}

impl From<&http::Meta> for Meta {
    fn from(meta: &http::Meta) -> Self {
        let (ago, known_leader) = meta.contact.unwrap_or_default();
        Self {
            index: meta.index.unwrap_or_default().0,
            last_contact: u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX),
            known_leader,
            next_token: String::new(),
        }
    }
}

/// A job in a list.
pub(crate) fn job_stub(job: &Job, state: &State, with_meta: bool) -> JobListStub {
    let api = job.to_api();
    JobListStub {
        id: api.id,
        parent_id: api.parent_id,
        name: api.name,
        namespace: api.namespace,
        datacenters: api.datacenters,
        node_pool: api.node_pool,
        multiregion: api.multiregion.map(|regions| *regions),
        r#type: api.r#type,
        priority: api.priority,
        periodic: Some(api.periodic.is_some()),
        parameterized_job: Some(api.parameterized_job.is_some()),
        stop: api.stop,
        status: api.status,
        status_description: api.status_description,
        job_summary: state.job_summary(&job.key()).map(|summary| self::summary(summary)),
        create_index: api.create_index,
        modify_index: api.modify_index,
        job_modify_index: api.job_modify_index,
        submit_time: api.submit_time,
        meta: api.meta.filter(|_| with_meta),
    }
}

/// Allocation counts of a job.
pub(crate) fn summary(summary: &JobSummary) -> api_types::JobSummary {
    let groups = summary.groups.iter().map(|(name, group)| {
        let count = |count: u32| Some(i64::from(count));
        let counts = TaskGroupSummary {
            queued: count(group.queued),
            complete: count(group.complete),
            failed: count(group.failed),
            running: count(group.running),
            starting: count(group.starting),
            lost: count(group.lost),
            unknown: count(group.unknown),
        };
        (name.to_string(), counts)
    });
    // Jobs without children show zeros, too.
    let children = summary.children.unwrap_or_default();
    let count = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    api_types::JobSummary {
        job_id: Some(summary.job.id.to_string()),
        namespace: Some(summary.job.namespace.to_string()),
        summary: Some(groups.collect()),
        children: Some(JobChildrenSummary {
            pending: count(children.pending),
            running: count(children.running),
            dead: count(children.dead),
        }),
        create_index: Some(summary.create_index.0),
        modify_index: Some(summary.modify_index.0),
    }
}

/// Optional parts of an allocation in a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocParts {
    /// Allocated resources.
    pub(crate) resources: bool,
    /// Task states.
    pub(crate) task_states: bool,
}

impl Default for AllocParts {
    fn default() -> Self {
        Self { resources: false, task_states: true }
    }
}

/// An allocation in a list.
pub(crate) fn alloc_stub(alloc: AllocRef<'_>, parts: AllocParts) -> AllocListStub {
    let id = |id: Option<String>| Some(id.unwrap_or_default());
    let extra = alloc.extra();
    let job = alloc.common();
    AllocListStub {
        id: Some(alloc.id().to_string()),
        eval_id: Some(alloc.eval_id().to_string()),
        name: Some(alloc.name().to_string()),
        namespace: Some(alloc.job_key().namespace.to_string()),
        node_id: Some(alloc.node_id().to_string()),
        node_name: Some(alloc.node_name().to_string()),
        job_id: Some(alloc.job_key().id.to_string()),
        job_type: Some(alloc.job().spec.kind.to_string()),
        job_version: Some(job.job.version),
        task_group: Some(alloc.group_name().to_string()),
        allocated_resources: parts.resources.then(|| alloc.resources().to_api()),
        desired_status: Some(alloc.desired_status().to_string()),
        desired_description: Some(alloc.desired_description().to_owned()),
        client_status: Some(alloc.client_status().to_string()),
        client_description: Some(alloc.client_description().to_owned()),
        desired_transition: Some(alloc.transition().to_api()),
        task_states: alloc.task_states().to_api().filter(|_| parts.task_states),
        deployment_status: alloc.health().map(|health| health.to_api()),
        followup_eval_id: id(extra.followup_eval.map(|id| id.to_string())),
        next_allocation: id(extra.next.map(|id| id.to_string())),
        reschedule_tracker: extra.reschedule.as_deref().map(model::alloc::RescheduleTracker::to_api),
        preempted_allocations: Some(&extra.preempted)
            .filter(|ids| !ids.is_empty())
            .map(|ids| ids.iter().map(ToString::to_string).collect()),
        preempted_by_allocation: id(extra.preempted_by.map(|id| id.to_string())),
        create_index: Some(alloc.create_index().0),
        modify_index: Some(alloc.modify_index().0),
        create_time: Some(alloc.create_time().0),
        modify_time: Some(alloc.modify_time().0),
    }
}

/// A whole allocation, with its job.
pub(crate) fn alloc(alloc: AllocRef<'_>) -> api_types::Allocation {
    let api = alloc.to_allocation().to_api();
    // An allocation that uses the network of its node has a status without addresses, once its agent has reported it (A.4).
    let is_reported = alloc.report() != ReportNumber::default();
    let network_status =
        api.network_status.or_else(|| is_reported.then(|| NetworkStatus::default().to_api()));
    api_types::Allocation { job: Some(Box::new(alloc.job().to_api())), network_status, ..api }
}

/// A whole allocation, with the cluster's signing key. A cluster has one, which does not change.
pub(crate) fn alloc_with_key(alloc: AllocRef<'_>, state: &State) -> api_types::Allocation {
    let signing_key_id = state.root_keys().next().map(|key| key.id.to_string());
    api_types::Allocation { signing_key_id, ..self::alloc(alloc) }
}

/// A related evaluation.
pub(crate) fn eval_stub(eval: &model::eval::Evaluation) -> EvaluationStub {
    let api = eval.to_api();
    let text = |text: Option<String>| Some(text.unwrap_or_default());
    EvaluationStub {
        id: api.id,
        namespace: text(api.namespace),
        priority: api.priority.or(Some(0)),
        r#type: api.r#type,
        triggered_by: api.triggered_by,
        job_id: text(api.job_id),
        node_id: text(api.node_id),
        deployment_id: text(api.deployment_id),
        status: api.status,
        status_description: text(api.status_description),
        wait_until: api.wait_until,
        next_eval: text(api.next_eval),
        previous_eval: text(api.previous_eval),
        blocked_eval: text(api.blocked_eval),
        create_index: api.create_index,
        modify_index: api.modify_index,
        create_time: api.create_time,
        modify_time: api.modify_time,
    }
}

/// Optional parts of a node in a list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeParts {
    /// Resources.
    pub(crate) resources: bool,
    /// Name of the operating system.
    pub(crate) os: bool,
}

/// A node in a list.
pub(crate) fn node_stub(node: &Node, parts: NodeParts) -> NodeListStub {
    const OS_NAME: &str = "os.name";
    const VERSION: &str = "nomad.version";
    let api = node.to_api();
    let attribute = |name: &str| node.spec.attributes.get(name).map(|value| value.to_string());
    let address = &*node.spec.http_addr;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    NodeListStub {
        address: Some(host.to_owned()),
        id: api.id,
        attributes: parts
            .os
            .then(|| [(OS_NAME.to_owned(), attribute(OS_NAME).unwrap_or_default())].into_iter().collect()),
        datacenter: api.datacenter,
        name: api.name,
        node_pool: api.node_pool,
        node_class: api.node_class,
        version: Some(attribute(VERSION).unwrap_or_default()),
        drain: Some(api.drain_strategy.is_some()),
        scheduling_eligibility: api.scheduling_eligibility,
        status: api.status,
        status_description: api.status_description,
        drivers: api.drivers,
        host_volumes: api.host_volumes.or_else(|| Some(Default::default())),
        node_resources: api.node_resources.filter(|_| parts.resources),
        reserved_resources: api.reserved_resources.filter(|_| parts.resources),
        last_drain: api.last_drain,
        create_index: api.create_index,
        modify_index: api.modify_index,
    }
}
