//! Functions on text. A character is a grapheme cluster.

use std::collections::BTreeSet;

use unicode_segmentation::UnicodeSegmentation as _;

use super::{Context, FunctionResult, bad_argument, elements_of, text_of, whole};
use crate::value::{Sequence, Value};

/// Removes the line breaks at the end.
pub(super) fn chomp(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::text(text_of(&arguments[0]).trim_end_matches(['\n', '\r'])))
}

/// Indents all lines but the first by a number of spaces.
pub(super) fn indent(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let Ok(width) = usize::try_from(whole(&arguments, 0)?) else {
        return bad_argument(0, "the number of spaces must not be negative");
    };
    let text = text_of(&arguments[1]);
    let lines = text.bytes().filter(|byte| *byte == b'\n').count();
    context.reserve(lines.saturating_mul(width))?;
    let spaces = if lines == 0 { String::new() } else { " ".repeat(width) };
    Ok(Value::text(text.replace('\n', &format!("\n{spaces}"))))
}

pub(super) fn join(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let mut arguments = arguments.into_iter();
    let separator = arguments.next().expect("the separator is the first argument");
    let mut parts = Vec::new();
    for (index, list) in arguments.enumerate() {
        for (at, value) in elements_of(list).into_iter().enumerate() {
            match value {
                Value::Text(text) => parts.push(text),
                _ => return bad_argument(index + 1, format!("element {at} is null, not a string")),
            }
        }
    }
    context.reserve(parts.len().saturating_mul(text_of(&separator).len()))?;
    Ok(Value::text(parts.join(text_of(&separator))))
}

pub(super) fn lower(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::text(text_of(&arguments[0]).to_lowercase()))
}

pub(super) fn upper(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    // Converts character by character, so that a sharp s stays unchanged.
    let upper = |c: char| {
        let mut upper = c.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    };
    Ok(Value::text(text_of(&arguments[0]).chars().map(upper).collect::<String>()))
}

/// Converts the first letter of each word to upper case.
pub(super) fn title(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let mut at_start = true;
    let mut titled = String::new();
    for character in text_of(&arguments[0]).chars() {
        if at_start {
            titled.extend(character.to_uppercase());
        } else {
            titled.push(character);
        }
        at_start = match character {
            '_' => false,
            _ if character.is_ascii() => !character.is_ascii_alphanumeric(),
            _ => character.is_whitespace(),
        };
    }
    Ok(Value::text(titled))
}

/// Replaces every occurrence of a text.
pub(super) fn replace(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let [text, from, to] = [0, 1, 2].map(|at| text_of(&arguments[at]));
    context.reserve(text.matches(from).count().saturating_mul(to.len()))?;
    Ok(Value::text(text.replace(from, to)))
}

pub(super) fn reverse(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::text(text_of(&arguments[0]).graphemes(true).rev().collect::<String>()))
}

pub(super) fn split(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (separator, text) = (text_of(&arguments[0]), text_of(&arguments[1]));
    let count = if separator.is_empty() { text.len() } else { text.matches(separator).count() + 1 };
    context.reserve(count.saturating_mul(size_of::<Value>()))?;
    let parts: Vec<Value> = match separator {
        "" => text.chars().map(|c| Value::text(c.to_string())).collect(),
        _ => text.split(separator).map(Value::text).collect(),
    };
    Ok(Value::List(Sequence::List, parts))
}

pub(super) fn strlen(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::Number(text_of(&arguments[0]).graphemes(true).count().into()))
}

/// A number of characters from an offset. A negative offset counts from the end; a negative number means up to the end.
pub(super) fn substr(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (offset, length) = (whole(&arguments, 1)?, whole(&arguments, 2)?);
    let text = text_of(&arguments[0]);
    let count = text.graphemes(true).count();
    let skipped = match usize::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => count.saturating_sub(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let taken = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(Value::text(text.graphemes(true).skip(skipped).take(taken).collect::<String>()))
}

/// Removes the characters of a set from both ends.
pub(super) fn trim(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let set: BTreeSet<char> = text_of(&arguments[1]).chars().collect();
    Ok(Value::text(text_of(&arguments[0]).trim_matches(|c: char| set.contains(&c))))
}

pub(super) fn trimprefix(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (text, prefix) = (text_of(&arguments[0]), text_of(&arguments[1]));
    Ok(Value::text(text.strip_prefix(prefix).unwrap_or(text)))
}

pub(super) fn trimsuffix(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (text, suffix) = (text_of(&arguments[0]), text_of(&arguments[1]));
    Ok(Value::text(text.strip_suffix(suffix).unwrap_or(text)))
}

pub(super) fn trimspace(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::text(text_of(&arguments[0]).trim()))
}
