//! Compares diffs of jobs with recorded ones: the dry runs of `data/http/plan.jsonl` that request a diff.

use std::collections::BTreeMap;
use std::path::Path;

use model::diff::{annotate, diff};
use model::eval::DesiredUpdates;
use model::{Map, RegistrationDefaults, Text, canonicalise_for_registration};
use serde_json::Value;

/// Scenes whose diff differs by intent, and why.
const DIFFERENT: [(&str, &str); 2] = [
    ("plan/group-fields, 22", "no constraints are added to jobs for what their tasks imply (N-17.6)"),
    ("plan/task-fields, 42", "no constraints are added to jobs for what their tasks imply (N-17.6)"),
];

#[test]
fn recorded_changes_read_as_they_did() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/http/plan.jsonl");
    let text = std::fs::read_to_string(file).expect("the file is part of the repository");
    let (mut seen, mut faults) = (0, Vec::new());
    for line in text.lines() {
        let scene: Value = serde_json::from_str(line).expect("each line is a scene");
        let mut registered: BTreeMap<String, api_types::Job> = BTreeMap::new();
        for step in scene["steps"].as_array().into_iter().flatten() {
            let request = step["do"].as_str().unwrap_or_default();
            if let Some(job) = stopped(request).and_then(|id| registered.get_mut(id)) {
                job.stop = Some(true);
            }
            let Some(job) = step["body"]["Job"].as_object().map(|_| read(&step["body"]["Job"])) else {
                continue;
            };
            let id = job.id.clone().unwrap_or_default();
            if request == "PUT /v1/jobs" && step["want"]["status"] == 200 {
                registered.insert(id, job);
                continue;
            }
            let wanted = &step["want"]["json"];
            if !request.ends_with("/plan") || wanted["Diff"].is_null() {
                continue;
            }
            seen += 1;
            let mut found = diff(registered.get(&id), Some(&job));
            annotate(&mut found, &updates(&wanted["Annotations"]["DesiredTGUpdates"]));
            let got = serde_json::to_value(found).expect("a diff can be encoded as JSON");
            let expected = &wanted["Diff"];
            let name = format!("{}, {seen}", scene["scene"].as_str().unwrap_or_default());
            let is_known = DIFFERENT.iter().any(|(scene, _)| *scene == name);
            if fits(expected, &got) == is_known {
                faults.push(format!("{name}:\n  expected {expected}\n  found    {got}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {seen}\n{}", faults.len(), faults.join("\n"));
    assert!(seen > 50, "only {seen} diffs were compared");
}

/// Returns the id of the job that a request stops.
fn stopped(request: &str) -> Option<&str> {
    request.strip_prefix("DELETE /v1/job/")?.split('?').next()
}

fn read(json: &Value) -> api_types::Job {
    let mut job: api_types::Job =
        api_types::decode::from_slice(json.to_string().as_bytes()).expect("a recorded job can be decoded");
    let defaults = RegistrationDefaults { priority: 50, node_pool: "default" };
    job.namespace.get_or_insert_with(|| "default".to_owned());
    job.region.get_or_insert_with(|| "global".to_owned());
    canonicalise_for_registration(&mut job, defaults);
    let spec = model::job::Job::from_api(job).expect("a recorded job is valid");
    api_types::Job { stop: Some(spec.spec.stop), ..spec.to_api() }
}

fn updates(groups: &Value) -> Map<Text, DesiredUpdates> {
    let groups = groups.as_object().into_iter().flatten();
    groups
        .map(|(group, counts)| {
            let count = |what: &str| counts[what].as_u64().unwrap_or(0);
            let updates = DesiredUpdates {
                ignore: count("Ignore"),
                place: count("Place"),
                migrate: count("Migrate"),
                stop: count("Stop"),
                in_place_update: count("InPlaceUpdate"),
                destructive_update: count("DestructiveUpdate"),
                canary: count("Canary"),
                ..DesiredUpdates::default()
            };
            (group.as_str().into(), updates)
        })
        .collect()
}

/// Whether a value is the expected one. A list is in the same order only if it is marked so. A null member may be absent.
fn fits(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => expected.keys().chain(got.keys()).all(|name| {
            let [expected, got] = [expected, got].map(|members| members.get(name).unwrap_or(&Value::Null));
            fits(expected, got)
        }),
        (Value::Array(expected), Value::Array(got)) => {
            let is_ordered = expected.first().is_some_and(|first| first == "<ordered>");
            let mut expected: Vec<&Value> = expected.iter().filter(|item| !is_mark(item)).collect();
            let mut got: Vec<&Value> = got.iter().collect();
            if !is_ordered {
                for items in [&mut expected, &mut got] {
                    items.sort_by_key(|item| plain(item).to_string());
                }
            }
            expected.len() == got.len() && expected.iter().zip(got).all(|(expected, got)| fits(expected, got))
        }
        (expected, got) => expected == got,
    }
}

/// Whether an item of a list is a mark of the records.
fn is_mark(item: &Value) -> bool {
    item.as_str().is_some_and(|text| text.starts_with('<'))
}

/// Drops null members and the marks of the records, and sorts lists.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            members.map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().filter(|item| !is_mark(item)).map(plain).collect();
            items.sort_by_key(Value::to_string);
            items.into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
