//! Numbers: integers of 64 bits and floating point numbers, kept together with their text.

/// A number and its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// The text of the number.
    pub text: String,
    /// Its value.
    pub kind: NumberKind,
}

/// The value of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberKind {
    /// A number without fraction and exponent.
    Integer(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
}

impl Number {
    /// Parses a number: decimal, hexadecimal (`0x10`) or octal (`010`) with an optional sign, or with a fraction or an
    /// exponent (`1.5`, `4e3`). Returns `None` if the text is not a number, or its value is out of range.
    pub fn parse(text: &str) -> Option<Self> {
        integer(text)
            .map(NumberKind::Integer)
            .or_else(|| float(text).map(NumberKind::Float))
            .map(|kind| Self { text: text.to_owned(), kind })
    }
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = if let Some(digits) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        (16, digits)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    // The standard library would accept a second sign, as in `--1`.
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    i64::try_from(sign * i128::from_str_radix(digits, radix).ok()?).ok()
}

fn float(text: &str) -> Option<f64> {
    let is_float = text.contains(['.', 'e', 'E']);
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    text.parse().ok().filter(|value: &f64| is_float && is_plain && value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<NumberKind> {
        Number::parse(text).map(|number| number.kind)
    }

    #[test]
    fn integers_may_be_hexadecimal_octal_and_signed() {
        for (text, value) in [
            ("0", 0),
            ("17", 17),
            ("-1", -1),
            ("+5", 5),
            ("0x10", 16),
            ("-0XfF", -255),
            ("010", 8),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(kind(text), Some(NumberKind::Integer(value)), "{text}");
        }
    }

    #[test]
    fn a_fraction_or_an_exponent_makes_a_float() {
        for (text, value) in [("4646.0", 4646.0), ("4e3", 4000.0), ("-1.5E-1", -0.15), (".5", 0.5)] {
            assert_eq!(kind(text), Some(NumberKind::Float(value)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_numbers() {
        for text in [
            "",
            "-",
            "0x",
            "0x-1",
            "08",
            "1_000",
            "10s",
            "9223372036854775808",
            "1e999",
            "inf",
            "NaN",
            "--1",
            "1.2.3",
            "e",
            ".",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }
}
