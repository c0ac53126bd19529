//! Compares the parser's results with recorded results of the reference (`tests/data/README.md`).
//!
//! Intended differences are listed below with their reasons. A listed case that agrees fails the test.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proptest::{prelude::*, sample};
use serde_json::{Map, Value};

/// A job file and the reference's result.
#[derive(Debug, Clone)]
struct Case {
    name: String,
    json: Value,
}

fn cases() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/jobspec");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.into_iter().map(|file| fs::read_to_string(file).unwrap());
    let lines: Vec<Value> = texts
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
        .collect();
    lines.into_iter().map(|json| Case { name: json["name"].as_str().unwrap().to_owned(), json }).collect()
}

/// Drops members of objects for which `drop` is true, from the inside out.
fn without(json: Value, drop: fn(&Value) -> bool) -> Value {
    match json {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, without(value, drop)));
            Value::Object(members.filter(|(_, value)| !drop(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(|item| without(item, drop)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => json,
    }
}

fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

fn json(job: &api_types::Job, drop: fn(&Value) -> bool) -> Value {
    without(jobspec::parse_route_json(job), drop)
}

/// The path of the first difference between two values, and the difference.
fn first_difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let member = |key: &String| {
                (a.get(key).unwrap_or(&Value::Null).clone(), b.get(key).unwrap_or(&Value::Null).clone())
            };
            keys.into_iter()
                .find_map(|key| first_difference(&format!("{path}.{key}"), &member(key).0, &member(key).1))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(a, b)| first_difference(&format!("{path}[]"), a, b))
        }
        _ => (ours != theirs).then(|| format!("{path}: {ours} instead of {theirs}")),
    }
}

fn parse(case: &Case) -> Result<api_types::Job, jobspec::Error> {
    let variables = case.json["variables"].as_str().unwrap_or_default().to_owned();
    let file = jobspec::Variables::File { name: "input.hcl".to_owned(), text: variables };
    let options = jobspec::Options { variables: vec![file], ..jobspec::Options::default() };
    jobspec::parse(case.json["source"].as_str().unwrap(), &options)
}

/// The difference of a case, if there is one.
fn difference(case: &Case) -> Option<String> {
    let recorded = &case.json;
    match (parse(case), recorded.get("error")) {
        (Ok(job), None) => {
            let expected = without(recorded["parse"].clone(), is_absent);
            let parsed = json(&job, is_absent);
            let mut canonical = job;
            model::canonicalise(&mut canonical);
            let expected_canonical = without(recorded["canonical"].clone(), is_absent);
            let canonical = json(&canonical, is_absent);
            first_difference("", &parsed, &expected)
                .or_else(|| first_difference("canonical ", &canonical, &expected_canonical))
        }
        (Err(error), Some(expected)) => {
            let line = error.diagnostics[0].place.as_ref().map_or(0, |place| place.line) as u64;
            let lines = recorded["lines"]
                .as_array()
                .cloned()
                .unwrap_or_else(|| recorded.get("line").cloned().into_iter().collect());
            let fits = lines.is_empty() || lines.contains(&Value::from(line));
            (!fits).then(|| format!("the error {error}\nis not at the line of {expected}"))
        }
        (Ok(_), Some(expected)) => Some(format!("no error, expected {expected}")),
        (Err(error), None) => Some(format!("{error}")),
    }
}

/// Intended differences by the names of their cases. Cases with a `quirk` may differ, and are not listed.
const DIFFERENT: &[(&str, &[&str])] =
    &[("the reference gives a task secrets twice (a quirk, §1)", &["realistic-45"])];

#[test]
fn files_mean_what_they_meant_to_the_reference() {
    let expected: BTreeMap<&str, &str> =
        DIFFERENT.iter().flat_map(|(reason, names)| names.iter().map(|name| (*name, *reason))).collect();
    let mut agreed = 0;
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| case.json.get("quirk").is_none()) {
        match (difference(case), expected.get(case.name.as_str())) {
            (None, None) => agreed += 1,
            (Some(_), Some(_)) => {}
            (Some(difference), None) => wrong.push(format!("{}: {difference}", case.name)),
            (None, Some(reason)) => wrong.push(format!("{} agrees: {reason:?} is out of date", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(agreed > 680, "{agreed}");
}

proptest! {
    #[test]
    fn filling_in_defaults_twice_changes_nothing(case in sample::select(cases())) {
        let Ok(mut once) = parse(&case) else { return Ok(()) };
        model::canonicalise(&mut once);
        let mut twice = once.clone();
        model::canonicalise(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_job_shown_and_read_again_is_the_same(case in sample::select(cases())) {
        let Ok(job) = parse(&case) else { return Ok(()) };
        let json = jobspec::parse_route_json(&job);
        let again: api_types::Job = api_types::decode::from_slice(json.to_string().as_bytes()).unwrap();
        prop_assert_eq!(jobspec::parse_route_json(&again), json);
    }
}
