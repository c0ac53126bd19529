//! Values of templates: their size, and their conversion from and to JSON.

use std::sync::Arc;

use gotmpl::Value;
use serde_json::{Map, Number};

use crate::limits::{ELEMENT_BYTES, Limit, VALUE_BYTES_MAX, VALUE_DEPTH_MAX};

/// The size of a value in bytes, as limits count it.
///
/// # Errors
/// If the value is too large, or nested too deep.
pub(crate) fn size(value: &Value) -> Result<u64, Limit> {
    let mut bytes = 0;
    add(value, 0, &mut bytes)?;
    Ok(bytes)
}

fn add(value: &Value, depth: usize, bytes: &mut u64) -> Result<(), Limit> {
    if depth > VALUE_DEPTH_MAX {
        return Err(Limit::Depth);
    }
    let mut count = |length: usize| {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        *bytes = bytes.saturating_add(length).saturating_add(ELEMENT_BYTES);
        if *bytes > VALUE_BYTES_MAX { Err(Limit::Value) } else { Ok(()) }
    };
    let deeper = depth.saturating_add(1);
    match value {
        Value::String(text) => count(text.len()),
        Value::List(items) => {
            count(0)?;
            items.iter().try_for_each(|item| add(item, deeper, bytes))
        }
        Value::Map(members) => {
            count(0)?;
            for (key, member) in members.iter() {
                *bytes = bytes.saturating_add(u64::try_from(key.len()).unwrap_or(u64::MAX));
                add(member, deeper, bytes)?;
            }
            Ok(())
        }
        Value::Nil
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Float(_)
        | Value::Function(_) => count(0),
    }
}

/// A text.
pub(crate) fn string(text: impl AsRef<str>) -> Value {
    Value::String(text.as_ref().into())
}

/// A list.
pub(crate) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect::<Vec<_>>().into())
}

/// A list of texts.
pub(crate) fn strings(items: impl IntoIterator<Item = impl AsRef<str>>) -> Value {
    list(items.into_iter().map(string))
}

/// A map.
pub(crate) fn map(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Map(Arc::new(members.into_iter().map(|(key, value)| (Arc::from(key), value)).collect()))
}

/// The value of a JSON document. Numbers are whole where they have no fraction.
pub(crate) fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Uint(number),
            (None, None) => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => string(text),
        Json::Array(items) => list(items.iter().map(from_json)),
        Json::Object(members) => map(members.iter().map(|(key, value)| (key.clone(), from_json(value)))),
    }
}

/// The JSON document of a value. A number that JSON does not have becomes `null`.
pub(crate) fn to_json(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.to_string()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(members) => {
            let members = members.iter().map(|(key, value)| (key.to_string(), to_json(value)));
            Json::Object(members.collect::<Map<_, _>>())
        }
        Value::Nil | Value::Function(_) => Json::Null,
    }
}
