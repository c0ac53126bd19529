//! Events of a change set (http-api §26.3). Each changed object is one event, with the whole object as of that index. The
//! event type names the kind of write.

use std::collections::BTreeSet;

use model::change::{Cause, Change};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId};
use serde::Serialize;
use serde_json::{Value, json};
use state::SingleSet;

use super::topics::Topics;
use crate::shapes;

const ALLOCATION: &str = "Allocation";
const DEPLOYMENT: &str = "Deployment";
const EVALUATION: &str = "Evaluation";
const JOB: &str = "Job";
const NODE: &str = "Node";
const NODE_POOL: &str = "NodePool";

/// Event type of an evaluation's outcome.
const EVALUATION_UPDATED: &str = "EvaluationUpdated";

/// One event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Event {
    pub(super) topic: &'static str,
    #[serde(rename = "Type")]
    pub(super) kind: &'static str,
    pub(super) key: String,
    pub(super) namespace: String,
    pub(super) filter_keys: Option<Vec<String>>,
    pub(super) index: Index,
    pub(super) payload: Value,
}

/// The events of a change set that match `topics`, in the order of the changes, one for each object.
pub(super) fn events(step: &SingleSet, topics: &Topics) -> Vec<Event> {
    let kind = kind(step.set.cause);
    let mut builder = EventBuilder { step, topics, events: Vec::new(), added: BTreeSet::new() };
    for change in &step.set.changes {
        match change {
            Change::Job(job) => builder.job(kind, &job.key()),
            Change::JobFields(fields) => builder.job(kind, &fields.key.job),
            Change::JobDeleted(key) => builder.job(kind, key),
            Change::Eval(eval) => builder.evals(kind, [eval.id]),
            Change::EvalOutcome(eval) => builder.evals(EVALUATION_UPDATED, [eval.id]),
            Change::EvalsChanged(changed) => builder.evals(kind, changed.ids.iter().copied()),
            Change::Deployment(deployment) => builder.deployments(kind, [deployment.id]),
            Change::DeploymentFields(fields) => builder.deployments(kind, [fields.id]),
            Change::Node(node) => builder.nodes(kind, [node.id]),
            Change::NodeServerSide { id, .. } => builder.nodes(kind, [*id]),
            Change::NodesChanged(changed) => builder.nodes(kind, changed.ids.iter().copied()),
            Change::NodesDeleted(ids) => builder.nodes(kind, ids.iter().copied()),
            Change::AllocsPlaced(placed) => builder.allocs(kind, placed.ids.0.iter().copied()),
            Change::AllocsChanged(changed) => builder.allocs(kind, changed.ids.0.iter().copied()),
            Change::Alloc(alloc) => builder.allocs(kind, [alloc.id]),
            Change::NodePool(pool) => builder.node_pool(kind, &pool.name),
            Change::NodePoolDeleted(name) => builder.node_pool(kind, name),
            // There are no events for job sources, for deleted garbage, and for internal objects.
            Change::JobVersionsDeleted(_)
            | Change::JobSubmission(_)
            | Change::JobSubmissionCopied { .. }
            | Change::JobSubmissionsDeleted(_)
            | Change::JobSummary(_)
            | Change::PlanApplied { .. }
            | Change::EvalsDeleted(_)
            | Change::DeploymentsDeleted(_)
            | Change::AllocsDeleted(_)
            | Change::SchedulerConfig(_)
            | Change::Namespace(_)
            | Change::NamespaceDeleted(_)
            | Change::HostVolume(_)
            | Change::HostVolumeDeleted(_)
            | Change::CsiVolume(_)
            | Change::CsiVolumeDeleted(_)
            | Change::VolumeClaim(_)
            | Change::VolumeClaimDeleted(_)
            | Change::RootKey(_)
            | Change::Lease(_)
            | Change::Unblocked(_)
            | Change::UnblockedForgotten(_) => {}
        }
    }
    builder.events
}

/// Event type of a kind of write.
fn kind(cause: Cause) -> &'static str {
    match cause {
        Cause::JobEvaluated => EVALUATION_UPDATED,
        Cause::AllocTransition => "AllocationUpdateDesiredStatus",
        Cause::NodeStatus => "NodeStreamEvent",
        Cause::JobRegistered
        | Cause::JobDeregistered
        | Cause::PlanResult
        | Cause::EvaluationUpdated
        | Cause::NodeRegistration
        | Cause::NodeDeregistration
        | Cause::AllocationUpdated
        | Cause::NodeEligibility
        | Cause::DeploymentStatusUpdate
        | Cause::Garbage
        | Cause::NodePoolUpserted
        | Cause::NodePoolDeleted
        | Cause::Settings
        | Cause::Lease => cause.as_str(),
    }
}

