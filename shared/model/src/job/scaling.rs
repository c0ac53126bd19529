//! Scaling of task groups: their policies, which are for an autoscaler, and the events that record requests to scale
//! (N-26). Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Job, TaskGroup};
use crate::{EvalId, Index, ScalingPolicyId, Text, Timestamp};

/// Maximum number of events that are kept of a task group (N-26.4).
pub const SCALING_EVENTS_MAX: usize = 20;

/// Scaling events by task group, the newest first.
pub type ScalingEvents = BTreeMap<Text, Vec<ScalingEvent>>;

/// Arbitrary data of who requests to scale a task group.
pub type ScalingMeta = BTreeMap<String, Value>;

/// A record of a request to scale a task group.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalingEvent {
    /// When the request was carried out.
    pub at: Timestamp,
    /// The count that was requested; `None` if the request only records something.
    pub count: Option<u32>,
    /// The count before.
    pub previous_count: u32,
    /// A message for people.
    pub message: Text,
    /// Whether the message is about an error.
    pub error: bool,
    /// Arbitrary data of the requester.
    pub meta: Option<ScalingMeta>,
    /// The evaluation that the request created.
    pub eval_id: Option<EvalId>,
    /// Index of the change set that recorded it.
    pub create_index: Index,
}

impl ScalingEvent {
    /// The event in the form of the API. Numbers of the data become floats, because the reference stores them as such.
    pub fn to_api(&self) -> api_types::ScalingEvent {
        let Self { at, count, previous_count, message, error, meta, eval_id, create_index } = self;
        let meta = meta.as_ref().map(|meta| {
            let floats = meta.iter().map(|(name, value)| (name.clone(), as_floats(value)));
            floats.collect::<ScalingMeta>()
        });
        api_types::ScalingEvent {
            time: Some(at.0),
            count: count.map(i64::from),
            previous_count: Some(i64::from(*previous_count)),
            message: Some(message.to_string()),
            error: Some(*error),
            meta,
            eval_id: eval_id.map(|id| id.to_string()),
            create_index: Some(create_index.0),
        }
    }
}

/// A value in which all numbers are floats. The nesting is bounded by that of request bodies.
fn as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.iter().map(as_floats).collect(),
        Value::Object(members) => {
            let floats = members.iter().map(|(name, value)| (name.clone(), as_floats(value)));
            Value::Object(floats.collect())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

impl Job {
    /// The scaling policies of the job's groups, in the order of the groups. Policies of tasks are not kept (http-api
    /// §24).
    pub fn scaling_policies(&self) -> impl Iterator<Item = (ScalingPolicyId, &TaskGroup)> {
        let key = self.key();
        let groups = self.spec.task_groups.iter().filter(|group| group.scaling.is_some());
        groups.map(move |group| (ScalingPolicyId::derived(&key, self.create_index, &group.name), group))
    }

    /// The policy of a group in the form of the API, if it has one. The policies of a stopped job are disabled (N-21.3).
    pub fn scaling_policy(&self, group: &TaskGroup) -> Option<api_types::ScalingPolicy> {
        let policy = api_types::ScalingPolicy::clone(group.scaling.as_deref()?);
        let id = ScalingPolicyId::derived(&self.key(), self.create_index, &group.name);
        Some(api_types::ScalingPolicy {
            id: Some(id.to_string()),
            enabled: policy.enabled.map(|enabled| enabled && !self.spec.stop),
            policy: policy
                .policy
                .map(|rules| rules.into_iter().map(|(name, rule)| (name, as_floats(&rule))).collect()),
            create_index: Some(self.create_index.0),
            modify_index: Some(self.job_modify_index.0),
            ..policy
        })
    }

    /// Sets what the server knows about the policies in a job of the API: their ids and indexes (jobspec §12). Ids that
    /// are there already stay.
    pub(super) fn identify_scaling_policies(&self, api: &mut api_types::Job) {
        for group in api.task_groups.iter_mut().flatten() {
            let Some(policy) = &mut group.scaling else { continue };
            if policy.id.as_ref().is_some_and(|id| !id.is_empty()) {
                continue;
            }
            let name = group.name.as_deref().unwrap_or_default();
            let id = ScalingPolicyId::derived(&self.key(), self.create_index, name);
            policy.id = Some(id.to_string());
            policy.create_index = Some(self.create_index.0);
            policy.modify_index = Some(self.job_modify_index.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::job::JobSpec;

    fn job(id: &str, version: u64, create_index: u64) -> Job {
        let policy = api_types::ScalingPolicy {
            max: Some(5),
            enabled: Some(true),
            ..api_types::ScalingPolicy::default()
        };
        let group = |name: &str, scaling| TaskGroup { name: name.into(), scaling, ..TaskGroup::default() };
        let groups = vec![group("a", Some(Box::new(policy))), group("b", None)];
        let spec = JobSpec {
            namespace: "default".into(),
            id: id.into(),
            task_groups: groups.into(),
            ..JobSpec::default()
        };
        let (create_index, job_modify_index) = (Index(create_index), Index(create_index + version));
        Job { spec: Arc::new(spec), version, create_index, job_modify_index, ..Job::default() }
    }

    fn id(job: &Job) -> ScalingPolicyId {
        let ids: Vec<_> = job.scaling_policies().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), 1, "group b has no policy");
        ids[0]
    }

    #[test]
    fn the_id_of_a_policy_survives_updates_but_not_a_purge() {
        // N-26.6.
        assert_eq!(id(&job("web", 0, 7)), id(&job("web", 3, 7)));
        assert_ne!(id(&job("web", 0, 7)), id(&job("web", 0, 8)));
        assert_ne!(id(&job("web", 0, 7)), id(&job("wec", 0, 7)));
        let derived = |namespace: &str, job: &str, group: &str| {
            ScalingPolicyId::derived(&crate::JobKey::new(namespace, job), Index(7), group)
        };
        assert_ne!(derived("a", "bc", "d"), derived("ab", "c", "d"));
        assert_ne!(derived("a", "b", "cd"), derived("a", "bc", "d"));
    }

    #[test]
    fn jobs_of_the_api_show_the_ids_of_their_policies() {
        let job = job("web", 2, 7);
        let shown = job.to_api();
        let groups = shown.task_groups.unwrap();
        let policy = groups[0].scaling.as_deref().unwrap();
        assert_eq!(policy.id, Some(id(&job).to_string()));
        assert_eq!((policy.create_index, policy.modify_index), (Some(7), Some(9)));
        assert_eq!(job.scaling_policy(&job.spec.task_groups[0]).unwrap().id, policy.id);
        assert_eq!(job.scaling_policy(&job.spec.task_groups[1]), None);
    }

    #[test]
    fn policies_of_a_stopped_job_are_disabled() {
        // N-21.3.
        let mut job = job("web", 0, 7);
        assert_eq!(job.scaling_policy(&job.spec.task_groups[0]).unwrap().enabled, Some(true));
        Arc::make_mut(&mut job.spec).stop = true;
        assert_eq!(job.scaling_policy(&job.spec.task_groups[0]).unwrap().enabled, Some(false));
    }

    #[test]
    fn numbers_of_an_event_are_floats() {
        let meta = BTreeMap::from([("a".to_owned(), json!({ "b": [1, true, "x", null] }))]);
        let event = ScalingEvent { meta: Some(meta), ..ScalingEvent::default() };
        let shown = serde_json::to_string(&event.to_api().meta).unwrap();
        assert_eq!(shown, r#"{"a":{"b":[1.0,true,"x",null]}}"#);
    }
}
