//! Parser for durations in Go's notation, such as `1h30m`. Most fields of the API are plain integers of nanoseconds;
//! the few fields that also accept text use this parser.

use std::fmt;

use serde::Deserializer;
use serde::de::{self, Unexpected, Visitor};

/// Number of digits of a fraction that are used. Further digits are below a nanosecond, even of an hour.
const FRACTION_DIGITS_MAX: usize = 18;

/// A text is not a duration, or does not fit into 64 bits of nanoseconds (about 292 years).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {text:?}: want numbers with units, such as 90s or 1h30m")]
pub struct Error {
    text: String,
}

/// Parses a duration in Go's notation and returns nanoseconds. The text is an optional sign, then one or more decimal
/// numbers, each followed by one of the units `ns`, `us`, `µs`, `ms`, `s`, `m`, `h`. A bare `0` needs no unit.
pub fn parse(text: &str) -> Result<i64, Error> {
    let error = || Error { text: text.to_owned() };
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(error());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanos, after) = leading_term(rest).ok_or_else(error)?;
        total = total.checked_add(nanos).ok_or_else(error)?;
        rest = after;
    }
    i64::try_from(sign * total).map_err(|_| error())
}

/// Splits the first number and its unit off `text`. Returns its nanoseconds and the rest of the text.
fn leading_term(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit_nanos = match unit {
        "ns" => 1,
        // Micro sign and Greek mu look the same; keyboards and editors produce either.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let fraction_scale = 10_i128.pow(fraction.len() as u32);
    Some((number(whole)? * unit_nanos + number(fraction)? * unit_nanos / fraction_scale, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The value of a run of digits; an empty run is 0. `None` if it does not fit into 64 bits.
fn number(digits: &str) -> Option<i128> {
    if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok().map(i128::from) }
}

/// For `deserialize_with`: accepts an integer of nanoseconds, or a text in the notation of [`parse`]. `null` is `None`.
pub(crate) fn string_or_nanos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    deserializer.deserialize_any(StringOrNanos)
}

struct StringOrNanos;

impl Visitor<'_> for StringOrNanos {
    type Value = Option<i64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"1h30m\" or an integer of nanoseconds")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<Self::Value, E> {
        Ok(Some(nanos))
    }

    fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<Self::Value, E> {
        i64::try_from(nanos).map(Some).map_err(|_| E::invalid_value(Unexpected::Unsigned(nanos), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        parse(text).map(Some).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse("1ns"), Ok(1));
        for micro in ["1us", "1\u{b5}s", "1\u{3bc}s"] {
            assert_eq!(parse(micro), Ok(1_000), "{micro}");
        }
        assert_eq!(parse("1ms"), Ok(1_000_000));
        assert_eq!(parse("1s"), Ok(SECOND));
        assert_eq!(parse("1m"), Ok(60 * SECOND));
        assert_eq!(parse("1h"), Ok(3_600 * SECOND));
        assert_eq!(parse("24h0m0s"), Ok(86_400 * SECOND));
    }

    #[test]
    fn reads_signs_and_fractions() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("-0"), Ok(0));
        assert_eq!(parse("+1.5h"), Ok(5_400 * SECOND));
        assert_eq!(parse("-1h30m.5s"), Ok(-(5_400 * SECOND + SECOND / 2)));
        assert_eq!(parse("1.s"), Ok(SECOND));
        assert_eq!(parse("0.3333333333333333333333333333h"), Ok(1_199_999_999_999));
        assert_eq!(parse("0.0000000009s"), Ok(0));
    }

    #[test]
    fn spans_exactly_64_bits() {
        assert_eq!(parse("9223372036854775807ns"), Ok(i64::MAX));
        assert_eq!(parse("-9223372036854775808ns"), Ok(i64::MIN));
        assert!(parse("9223372036854775808ns").is_err());
        assert!(parse("99999999999999999999999s").is_err());
        assert!(parse("18446744073709551615h18446744073709551615h").is_err());
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in [
            "", "-", "+", "1", "s", ".s", "1 s", " 1s", "1s ", "1d", "1S", "--1s", "1s-1s", "1e3s", "1.2.3s",
            "١s",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