struct EventBuilder<'a> {
    step: &'a SingleSet,
    topics: &'a Topics,
    events: Vec<Event>,
    added: BTreeSet<(&'static str, String)>,
}

impl EventBuilder<'_> {
    /// Adds an event with the result of `payload`, if the event matches and the object has none yet.
    fn add(
        &mut self,
        (topic, kind): (&'static str, &'static str),
        key: String,
        namespace: &str,
        filter_keys: Option<Vec<String>>,
        payload: impl FnOnce() -> Value,
    ) {
        let is_wanted = self.topics.wants(topic, &key, filter_keys.as_deref().unwrap_or_default(), namespace);
        if !is_wanted || !self.added.insert((topic, key.clone())) {
            return;
        }
        let (namespace, index) = (namespace.to_owned(), self.step.set.index);
        self.events.push(Event { topic, kind, key, namespace, filter_keys, index, payload: payload() });
    }

    fn job(&mut self, kind: &'static str, key: &JobKey) {
        let (before, after) = (self.step.before.job(key), self.step.after.job(key));
        let Some(job) = after.or(before).cloned() else { return };
        let is_deleted = after.is_none();
        self.add(
            (JOB, kind),
            key.id.to_string(),
            &key.namespace,
            None,
            || json!({ "Job": job.to_api(), "Deleted": is_deleted }),
        );
    }

    fn evals(&mut self, kind: &'static str, ids: impl IntoIterator<Item = EvalId>) {
        if !self.topics.has(EVALUATION) {
            return;
        }
        for id in ids {
            let Some(eval) = self.step.after.eval(id).cloned() else { continue };
            let filter_keys = filter_keys_of(&eval.job, eval.deployment_id);
            self.add(
                (EVALUATION, kind),
                id.to_string(),
                &eval.job.namespace,
                Some(filter_keys),
                || json!({ "Evaluation": eval.to_api() }),
            );
        }
    }

    fn deployments(&mut self, kind: &'static str, ids: impl IntoIterator<Item = DeploymentId>) {
        for id in ids {
            let Some(deployment) = self.step.after.deployment(id).cloned() else { continue };
            let job = &deployment.job.job;
            let filter_keys = Some(vec![job.id.to_string()]);
            self.add(
                (DEPLOYMENT, kind),
                id.to_string(),
                &job.namespace,
                filter_keys,
                || json!({ "Deployment": deployment.to_api() }),
            );
        }
    }

    fn allocs(&mut self, kind: &'static str, ids: impl IntoIterator<Item = AllocId>) {
        if !self.topics.has(ALLOCATION) {
            return;
        }
        let after = std::sync::Arc::clone(&self.step.after);
        for id in ids {
            let Some(alloc) = after.alloc(id) else { continue };
            let job = alloc.job_key();
            let filter_keys = Some(filter_keys_of(job, alloc.deployment_id()));
            self.add((ALLOCATION, kind), id.to_string(), &job.namespace, filter_keys, || {
                let alloc = api_types::Allocation { job: None, ..shapes::alloc(alloc) };
                json!({ "Allocation": alloc, "Timeout": false, "TimeoutReason": "" })
            });
        }
    }

    fn nodes(&mut self, kind: &'static str, ids: impl IntoIterator<Item = NodeId>) {
        if !self.topics.has(NODE) {
            return;
        }
        let step = self.step;
        for id in ids {
            let Some(node) = step.after.node(id).or_else(|| step.before.node(id)) else { continue };
            self.add((NODE, kind), id.to_string(), "", None, || json!({ "Node": node.node().to_api() }));
        }
    }

    fn node_pool(&mut self, kind: &'static str, name: &str) {
        let step = self.step;
        let Some(pool) = step.after.node_pool(name).or_else(|| step.before.node_pool(name)) else { return };
        self.add((NODE_POOL, kind), name.to_owned(), "", None, || json!({ "NodePool": shapes::pool(pool) }));
    }
}

/// Additional keys by which a topic finds events of an evaluation or allocation: the job id and the deployment id.
fn filter_keys_of(job: &JobKey, deployment: Option<DeploymentId>) -> Vec<String> {
    vec![job.id.to_string(), deployment.map(|id| id.to_string()).unwrap_or_default()]
}
