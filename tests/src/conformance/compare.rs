//! What differs between the recorded answer and ours.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checker;
use super::form::{Form, METRICS, items, remove};
use super::metrics;
use super::quirks::Freed;
use super::run::Ran;
use crate::recorded::Case;

/// What differs, a line for each; nothing if the two agree.
pub(super) fn differences(case: &Case, ran: &Ran, freed: &[Freed]) -> Vec<String> {
    let form = Form::new(case, freed);
    let (expected, got) = (form.of(&case.json["expect"]), form.of(&ran.expect));
    let mut found = Vec::new();
    differ("", &expected, &got, &mut found);
    for (before, plan) in &ran.plans {
        found.extend(checker::faults(before, plan));
    }
    found
}

fn differ(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(left), Value::Object(right)) => {
            let members: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for member in members.into_iter().filter(|member| *member != METRICS) {
                let [left, right] = [left, right].map(|side| side.get(member).unwrap_or(&Value::Null));
                differ(&format!("{path}/{member}"), left, right, found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (place, (left, right)) in left.iter().zip(right).enumerate() {
                differ(&format!("{path}/{place}"), left, right, found);
            }
            if path.ends_with("/placements") {
                found.extend(metrics::of_placements(path, left, right));
            }
        }
        (Value::Array(_), Value::Array(_)) => differ_as_sets(path, expected, got, found),
        _ if expected != got => found.push(format!("{path}: {expected} expected, {got} found")),
        _ => {}
    }
}

/// Lists of different lengths: what only one side has.
fn differ_as_sets(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    let without_metrics = |item: &Value| {
        let mut item = item.clone();
        remove(&mut item, &[METRICS]);
        item
    };
    let mut extra: Vec<Value> = items(got).map(without_metrics).collect();
    for item in items(expected).map(without_metrics) {
        match extra.iter().position(|other| *other == item) {
            Some(place) => drop(extra.remove(place)),
            None => found.push(format!("{path}: missing {item}")),
        }
    }
    found.extend(extra.iter().map(|item| format!("{path}: not expected {item}")));
}
