//! Times.

use gotmpl::Value;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Named, World};
use crate::arguments::Arguments;
use crate::value::string;

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[("timestamp", timestamp)];

/// The parts of Go's layouts, longest first, with the directives of `strftime`.
const PARTS: [(&str, &str); 20] = [
    ("January", "%B"),
    ("Monday", "%A"),
    ("Z07:00", "Z"),
    ("-07:00", "+00:00"),
    ("-0700", "+0000"),
    ("2006", "%Y"),
    ("Jan", "%b"),
    ("Mon", "%a"),
    ("MST", "UTC"),
    ("01", "%m"),
    ("02", "%d"),
    ("_2", "%e"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("15", "%H"),
    ("PM", "%p"),
    ("pm", "%P"),
    ("%", "%%"),
];

/// `timestamp`, `timestamp LAYOUT` or `timestamp "unix"`: the time in UTC, as RFC 3339 or by a layout of Go.
fn timestamp(world: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(0, 1)?;
    let now = world.data.now();
    let layout = match arguments.0.len() {
        0 => "2006-01-02T15:04:05Z07:00".to_owned(),
        _ => arguments.text(0)?,
    };
    if layout == "unix" {
        return Ok(string(now.to_string()));
    }
    let time = Timestamp::from_second(now).map_err(|error| error.to_string())?.to_zoned(TimeZone::UTC);
    jiff::fmt::strtime::format(directives(&layout), &time).map(string).map_err(|error| error.to_string())
}

/// A layout of Go as directives of `strftime`.
fn directives(layout: &str) -> String {
    let mut directives = String::new();
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        let part = PARTS.iter().find_map(|(part, directive)| Some((rest.strip_prefix(part)?, *directive)));
        match part {
            Some((after, directive)) => {
                directives.push_str(directive);
                rest = after;
            }
            None => {
                directives.push(first);
                rest = rest.strip_prefix(first).unwrap_or_default();
            }
        }
    }
    directives
}
