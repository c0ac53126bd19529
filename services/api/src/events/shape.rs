//! Events of a change set (http-api §26.3). Each changed object is one event, with the whole object as of that index. The
//! event type names the kind of write.

use std::collections::BTreeSet;

use model::change::{
    AllocChange, Cause, ChangeSet, Concern, DeploymentChange, EvalChange, JobChange, NodeChange, SmallChange,
};
use model::small_object::ObjectWrite;
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId};
use serde::Serialize;
use serde_json::{Value, json};
use state::{SingleSet, Stored};

use super::topics::Topics;
use crate::shapes;

const ALLOCATION: &str = "Allocation";
const DEPLOYMENT: &str = "Deployment";
const EVALUATION: &str = "Evaluation";
const JOB: &str = "Job";
const NODE: &str = "Node";

/// Event type of a change of a node's drain.
const NODE_DRAIN: &str = "NodeDrain";
/// Event type of allocations that something is desired of.
const DESIRED_STATUS: &str = "AllocationUpdateDesiredStatus";
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
    Job {
        job: Box<api_types::Job>,
        deleted: bool,
    },
    Evaluation {
        evaluation: Box<api_types::Evaluation>,
    },
    Deployment {
        deployment: Box<api_types::Deployment>,
    },
    Allocation {
        allocation: Box<api_types::Allocation>,
        timeout: bool,
        timeout_reason: &'static str,
    },
    Node {
        node: Box<api_types::Node>,
    },
    /// A small object under the name of its topic.
    Small(Value),
}

/// An object that a change set changed, and the type of its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedObject {
    kind: &'static str,
    object: ObjectKey,
    /// Position, in the set, of the first change of the object.
    change: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ObjectKey {
    Job(JobKey),
    Eval(EvalId),
    Deployment(DeploymentId),
    Node(NodeId),
    Alloc(AllocId),
    Small { topic: &'static str, name: String },
}

/// The objects that a change set changed, in the order of the changes, each once.
pub(super) fn changed_objects(set: &ChangeSet) -> Vec<ChangedObject> {
    let kind = kind(set.cause);
    let mut changed = ChangedObjects::default();
    for (position, change) in set.changes.iter().enumerate() {
        changed.change = position;
        match change.concern() {
            Concern::Jobs(change) => changed.job_change(kind, change),
            Concern::Evals(change) => changed.eval_change(kind, change),
            Concern::Deployments(change) => changed.deployment_change(kind, change),
            Concern::Nodes(change) => changed.node_change(kind, change),
            Concern::Allocs(change) => changed.alloc_change(kind, change),
            Concern::Small(change) => changed.small_change(kind, change),
            // There are no events for job sources and for internal objects.
            Concern::JobSubmissions(_)
            | Concern::JobSummaries(_)
            | Concern::SchedulerConfig(_)
            | Concern::Leases(_)
            | Concern::Unblocked(_) => {}
        }
    }
    changed.list
}

/// Event type of a kind of write.
fn kind(cause: Cause) -> &'static str {
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other types are named after the cause")]
    match cause {
        Cause::JobEvaluated => EVALUATION_UPDATED,
        Cause::AllocTransition => DESIRED_STATUS,
        Cause::NodeDrain => NODE_DRAIN,
        Cause::NodeStatus => "NodeStreamEvent",
        _ => cause.as_str(),
    }
}

#[derive(Default)]
struct ChangedObjects {
    list: Vec<ChangedObject>,
    known: BTreeSet<ObjectKey>,
    /// Position of the change that is looked at.
    change: usize,
}

impl ChangedObjects {
    fn add(&mut self, kind: &'static str, objects: impl IntoIterator<Item = ObjectKey>) {
        for object in objects {
            if self.known.insert(object.clone()) {
                self.list.push(ChangedObject { kind, object, change: self.change });
            }
        }
    }

    // There are no events for deleted garbage.
    fn job_change(&mut self, kind: &'static str, change: JobChange<'_>) {
        match change {
            JobChange::Job(job) => self.job(kind, &job.key()),
            JobChange::JobFields(fields) => self.job(kind, &fields.key.job),
            JobChange::JobDeleted(key) => self.job(kind, key),
            JobChange::JobVersionsDeleted(_) => {}
        }
    }

    fn eval_change(&mut self, kind: &'static str, change: EvalChange<'_>) {
        match change {
            EvalChange::Eval(eval) => self.evals(kind, [eval.id]),
            EvalChange::EvalOutcome(eval) => self.evals(EVALUATION_UPDATED, [eval.id]),
            EvalChange::EvalsChanged(changed) => self.evals(kind, changed.ids.iter().copied()),
            EvalChange::PlanApplied { .. } | EvalChange::EvalsDeleted(_) => {}
        }
    }

