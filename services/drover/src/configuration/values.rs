//! Values that have been converted to the type that their key expects, and the conversion.

use std::net::IpAddr;

use hcl1::{Body, Kind, Number, NumberKind, Value};

use super::schema::Type;
use super::size;
use crate::cli::flags;

/// A value that has been converted to the type of its key. [`super::reader`] reads blocks.
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

/// Why a value cannot be converted.
#[derive(Debug, PartialEq)]
pub(super) enum Mismatch {
    /// The key expects another type, which this text describes.
    Expected(&'static str),
    /// A whole number outside the range from the first to the second.
    OutOfRange(i64, i64, String),
    /// Not a duration; the value as text.
    Duration(String),
}

impl Type {
    /// Converts a value to this type.
    pub(super) fn scalar(self, value: &Value) -> Result<Scalar, Mismatch> {
        let expected = |what| Mismatch::Expected(what);
        match self {
            Type::Text => text(value).map(Scalar::Text).ok_or(expected("a string")),
            Type::Bool => bool(value).map(Scalar::Bool).ok_or(expected("true or false")),
            Type::Whole(first, last) => {
                let number = whole(value).ok_or(expected("a whole number"))?;
                if (first..=last).contains(&number) {
                    return Ok(Scalar::Whole(number));
                }
                Err(Mismatch::OutOfRange(first, last, number.to_string()))
            }
            Type::Float => float(value).map(Scalar::Float).ok_or(expected("a number")),
            Type::Duration => {
                let text = text(value).ok_or(expected("a time span, such as \"10s\""))?;
                let nanos = api_types::duration::parse(&text).ok().filter(|nanos| *nanos >= 0);
                nanos.map(Scalar::Duration).ok_or(Mismatch::Duration(text))
            }
            Type::Size => {
                let bytes = text(value).and_then(|text| size::read(&text));
                bytes.map(Scalar::Size).ok_or(expected("a size, such as \"500K\" or \"2MiB\""))
            }
            Type::Address => {
                let address = text(value).and_then(|text| text.parse().ok());
                address.map(Scalar::Address).ok_or(expected("an IP address"))
            }
            Type::Texts => {
                let Kind::List(values) = &value.kind else { return Err(expected("a list of strings")) };
                let texts: Option<_> = values.iter().map(text).collect();
                texts.map(Scalar::Texts).ok_or(expected("a list of strings"))
            }
            Type::Map | Type::Block(_) | Type::Named { .. } => Err(expected("a block")),
            Type::Any => Ok(Scalar::Text(String::new())),
        }
    }
}

/// A string. Numbers and bools become their text.
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
        // Beyond 2^53, the nearest number is close enough.
        NumberKind::Integer(number) => number as f64,
        NumberKind::Float(number) => number,
    })
}

/// The bodies of a value that is a block. JSON allows each key once, so there a list of objects is a repeated block.
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

/// The value as it appears in messages. Texts are omitted, because they may be secrets.
pub(super) fn displayed(value: &Value) -> String {
    match &value.kind {
        Kind::Number(number) => number.text.clone(),
        Kind::Bool(value) => value.to_string(),
        Kind::Text(_) | Kind::List(_) | Kind::Body(_) | Kind::Null => value.kind.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::{COUNT, SMALL, WHOLE};
    use super::*;

    fn fits(value_type: Type, value: &str) -> Result<Scalar, Mismatch> {
        let body = hcl1::parse(format!("a = {value}").as_bytes(), hcl1::Syntax::Hcl).unwrap();
        value_type.scalar(&body.items[0].value)
    }

    #[test]
    fn numbers_and_bools_are_strings_and_strings_are_parsed() {
        for (value, text) in [("5", "5"), ("0x10", "0x10"), ("1.5", "1.5"), ("true", "true"), ("\"a\"", "a")]
        {
            assert_eq!(fits(Type::Text, value), Ok(Scalar::Text(text.to_owned())));
        }
        for value in ["500", "\"500\"", "0x1f4"] {
            assert_eq!(fits(COUNT, value), Ok(Scalar::Whole(500)));
        }
        for value in ["true", "1", "\"true\"", "\"1\""] {
            assert_eq!(fits(Type::Bool, value), Ok(Scalar::Bool(true)));
        }
        assert_eq!(fits(Type::Float, "5"), Ok(Scalar::Float(5.0)));
        assert_eq!(fits(Type::Texts, "[\"a\", 5]"), Ok(Scalar::Texts(vec!["a".to_owned(), "5".to_owned()])));
        assert_eq!(fits(Type::Duration, "\"90s\""), Ok(Scalar::Duration(90_000_000_000)));
        assert_eq!(fits(Type::Size, "\"2K\""), Ok(Scalar::Size(2_000)));
    }

    #[test]
    fn floats_are_no_whole_numbers_and_bare_numbers_no_time_spans() {
        let whole = Err(Mismatch::Expected("a whole number"));
        for value in ["4646.0", "4e3", "\"1.5\"", "true", "[]", "{}"] {
            assert_eq!(fits(WHOLE, value), whole, "{value}");
        }
        assert_eq!(fits(SMALL, "70000"), Err(Mismatch::OutOfRange(0, 65_535, "70000".to_owned())));
        for value in ["5", "\"5\"", "\"5x\"", "\"-5s\""] {
            let text = value.trim_matches('"').to_owned();
            assert_eq!(fits(Type::Duration, value), Err(Mismatch::Duration(text)));
        }
        assert_eq!(fits(Type::Bool, "2"), Err(Mismatch::Expected("true or false")));
        assert_eq!(fits(Type::Texts, "\"a\""), Err(Mismatch::Expected("a list of strings")));
        assert_eq!(fits(Type::Address, "\"here\""), Err(Mismatch::Expected("an IP address")));
    }
}
