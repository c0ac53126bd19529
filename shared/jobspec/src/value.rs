//! Values of expressions, and how one kind becomes another (`spec/jobspec.md` §8).

use std::collections::BTreeMap;

use serde_json::Value as Json;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use crate::number::Number;

/// What an expression is worth. References to what only the node knows are the text of the reference (§4).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    /// In the normal form NFC, as [`Value::text`] makes it.
    Text(String),
    List(Sequence, Vec<Value>),
    Map(Mapping, BTreeMap<String, Value>),
}

/// Kinds of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Of any kinds: what is written in brackets.
    Tuple,
    /// Of one kind.
    List,
    /// Of one kind, each once, in order.
    Set,
}

/// Kinds of what has names for its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Of any kinds: what is written in braces.
    Object,
    /// Of one kind.
    Map,
}

impl Value {
    /// A text in normal form.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        let text = text.into();
        if text.is_ascii() || is_nfc(&text) { Value::Text(text) } else { Value::Text(text.nfc().collect()) }
    }

    /// What is written in brackets.
    pub(crate) fn tuple(values: Vec<Value>) -> Value {
        Value::List(Sequence::Tuple, values)
    }

    /// What is written in braces.
    pub(crate) fn object(members: BTreeMap<String, Value>) -> Value {
        Value::Map(Mapping::Object, members)
    }

    /// What messages call values like it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::List(Sequence::Tuple, _) => "tuple",
            Value::List(Sequence::List, _) => "list",
            Value::List(Sequence::Set, _) => "set",
            Value::Map(Mapping::Object, _) => "object",
            Value::Map(Mapping::Map, _) => "map",
        }
    }

    pub(crate) fn to_text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null | Value::List(..) | Value::Map(..) => None,
        }
    }

    pub(crate) fn to_number(&self) -> Option<Number> {
        match self {
            Value::Number(number) => Some(number.clone()),
            Value::Text(text) => Number::parse(text),
            Value::Null | Value::Bool(_) | Value::List(..) | Value::Map(..) => None,
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
            Value::Null | Value::Number(_) | Value::List(..) | Value::Map(..) => None,
        }
    }

    /// Whether there is a number without end in it, which JSON has no form for.
    pub(crate) fn has_infinity(&self) -> bool {
        match self {
            Value::Number(number) => number.is_infinite(),
            Value::List(_, values) => values.iter().any(Value::has_infinity),
            Value::Map(_, members) => members.values().any(Value::has_infinity),
            Value::Null | Value::Bool(_) | Value::Text(_) => false,
        }
    }

    /// What free-form blocks hold: numbers are whole ones of 64 bits with a sign, or doubles.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::from(*flag),
            Value::Number(number) => number.to_i64().map_or_else(|| Json::from(number.to_f64()), Json::from),
            Value::Text(text) => Json::from(text.as_str()),
            Value::List(_, values) => values.iter().map(Value::to_json).collect(),
            Value::Map(_, members) => {
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
            Value::List(_, values) => own + values.iter().map(Value::weight).sum::<usize>(),
            Value::Map(_, members) => {
                own + members.iter().map(|(name, value)| own + name.len() + value.weight()).sum::<usize>()
            }
        }
    }
}
