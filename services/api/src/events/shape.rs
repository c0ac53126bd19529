//! Events of a change set (http-api §26.3). Each changed object is one event, with the whole object as of that index. The
//! event type names the kind of write.

use std::collections::BTreeSet;

use model::change::{Cause, Change, ChangeSet};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Text};
use serde::Serialize;
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
    pub(super) payload: Payload,
}

/// The whole object of an event.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub(super) enum Payload {
    Job { job: Box<api_types::Job>, deleted: bool },
    Evaluation { evaluation: Box<api_types::Evaluation> },
    Deployment { deployment: Box<api_types::Deployment> },
    Allocation { allocation: Box<api_types::Allocation>, timeout: bool, timeout_reason: &'static str },
    Node { node: Box<api_types::Node> },
    NodePool { node_pool: Box<api_types::NodePool> },
}

/// An object that a change set changed, and the type of its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedObject {
    kind: &'static str,
    object: ObjectKey,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ObjectKey {
    Job(JobKey),
    Eval(EvalId),
    Deployment(DeploymentId),
    Node(NodeId),
    Alloc(AllocId),
    NodePool(Text),
}

/// The objects that a change set changed, in the order of the changes, each once.
pub(super) fn changed_objects(set: &ChangeSet) -> Vec<ChangedObject> {
    let kind = kind(set.cause);
    let mut changed = ChangedObjects::default();
    for change in &set.changes {
        match change {
            Change::Job(job) => changed.job(kind, &job.key()),
            Change::JobFields(fields) => changed.job(kind, &fields.key.job),
            Change::JobDeleted(key) => changed.job(kind, key),
            Change::Eval(eval) => changed.evals(kind, [eval.id]),
            Change::EvalOutcome(eval) => changed.evals(EVALUATION_UPDATED, [eval.id]),
            Change::EvalsChanged(all) => changed.evals(kind, all.ids.iter().copied()),
            Change::Deployment(deployment) => changed.deployments(kind, [deployment.id]),
            Change::DeploymentFields(fields) => changed.deployments(kind, [fields.id]),
            Change::Node(node) => changed.nodes(kind, [node.id]),
            Change::NodeServerSide { id, .. } => changed.nodes(kind, [*id]),
            Change::NodesChanged(all) => changed.nodes(kind, all.ids.iter().copied()),
            Change::NodesDeleted(ids) => changed.nodes(kind, ids.iter().copied()),
            Change::AllocsPlaced(placed) => changed.allocs(kind, placed.ids.0.iter().copied()),
            Change::AllocsChanged(all) => changed.allocs(kind, all.ids.0.iter().copied()),
            Change::Alloc(alloc) => changed.allocs(kind, [alloc.id]),
            Change::NodePool(pool) => changed.node_pool(kind, &pool.name),
            Change::NodePoolDeleted(name) => changed.node_pool(kind, name),
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
    changed.list
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

#[derive(Default)]
struct ChangedObjects {
    list: Vec<ChangedObject>,
    known: BTreeSet<ObjectKey>,
}

impl ChangedObjects {
    fn add(&mut self, kind: &'static str, objects: impl IntoIterator<Item = ObjectKey>) {
        for object in objects {
            if self.known.insert(object.clone()) {
                self.list.push(ChangedObject { kind, object });
            }
        }
    }

    fn job(&mut self, kind: &'static str, key: &JobKey) {
        self.add(kind, [ObjectKey::Job(key.clone())]);
    }

    fn evals(&mut self, kind: &'static str, ids: impl IntoIterator<Item = EvalId>) {
        self.add(kind, ids.into_iter().map(ObjectKey::Eval));
    }

    fn deployments(&mut self, kind: &'static str, ids: impl IntoIterator<Item = DeploymentId>) {
        self.add(kind, ids.into_iter().map(ObjectKey::Deployment));
    }

    fn nodes(&mut self, kind: &'static str, ids: impl IntoIterator<Item = NodeId>) {
        self.add(kind, ids.into_iter().map(ObjectKey::Node));
    }

    fn allocs(&mut self, kind: &'static str, ids: impl IntoIterator<Item = AllocId>) {
        self.add(kind, ids.into_iter().map(ObjectKey::Alloc));
    }

    fn node_pool(&mut self, kind: &'static str, name: &Text) {
        self.add(kind, [ObjectKey::NodePool(name.clone())]);
    }
}

impl ObjectKey {
    fn topic(&self) -> &'static str {
        match self {
            Self::Job(_) => JOB,
            Self::Eval(_) => EVALUATION,
            Self::Deployment(_) => DEPLOYMENT,
            Self::Node(_) => NODE,
            Self::Alloc(_) => ALLOCATION,
            Self::NodePool(_) => NODE_POOL,
        }
    }
}

/// The event of an object that a change set changed; `None` if it does not match, or there is no such object.
pub(super) fn event(step: &SingleSet, topics: &Topics, changed: &ChangedObject) -> Option<Event> {
    let (kind, object) = (changed.kind, &changed.object);
    let topic = object.topic();
    if !topics.has(topic) {
        return None;
    }
    let builder = EventBuilder { topics, topic, kind, index: step.set.index };
    let (before, after) = (&step.before, &step.after);
    match object {
        ObjectKey::Job(key) => {
            let now = after.job(key);
            let (job, deleted) = (now.or_else(|| before.job(key))?, now.is_none());
            let payload = || Payload::Job { job: job.to_api().into(), deleted };
            builder.event(key.id.to_string(), &key.namespace, None, payload)
        }
        ObjectKey::Eval(id) => {
            let eval = after.eval(*id)?;
            let filter_keys = filter_keys_of(&eval.job, eval.deployment_id);
            let payload = || Payload::Evaluation { evaluation: eval.to_api().into() };
            builder.event(id.to_string(), &eval.job.namespace, Some(filter_keys), payload)
        }
        ObjectKey::Deployment(id) => {
            let deployment = after.deployment(*id)?;
            let job = &deployment.job.job;
            let payload = || Payload::Deployment { deployment: deployment.to_api().into() };
            builder.event(id.to_string(), &job.namespace, Some(vec![job.id.to_string()]), payload)
        }
        ObjectKey::Node(id) => {
            let node = after.node(*id).or_else(|| before.node(*id))?;
            let payload = || Payload::Node { node: node.node().to_api().into() };
            builder.event(id.to_string(), "", None, payload)
        }
        ObjectKey::Alloc(id) => {
            let alloc = after.alloc(*id)?;
            let filter_keys = filter_keys_of(alloc.job_key(), alloc.deployment_id());
            let payload = || {
                let allocation = api_types::Allocation { job: None, ..shapes::alloc(alloc) };
                Payload::Allocation { allocation: allocation.into(), timeout: false, timeout_reason: "" }
            };
            builder.event(id.to_string(), &alloc.job_key().namespace, Some(filter_keys), payload)
        }
        ObjectKey::NodePool(name) => {
            let pool = after.node_pool(name).or_else(|| before.node_pool(name))?;
            let payload = || Payload::NodePool { node_pool: shapes::pool(pool).into() };
            builder.event(name.to_string(), "", None, payload)
        }
    }
}

struct EventBuilder<'a> {
    topics: &'a Topics,
    topic: &'static str,
    kind: &'static str,
    index: Index,
}

impl EventBuilder<'_> {
    /// The event with the result of `payload`, if it matches.
    fn event(
        self,
        key: String,
        namespace: &str,
        filter_keys: Option<Vec<String>>,
        payload: impl FnOnce() -> Payload,
    ) -> Option<Event> {
        let Self { topics, topic, kind, index } = self;
        let is_wanted = topics.wants(topic, &key, filter_keys.as_deref().unwrap_or_default(), namespace);
        let namespace = namespace.to_owned();
        is_wanted.then(|| Event { topic, kind, key, namespace, filter_keys, index, payload: payload() })
    }
}

/// Additional keys by which a topic finds events of an evaluation or allocation: the job id and the deployment id.
fn filter_keys_of(job: &JobKey, deployment: Option<DeploymentId>) -> Vec<String> {
    vec![job.id.to_string(), deployment.map(|id| id.to_string()).unwrap_or_default()]
}
