//! Whatever stands in an object of the API or in a message: it is read or refused with its place, never a panic.

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
    let objects: Value = serde_json::from_str(include_str!("data/objects.json")).expect("the file is JSON");
    objects[kind].clone()
}

fn recorded_jobs() -> Vec<Value> {
    let lines = include_str!("data/jobs.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("recorded lines are JSON")).collect()
}

/// Every value within, outermost first, by its path.
fn places(value: &Value, path: Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut descend = |step: String, inner| {
        let path = [path.clone(), vec![step]].concat();
        found.push(path.clone());
        places(inner, path, found);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| descend(name.clone(), inner)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, inner)| descend(place.to_string(), inner))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, step| {
        if value.is_array() {
            &mut value[step.parse::<usize>().expect("the step is a place")]
        } else {
            &mut value[step]
        }
    })
}

/// An object with one value of it replaced, and the path of that.
fn damaged(object: impl Strategy<Value = Value>) -> impl Strategy<Value = (Value, Vec<String>)> {
    let new = (number(), text(), anything(), any::<bool>());
    (object, any::<sample::Index>(), new).prop_map(|(mut object, place, (number, text, other, alike))| {
        let mut found = Vec::new();
        places(&object, Vec::new(), &mut found);
        let path = found.swap_remove(place.index(found.len()));
        let old = at(&mut object, &path);
        *old = if alike && old.is_number() {
            number
        } else if alike && old.is_string() {
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
    let others = others.as_array().expect("it is a list").clone();
    prop_oneof![number(), text(), sample::select(others)]
}

/// Steps of a path as [`Invalid`] writes it. Keys of maps may have dots in them, so all are split there.
fn steps(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect()
}

/// Reads `json`, which was replaced at `path`. If the domain takes it, it survives being written and sent.
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
            serde_json::to_value(to_api(&object)).expect("an object is JSON");
            let message = rmp_serde::to_vec_named(&object).expect("an object is MessagePack");
            prop_assert_eq!(rmp_serde::from_slice::<T>(&message).expect("what was sent is readable"), object);
        }
        Err(error) => {
            let path = path.join(".");
            let (at, said) = (steps(&path), steps(&error.path));
            // Tasks and their lifecycles stand side by side, so one may miss the other.
            let beside = at.starts_with(&["AllocatedResources"]) && said.starts_with(&["AllocatedResources"]);
            let common = at.iter().zip(&said).take_while(|(at, said)| at == said).count();
            prop_assert!(
                !said.is_empty() && (beside || common == at.len().min(said.len())),
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
