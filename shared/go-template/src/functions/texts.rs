//! Texts: cutting, replacing, regular expressions.

use gotmpl::Value;
use regex::{Regex, RegexBuilder};

use super::lists::check_repeated;
use super::{Named, World};
use crate::arguments::Arguments;
use crate::limits::{REGEX_BYTES_MAX, REGEX_TEXT_BYTES_MAX};
use crate::value::string;

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("indent", |_, arguments| {
        arguments.count(2, 2)?;
        indented(arguments).map(string)
    }),
    ("regexMatch", |_, arguments| {
        arguments.count(2, 2)?;
        Ok(Value::Bool(regex(&arguments.text(0)?)?.is_match(&searched(arguments, 1)?)))
    }),
    ("regexReplaceAll", |world, arguments| {
        arguments.count(3, 3)?;
        regex_replaced(world, arguments)
    }),
    ("replaceAll", |_, arguments| {
        arguments.count(3, 3)?;
        replaced(&arguments.text(0)?, &arguments.text(1)?, &arguments.text(2)?)
    }),
    ("toLower", |_, arguments| changed(arguments, |text| text.to_lowercase())),
    ("toTitle", |_, arguments| changed(arguments, titled)),
    ("toUpper", |_, arguments| changed(arguments, |text| text.to_uppercase())),
    ("trim", |_, arguments| {
        arguments.count(2, 2)?;
        let (text, cut) = (arguments.text(0)?, arguments.text(1)?);
        Ok(string(text.trim_matches(|c| cut.contains(c))))
    }),
    ("trimPrefix", |_, arguments| {
        arguments.count(2, 2)?;
        let (prefix, text) = (arguments.text(0)?, arguments.text(1)?);
        Ok(string(text.strip_prefix(&prefix).unwrap_or(&text)))
    }),
    ("trimSpace", |_, arguments| changed(arguments, |text| text.trim().to_owned())),
    ("trimSuffix", |_, arguments| {
        arguments.count(2, 2)?;
        let (suffix, text) = (arguments.text(0)?, arguments.text(1)?);
        Ok(string(text.strip_suffix(&suffix).unwrap_or(&text)))
    }),
];

/// A function of one text.
pub(super) fn changed(arguments: Arguments<'_>, change: fn(&str) -> String) -> Result<Value, String> {
    arguments.count(1, 1)?;
    Ok(string(change(&arguments.text(0)?)))
}

/// The text with the first letter of each word in upper case.
pub(super) fn titled(text: &str) -> String {
    let mut is_first = true;
    let titled = text.chars().flat_map(|c| {
        let upper = is_first.then(|| c.to_uppercase());
        is_first = c.is_whitespace();
        let same = if upper.is_none() { Some(c) } else { None };
        upper.into_iter().flatten().chain(same)
    });
    titled.collect()
}

/// `indent SPACES TEXT`: the text with spaces before each line that is not empty.
pub(super) fn indented(arguments: Arguments<'_>) -> Result<String, String> {
    let text = arguments.text(1)?;
    let spaces = arguments.length(0, 1_000)?;
    check_repeated(spaces, text.lines().count())?;
    let prefix = " ".repeat(spaces);
    let lines =
        text.split('\n').map(|line| if line.is_empty() { String::new() } else { format!("{prefix}{line}") });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// The text with all occurrences of a part replaced.
pub(super) fn replaced(from: &str, to: &str, text: &str) -> Result<Value, String> {
    if from.is_empty() {
        return Ok(string(text));
    }
    check_repeated(to.len(), text.matches(from).count())?;
    Ok(string(text.replace(from, to)))
}

fn regex(pattern: &str) -> Result<Regex, String> {
    let built =
        RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| format!("the regular expression is not valid: {error}"))
}

/// A text in which a regular expression is searched.
fn searched(arguments: Arguments<'_>, position: usize) -> Result<String, String> {
    let text = arguments.text(position)?;
    if text.len() > REGEX_TEXT_BYTES_MAX {
        return Err(format!("the text is longer than {REGEX_TEXT_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// `regexReplaceAll PATTERN REPLACEMENT TEXT`. `$1` and `${name}` stand for groups. After each match there is a
/// look at the clock, because the time for all matches grows with the square of the text.
fn regex_replaced(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    let (regex, to, text) = (regex(&arguments.text(0)?)?, arguments.text(1)?, searched(arguments, 2)?);
    let (mut replaced, mut end) = (String::new(), 0);
    for captures in regex.captures_iter(&text) {
        world.meter.look(world.data.is_out_of_time()).map_err(|limit| limit.to_string())?;
        let Some(found) = captures.get(0) else { continue };
        replaced.push_str(text.get(end..found.start()).unwrap_or_default());
        captures.expand(&to, &mut replaced);
        end = found.end();
        check_repeated(replaced.len(), 1)?;
    }
    replaced.push_str(text.get(end..).unwrap_or_default());
    Ok(string(replaced))
}