    fn deployment_change(&mut self, kind: &'static str, change: DeploymentChange<'_>) {
        match change {
            DeploymentChange::Deployment(deployment) => self.deployments(kind, [deployment.id]),
            DeploymentChange::DeploymentFields(fields) => self.deployments(kind, [fields.id]),
            DeploymentChange::DeploymentsDeleted(_) => {}
        }
    }

    fn node_change(&mut self, kind: &'static str, change: NodeChange<'_>) {
        match change {
            NodeChange::Node(node) => self.nodes(kind, [node.id]),
            NodeChange::NodeServerSide { id, .. } => self.nodes(kind, [*id]),
            NodeChange::NodesChanged(changed) => self.nodes(kind, changed.ids.iter().copied()),
            NodeChange::NodesDeleted(ids) => self.nodes(kind, ids.iter().copied()),
        }
    }

    fn alloc_change(&mut self, kind: &'static str, change: AllocChange<'_>) {
        // The end of a drain changes the node, and marks what is left on it.
        let kind = if kind == NODE_DRAIN { DESIRED_STATUS } else { kind };
        match change {
            AllocChange::AllocsPlaced(placed) => self.allocs(kind, placed.ids.0.iter().copied()),
            AllocChange::AllocsChanged(changed) => self.allocs(kind, changed.ids.0.iter().copied()),
            AllocChange::Alloc(alloc) => self.allocs(kind, [alloc.id]),
            AllocChange::AllocsDeleted(_) => {}
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

    // Only kinds of small objects with a topic have events.
    fn small_object<T: Stored>(&mut self, kind: &'static str, write: ObjectWrite<'_, T>) {
        let Some(topic) = T::TOPIC else { return };
        let kind = match (T::EVENT_TYPES, write) {
            (Some([put, _]), ObjectWrite::Put(_)) => put,
            (Some([_, deleted]), ObjectWrite::Deleted(_)) => deleted,
            (None, _) => kind,
        };
        self.add(kind, [ObjectKey::Small { topic, name: T::event_key(write.key()).into_owned() }]);
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
            Self::Small { topic, .. } => topic,
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
                let whole = shapes::alloc_with_key(alloc, after);
                let allocation = api_types::Allocation { job: None, ..whole };
                Payload::Allocation { allocation: allocation.into(), timeout: false, timeout_reason: "" }
            };
            builder.event(id.to_string(), &alloc.job_key().namespace, Some(filter_keys), payload)
        }
        ObjectKey::Small { name, .. } => {
            let Concern::Small(change) = step.set.changes.get(changed.change)?.concern() else { return None };
            let Shown { namespace, filter_keys, member, shape } = shown(step, change)?;
            let payload = || Payload::Small(json!({ member: shape }));
            builder.event(name.clone(), &namespace, filter_keys, payload)
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

/// Follows the changes of small objects, of every kind alike.
macro_rules! small_changes {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        impl ChangedObjects {
            fn small_change(&mut self, kind: &'static str, change: SmallChange<'_>) {
                match change {
                    $( SmallChange::$small(write) => self.small_object::<$object>(kind, write), )+
                }
            }
        }

        /// What an event says of the changed small object; `None` if there is no such object.
        fn shown(step: &SingleSet, change: SmallChange<'_>) -> Option<Shown> {
            match change {
                $( SmallChange::$small(write) => shown_of::<$object>(step, write.key()), )+
            }
        }
    };
}

model::for_each_small_object!(small_changes);

/// What an event says of a small object.
struct Shown {
    namespace: String,
    filter_keys: Option<Vec<String>>,
    /// Its name in the payload.
    member: &'static str,
    /// Its JSON object.
    shape: Value,
}

fn shown_of<T: Stored>(step: &SingleSet, key: &T::Key) -> Option<Shown> {
    let (before, after) = (&step.before, &step.after);
    let object = after.small_object::<T, _>(key).or_else(|| before.small_object::<T, _>(key))?;
    let namespace = object.event_namespace().to_owned();
    let member = T::EVENT_MEMBER.or(T::TOPIC)?;
    Some(Shown { namespace, filter_keys: object.filter_keys(), member, shape: json!(object.shape()) })
}

/// Additional keys by which a topic finds events of an evaluation or allocation: the job id and the deployment id.
fn filter_keys_of(job: &JobKey, deployment: Option<DeploymentId>) -> Vec<String> {
    vec![job.id.to_string(), deployment.map(|id| id.to_string()).unwrap_or_default()]
}
