//! A YAML decoder for hand-written files, and an encoder whose output every decoder accepts.

use std::{collections::BTreeMap, fmt::Write as _};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{Context, Failure, FunctionResult, fail, text_of};
use crate::{
    number::Number,
    shown::quoted,
    value::{Cost, Value},
};

/// Maximum nesting of lists and maps, including those that aliases stand for.
const DEPTH_MAX: usize = 100;

/// Maximum number of bytes that a byte of a text becomes, as an escape such as `\x1F`.
const ESCAPED_BYTES_MAX: usize = 4;

/// Decodes a document.
pub(super) fn yamldecode(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    // The parser accepts this.
    if text_of(&arguments[0]).starts_with('\t') {
        return fail("the text is not YAML: it begins with a tab");
    }
    let mut reader =
        Reader { context, parser: Parser::new_from_str(text_of(&arguments[0])), anchors: BTreeMap::new() };
    let mut value = None;
    loop {
        match reader.next()? {
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::DocumentStart(_) if value.is_some() => {
                return fail("there is more than one document in the text");
            }
            Event::DocumentStart(_) => {
                let event = reader.next()?;
                value = Some(reader.value(event, 0)?);
            }
            Event::StreamEnd => break,
            _ => return fail("the text is not a YAML document"),
        }
    }
    value.map_or_else(|| fail("the text is empty"), Ok)
}

struct Reader<'a, 'c> {
    context: &'a Context<'c>,
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: BTreeMap<usize, Value>,
}

fn too_deep<T>() -> Result<T, Failure> {
    fail(format!("lists and maps may be nested at most {DEPTH_MAX} levels deep"))
}

impl<'a> Reader<'a, '_> {
    fn next(&mut self) -> Result<Event<'a>, Failure> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => fail(format!("the text is not YAML: {error}")),
            None => Ok(Event::StreamEnd),
        }
    }

    /// Decodes the value that begins with an event.
    fn value(&mut self, event: Event<'a>, depth: usize) -> FunctionResult {
        if depth > DEPTH_MAX {
            return too_deep();
        }
        self.context.reserve(size_of::<Value>())?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_deref())?, anchor),
            Event::SequenceStart(anchor, _) => {
                let mut values = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => values.push(self.value(event, depth + 1)?),
                    }
                }
                (Value::tuple(values), anchor)
            }
            Event::MappingStart(anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(anchor) => {
                let Some(value) = self.anchors.get(&anchor) else {
                    return fail("an alias refers to an anchor that is not defined before it");
                };
                // An anchor may contain aliases, so its depth is not the nesting of the text.
                let cost = value.cost();
                if depth + cost.depth > DEPTH_MAX {
                    return too_deep();
                }
                self.context.reserve(cost.bytes)?;
                return Ok(value.clone());
            }
            _ => return fail("a value is missing"),
        };
        if anchor > 0 {
            self.context.reserve(value.cost().bytes)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> FunctionResult {
        let (mut members, mut merged) = (BTreeMap::new(), BTreeMap::new());
        loop {
            let key = match self.next()? {
                Event::MappingEnd => break,
                event => event,
            };
            let is_merge = matches!(&key, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.value(key, depth + 1)?;
            let event = self.next()?;
            let value = self.value(event, depth + 1)?;
            if is_merge {
                merge(value, &mut merged)?;
                continue;
            }
            let Some(key) = key.to_text() else {
                return fail(format!("keys must be strings, but have {}", key.kind()));
            };
            members.insert(key, value);
        }
        for (name, value) in merged {
            members.entry(name).or_insert(value);
        }
        Ok(Value::object(members))
    }
}

/// Merges the value of a key `<<`.
fn merge(value: Value, merged: &mut BTreeMap<String, Value>) -> Result<(), Failure> {
    match value {
        Value::Map(_, members) => {
            for (name, value) in members {
                merged.entry(name).or_insert(value);
            }
            Ok(())
        }
        Value::List(_, values) => values.into_iter().try_for_each(|value| merge(value, merged)),
        _ => fail("the value of << must be a map or a list of maps"),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> FunctionResult {
    match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.as_str())) {
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None | Some((true, "str")) | Some((false, "")) => Ok(Value::text(text)),
        Some((true, "int" | "float")) => match Number::parse(text) {
            Some(number) => Ok(Value::Number(number)),
            None => fail(format!("{} is not a number", quoted(text))),
        },
        Some((true, "bool")) => match plain(text) {
            flag @ Value::Bool(_) => Ok(flag),
            _ => fail(format!("{} is not a bool", quoted(text))),
        },
        Some((true, "null")) => Ok(Value::Null),
        Some((true, "timestamp")) => Ok(date(text).map_or_else(|| Value::text(text), Value::text)),
        Some((_, other)) => fail(format!("unknown tag {}", quoted(other))),
    }
}

/// Decodes a text without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            return Value::Bool(true);
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            return Value::Bool(false);
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Value::Number(Number::infinite(false));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Value::Number(Number::infinite(true)),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return Value::text(text);
    }
    if let Some(date) = date(text) {
        return Value::text(date);
    }
    match Number::parse(&text.replace('_', "")) {
        Some(number) => Value::Number(number),
        None => Value::text(text),
    }
}

