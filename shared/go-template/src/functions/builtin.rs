//! Go's own functions that make texts. The engine's functions do the work, after a look at how long the text may become.

use gotmpl::{Template, TemplateError, Value};

use super::{Named, World};
use crate::arguments::Arguments;
use crate::limits::VALUE_BYTES_MAX;
use crate::value::{list, size, string};

/// The functions of the engine that templates call directly: none of them makes a larger value than it gets.
pub(super) const OF_ENGINE: [&str; 12] =
    ["and", "call", "eq", "ge", "gt", "index", "le", "len", "lt", "ne", "not", "or"];

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("html", |world, arguments| of_engine(world, "html", arguments)),
    ("js", |world, arguments| of_engine(world, "js", arguments)),
    ("print", |world, arguments| of_engine(world, "print", arguments)),
    ("printf", |world, arguments| of_engine(world, "printf", arguments)),
    ("println", |world, arguments| of_engine(world, "println", arguments)),
    ("slice", slice),
    ("urlquery", |world, arguments| of_engine(world, "urlquery", arguments)),
];

/// `slice VALUE [START [END]]`: a part of a text or a list.
fn slice(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 3)?;
    let bound = |position| match arguments.0.get(position) {
        Some(_) => arguments.whole(position).map(Some),
        None => Ok(None),
    };
    arguments.value(0).slice(bound(1)?, bound(2)?).map_err(explained)
}

/// The largest width or precision that a verb of `printf` may have.
const WIDTH_MAX: u64 = 100_000;

/// How much longer a text may become when it is escaped or quoted.
const GROWTH_MAX: u64 = 6;

/// Calls a function of the engine. It is found by a template that calls it with the same arguments.
fn of_engine(_: &World, name: &str, arguments: Arguments<'_>) -> Result<Value, String> {
    check_length(name, arguments)?;
    let positions = (0..arguments.0.len()).map(|position| format!(" (index . {position})"));
    let text = format!("{{{{{name}{}}}}}", positions.collect::<String>());
    let template = Template::new("").parse(&text).map_err(|error| error.to_string())?;
    let written = template.execute_to_string(&list(arguments.0.iter().cloned()));
    written.map(string).map_err(explained)
}

/// The text of an engine's error.
fn explained(error: TemplateError) -> String {
    let text = error.to_string();
    text.strip_prefix("execution error: ").unwrap_or(&text).to_owned()
}

/// Refuses a call whose result may be too long.
fn check_length(name: &str, arguments: Arguments<'_>) -> Result<(), String> {
    let sizes = arguments.0.iter().map(|value| size(value).unwrap_or(VALUE_BYTES_MAX));
    let (total, largest) =
        sizes.fold((0_u64, 0), |(total, largest), size| (total.saturating_add(size), largest.max(size)));
    let mut length = total.saturating_mul(GROWTH_MAX);
    if name == "printf" {
        let Value::String(format) = arguments.value(0) else {
            return Err("argument 1 must be a text".to_owned());
        };
        let verbs = u64::try_from(format.matches('%').count()).unwrap_or(u64::MAX);
        let given_widths = if format.contains('*') { verbs.saturating_mul(WIDTH_MAX) } else { 0 };
        let widths = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        for digits in widths {
            let width = digits.parse().unwrap_or(u64::MAX);
            if width > WIDTH_MAX && format.contains('%') {
                return Err(format!("a width of more than {WIDTH_MAX} is not allowed"));
            }
            length = length.saturating_add(width);
        }
        // The star takes its width from the arguments.
        let is_wide = |value: &Value| {
            matches!(value, Value::Int(number) if number.unsigned_abs() > WIDTH_MAX)
                || matches!(value, Value::Uint(number) if *number > WIDTH_MAX)
        };
        if given_widths > 0 && arguments.0.iter().any(is_wide) {
            return Err(format!("a width of more than {WIDTH_MAX} is not allowed"));
        }
        // A verb may name any argument, and each may be used several times.
        if format.contains('[') {
            length = length.saturating_add(verbs.saturating_mul(largest).saturating_mul(GROWTH_MAX));
        }
        length = length.saturating_add(given_widths);
    }
    if length > VALUE_BYTES_MAX.saturating_mul(GROWTH_MAX) {
        return Err(format!("the text may become longer than {VALUE_BYTES_MAX} bytes"));
    }
    Ok(())
}
