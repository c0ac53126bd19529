//! Decodes and encodes objects recorded from the reference, and checks that no member is lost or changed.
//!
//! `states.jsonl` is from dumps of cluster states, which leave out most members that are null or zero.
//! `reads.jsonl` is from responses of the HTTP API, which must be reproduced with exactly the same members.

use api_types::decode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One object of `tests/data`.
#[derive(Deserialize)]
struct Recorded {
    kind: String,
    value: Value,
}

fn recorded(lines: &str) -> Vec<Recorded> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line of the test data is a recorded object"))
        .collect()
}

impl Recorded {
    /// The value, decoded into the struct that `kind` names and encoded again.
    fn encoded_again(&self) -> Value {
        match self.kind.as_str() {
            "AllocListStub" => self.through::<api_types::AllocListStub>(),
            "Allocation" => self.through::<api_types::Allocation>(),
            "CsiVolume" => self.through::<api_types::CsiVolume>(),
            "Deployment" => self.through::<api_types::Deployment>(),
            "Evaluation" => self.through::<api_types::Evaluation>(),
            "HostVolume" => self.through::<api_types::HostVolume>(),
            "Job" => self.through::<api_types::Job>(),
            "JobDeregisterResponse" => self.through::<api_types::JobDeregisterResponse>(),
            "JobListStub" => self.through::<api_types::JobListStub>(),
            "JobRegisterResponse" => self.through::<api_types::JobRegisterResponse>(),
            "JobSubmission" => self.through::<api_types::JobSubmission>(),
            "JobSummary" => self.through::<api_types::JobSummary>(),
            "Namespace" => self.through::<api_types::Namespace>(),
            "Node" => self.through::<api_types::Node>(),
            "NodeListStub" => self.through::<api_types::NodeListStub>(),
            "NodePool" => self.through::<api_types::NodePool>(),
            "SchedulerConfiguration" => self.through::<api_types::SchedulerConfiguration>(),
            "TaskGroupHostVolumeClaim" => self.through::<api_types::TaskGroupHostVolumeClaim>(),
            kind => panic!("no such kind: {kind}"),
        }
    }

    fn through<T: DeserializeOwned + Serialize>(&self) -> Value {
        let text = self.value.to_string();
        let object: T = decode::from_slice(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        serde_json::to_value(&object).expect("the API structs serialize to JSON")
    }
}

/// Removes members that are null, zero or empty, innermost first.
fn without_zeros(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, without_zeros(value)));
            Value::Object(members.filter(|(_, value)| !is_zero(value)).collect::<Map<_, _>>())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(without_zeros).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[test]
fn states_keep_every_member() {
    for object in recorded(include_str!("data/states.jsonl")) {
        assert_eq!(without_zeros(object.encoded_again()), without_zeros(object.value), "{}", object.kind);
    }
}

#[test]
fn reads_keep_null_zero_and_absent_apart() {
    for object in recorded(include_str!("data/reads.jsonl")) {
        assert_eq!(object.encoded_again(), object.value, "{}", object.kind);
    }
}
