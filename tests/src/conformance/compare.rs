//! Compares the recorded answer with ours.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checker;
use super::json::{items, remove};
use super::metrics;
use super::normalize::{METRICS, Normalizer};
use super::quirks::Exemption;
use super::run::RunResult;
use crate::recorded::Case;

/// Returns the differences, a line for each. Returns nothing if the two agree.
pub(super) fn differences(case: &Case, result: &RunResult, exempt: &[Exemption]) -> Vec<String> {
    let normalizer = Normalizer::new(case, exempt);
    let (expected, got) = (normalizer.normalize(&case.json["expect"]), normalizer.normalize(&result.expect));
    let mut found = Vec::new();
    differ("", &expected, &got, &mut found);
    for (before, plan) in &result.plans {
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
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differ(&format!("{path}/{index}"), left, right, found);
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

/// Compares lists of different lengths: reports the items that only one of them has.
fn differ_as_sets(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    let without_metrics = |item: &Value| {
        let mut item = item.clone();
        remove(&mut item, &[METRICS]);
        item
    };
    let mut extra: Vec<Value> = items(got).map(without_metrics).collect();
    for item in items(expected).map(without_metrics) {
        match extra.iter().position(|other| *other == item) {
            Some(index) => drop(extra.remove(index)),
            None => found.push(format!("{path}: missing {item}")),
        }
    }
    found.extend(extra.iter().map(|item| format!("{path}: not expected {item}")));
}
