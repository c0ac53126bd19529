//! The configuration of tasks of the drivers that are built in: which keys a driver knows, and which values they
//! take. Servers check it when a job is registered, and agents bring it into one form before they use it. Pure.
//!
//! Job files write the same thing in several ways: a block is an object, or a list of objects if it was written as a block;
//! numbers and bools may be texts. When a job is registered, texts may contain names that the agent replaces later. Such a
//! text may stand for any single value.

mod key;
mod keys;

use serde_json::{Map, Value};

use self::key::{Key, Kind};
use self::keys::DRIVERS;
use crate::text::quoted;

/// The beginning of a name that the agent replaces.
const NAME: &str = "${";
/// The maximum number of mistakes of a configuration that are named.
const MISTAKES_MAX: usize = 10;
/// The maximum length of an unknown key in a message, in characters.
const SHOWN_CHARS_MAX: usize = 64;
/// The largest number with a point that is read as a whole number.
const WHOLE_MAX: f64 = 1e15;

/// Whether names in texts are replaced already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Unresolved,
    Replaced,
}

/// The keys that the configuration of a driver may have, sorted; `None` if the driver is not built in.
pub fn keys_of_driver(driver: &str) -> Option<impl Iterator<Item = &'static str>> {
    Some(keys(driver)?.iter().map(|key| key.name))
}

/// The mistakes in the configuration of a task of a driver, before names are replaced: unknown keys and values of another
/// kind. There are none if the driver is not built in. They name the driver and the key, and never show a value, which may
/// be a secret. Not all are named if there are many.
pub fn mistakes<'a>(driver: &str, config: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Vec<String> {
    let Some(keys) = keys(driver) else { return Vec::new() };
    let mut reader = Reader { names: Names::Unresolved, mistakes: Vec::new() };
    reader.block("", keys, config);
    let mut mistakes = reader.mistakes;
    mistakes.sort_unstable();
    mistakes.into_iter().map(|mistake| format!("driver {driver}: config: {mistake}")).collect()
}

/// Brings the configuration of a task into one form, after names were replaced: texts, bools and numbers are of their own
/// kind, a block is an object, and blocks that may be repeated are a list. Unknown keys stay as they are, as does all of a
/// driver that is not built in.
///
/// # Errors
/// If a value is of another kind.
pub fn in_one_form<'a>(
    driver: &str,
    config: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Result<Map<String, Value>, String> {
    let Some(keys) = keys(driver) else {
        return Ok(config.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect());
    };
    let mut reader = Reader { names: Names::Replaced, mistakes: Vec::new() };
    let read = reader.block("", keys, config);
    match reader.mistakes.into_iter().next() {
        Some(mistake) => Err(mistake),
        None => Ok(read),
    }
}

fn keys(driver: &str) -> Option<&'static [Key]> {
    DRIVERS.iter().find(|(name, _)| *name == driver).map(|(_, keys)| *keys)
}

/// Reads values, and collects the mistakes.
struct Reader {
    names: Names,
    mistakes: Vec<String>,
}

impl Reader {
    /// Reads the keys of a block. `place` is the keys of the blocks around it, such as `mount.`.
    fn block<'a>(
        &mut self,
        place: &str,
        keys: &'static [Key],
        values: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Map<String, Value> {
        let mut read = Map::new();
        for (name, value) in values {
            let Some(key) = keys.iter().find(|key| key.name == name) else {
                match self.names {
                    Names::Unresolved => self.unknown(place, name, keys),
                    Names::Replaced => {
                        read.insert(name.to_owned(), value.clone());
                    }
                }
                continue;
            };
            // An absent value is the default.
            if value.is_null() {
                continue;
            }
            if let Some(value) = self.value(&format!("{place}{name}"), key.kind, value) {
                read.insert(name.to_owned(), value);
            }
        }
        read
    }

    fn unknown(&mut self, place: &str, name: &str, keys: &'static [Key]) {
        let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
        let key = quoted(&format!("{place}{shown}"));
        self.mistake(|| {
            let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
            format!("unknown key {key}; the keys are {}", known.join(", "))
        });
    }

    /// Notes a mistake, unless there are many.
    fn mistake(&mut self, text: impl FnOnce() -> String) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(text());
        }
    }

    /// Reads a value; `None` if it is of another kind.
    fn value(&mut self, place: &str, kind: Kind, value: &Value) -> Option<Value> {
        if self.names == Names::Unresolved && value.as_str().is_some_and(|text| text.contains(NAME)) {
            return Some(value.clone());
        }
        let read = match kind {
            Kind::Text => text(value).map(Value::String),
            Kind::Flag => flag(value).map(Value::Bool),
            Kind::Number => number(value).map(Value::from),
            Kind::Duration => is_duration(value).then(|| value.clone()),
            Kind::Texts => texts(value),
            Kind::TextOrTexts => texts(value).or_else(|| Some(Value::Array(vec![text(value)?.into()]))),
            Kind::Map => map(value),
            Kind::Block(keys) => return self.one_block(place, keys, value),
            Kind::Blocks(keys) => self.blocks(place, keys, value).map(Value::Array),
        };
        if read.is_none() {
            self.mistake(|| format!("{place}: expected {}, not {}", kind.expected(), found(value)));
        }
        read
    }

    fn one_block(&mut self, place: &str, keys: &'static [Key], value: &Value) -> Option<Value> {
        let Some(mut blocks) = self.blocks(place, keys, value) else {
            self.mistake(|| format!("{place}: expected a block, not {}", found(value)));
            return None;
        };
        if blocks.len() > 1 {
            self.mistake(|| format!("{place}: the block is given more than once"));
        }
        blocks.pop()
    }

    fn blocks(&mut self, place: &str, keys: &'static [Key], value: &Value) -> Option<Vec<Value>> {
        let inner = format!("{place}.");
        let blocks = objects(value)?.into_iter();
        let mut read = |object: &Map<String, Value>| {
            let values = object.iter().map(|(name, value)| (name.as_str(), value));
            Value::Object(self.block(&inner, keys, values))
        };
        Some(blocks.map(&mut read).collect())
    }
}

/// The kind of a value. The value itself may be a secret.
fn found(value: &Value) -> &'static str {
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

fn texts(value: &Value) -> Option<Value> {
    let texts = value.as_array()?.iter().map(|item| text(item).map(Value::String));
    texts.collect::<Option<Vec<_>>>().map(Value::Array)
}

fn map(value: &Value) -> Option<Value> {
    let mut all = Map::new();
    for object in objects(value)? {
        for (name, value) in object {
            all.insert(name.clone(), text(value)?.into());
        }
    }
    Some(Value::Object(all))
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
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < WHOLE_MAX)?;
            format!("{float:.0}").parse().ok()
        }),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether a text is a duration. An empty one is the default.
fn is_duration(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.is_empty() || api_types::duration::parse(text).is_ok())
}

#[cfg(test)]
mod tests;