/// Converts a date to the time at which the day begins.
fn date(text: &str) -> Option<String> {
    let is_day = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let day: jiff::civil::Date = if is_day { text.parse().ok()? } else { return None };
    Some(format!("{day}T00:00:00Z"))
}

/// Encodes a document, with sorted names and all texts in quotes.
pub(super) fn yamlencode(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    // Each line is indented by two spaces for each level.
    let Cost { bytes, depth, .. } = arguments[0].cost();
    context.reserve(bytes.saturating_mul(ESCAPED_BYTES_MAX.max(2 * depth)))?;
    let mut yaml = String::new();
    match &arguments[0] {
        value @ (Value::List(..) | Value::Map(..)) => block(value, 0, false, &mut yaml),
        value => {
            inline(value, 0, &mut yaml);
            yaml.push('\n');
            // Marks the end of a plain scalar, which could continue otherwise.
            if !matches!(value, Value::Text(_)) {
                yaml.push_str("...\n");
            }
        }
    }
    Ok(Value::text(yaml))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::List(_, values) => values.is_empty(),
        Value::Map(_, members) => members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => false,
    }
}

/// Encodes a list or a map. With `continues`, its first line has already been started.
fn block(value: &Value, indentation: usize, continues: bool, yaml: &mut String) {
    let margin = " ".repeat(indentation);
    let mut first = continues;
    let mut begin = |yaml: &mut String| {
        if !std::mem::take(&mut first) {
            yaml.push_str(&margin);
        }
    };
    match value {
        _ if is_empty(value) => {
            yaml.push_str(if matches!(value, Value::List(..)) { "[]\n" } else { "{}\n" });
        }
        Value::List(_, values) => {
            for value in values {
                begin(yaml);
                yaml.push_str("- ");
                nested(value, indentation + 2, true, yaml);
            }
        }
        Value::Map(_, members) => {
            for (name, value) in members {
                begin(yaml);
                inline(&Value::text(name.as_str()), 0, yaml);
                yaml.push(':');
                match value {
                    Value::List(..) if !is_empty(value) => {
                        yaml.push('\n');
                        block(value, indentation, false, yaml);
                    }
                    Value::Map(..) if !is_empty(value) => {
                        yaml.push('\n');
                        block(value, indentation + 2, false, yaml);
                    }
                    _ => {
                        yaml.push(' ');
                        nested(value, indentation + 2, false, yaml);
                    }
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

fn nested(value: &Value, indentation: usize, continues: bool, yaml: &mut String) {
    if matches!(value, Value::List(..) | Value::Map(..)) {
        return block(value, indentation, continues, yaml);
    }
    inline(value, indentation, yaml);
    yaml.push('\n');
}

/// Encodes a value that is neither list nor map. Text with several lines becomes a block scalar.
fn inline(value: &Value, indentation: usize, yaml: &mut String) {
    match value {
        Value::Text(text) if text.contains('\n') => lines(text, indentation.max(2), yaml),
        Value::Text(text) => quote(text, yaml),
        Value::Null => yaml.push_str("null"),
        other => yaml.push_str(&other.to_text().unwrap_or_default()),
    }
}

fn lines(text: &str, indentation: usize, yaml: &mut String) {
    let is_printable = |c: char| c == '\n' || c == '\t' || !c.is_control();
    if !text.chars().all(is_printable) {
        return quote(text, yaml);
    }
    yaml.push('|');
    if text.starts_with([' ', '\n', '\t']) {
        yaml.push('2');
    }
    let body = match text.strip_suffix('\n') {
        None => {
            yaml.push('-');
            text
        }
        Some("") => {
            yaml.push('+');
            ""
        }
        Some(body) if body.ends_with('\n') => {
            yaml.push('+');
            body
        }
        Some(body) => body,
    };
    for line in body.split('\n') {
        yaml.push('\n');
        if !line.is_empty() {
            yaml.push_str(&" ".repeat(indentation));
            yaml.push_str(line);
        }
    }
}

fn quote(text: &str, yaml: &mut String) {
    yaml.push('"');
    for character in text.chars() {
        match character {
            '"' => yaml.push_str("\\\""),
            '\\' => yaml.push_str("\\\\"),
            '\n' => yaml.push_str("\\n"),
            '\r' => yaml.push_str("\\r"),
            '\t' => yaml.push_str("\\t"),
            '\0' => yaml.push_str("\\0"),
            '\u{1b}' => yaml.push_str("\\e"),
            c if c.is_control() => {
                let _ = write!(yaml, "\\x{:02X}", u32::from(c));
            }
            c => yaml.push(c),
        }
    }
    yaml.push('"');
}
