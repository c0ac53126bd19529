//! Functions of text. Characters are what people see as one: grapheme clusters.

use regex::Regex;
use unicode_segmentation::UnicodeSegmentation as _;

use super::{Answer, Context, elements_of, refused, text_of, unfit, whole};
use crate::value::{Sequence, Value};

/// What compiling a pattern costs, in bytes of values that it could have made in that time.
const PATTERN_COST: usize = 4096;
/// The bytes that a pattern may take when compiled; far below what patterns can be made to take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Without the line feed at the end.
pub(super) fn chomp(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    Ok(Value::text(text_of(&arguments[0]).trim_end_matches(['\n', '\r'])))
}

/// All lines but the first moved in by so many spaces.
pub(super) fn indent(context: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let Ok(width) = usize::try_from(whole(&arguments, 0)?) else {
        return unfit(0, "the number of spaces must not be negative");
    };
    let text = text_of(&arguments[1]);
    let lines = text.bytes().filter(|byte| *byte == b'\n').count();
    context.room(lines.saturating_mul(width))?;
    let spaces = if lines == 0 { String::new() } else { " ".repeat(width) };
    Ok(Value::text(text.replace('\n', &format!("\n{spaces}"))))
}

pub(super) fn join(context: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let mut arguments = arguments.into_iter();
    let separator = arguments.next().expect("the separator comes first");
    let mut parts = Vec::new();
    for (index, list) in arguments.enumerate() {
        for (at, value) in elements_of(list).into_iter().enumerate() {
            match value {
                Value::Text(text) => parts.push(text),
                _ => return unfit(index + 1, format!("element {at} is null, which is no text")),
            }
        }
    }
    context.room(parts.len().saturating_mul(text_of(&separator).len()))?;
    Ok(Value::text(parts.join(text_of(&separator))))
}

pub(super) fn lower(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    Ok(Value::text(text_of(&arguments[0]).to_lowercase()))
}

pub(super) fn upper(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    // Character by character: a sharp s stays one.
    let upper = |c: char| {
        let mut upper = c.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    };
    Ok(Value::text(text_of(&arguments[0]).chars().map(upper).collect::<String>()))
}

/// The first letter of each word in upper case.
pub(super) fn title(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
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

/// Every match replaced; the replacement names groups as `$1` and `${name}`.
pub(super) fn regex_replace(context: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let [text, pattern, replacement] = [0, 1, 2].map(|at| text_of(&arguments[at]));
    context.room(PATTERN_COST.saturating_add(pattern.len().saturating_mul(64)))?;
    let regex = regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
    let regex: Regex = regex.or_else(|error| {
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
        refused(format!("the pattern {pattern:?} cannot be read: {last}"))
    })?;
    let mut replaced = String::new();
    let mut copied = 0;
    for captures in regex.captures_iter(text) {
        let found = captures.get(0).expect("a match is its own first group");
        let before = replaced.len();
        replaced.push_str(&text[copied..found.start()]);
        captures.expand(replacement, &mut replaced);
        context.room(replaced.len() - before)?;
        copied = found.end();
    }
    replaced.push_str(&text[copied..]);
    Ok(Value::text(replaced))
}

/// Every occurrence of a text replaced by another.
pub(super) fn replace(context: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let [text, from, to] = [0, 1, 2].map(|at| text_of(&arguments[at]));
    context.room(text.matches(from).count().saturating_mul(to.len()))?;
    Ok(Value::text(text.replace(from, to)))
}

pub(super) fn reverse(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    Ok(Value::text(text_of(&arguments[0]).graphemes(true).rev().collect::<String>()))
}

pub(super) fn split(context: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let (separator, text) = (text_of(&arguments[0]), text_of(&arguments[1]));
    context.room(text.len().saturating_mul(if separator.len() < 2 { 8 } else { 1 }))?;
    let parts: Vec<Value> = match separator {
        "" => text.chars().map(|c| Value::text(c.to_string())).collect(),
        _ => text.split(separator).map(Value::text).collect(),
    };
    Ok(Value::List(Sequence::List, parts))
}

pub(super) fn strlen(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    Ok(Value::Number(text_of(&arguments[0]).graphemes(true).count().into()))
}

/// So many characters from one on; from the end if that is negative, to the end if the number is.
pub(super) fn substr(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
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

/// Without the characters of a set at both ends.
pub(super) fn trim(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let (text, set) = (text_of(&arguments[0]), text_of(&arguments[1]));
    Ok(Value::text(text.trim_matches(|c| set.contains(c))))
}

pub(super) fn trimprefix(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let (text, prefix) = (text_of(&arguments[0]), text_of(&arguments[1]));
    Ok(Value::text(text.strip_prefix(prefix).unwrap_or(text)))
}

pub(super) fn trimsuffix(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    let (text, suffix) = (text_of(&arguments[0]), text_of(&arguments[1]));
    Ok(Value::text(text.strip_suffix(suffix).unwrap_or(text)))
}

pub(super) fn trimspace(_: &Context<'_>, arguments: Vec<Value>) -> Answer {
    Ok(Value::text(text_of(&arguments[0]).trim()))
}
