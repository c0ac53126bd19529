//! Reads YAML documents as JSON values, strictly: anything that two YAML readers may interpret differently is refused.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Words that are booleans in YAML 1.1, which Kubernetes reads, and strings in YAML 1.2.
const AMBIGUOUS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

/// Returns all documents of a text except empty ones.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: BTreeMap::new() };
    let mut found = Vec::new();
    loop {
        match reader.next()? {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => found.push(reader.value(event)?),
        }
    }
    found.retain(|document| !document.is_null());
    Ok(found)
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Value>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(Event::StreamEnd),
        }
    }

    fn value(&mut self, event: Event<'a>) -> Result<Value, String> {
        let (value, anchor) = match event {
            Event::Scalar(text, ScalarStyle::Plain, anchor, _) => (plain(&text)?, anchor),
            Event::Scalar(text, _, anchor, _) => (Value::String(text.into_owned()), anchor),
            Event::SequenceStart(anchor, _) => {
                let mut values = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => values.push(self.value(event)?),
                    }
                }
                (Value::Array(values), anchor)
            }
            Event::MappingStart(anchor, _) => (self.mapping()?, anchor),
            Event::Alias(anchor) => {
                return self
                    .anchors
                    .get(&anchor)
                    .cloned()
                    .ok_or_else(|| "an alias of an unknown anchor".to_owned());
            }
            other => return Err(format!("a value is missing before {other:?}")),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn mapping(&mut self) -> Result<Value, String> {
        let mut members = Map::new();
        loop {
            let key = match self.next()? {
                Event::MappingEnd => break,
                Event::Scalar(text, ..) => text.into_owned(),
                other => return Err(format!("a key is not a string but {other:?}")),
            };
            let event = self.next()?;
            let value = self.value(event)?;
            if members.insert(key.clone(), value).is_some() {
                return Err(format!("the key {key} exists twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// Interprets a scalar without quotes.
fn plain(text: &str) -> Result<Value, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "" | "~" | "null" => Ok(Value::Null),
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        _ if AMBIGUOUS.contains(&text.to_ascii_lowercase().as_str()) => {
            Err(format!("{text} is a boolean or a string, depending on the reader: it needs quotes"))
        }
        _ if is_number && digits.len() > 1 && digits.starts_with('0') => {
            Err(format!("{text} is octal or decimal, depending on the reader"))
        }
        _ if is_number => text.parse::<i64>().map(Value::from).map_err(|error| format!("{text}: {error}")),
        _ => Ok(Value::String(text.to_owned())),
    }
}

#[test]
fn documents_are_read_as_json() {
    let text = "# nothing yet\n---\na: [1, \"2\", x y]\nb: {c: true, d: }\n---\n# nothing\n---\ne: |\n  one\n  two\n";
    let expected = [
        serde_json::json!({ "a": [1, "2", "x y"], "b": { "c": true, "d": null } }),
        serde_json::json!({ "e": "one\ntwo\n" }),
    ];
    assert_eq!(documents(text).unwrap(), expected);
}

#[test]
fn ambiguous_yaml_is_refused() {
    for text in ["a: yes", "a: Off", "mode: 0440", "a: 1\na: 2", "a: [1", "? [a]\n: b"] {
        assert!(documents(text).is_err(), "{text}");
    }
}
