//! Comparing JSON as recorded states have it: without members that are null or zero.

use serde_json::Value;

/// A value less its members that are null or zero, except where zero differs from nothing.
pub fn without_zeros(value: &Value) -> Value {
    strip(value, "")
}

/// `parent` is the member that the value is the value of.
fn strip(value: &Value, parent: &str) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, strip(value, name)));
            let kept = members.filter(|(name, value)| {
                !value.is_null() && (zero_differs_from_nothing(parent, name) || !is_zero(value))
            });
            kept.map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(|item| strip(item, parent)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Whether a member is an optional value, or an entry of a map.
fn zero_differs_from_nothing(parent: &str, name: &str) -> bool {
    let is_optional = matches!(
        (parent, name),
        ("DeploymentStatus", "Healthy")
            | ("SchedulerConfiguration", "MemoryOversubscriptionEnabled")
            | ("Disconnect", "Replace" | "StopOnClientAfter")
            | ("DesiredTransition", _)
            | (_, "DrainStrategy" | "RescheduleTracker")
    );
    is_optional || MAPS.contains(&parent)
}

/// Members that are maps.
const MAPS: &[&str] = &[
    "Attributes",
    "ClassEligibility",
    "Drivers",
    "FailedTGAllocs",
    "HostVolumes",
    "Meta",
    "QueuedAllocations",
    "Scores",
    "TaskStates",
];

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
