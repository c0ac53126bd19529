//! Property tests that arbitrary objects of the API and arbitrary messages are either accepted or refused with the path of
//! the invalid value, and never cause a panic.

use std::fmt::Debug;

use model::alloc::{Allocation, PackedTaskStates};
use model::change::{AllocsChanged, ChangeSet};
use model::columns::AllocIds;
use model::job::Job;
use model::node::Node;
use model::plan::Placements;
use model::{Index, Invalid, JobKey, JobVersionKey, canonicalise};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object(kind: &str) -> Value {
    let objects: Value =
        serde_json::from_str(include_str!("data/objects.json")).expect("the test data is JSON");
    objects[kind].clone()
}

fn recorded_jobs() -> Vec<Value> {
    let lines = include_str!("data/jobs.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("recorded lines are JSON")).collect()
}

/// Collects the paths of all nested values, outermost first.
fn collect_paths(value: &Value, path: Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut descend = |step: String, inner| {
        let path = [path.clone(), vec![step]].concat();
        paths.push(path.clone());
        collect_paths(inner, path, paths);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| descend(name.clone(), inner)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, inner)| descend(index.to_string(), inner))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, step| {
        if value.is_array() {
            &mut value[step.parse::<usize>().expect("the step is an index of the list")]
        } else {
            &mut value[step]
        }
    })
}

/// An object in which one value is replaced, and the path of that value.
fn damaged(object: impl Strategy<Value = Value>) -> impl Strategy<Value = (Value, Vec<String>)> {
    let new = (number(), text(), anything(), any::<bool>());
    (object, any::<sample::Index>(), new).prop_map(|(mut object, index, (number, text, other, keep_type))| {
        let mut paths = Vec::new();
        collect_paths(&object, Vec::new(), &mut paths);
        let path = paths.swap_remove(index.index(paths.len()));
        let old = at(&mut object, &path);
        *old = if keep_type && old.is_number() {
            number
        } else if keep_type && old.is_string() {
            text
        } else {
            other
        };
        (object, path)
    })
}

fn number() -> impl Strategy<Value = Value> {
    let bounds = [-2, -1, 0, 1, 65_535, 65_536, 1 << 32, i64::MIN, i64::MAX];
    prop_oneof![
        sample::select(bounds.to_vec()).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ]
}

fn text() -> impl Strategy<Value = Value> {
    let texts = ["", "ready", "web.app[4294967296]", "0001-01-01T00:00:00Z", "2261-12-31T00:00:00Z"];
    prop_oneof![
        sample::select(texts.to_vec()).prop_map(Value::from),
        "\\PC{0,8}|[0-9a-f-]{36}".prop_map(Value::from),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    let others = json!([null, false, true, [], {}, [null], [{}], { "": {} }]);
    let others = others.as_array().expect("the JSON is a list").clone();
    prop_oneof![number(), text(), sample::select(others)]
}

/// The steps of a path of [`Invalid`]. Keys of maps may contain dots and are split there as well.
fn steps(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect()
}

/// Converts `json`, in which the value at `path` was replaced. If the domain accepts it, checks that it can be converted
/// back and serialized without loss.
fn check<A, T>(
    json: Value,
    path: &[String],
    from_api: impl Fn(A) -> Result<T, Invalid>,
    to_api: impl Fn(&T) -> A,
) -> Result<(), TestCaseError>
where
    A: DeserializeOwned + Serialize,
    T: Debug + PartialEq + DeserializeOwned + Serialize,
{
    let Ok(api) = serde_json::from_value::<A>(json) else { return Ok(()) };
    match from_api(api) {
        Ok(object) => {
            serde_json::to_value(to_api(&object)).expect("objects of the API serialize to JSON");
            let message = rmp_serde::to_vec_named(&object).expect("domain objects serialize to MessagePack");
            let decoded = rmp_serde::from_slice::<T>(&message).expect("a serialized object can be decoded");
            prop_assert_eq!(decoded, object);
        }
        Err(error) => {
            let path = path.join(".");
            let (replaced, reported) = (steps(&path), steps(&error.path));
            // Tasks and their lifecycles are separate members that refer to each other, so that a change of one may
            // invalidate the other.
            let root = &["AllocatedResources"];
            let is_related = replaced.starts_with(root) && reported.starts_with(root);
            let common = replaced.iter().zip(&reported).take_while(|(a, b)| a == b).count();
            prop_assert!(
                !reported.is_empty() && (is_related || common == replaced.len().min(reported.len())),
                "{path} replaced: {error}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_job_is_read_or_refused((job, path) in damaged(sample::select(recorded_jobs()))) {
        check(job, &path, Job::from_api, Job::to_api)?;
    }

    #[test]
    fn a_job_is_made_canonical((job, _) in damaged(sample::select(recorded_jobs()))) {
        if let Ok(mut job) = serde_json::from_value::<api_types::Job>(job) {
            canonicalise(&mut job);
            let _ = Job::from_api(job);
        }
    }

    #[test]
    fn a_node_is_read_or_refused((node, path) in damaged(Just(object("node")))) {
        check(node, &path, Node::from_api, Node::to_api)?;
    }

    #[test]
    fn an_allocation_is_read_or_refused((alloc, path) in damaged(Just(object("alloc")))) {
        let job = JobVersionKey { job: JobKey::new("default", "web"), create_index: Index(7), version: 2 };
        check(alloc, &path, |api| Allocation::from_api(api, job.clone()), Allocation::to_dump)?;
    }

    #[test]
    fn a_message_is_read_or_refused(bytes in vec(any::<u8>(), 0..60)) {
        let _ = rmp_serde::from_slice::<AllocIds>(&bytes);
        let _ = rmp_serde::from_slice::<Placements>(&bytes);
        let _ = rmp_serde::from_slice::<AllocsChanged>(&bytes);
        let _ = rmp_serde::from_slice::<ChangeSet>(&bytes);
        let _ = serde_json::from_slice::<AllocIds>(&bytes);
        if let Ok(states) = rmp_serde::from_slice::<PackedTaskStates>(&bytes) {
            let _ = states.unpack();
        }
    }

    #[test]
    fn a_text_is_read_or_refused(text in "\\PC{0,40}|[0-9a-f-]{36}") {
        let _ = text.parse::<model::NodeId>();
        let _ = text.parse::<model::job::Operand>();
        let (stem, index) = model::alloc::split_alloc_name(&text);
        prop_assert_eq!(&*model::alloc::alloc_name(&stem.into(), index), text);
    }
}
