//! Values of expressions, and conversions between their kinds (`docs/rules/jobspec.md` §8).

use std::collections::BTreeMap;

use serde_json::Value as Json;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use crate::number::Number;

/// The value of an expression. A reference that only the node can resolve is represented by its text (§4).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    /// A text in normal form NFC, as created by [`Value::text`].
    Text(String),
    List(Sequence, Vec<Value>),
    Map(Mapping, BTreeMap<String, Value>),
}

/// Kinds of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Elements of any kinds: an expression in brackets.
    Tuple,
    /// Elements of one kind.
    List,
    /// Elements of one kind, sorted and without duplicates.
    Set,
}

/// Kinds of mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Values of any kinds: an expression in braces.
    Object,
    /// Values of one kind.
    Map,
}

impl Value {
    /// A text, converted to NFC.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        let text = text.into();
        if text.is_ascii() || is_nfc(&text) { Value::Text(text) } else { Value::Text(text.nfc().collect()) }
    }

    /// A tuple.
    pub(crate) fn tuple(values: Vec<Value>) -> Value {
        Value::List(Sequence::Tuple, values)
    }

    /// An object.
    pub(crate) fn object(members: BTreeMap<String, Value>) -> Value {
        Value::Map(Mapping::Object, members)
    }

    /// The name of the value's kind in messages.
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

    /// Whether the value contains an infinite number, which JSON cannot represent.
    pub(crate) fn has_infinity(&self) -> bool {
        match self {
            Value::Number(number) => number.is_infinite(),
            Value::List(_, values) => values.iter().any(Value::has_infinity),
            Value::Map(_, members) => members.values().any(Value::has_infinity),
            Value::Null | Value::Bool(_) | Value::Text(_) => false,
        }
    }

    /// The value as JSON for free-form blocks. Numbers are signed integers of 64 bits, or doubles.
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

    /// The cost of the value: the memory of a copy, and the steps of printing it.
    pub(crate) fn cost(&self) -> Cost {
        let own = size_of::<Value>();
        match self {
            Value::Null | Value::Bool(_) => Cost { bytes: own, ..Cost::default() },
            Value::Number(number) => Cost { bytes: own + number.bytes(), steps: number.steps(), depth: 0 },
            Value::Text(text) => Cost { bytes: own + text.len(), ..Cost::default() },
            Value::List(_, values) => values
                .iter()
                .fold(Cost { bytes: own, steps: 0, depth: 1 }, |sum, value| sum.with(value.cost())),
            Value::Map(_, members) => {
                members.iter().fold(Cost { bytes: own, steps: 0, depth: 1 }, |mut sum, (name, value)| {
                    sum.bytes += own + name.len();
                    sum.with(value.cost())
                })
            }
        }
    }
}

/// The cost of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The approximate size of a copy, in bytes.
    pub(crate) bytes: usize,
    /// The cost of printing its numbers, in steps of an evaluation.
    pub(crate) steps: usize,
    /// How deeply lists and maps are nested; 0 for a value that is neither.
    pub(crate) depth: usize,
}

impl Cost {
    /// Adds the cost of a value that a list or a map contains.
    fn with(self, inner: Cost) -> Cost {
        Cost {
            bytes: self.bytes.saturating_add(inner.bytes),
            steps: self.steps.saturating_add(inner.steps),
            depth: self.depth.max(inner.depth + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_costs_what_is_in_it() {
        let flat = Value::tuple(vec![Value::text("abc"), Value::Null]);
        let own = size_of::<Value>();
        assert_eq!(flat.cost(), Cost { bytes: 3 * own + 3, steps: 0, depth: 1 });
        let nested =
            Value::object(BTreeMap::from([("k".to_owned(), flat), ("l".to_owned(), Value::Bool(true))]));
        assert_eq!(nested.cost(), Cost { bytes: 7 * own + 5, steps: 0, depth: 2 });
        assert_eq!(Value::tuple(Vec::new()).cost().depth, 1);
        assert!(Value::Number(Number::parse("1e-400").unwrap()).cost().steps > 100);
    }
}
