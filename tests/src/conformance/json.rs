//! JSON in the form of the records, where members that are null or zero may be absent: normal form, and access to items,
//! members and texts.

use serde_json::Value;

/// Returns a value without members that are null or zero, except where zero differs from an absent member.
pub fn without_zeros(value: &Value) -> Value {
    strip(value, "")
}

/// `parent` is the name of the member that holds the value.
fn strip(value: &Value, parent: &str) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, strip(value, name)));
            let kept = members.filter(|(name, value)| {
                !value.is_null() && (zero_differs_from_absent(parent, name) || !is_zero(value))
            });
            kept.map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(|item| strip(item, parent)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Whether a member is an optional value, or an entry of a map.
fn zero_differs_from_absent(parent: &str, name: &str) -> bool {
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

/// The items of a list; none of another value.
pub(super) fn items(list: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Removes members of an object.
pub(super) fn remove(object: &mut Value, members: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        members.iter().for_each(|member| drop(object.remove(*member)));
    }
}

/// A text; an empty one if the value is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
