//! Events of a change set (http-api §26.3). Each changed object is one event, with the whole object as of that index. The
//! event type names the kind of write.

use std::collections::BTreeSet;

use model::change::{
    AllocChange, Cause, Concern, DeploymentChange, EvalChange, JobChange, NodeChange, SmallChange,
};
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
        match change.concern() {
            Concern::Jobs(change) => builder.job_change(kind, change),
            Concern::Evals(change) => builder.eval_change(kind, change),
            Concern::Deployments(change) => builder.deployment_change(kind, change),
            Concern::Nodes(change) => builder.node_change(kind, change),
            Concern::Allocs(change) => builder.alloc_change(kind, change),
            Concern::Small(change) => builder.small_change(kind, change),
            // There are no events for job sources and for internal objects.
            Concern::JobSubmissions(_)
            | Concern::JobSummaries(_)
            | Concern::SchedulerConfig(_)
            | Concern::Leases(_)
            | Concern::Unblocked(_) => {}
        }
    }
    builder.events
}

/// Event type of a kind of write.
fn kind(cause: Cause) -> &'static str {
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other types are named after the cause")]
    match cause {
        Cause::JobEvaluated => EVALUATION_UPDATED,
        Cause::AllocTransition => "AllocationUpdateDesiredStatus",
        Cause::NodeStatus => "NodeStreamEvent",
        _ => cause.as_str(),
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
        match change {
            AllocChange::AllocsPlaced(placed) => self.allocs(kind, placed.ids.0.iter().copied()),
            AllocChange::AllocsChanged(changed) => self.allocs(kind, changed.ids.0.iter().copied()),
            AllocChange::Alloc(alloc) => self.allocs(kind, [alloc.id]),
            AllocChange::AllocsDeleted(_) => {}
        }
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

    fn small_object<T: Stored>(&mut self, kind: &'static str, key: &T::Key) {
        let Some(topic) = T::TOPIC else { return };
        let step = self.step;
        let (before, after) = (step.before.small_object::<T, _>(key), step.after.small_object::<T, _>(key));
        let Some(object) = after.or(before) else { return };
        let name = T::search_text(key).into_owned();
        self.add((topic, kind), name, "", None, || json!({ topic: object.shape() }));
    }
}

/// Makes the events of a change of a small object, for every kind.
macro_rules! small_changes {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        impl EventBuilder<'_> {
            fn small_change(&mut self, kind: &'static str, change: SmallChange<'_>) {
                match change {
                    $( SmallChange::$small(write) => self.small_object::<$object>(kind, write.key()), )+
                }
            }
        }
    };
}

model::for_each_small_object!(small_changes);

/// Additional keys by which a topic finds events of an evaluation or allocation: the job id and the deployment id.
fn filter_keys_of(job: &JobKey, deployment: Option<DeploymentId>) -> Vec<String> {
    vec![job.id.to_string(), deployment.map(|id| id.to_string()).unwrap_or_default()]
}
