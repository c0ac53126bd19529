//! What kind of value a key wants, and how leniently other kinds are taken for it.

use std::net::IpAddr;

use hcl1::{Body, Kind, Number, NumberKind, Value};

use super::keys::Key;
use super::size;
use crate::cli::flags;

/// What a key wants.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fit {
    Text,
    Bool,
    /// A whole number in this range.
    Whole(i64, i64),
    Float,
    /// A time span with a unit.
    Duration,
    /// A number of bytes, perhaps with a unit.
    Size,
    /// An IP address.
    Address,
    /// A list of strings.
    Texts,
    /// A block of strings whose keys are free.
    Map,
    /// A block with these keys.
    Block(&'static [Key]),
    /// Blocks with a label each: those that are known by name, and what the others hold.
    Named {
        known: &'static [Key],
        others: &'static [Key],
    },
    /// Anything at all.
    Any,
}

/// Any whole number.
pub(super) const WHOLE: Fit = Fit::Whole(i64::MIN, i64::MAX);
/// A whole number that fits 32 bits without a sign.
pub(super) const COUNT: Fit = Fit::Whole(0, u32::MAX as i64);
/// A whole number that fits 16 bits without a sign.
pub(super) const SMALL: Fit = Fit::Whole(0, u16::MAX as i64);

/// A value that fits its key. Blocks are no such: [`super::reader`] reads them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Bool(bool),
    Whole(i64),
    Float(f64),
    /// Nanoseconds, not negative.
    Duration(i64),
    Size(usize),
    Address(IpAddr),
    Texts(Vec<String>),
}

/// Why a value does not fit.
#[derive(Debug, PartialEq)]
pub(super) enum Misfit {
    /// What the key must be.
    Wanted(&'static str),
    /// A whole number that is not from the first to the second.
    OutOfRange(i64, i64, String),
    /// No time span; the value as text.
    Duration(String),
}

impl Fit {
    /// The value as this kind.
    pub(super) fn scalar(self, value: &Value) -> Result<Scalar, Misfit> {
        let wanted = |what| Misfit::Wanted(what);
        match self {
            Fit::Text => text(value).map(Scalar::Text).ok_or(wanted("a string")),
            Fit::Bool => bool(value).map(Scalar::Bool).ok_or(wanted("true or false")),
            Fit::Whole(first, last) => {
                let number = whole(value).ok_or(wanted("a whole number"))?;
                if (first..=last).contains(&number) {
                    return Ok(Scalar::Whole(number));
                }
                Err(Misfit::OutOfRange(first, last, number.to_string()))
            }
            Fit::Float => float(value).map(Scalar::Float).ok_or(wanted("a number")),
            Fit::Duration => {
                let text = text(value).ok_or(wanted("a time span, such as \"10s\""))?;
                let nanos = api_types::duration::parse(&text).ok().filter(|nanos| *nanos >= 0);
                nanos.map(Scalar::Duration).ok_or(Misfit::Duration(text))
            }
            Fit::Size => {
                let bytes = text(value).and_then(|text| size::read(&text));
                bytes.map(Scalar::Size).ok_or(wanted("a size, such as \"500K\" or \"2MiB\""))
            }
            Fit::Address => {
                let address = text(value).and_then(|text| text.parse().ok());
                address.map(Scalar::Address).ok_or(wanted("an IP address"))
            }
            Fit::Texts => {
                let Kind::List(values) = &value.kind else { return Err(wanted("a list of strings")) };
                let texts: Option<_> = values.iter().map(text).collect();
                texts.map(Scalar::Texts).ok_or(wanted("a list of strings"))
            }
            Fit::Map | Fit::Block(_) | Fit::Named { .. } => Err(wanted("a block")),
            Fit::Any => Ok(Scalar::Text(String::new())),
        }
    }

