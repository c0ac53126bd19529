//! Compares conversions and defaults with jobs that were recorded from the reference.
//!
//! `data/jobs.jsonl` contains jobs of scheduler states. `data/job_files.jsonl` contains responses of the parse route to job
//! files, each with either the canonical response or the registered job. Both are extracts of `conformance/`.

use api_types::decode::from_slice;
use model::job::{Job, JobStatus};
use model::{RegistrationDefaults, canonicalise, canonicalise_for_registration};
use serde_json::{Map, Value};

const DEFAULTS: RegistrationDefaults<'_> = RegistrationDefaults { priority: 50, node_pool: "default" };

fn lines(file: &'static str) -> impl Iterator<Item = Value> {
    file.lines().map(|line| serde_json::from_str(line).expect("recorded lines are JSON"))
}

fn api_job(json: &Value) -> api_types::Job {
    from_slice(json.to_string().as_bytes()).expect("the recorded JSON is a job")
}

/// Removes members of objects, innermost first.
fn without(json: Value, drop: fn(&str, &Value) -> bool) -> Value {
    match json {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, without(value, drop)));
            Value::Object(members.filter(|(key, value)| !drop(key, value)).collect())
        }
        Value::Array(items) => items.into_iter().map(|item| without(item, drop)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => json,
    }
}

/// Whether recordings of job files omit the member.
fn is_absent(_: &str, value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// Whether recordings of states omit the member. They also omit zeros, except where zero differs from unset.
fn is_absent_or_zero(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        _ if ["Replace", "StopOnClientAfter"].contains(&key) => false,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn json(job: &api_types::Job, drop: fn(&str, &Value) -> bool) -> Value {
    without(serde_json::to_value(job).expect("jobs serialize to JSON"), drop)
}

#[test]
fn a_stored_job_comes_back_as_it_went_in() {
    for recorded in lines(include_str!("data/jobs.jsonl")) {
        let job = Job::from_api(api_job(&recorded)).unwrap();
        assert_eq!(json(&job.to_api(), is_absent_or_zero), without(recorded, is_absent_or_zero));
    }
}

#[test]
fn a_job_survives_the_log() {
    for recorded in lines(include_str!("data/jobs.jsonl")) {
        let job = Job::from_api(api_job(&recorded)).unwrap();
        let logged = rmp_serde::to_vec_named(&job).unwrap();
        assert_eq!(rmp_serde::from_slice::<Job>(&logged).unwrap(), job);
    }
}

#[test]
fn a_parsed_job_gets_the_defaults_of_the_parse_route() {
    for case in lines(include_str!("data/job_files.jsonl")).filter(|case| case["registered"].is_null()) {
        let mut job = api_job(&case["parse"]);
        canonicalise(&mut job);
        assert_eq!(json(&job, is_absent), json(&api_job(&case["canonical"]), is_absent), "{}", case["name"]);
    }
}

#[test]
fn a_registered_job_reads_as_the_server_shows_it() {
    for case in lines(include_str!("data/job_files.jsonl")).filter(|case| case["canonical"].is_null()) {
        let mut job = api_job(&case["parse"]);
        canonicalise_for_registration(&mut job, DEFAULTS);
        let read = Job::from_api(job).unwrap().to_api();
        // The recordings lack the members that the server sets.
        let expected = api_types::Job {
            status: Some(JobStatus::Pending.to_string()),
            create_index: Some(0),
            modify_index: Some(0),
            job_modify_index: Some(0),
            node_pool: read.node_pool.clone(),
            ..api_job(&case["registered"])
        };
        assert_eq!(json(&read, is_absent), json(&expected, is_absent), "{}", case["name"]);
    }
}

#[test]
fn a_job_that_is_read_and_registered_again_has_not_changed() {
    for case in lines(include_str!("data/job_files.jsonl")) {
        let mut job = api_job(&case["parse"]);
        canonicalise_for_registration(&mut job, DEFAULTS);
        let stored = Job::from_api(job).unwrap();
        let mut read = stored.to_api();
        canonicalise_for_registration(&mut read, DEFAULTS);
        assert_eq!(Job::from_api(read).unwrap().spec, stored.spec, "{}", case["name"]);
    }
}
