//! Functions that convert from and to other notations: base64, CSV, JSON, URLs. YAML is in its own module.

use std::{collections::BTreeMap, fmt::Write as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Context, FunctionResult, fail, text_of};
use crate::{
    syntax::json,
    value::{Sequence, Value},
};

/// Maximum number of bytes that a byte of a text becomes in JSON, as an escape such as `\u003c`.
pub(super) const ESCAPED_BYTES_MAX: usize = 6;
/// Maximum number of bytes that a byte of a text becomes in a URL, as an escape such as `%3C`.
const URL_ESCAPE_BYTES: usize = 3;
/// Characters that need no escape in a URL's query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Decodes base64 with padding to text.
pub(super) fn base64decode(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let given: String = text_of(&arguments[0]).chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match BASE64_STANDARD.decode(given).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Value::text(text)),
        Ok(Err(_)) => fail("the decoded bytes are not UTF-8 text"),
        Err(error) => fail(format!("the text is not base64: {error}")),
    }
}

pub(super) fn base64encode(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::text(BASE64_STANDARD.encode(text_of(&arguments[0]))))
}

/// An object for each row. The first row contains the names.
pub(super) fn csvdecode(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    if let Some((line, fault)) = misplaced_quote(text_of(&arguments[0])) {
        return fail(format!("the text is not CSV: line {line}: {fault}"));
    }
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(text_of(&arguments[0]).as_bytes());
    let failed = |error: csv::Error| fail(format!("the text is not CSV: {error}"));
    let header = reader.headers().cloned().or_else(failed)?;
    if header.is_empty() {
        return fail("the first line, with the names of the columns, is missing");
    }
    let names: BTreeMap<&str, usize> = header.iter().enumerate().map(|(at, name)| (name, at)).collect();
    if names.len() < header.len() {
        return fail("two columns have the same name");
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.or_else(failed)?;
        context
            .reserve(header.as_slice().len() + record.as_slice().len() + header.len() * size_of::<Value>())?;
        let row = header.iter().zip(&record);
        rows.push(Value::object(row.map(|(name, field)| (name.to_owned(), Value::text(field))).collect()));
    }
    Ok(Value::List(Sequence::List, rows))
}

/// The first quotation mark of a CSV text that neither encloses a field nor is doubled within one: its line, and what is
/// wrong with it. The reader would take it as part of the field.
fn misplaced_quote(text: &str) -> Option<(usize, &'static str)> {
    let mut line = 1;
    let mut characters = text.chars().peekable();
    let (mut is_quoted, mut begins) = (false, true);
    while let Some(character) = characters.next() {
        line += usize::from(character == '\n');
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => {}
            '"' if is_quoted => {
                is_quoted = false;
                if !matches!(characters.peek(), None | Some(',' | '\r' | '\n')) {
                    return Some((line, "a quoted field ends before its comma"));
                }
            }
            '"' if begins => is_quoted = true,
            '"' => return Some((line, "a quotation mark in a field that does not begin with one")),
            _ => {}
        }
        begins = !is_quoted && matches!(character, ',' | '\n');
    }
    is_quoted.then_some((line, "a quoted field has no end"))
}

/// Encodes a value for a URL's query, with plus signs for spaces.
pub(super) fn urlencode(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    context.reserve(text_of(&arguments[0]).len().saturating_mul(URL_ESCAPE_BYTES))?;
    let encoded = utf8_percent_encode(text_of(&arguments[0]), QUERY).to_string();
    Ok(Value::text(encoded.replace("%20", "+")))
}

pub(super) fn jsondecode(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    json::value(text_of(&arguments[0]))
        .or_else(|fault| fail(format!("the text is not JSON: {}", fault.detail)))
}

/// JSON on one line, with sorted names, and escaped for HTML.
pub(super) fn jsonencode(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    if arguments[0].has_infinity() {
        return fail("JSON cannot represent an infinite number");
    }
    context.reserve(arguments[0].cost().bytes.saturating_mul(ESCAPED_BYTES_MAX))?;
    Ok(Value::text(json_text(&arguments[0])))
}

/// The JSON of a value. Numbers keep all their digits.
pub(super) fn json_text(value: &Value) -> String {
    fn write(value: &Value, json: &mut String) {
        match value {
            Value::Null => json.push_str("null"),
            Value::Bool(flag) => json.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => {
                let _ = write!(json, "{number}");
            }
            Value::Text(text) => write_text(text, json),
            Value::List(_, values) => {
                json.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        json.push(',');
                    }
                    write(value, json);
                }
                json.push(']');
            }
            Value::Map(_, members) => {
                json.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        json.push(',');
                    }
                    write_text(name, json);
                    json.push(':');
                    write(value, json);
                }
                json.push('}');
            }
        }
    }
    let mut json = String::new();
    write(value, &mut json);
    json
}

fn write_text(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(json, "\\u{:04x}", u32::from(character));
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}