    /// Whether the key wants a block.
    pub(super) fn is_block(self) -> bool {
        matches!(self, Fit::Map | Fit::Block(_) | Fit::Named { .. })
    }
}

/// A string; numbers and bools are what is written.
pub(super) fn text(value: &Value) -> Option<String> {
    match &value.kind {
        Kind::Text(text) => Some(text.clone()),
        Kind::Number(number) => Some(number.text.clone()),
        Kind::Bool(value) => Some(value.to_string()),
        Kind::List(_) | Kind::Body(_) | Kind::Null => None,
    }
}

fn bool(value: &Value) -> Option<bool> {
    match &value.kind {
        Kind::Bool(value) => Some(*value),
        Kind::Text(text) => flags::boolean(text).ok(),
        Kind::Number(Number { kind: NumberKind::Integer(number @ (0 | 1)), .. }) => Some(*number == 1),
        Kind::Number(_) | Kind::List(_) | Kind::Body(_) | Kind::Null => None,
    }
}

fn number(value: &Value) -> Option<NumberKind> {
    match &value.kind {
        Kind::Number(number) => Some(number.kind),
        Kind::Text(text) => Number::parse(text).map(|number| number.kind),
        Kind::Bool(_) | Kind::List(_) | Kind::Body(_) | Kind::Null => None,
    }
}

fn whole(value: &Value) -> Option<i64> {
    match number(value)? {
        NumberKind::Integer(number) => Some(number),
        NumberKind::Float(_) => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    Some(match number(value)? {
        // Beyond 2^53 the nearest number is as good.
        NumberKind::Integer(number) => number as f64,
        NumberKind::Float(number) => number,
    })
}

/// The bodies of a value that is a block. In JSON, where a key stands once, a list of objects is a block given more than
/// once.
pub(super) fn bodies(value: &Value, is_json: bool) -> Option<Vec<&Body>> {
    match &value.kind {
        Kind::Body(body) => Some(vec![body]),
        Kind::List(values) if is_json => values.iter().map(body).collect(),
        Kind::List(_) | Kind::Text(_) | Kind::Number(_) | Kind::Bool(_) | Kind::Null => None,
    }
}

fn body(value: &Value) -> Option<&Body> {
    if let Kind::Body(body) = &value.kind { Some(body) } else { None }
}

/// The value as messages show it. Texts are left out: they may be secrets.
pub(super) fn shown(value: &Value) -> String {
    match &value.kind {
        Kind::Number(number) => number.text.clone(),
        Kind::Bool(value) => value.to_string(),
        Kind::Text(_) | Kind::List(_) | Kind::Body(_) | Kind::Null => value.kind.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(fit: Fit, value: &str) -> Result<Scalar, Misfit> {
        let body = hcl1::parse(format!("a = {value}").as_bytes(), hcl1::Syntax::Hcl).unwrap();
        fit.scalar(&body.items[0].value)
    }

    #[test]
    fn numbers_and_bools_are_strings_and_strings_are_parsed() {
        for (value, text) in [("5", "5"), ("0x10", "0x10"), ("1.5", "1.5"), ("true", "true"), ("\"a\"", "a")]
        {
            assert_eq!(fits(Fit::Text, value), Ok(Scalar::Text(text.to_owned())));
        }
        for value in ["500", "\"500\"", "0x1f4"] {
            assert_eq!(fits(COUNT, value), Ok(Scalar::Whole(500)));
        }
        for value in ["true", "1", "\"true\"", "\"1\""] {
            assert_eq!(fits(Fit::Bool, value), Ok(Scalar::Bool(true)));
        }
        assert_eq!(fits(Fit::Float, "5"), Ok(Scalar::Float(5.0)));
        assert_eq!(fits(Fit::Texts, "[\"a\", 5]"), Ok(Scalar::Texts(vec!["a".to_owned(), "5".to_owned()])));
        assert_eq!(fits(Fit::Duration, "\"90s\""), Ok(Scalar::Duration(90_000_000_000)));
        assert_eq!(fits(Fit::Size, "\"2K\""), Ok(Scalar::Size(2_000)));
    }

    #[test]
    fn floats_are_no_whole_numbers_and_bare_numbers_no_time_spans() {
        let whole = Err(Misfit::Wanted("a whole number"));
        for value in ["4646.0", "4e3", "\"1.5\"", "true", "[]", "{}"] {
            assert_eq!(fits(WHOLE, value), whole, "{value}");
        }
        assert_eq!(fits(SMALL, "70000"), Err(Misfit::OutOfRange(0, 65_535, "70000".to_owned())));
        for value in ["5", "\"5\"", "\"5x\"", "\"-5s\""] {
            let text = value.trim_matches('"').to_owned();
            assert_eq!(fits(Fit::Duration, value), Err(Misfit::Duration(text)));
        }
        assert_eq!(fits(Fit::Bool, "2"), Err(Misfit::Wanted("true or false")));
        assert_eq!(fits(Fit::Texts, "\"a\""), Err(Misfit::Wanted("a list of strings")));
        assert_eq!(fits(Fit::Address, "\"here\""), Err(Misfit::Wanted("an IP address")));
    }
}
