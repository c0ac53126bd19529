//! Exact decimal numbers: what job files count with.

use std::{cmp::Ordering, fmt};

/// Above any digits that a number may have; one product of two still fits.
const MANTISSA_END: i128 = 10_i128.pow(37);
/// Powers of ten; more digits than this are printed by nobody.
const EXPONENT_MAX: i32 = 400;

/// `mantissa` times ten to the power of `exponent`, with no trailing zero in the mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    mantissa: i128,
    exponent: i32,
}

impl Number {
    /// None for what does not fit: operations say so too.
    fn new(mut mantissa: i128, mut exponent: i32) -> Option<Number> {
        while mantissa != 0 && mantissa % 10 == 0 {
            (mantissa, exponent) = (mantissa / 10, exponent + 1);
        }
        if mantissa == 0 {
            exponent = 0;
        }
        let fits = mantissa.abs() < MANTISSA_END && exponent.abs() <= EXPONENT_MAX;
        fits.then_some(Number { mantissa, exponent })
    }

    /// Reads `-12.5e3`. Only digits may surround the point, and nothing the whole.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (digits, power) = match digits.split_once(['e', 'E']) {
            Some((digits, power)) => (digits, power.parse::<i32>().ok()?),
            None => (digits, 0),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (digits, ""),
        };
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Zeros at the end count for the exponent only, so that a long fraction of them is no matter.
        let fraction = fraction.trim_end_matches('0');
        let all = format!("{whole}{fraction}");
        let significant = all.trim_end_matches('0');
        let zeros = i32::try_from(all.len() - significant.len()).ok()?;
        let mantissa = if significant.is_empty() { 0 } else { significant.parse::<i128>().ok()? };
        let exponent = power.checked_sub(i32::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
        Number::new(sign * mantissa, exponent)
    }

    pub(crate) fn negated(self) -> Number {
        Number { mantissa: -self.mantissa, ..self }
    }

    pub(crate) fn plus(self, other: Number) -> Option<Number> {
        let (a, b, exponent) = self.aligned(other)?;
        Number::new(a.checked_add(b)?, exponent)
    }

    pub(crate) fn minus(self, other: Number) -> Option<Number> {
        self.plus(other.negated())
    }

    pub(crate) fn times(self, other: Number) -> Option<Number> {
        Number::new(self.mantissa.checked_mul(other.mantissa)?, self.exponent + other.exponent)
    }

    /// None also where the quotient has no end.
    pub(crate) fn divided_by(self, other: Number) -> Option<Number> {
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent.checked_sub(other.exponent)?);
        while mantissa.checked_rem(other.mantissa)? != 0 {
            (mantissa, exponent) = (mantissa.checked_mul(10)?, exponent - 1);
        }
        Number::new(mantissa / other.mantissa, exponent)
    }

    /// With the sign of the dividend; what is divided by zero stays as it is.
    pub(crate) fn remainder(self, other: Number) -> Option<Number> {
        if other.mantissa == 0 {
            return Some(self);
        }
        let (a, b, exponent) = self.aligned(other)?;
        Number::new(a % b, exponent)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The whole number that it is, if it is one of 64 bits.
    pub(crate) fn to_i64(self) -> Option<i64> {
        i64::try_from(self.to_i128()?).ok()
    }

    /// The whole number that it is, if it is one of 64 bits without a sign.
    pub(crate) fn to_u64(self) -> Option<u64> {
        u64::try_from(self.to_i128()?).ok()
    }

    fn to_i128(self) -> Option<i128> {
        let exponent = u32::try_from(self.exponent).ok()?;
        self.mantissa.checked_mul(10_i128.checked_pow(exponent)?)
    }

    /// The nearest double.
    pub(crate) fn to_f64(self) -> f64 {
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::NAN)
    }

    fn aligned(self, other: Number) -> Option<(i128, i128, i32)> {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |number: Number| {
            let by = u32::try_from(number.exponent - exponent).ok()?;
            number.mantissa.checked_mul(if number.is_zero() { 1 } else { 10_i128.checked_pow(by)? })
        };
        Some((scaled(self)?, scaled(other)?, exponent))
    }

    /// The power of ten just above it.
    fn magnitude(self) -> i32 {
        self.mantissa.unsigned_abs().checked_ilog10().map_or(i32::MIN, |log| log as i32 + self.exponent)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        let magnitudes = || match self.mantissa < 0 {
            true => other.magnitude().cmp(&self.magnitude()),
            false => self.magnitude().cmp(&other.magnitude()),
        };
        // Numbers of one magnitude have few digits between them: aligning them always fits.
        let digits = || self.aligned(*other).map_or(Ordering::Equal, |(a, b, _)| a.cmp(&b));
        signs.then_with(magnitudes).then_with(digits)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<usize> for Number {
    fn from(count: usize) -> Number {
        Number::new(count as i128, 0).expect("64 bits have fewer digits than a number may have")
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.mantissa.unsigned_abs().to_string();
        let sign = if self.mantissa < 0 { "-" } else { "" };
        match usize::try_from(self.exponent) {
            Ok(zeros) => write!(f, "{sign}{digits}{}", "0".repeat(zeros)),
            Err(_) => {
                let places = self.exponent.unsigned_abs() as usize;
                let digits = format!("{digits:0>width$}", width = places + 1);
                let (whole, fraction) = digits.split_at(digits.len() - places);
                write!(f, "{sign}{whole}.{fraction}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn texts_are_read_and_written_exactly() {
        for (text, shown) in [
            ("007", "7"),
            ("0.10", "0.1"),
            ("-1.50e1", "-15"),
            ("1e20", "100000000000000000000"),
            ("12345678901234567890123456789", "12345678901234567890123456789"),
            ("1E-3", "0.001"),
            ("-0", "0"),
            ("0e999", "0"),
        ] {
            assert_eq!(number(text).to_string(), shown, "{text}");
        }
        for text in ["", " 5", "5 ", "0x1", ".5", "1.", "--1", "1e", "1_000", "1e401", "1e99999999999"] {
            assert_eq!(Number::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn arithmetic_is_exact_or_refused() {
        let shown = |number: Option<Number>| number.map(|number| number.to_string());
        assert_eq!(shown(number("0.1").plus(number("0.2"))), Some("0.3".to_owned()));
        assert_eq!(shown(number("5").minus(number("7.5"))), Some("-2.5".to_owned()));
        assert_eq!(shown(number("1.5").times(number("4"))), Some("6".to_owned()));
        assert_eq!(shown(number("1").divided_by(number("8"))), Some("0.125".to_owned()));
        assert_eq!(shown(number("1").divided_by(number("3"))), None);
        assert_eq!(shown(number("1").divided_by(number("0"))), None);
        assert_eq!(shown(number("-7").remainder(number("3"))), Some("-1".to_owned()));
        assert_eq!(shown(number("7").remainder(number("0"))), Some("7".to_owned()));
        assert_eq!(shown(number("1e37").plus(number("1e-37"))), None);
    }

    #[test]
    fn order_is_that_of_the_values() {
        let ascending =
            ["-1e300", "-2", "-1.5", "-1e-300", "0", "1e-300", "0.9", "1", "1.000001", "1e36", "1e300"];
        for (at, text) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(number(text).cmp(&number(other)), at.cmp(&other_at), "{text} and {other}");
            }
        }
    }

    #[test]
    fn integers_are_those_of_64_bits() {
        assert_eq!(number("-9223372036854775808").to_i64(), Some(i64::MIN));
        assert_eq!(number("9223372036854775808").to_i64(), None);
        assert_eq!(number("18446744073709551615").to_u64(), Some(u64::MAX));
        assert_eq!(number("1.5").to_i64(), None);
        assert_eq!(number("0.1").to_f64(), 0.1);
    }
}
