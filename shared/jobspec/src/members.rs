//! Access to the members of values: attributes of objects, and elements with an index or a key.

use std::collections::BTreeMap;

use crate::{
    environment::Environment,
    fault::{Evaluated, Fault},
    position::At,
    shown::quoted,
    suggest::{self, nearest},
    value::{Sequence, Value},
};

/// Summary of the error for a reference to an unknown attribute.
pub(crate) const UNSUPPORTED_ATTRIBUTE: &str = "Unsupported attribute";

/// The error for a reference to an attribute that an object does not have. The search for a suggestion counts as steps,
/// because expressions can try many references.
pub(crate) fn no_attribute(
    name: &str,
    members: &BTreeMap<String, Value>,
    at: &At,
    environment: &Environment<'_>,
) -> Box<Fault> {
    let known: Vec<&str> = members.keys().map(String::as_str).take(suggest::NAMES_MAX).collect();
    if let Err(fault) = environment.take_steps(at, suggest::steps(name, &known)) {
        return fault;
    }
    let near = nearest(name, &known);
    let near = near.map(|near| format!(". Did you mean {near:?}?")).unwrap_or_default();
    let detail = format!("this object has no attribute {}{near}", quoted(name));
    Box::new(Fault::new(at.clone(), UNSUPPORTED_ATTRIBUTE, detail))
}

/// The attribute of an object with a name.
pub(crate) fn attribute(value: Value, name: &str, at: &At, environment: &Environment<'_>) -> Evaluated {
    match value {
        Value::Map(_, mut members) => match members.remove(name) {
            Some(member) => Ok(member),
            None => Err(no_attribute(name, &members, at, environment)),
        },
        Value::Null => {
            let detail = format!("null has no attribute {}", quoted(name));
            Err(Box::new(Fault::new(at.clone(), "Attempt to get attribute from null value", detail)))
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(..)) => {
            let detail = format!("a value of the kind {} has no attribute {}", other.kind(), quoted(name));
            Err(Box::new(Fault::new(at.clone(), UNSUPPORTED_ATTRIBUTE, detail)))
        }
    }
}

/// The element of a collection with an index or a key.
pub(crate) fn indexed(value: Value, key: &Value, at: &At) -> Evaluated {
    let fault = |detail: String| Err(Box::new(Fault::new(at.clone(), "Invalid index", detail)));
    match value {
        Value::List(Sequence::Set, _) => fault("the elements of a set have no indexes".to_owned()),
        Value::List(_, mut values) => {
            match key.to_number().and_then(|key| key.to_u64()).and_then(|at| usize::try_from(at).ok()) {
                Some(index) if index < values.len() => Ok(values.swap_remove(index)),
                _ => fault(format!(
                    "the index must be a whole number below the length of the list, {}",
                    values.len()
                )),
            }
        }
        Value::Map(_, mut members) => match key.to_text().and_then(|key| members.remove(&key)) {
            Some(value) => Ok(value),
            None => fault("this object has no such key".to_owned()),
        },
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_)) => {
            fault(format!("a value of the kind {} has no elements", other.kind()))
        }
    }
}
