//! Reads a driver configuration key by key. Job files write the same thing in several ways: a block is an object, or a list
//! of objects if it was written as a block; numbers and bools may be texts. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use model::text::quoted;
use serde_json::{Map, Value};

/// The keys of a block that have not been read yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fields {
    /// The keys of the blocks around it, such as `mount.`.
    place: String,
    values: Map<String, Value>,
}

impl Fields {
    /// The keys of a whole configuration.
    pub(super) fn new(values: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self { place: String::new(), values: values.into_iter().collect() }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// If there are keys that nothing has read, and which would have no effect.
    pub(super) fn finish(self) -> Result<(), String> {
        let mut unknown = self.values.keys().map(|key| quoted(&format!("{}{key}", self.place)));
        match unknown.next() {
            None => Ok(()),
            Some(first) => {
                let all = unknown.fold(first, |all, key| format!("{all}, {key}"));
                Err(format!("unknown key {all}"))
            }
        }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.values.remove(key).filter(|value| !value.is_null())
    }

    fn read<T>(
        &mut self,
        key: &str,
        what: &str,
        convert: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let found = kind(&value);
        convert(&value).map(Some).ok_or_else(|| format!("{}{key}: expected {what}, not {found}", self.place))
    }

    /// A text that may be absent.
    pub(super) fn maybe_text(&mut self, key: &str) -> Result<Option<String>, String> {
        self.read(key, "a string", text)
    }

    /// A text; empty if it is absent.
    pub(super) fn text(&mut self, key: &str) -> Result<String, String> {
        Ok(self.maybe_text(key)?.unwrap_or_default())
    }

    /// A bool that may be absent.
    pub(super) fn maybe_flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        self.read(key, "true or false", flag)
    }

    /// A bool; false if it is absent.
    pub(super) fn flag(&mut self, key: &str) -> Result<bool, String> {
        Ok(self.maybe_flag(key)?.unwrap_or_default())
    }

    /// A whole number that may be absent.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<i64>, String> {
        self.read(key, "a whole number", number)
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let texts = |value: &Value| -> Option<Vec<String>> { value.as_array()?.iter().map(text).collect() };
        Ok(self.read(key, "a list of strings", texts)?.unwrap_or_default())
    }

    /// A list of texts that may be absent; one text is a list of one.
    pub(super) fn maybe_texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let texts = |value: &Value| -> Option<Vec<String>> {
            match value.as_array() {
                Some(items) => items.iter().map(text).collect(),
                None => Some(vec![text(value)?]),
            }
        };
        self.read(key, "a list of strings", texts)
    }

    /// A duration, such as `5m`.
    pub(super) fn duration(&mut self, key: &str) -> Result<Option<Duration>, String> {
        let duration = |value: &Value| -> Option<Duration> {
            let nanos = api_types::duration::parse(value.as_str()?).ok()?;
            Some(Duration::from_nanos(nanos.try_into().ok()?))
        };
        self.read(key, "a duration, such as \"5m\"", duration)
    }

    /// Texts by names of their own, such as labels. Several blocks are one.
    pub(super) fn map(&mut self, key: &str) -> Result<BTreeMap<String, String>, String> {
        let map = |value: &Value| -> Option<BTreeMap<String, String>> {
            let mut all = BTreeMap::new();
            for object in objects(value)? {
                for (name, value) in object {
                    all.insert(name.clone(), text(value)?);
                }
            }
            Some(all)
        };
        Ok(self.read(key, "a block of strings", map)?.unwrap_or_default())
    }

    /// Blocks with the same key.
    pub(super) fn blocks(&mut self, key: &str) -> Result<Vec<Self>, String> {
        let place = format!("{}{key}.", self.place);
        let blocks = |value: &Value| -> Option<Vec<Self>> {
            let objects = objects(value)?.into_iter();
            Some(objects.map(|values| Self { place: place.clone(), values: values.clone() }).collect())
        };
        Ok(self.read(key, "a block", blocks)?.unwrap_or_default())
    }

    /// A block that may be absent.
    pub(super) fn block(&mut self, key: &str) -> Result<Option<Self>, String> {
        let place = format!("{}{key}", self.place);
        let mut blocks = self.blocks(key)?.into_iter();
        let first = blocks.next();
        if blocks.next().is_some() {
            return Err(format!("{place}: the block is given more than once"));
        }
        Ok(first)
    }
}

/// The kind of a value. The value itself may be a secret.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a block",
    }
}

fn objects(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    match value {
        Value::Object(object) => Some(vec![object]),
        Value::Array(items) => items.iter().map(Value::as_object).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_i64() {
            Some(1) => Some(true),
            Some(0) => Some(false),
            Some(_) | None => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        // A number without a fraction may be written with a point.
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15)?;
            Some(float as i64)
        }),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        let Value::Object(values) = value else { unreachable!() };
        Fields::new(values)
    }

    #[test]
    fn values_are_read_in_every_form_that_job_files_have() {
        let mut found = fields(json!({
            "text": 5, "flag": "true", "number": "7", "float": 8.0, "texts": ["a", 1, true], "null": null,
            "labels": [{ "a": "b" }, { "c": 4 }], "mount": [{ "type": "bind" }, { "type": "tmpfs" }],
            "logging": { "type": "journald" }, "timeout": "1m30s", "one": "x",
        }));
        assert_eq!(found.text("text").unwrap(), "5");
        assert!(found.flag("flag").unwrap());
        assert_eq!(found.number("number").unwrap(), Some(7));
        assert_eq!(found.number("float").unwrap(), Some(8));
        assert_eq!(found.texts("texts").unwrap(), ["a", "1", "true"]);
        assert_eq!(found.maybe_texts("one").unwrap(), Some(vec!["x".to_owned()]));
        assert_eq!(found.maybe_text("null").unwrap(), None);
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned()), ("c".to_owned(), "4".to_owned())]);
        assert_eq!(found.map("labels").unwrap(), labels);
        assert_eq!(found.blocks("mount").unwrap().len(), 2);
        assert_eq!(found.block("logging").unwrap().unwrap().text("type").unwrap(), "journald");
        assert_eq!(found.duration("timeout").unwrap(), Some(Duration::from_secs(90)));
        found.finish().unwrap();
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let mut found =
            fields(json!({ "mount": { "readonly": "maybe", "x": 1 }, "labels": "a", "y": 1, "z": 1 }));
        let mut mount = found.block("mount").unwrap().unwrap();
        assert_eq!(
            mount.flag("readonly").unwrap_err(),
            "mount.readonly: expected true or false, not a string"
        );
        assert_eq!(mount.finish().unwrap_err(), r#"unknown key "mount.x""#);
        assert_eq!(found.map("labels").unwrap_err(), "labels: expected a block of strings, not a string");
        assert_eq!(found.finish().unwrap_err(), r#"unknown key "y", "z""#);
        let mut twice = fields(json!({ "logging": [{}, {}] }));
        assert_eq!(twice.block("logging").unwrap_err(), "logging: the block is given more than once");
    }
}
