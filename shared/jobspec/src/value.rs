//! Values of expressions, and how one kind becomes another (`spec/jobspec.md` §8).

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::number::Number;

/// What an expression is worth. References to what only the node knows are the text of the reference (§4).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// What messages call values like it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::List(_) => "tuple",
            Value::Object(_) => "object",
        }
    }

    pub(crate) fn to_text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null | Value::List(_) | Value::Object(_) => None,
        }
    }

    pub(crate) fn to_number(&self) -> Option<Number> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => Number::parse(text),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Object(_) => None,
        }
    }

    pub(crate) fn to_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            Value::Text(text) => match text.as_str() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => None,
            },
            Value::Null | Value::Number(_) | Value::List(_) | Value::Object(_) => None,
        }
    }

    /// What free-form blocks hold: numbers are whole ones of 64 bits or doubles.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::from(*flag),
            Value::Number(number) => match (number.to_i64(), number.to_u64()) {
                (Some(whole), _) => Json::from(whole),
                (None, Some(whole)) => Json::from(whole),
                (None, None) => Json::from(number.to_f64()),
            },
            Value::Text(text) => Json::from(text.as_str()),
            Value::List(values) => values.iter().map(Value::to_json).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), value.to_json())).collect()
            }
        }
    }

    /// Roughly the bytes that a copy of it takes.
    pub(crate) fn weight(&self) -> usize {
        let own = size_of::<Value>();
        match self {
            Value::Null | Value::Bool(_) | Value::Number(_) => own,
            Value::Text(text) => own + text.len(),
            Value::List(values) => own + values.iter().map(Value::weight).sum::<usize>(),
            Value::Object(members) => {
                own + members.iter().map(|(name, value)| own + name.len() + value.weight()).sum::<usize>()
            }
        }
    }
}
