//! Arithmetic and numbers in texts. The second argument comes first, as in consul-template: `10 | subtract 3` is 7.

use gotmpl::Value;

use super::Named;
use crate::arguments::{Arguments, whole};

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("add", |_, arguments| calculated(arguments, |b, a| a.checked_add(b), |b, a| a + b)),
    ("divide", |_, arguments| calculated(arguments, |b, a| a.checked_div(b), |b, a| a / b)),
    ("maximum", |_, arguments| calculated(arguments, |b, a| Some(a.max(b)), |b, a| a.max(b))),
    ("minimum", |_, arguments| calculated(arguments, |b, a| Some(a.min(b)), |b, a| a.min(b))),
    ("modulo", |_, arguments| calculated(arguments, |b, a| a.checked_rem(b), |b, a| a % b)),
    ("multiply", |_, arguments| calculated(arguments, |b, a| a.checked_mul(b), |b, a| a * b)),
    ("subtract", |_, arguments| calculated(arguments, |b, a| a.checked_sub(b), |b, a| a - b)),
    ("parseBool", |_, arguments| parsed(arguments, "a bool", parse_bool)),
    ("parseFloat", |_, arguments| parsed(arguments, "a number", |text| text.parse().ok().map(Value::Float))),
    ("parseInt", |_, arguments| {
        parsed(arguments, "a whole number", |text| text.parse().ok().map(Value::Int))
    }),
    ("parseUint", |_, arguments| {
        parsed(arguments, "a whole number that is not negative", |text| text.parse().ok().map(Value::Uint))
    }),
];

/// Calculates with whole numbers if both are, and with fractions otherwise.
pub(super) fn calculated(
    arguments: Arguments<'_>,
    of_whole: fn(i64, i64) -> Option<i64>,
    of_float: fn(f64, f64) -> f64,
) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let (first, second) = (arguments.value(0), arguments.value(1));
    if let (Value::Float(_), _) | (_, Value::Float(_)) = (first, second) {
        let (Some(first), Some(second)) = (first.as_float(), second.as_float()) else {
            return Err("both arguments must be numbers".to_owned());
        };
        return Ok(Value::Float(of_float(first, second)));
    }
    let (Some(first), Some(second)) = (whole(first), whole(second)) else {
        return Err("both arguments must be numbers".to_owned());
    };
    let result = of_whole(first, second);
    result.map(Value::Int).ok_or_else(|| "the result is not a number of 64 bits".to_owned())
}

/// Parses a text. The empty text gives the zero of the type.
fn parsed(
    arguments: Arguments<'_>,
    expected: &str,
    parse: fn(&str) -> Option<Value>,
) -> Result<Value, String> {
    arguments.count(1, 1)?;
    let text = arguments.text(0)?;
    let text = if text.is_empty() { "0" } else { &text };
    parse(text).ok_or_else(|| format!("the text is not {expected}"))
}

/// The texts that Go takes for bools.
fn parse_bool(text: &str) -> Option<Value> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Value::Bool(false)),
        _ => None,
    }
}
