//! Numbers of the language: binary floating point of 512 bits, rounded half to even (§14). Numbers that come from a double
//! or from a machine word have a lower precision, which is visible when they are printed.

use std::{cmp::Ordering, fmt};

use num_bigint::{BigInt, BigUint, Sign};

/// Precision of a number in a file, in bits.
const WRITTEN_BITS: u64 = 512;
/// Precision of a number from a machine word, in bits.
const WORD_BITS: u64 = 64;
/// Precision of a number from a double, in bits.
const DOUBLE_BITS: u64 = 53;
/// Maximum number of digits of a number in a text. Every number can be parsed from the text that it is printed as.
const DIGITS_MAX: usize = 1_000;
/// Maximum power of ten in a text, with either sign. It is beyond the range of doubles, and such numbers are still parsed and
/// printed quickly.
const EXPONENT_MAX: i64 = 400;
/// Maximum size of a number as a power of two, with either sign. 10^n is about 2^(3.32 n).
const MAGNITUDE_MAX: i64 = 4 * EXPONENT_MAX;
/// Minimum exponent of two, so that the smallest numbers have all their bits, too.
const SCALE_MIN: i64 = -MAGNITUDE_MAX - WRITTEN_BITS as i64;
/// Number of bits that are a word in [`Number::steps`].
const STEP_BITS: u64 = 64;

/// A number.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    /// The precision in bits.
    bits: u64,
    value: Repr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    /// A whole number that fits in a machine word. Such numbers have no other form.
    Small(i64),
    /// The mantissa, which is odd, and the exponent of two.
    Float(BigInt, i64),
    Infinite(Sign),
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.value == other.value
    }
}

impl Eq for Number {}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number { bits: WORD_BITS, value: Repr::Small(value) }
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number::from(i64::try_from(value).expect("a length fits in i64"))
    }
}

impl Number {
    /// Parses a decimal number with an optional fraction and exponent. Returns `None` if the text is not a number, has more
    /// than [`DIGITS_MAX`] digits, or its exponent is beyond [`EXPONENT_MAX`].
    pub(crate) fn parse(text: &str) -> Option<Number> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (digits, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        if fraction.is_empty() && exponent == 0 && whole.len() < 19 {
            let value: i64 = whole.parse().ok()?;
            return Some(Number {
                bits: WRITTEN_BITS,
                value: Repr::Small(if negative { -value } else { value }),
            });
        }
        if whole.len() + fraction.len() > DIGITS_MAX || exponent.unsigned_abs() > EXPONENT_MAX.unsigned_abs()
        {
            return None;
        }
        let digits = BigInt::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?;
        let digits = if negative { -digits } else { digits };
        let exponent = exponent - fraction.len() as i64;
        let power = u32::try_from(exponent.unsigned_abs()).expect("the digits and the exponent are few");
        let power = BigInt::from(10).pow(power);
        if exponent >= 0 {
            Number::rounded(digits * power, 0, false, WRITTEN_BITS)
        } else {
            Number::quotient(&digits, &power, 0, WRITTEN_BITS)
        }
    }

    /// A whole number of any size.
    pub(crate) fn whole(value: BigInt) -> Option<Number> {
        let bits = value.bits().max(WORD_BITS);
        Number::rounded(value, 0, false, bits)
    }

    /// A number with the precision of a double; `None` for NaN.
    pub(crate) fn from_double(value: f64) -> Option<Number> {
        if value.is_nan() {
            return None;
        }
        if value.is_infinite() {
            return Some(Number::infinite(value.is_sign_negative()));
        }
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        let mantissa = BigInt::from(mantissa);
        let mantissa = if value.is_sign_negative() { -mantissa } else { mantissa };
        Number::rounded(mantissa, exponent, false, DOUBLE_BITS)
    }

    /// An infinite number.
    pub(crate) fn infinite(negative: bool) -> Number {
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Number { bits: WRITTEN_BITS, value: Repr::Infinite(sign) }
    }

    /// The memory of the number besides its own fields, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.value {
            Repr::Small(_) | Repr::Infinite(_) => 0,
            Repr::Float(mantissa, _) => mantissa.bits().div_ceil(8) as usize,
        }
    }

    /// The cost of printing the number, in steps of an evaluation. The time grows with the square of the digits.
    pub(crate) fn steps(&self) -> usize {
        match &self.value {
            Repr::Small(_) | Repr::Infinite(_) => 0,
            Repr::Float(mantissa, exponent) => {
                let words = (mantissa.bits().saturating_add(exponent.unsigned_abs()) / STEP_BITS) as usize;
                words.saturating_mul(words) / 4
            }
        }
    }

    pub(crate) fn is_infinite(&self) -> bool {
        matches!(self.value, Repr::Infinite(_))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.value == Repr::Small(0)
    }

    pub(crate) fn is_negative(&self) -> bool {
        match &self.value {
            Repr::Small(value) => *value < 0,
            Repr::Float(mantissa, _) => mantissa.sign() == Sign::Minus,
            Repr::Infinite(sign) => *sign == Sign::Minus,
        }
    }

    /// The value if it is a whole number that fits in 64 bits with a sign.
    pub(crate) fn to_i64(&self) -> Option<i64> {
        match &self.value {
            Repr::Small(value) => Some(*value),
            Repr::Float(..) | Repr::Infinite(_) => None,
        }
    }

    /// The value if it is a whole number that fits in 64 bits without a sign.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        match &self.value {
            Repr::Small(value) => u64::try_from(*value).ok(),
            Repr::Float(..) => u64::try_from(self.to_bigint()?).ok(),
            Repr::Infinite(_) => None,
        }
    }

    /// The value if it is a whole number.
    pub(crate) fn to_bigint(&self) -> Option<BigInt> {
        match &self.value {
            Repr::Small(value) => Some(BigInt::from(*value)),
            Repr::Float(mantissa, exponent) if *exponent >= 0 => Some(mantissa << *exponent),
            Repr::Float(..) | Repr::Infinite(_) => None,
        }
    }

    pub(crate) fn to_f64(&self) -> f64 {
        match &self.value {
            Repr::Small(value) => *value as f64,
            Repr::Float(..) => self.to_string().parse().expect("decimal text can be parsed as a double"),
            Repr::Infinite(Sign::Minus) => f64::NEG_INFINITY,
            Repr::Infinite(_) => f64::INFINITY,
        }
    }

    /// Rounds towards zero.
    pub(crate) fn truncated(&self) -> Number {
        match &self.value {
            Repr::Float(mantissa, exponent) if *exponent < 0 => {
                let whole = mantissa / (BigInt::from(1) << exponent.unsigned_abs());
                Number::rounded(whole, 0, false, self.bits.max(WORD_BITS))
                    .expect("truncation does not enlarge a number")
            }
            Repr::Small(_) | Repr::Float(..) | Repr::Infinite(_) => self.clone(),
        }
    }

    /// Rounds down to a whole number.
    pub(crate) fn floor(&self) -> Number {
        let whole = self.truncated();
        if whole > *self {
            whole.minus(&Number::from(1_i64)).expect("the next whole number is in range")
        } else {
            whole
        }
    }

    /// Rounds up to a whole number.
    pub(crate) fn ceil(&self) -> Number {
        let whole = self.truncated();
        if whole < *self {
            whole.plus(&Number::from(1_i64)).expect("the next whole number is in range")
        } else {
            whole
        }
    }

    pub(crate) fn negated(&self) -> Number {
        let value = match &self.value {
            Repr::Small(i64::MIN) => {
                return Number::whole(-BigInt::from(i64::MIN)).expect("the negation of i64::MIN is in range");
            }
            Repr::Small(value) => Repr::Small(-value),
            Repr::Float(mantissa, exponent) => {
                let negated = -mantissa.clone();
                return Number::rounded(negated, *exponent, false, self.bits)
                    .expect("negation does not enlarge a number");
            }
            Repr::Infinite(sign) => Repr::Infinite(-*sign),
        };
        Number { bits: self.bits, value }
    }

    /// The sum; `None` if the result is not a number or out of range.
    pub(crate) fn plus(&self, other: &Number) -> Option<Number> {
        let bits = self.bits.max(other.bits);
        if let (Repr::Small(a), Repr::Small(b)) = (&self.value, &other.value)
            && let Some(sum) = a.checked_add(*b)
        {
            return Some(Number { bits, value: Repr::Small(sum) });
        }
        match (self.parts(), other.parts()) {
            (Some((a, a_exponent)), Some((b, b_exponent))) => {
                let exponent = a_exponent.min(b_exponent);
                let sum = (a << (a_exponent - exponent)) + (b << (b_exponent - exponent));
                Number::rounded(sum, exponent, false, bits)
            }
            (Some(_), None) => Some(other.clone()),
            (None, Some(_)) => Some(self.clone()),
            (None, None) => (self == other).then(|| self.clone()),
        }
    }

    pub(crate) fn minus(&self, other: &Number) -> Option<Number> {
        self.plus(&other.negated())
    }

    /// The product; `None` if the result is not a number or out of range.
    pub(crate) fn times(&self, other: &Number) -> Option<Number> {
        let bits = self.bits.max(other.bits);
        match (self.parts(), other.parts()) {
            (Some((a, a_exponent)), Some((b, b_exponent))) => {
                Number::rounded(a * b, a_exponent + b_exponent, false, bits)
            }
            _ if self.is_zero() || other.is_zero() => None,
            _ => Some(Number::infinite(self.is_negative() != other.is_negative())),
        }
    }

    /// The quotient. A division by zero is infinite. `None` if the result is not a number or out of range.
    pub(crate) fn divided_by(&self, other: &Number) -> Option<Number> {
        let bits = self.bits.max(other.bits);
        match (self.parts(), other.parts()) {
            (Some(_), Some(_)) if other.is_zero() => {
                (!self.is_zero()).then(|| Number::infinite(self.is_negative()))
            }
            (Some((a, a_exponent)), Some((b, b_exponent))) => {
                Number::quotient(&a, &b, a_exponent - b_exponent, bits)
            }
            (Some(_), None) => Some(Number::from(0_i64)),
            (None, Some(_)) => Some(Number::infinite(self.is_negative() != other.is_negative())),
            (None, None) => None,
        }
    }

    /// The remainder of a division, with the sign of the dividend. The remainder of a division by zero is the dividend (§3).
    pub(crate) fn remainder(&self, other: &Number) -> Option<Number> {
        if other.is_zero() || other.is_infinite() {
            return Some(self.clone());
        }
        let ((a, a_exponent), (b, b_exponent)) = (self.parts()?, other.parts()?);
        let exponent = a_exponent.min(b_exponent);
        let rest = (a << (a_exponent - exponent)) % (b << (b_exponent - exponent));
        Number::rounded(rest, exponent, false, self.bits.max(other.bits))
    }

    /// The mantissa and the exponent of two; `None` for infinite numbers.
    fn parts(&self) -> Option<(BigInt, i64)> {
        match &self.value {
            Repr::Small(value) => Some((BigInt::from(*value), 0)),
            Repr::Float(mantissa, exponent) => Some((mantissa.clone(), *exponent)),
            Repr::Infinite(_) => None,
        }
    }

    fn quotient(a: &BigInt, b: &BigInt, exponent: i64, bits: u64) -> Option<Number> {
        // Computes two more bits than the result keeps, so that the remainder only decides on which side of the middle it lies.
        let shift = (bits + 2 + b.bits()).saturating_sub(a.bits());
        let dividend = a << shift;
        let (quotient, rest) = (&dividend / b, &dividend % b);
        Number::rounded(quotient, exponent - shift as i64, rest.sign() != Sign::NoSign, bits)
    }

    /// The nearest number to a mantissa and an exponent of two. `more` tells whether the exact value has further bits.
    fn rounded(mantissa: BigInt, exponent: i64, more: bool, bits: u64) -> Option<Number> {
        let (sign, mut magnitude) = mantissa.into_parts();
        let mut exponent = exponent;
        if let Some(excess) = magnitude.bits().checked_sub(bits).filter(|excess| *excess > 0) {
            let half = magnitude.bit(excess - 1);
            let below = more || magnitude.trailing_zeros().is_some_and(|zeros| zeros < excess - 1);
            magnitude >>= excess;
            exponent += excess as i64;
            if half && (below || magnitude.bit(0)) {
                magnitude += 1_u32;
            }
        }
        if let Some(zeros) = magnitude.trailing_zeros() {
            magnitude >>= zeros;
            exponent += zeros as i64;
        } else {
            return Some(Number { bits, value: Repr::Small(0) });
        }
        let magnitude_bits = magnitude.bits() as i64;
        if exponent >= 0
            && magnitude_bits + exponent <= 64
            && let Ok(whole) = i64::try_from(BigInt::from_biguint(sign, &magnitude << exponent))
        {
            return Some(Number { bits, value: Repr::Small(whole) });
        }
        let within = (-MAGNITUDE_MAX..=MAGNITUDE_MAX).contains(&(exponent + magnitude_bits));
        (within && exponent >= SCALE_MIN)
            .then(|| Number { bits, value: Repr::Float(BigInt::from_biguint(sign, magnitude), exponent) })
    }

    /// The shortest decimal digits that distinguish the number from its neighbours, and the number of digits after the point.
    fn shortest(&self) -> (String, i64) {
        let (mantissa, exponent) = self.parts().expect("only finite numbers have digits");
        let (magnitude, bits) = (mantissa.magnitude(), mantissa.bits());
        let spread = self.bits.saturating_sub(bits);
        // The number, and the midpoints between it and its neighbours, as whole numbers of one unit.
        let wide: BigUint = magnitude << (spread + 2);
        let is_power = magnitude.count_ones() == 1;
        let (lower, upper) = (&wide - if is_power { 1_u32 } else { 2 }, &wide + 2_u32);
        let exponent = exponent - spread as i64 - 2;
        let is_even = spread > 0 || !magnitude.bit(0);
        let decimals = exponent.min(0).unsigned_abs();
        let scaled = |unit: &BigUint| match exponent {
            0.. => (unit << exponent).to_string(),
            _ => (unit * BigUint::from(5_u32).pow(decimals as u32)).to_string(),
        };
        let number = scaled(&wide);
        let width = number.len() + 1;
        let padded = |digits: &str| format!("{digits:0>width$}").into_bytes();
        let (lower, number, upper) = (padded(&scaled(&lower)), padded(&number), padded(&scaled(&upper)));
        let significant =
            |digits: &[u8]| digits.iter().rposition(|digit| *digit != b'0').map_or(0, |at| at + 1);
        let (lower_end, upper_end) = (significant(&lower), significant(&upper));
        let mut digits = number[..significant(&number)].to_vec();
        for at in 0..digits.len() {
            let (l, m, u) = (lower[at], digits[at], upper[at]);
            let may_cut = l != m || (is_even && at + 1 >= lower_end);
            let may_raise = m != u && (is_even || m + 1 < u || at + 1 < upper_end);
            let raise = match (may_cut, may_raise) {
                (true, true) => {
                    let rest = &digits[at + 1..];
                    match rest.split_first() {
                        None => false,
                        Some((b'5', [])) => (m - b'0') % 2 == 1,
                        Some((first, _)) => *first >= b'5',
                    }
                }
                (true, false) => false,
                (false, true) => true,
                (false, false) => continue,
            };
            digits.truncate(at + 1);
            if raise {
                raise_last(&mut digits);
            }
            break;
        }
        digits.resize(width, b'0');
        (String::from_utf8(digits).expect("digits are ASCII"), decimals as i64)
    }
}

/// Adds one to the last digit. The first digit must be zero.
fn raise_last(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let rank = |number: &Number| match &number.value {
            Repr::Infinite(Sign::Minus) => -1,
            Repr::Infinite(_) => 1,
            Repr::Small(_) | Repr::Float(..) => 0,
        };
        if let (Repr::Small(a), Repr::Small(b)) = (&self.value, &other.value) {
            return a.cmp(b);
        }
        match (self.parts(), other.parts()) {
            (Some((a, a_exponent)), Some((b, b_exponent))) => {
                let exponent = a_exponent.min(b_exponent);
                (a << (a_exponent - exponent)).cmp(&(b << (b_exponent - exponent)))
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// Prints without an exponent, in the shortest form that distinguishes the number from its neighbours.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Repr::Small(value) if value.unsigned_abs() >> DOUBLE_BITS == 0 || self.bits >= WORD_BITS => {
                write!(f, "{value}")
            }
            Repr::Infinite(Sign::Minus) => f.write_str("-Inf"),
            Repr::Infinite(_) => f.write_str("+Inf"),
            Repr::Small(_) | Repr::Float(..) => {
                let (digits, decimals) = self.shortest();
                let point = digits.len().saturating_sub(decimals as usize);
                let sign = if self.is_negative() { "-" } else { "" };
                let whole = digits[..point].trim_start_matches('0');
                let whole = if whole.is_empty() { "0" } else { whole };
                let missing = "0".repeat((decimals as usize).saturating_sub(digits.len()));
                let fraction = format!("{missing}{}", &digits[point..]);
                match fraction.trim_end_matches('0') {
                    "" => write!(f, "{sign}{whole}"),
                    fraction => write!(f, "{sign}{whole}.{fraction}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn decimal_forms_are_read_and_written() {
        let shown = |text: &str| number(text).to_string();
        assert_eq!(shown("007"), "7");
        assert_eq!(shown("-0.10"), "-0.1");
        assert_eq!(shown("1.5e3"), "1500");
        assert_eq!(shown("1e21"), "1000000000000000000000");
        assert_eq!(shown("1e-7"), "0.0000001");
        assert_eq!(shown("12345678901234567890.12345"), "12345678901234567890.12345");
        for wrong in ["", "-", ".", "1_000", "0x10", "1e", "e1", " 1", "1e99999999"] {
            assert_eq!(Number::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_far_beyond_doubles_is_none() {
        for wrong in [
            "1.5e-9223372036854775808",
            "1e-9223372036854775808",
            "1e9223372036854775807",
            "-1e-9223372036854775808",
            "1e401",
            "1e-401",
            "1e18446744073709551616",
        ] {
            assert_eq!(Number::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Number::parse(&"9".repeat(DIGITS_MAX + 1)), None);
        for right in ["1e400", "1e-400", "-1.5e-400", &"9".repeat(400)] {
            let number = number(right);
            assert_eq!(Number::parse(&number.to_string()), Some(number), "{right}");
        }
    }

    #[test]
    fn numbers_with_more_digits_take_more_steps() {
        assert_eq!(number("12345").steps(), 0);
        let third = number("1").divided_by(&number("3")).unwrap();
        assert!(third.steps() < number("1e-400").steps() && number("1e-400").steps() < 4_096);
    }

    #[test]
    fn quotients_have_as_many_digits_as_bits_allow() {
        let third = number("1").divided_by(&number("3")).unwrap();
        let text = third.to_string();
        assert!((153..=157).contains(&text.len()) && text.starts_with("0.3333"), "{text}");
        assert_eq!(number("1").divided_by(&number("8")).unwrap().to_string(), "0.125");
        assert_eq!(number("1").divided_by(&number("0")).unwrap().to_string(), "+Inf");
        assert_eq!(
            Number::from_double(2_f64.powi(100)).unwrap().to_string(),
            "1267650600228229400000000000000"
        );
    }

    #[test]
    fn remainders_take_the_sign_of_the_dividend() {
        assert_eq!(number("-7").remainder(&number("3")).unwrap(), number("-1"));
        assert_eq!(number("7.5").remainder(&number("0")).unwrap(), number("7.5"));
    }

    proptest! {
        #[test]
        fn doubles_print_as_rust_prints_them(value in -1e30..1e30_f64) {
            prop_assert_eq!(Number::from_double(value).unwrap().to_string(), value.to_string());
        }

        #[test]
        fn printed_numbers_are_parsed_back(a in any::<i64>(), b in 1..i64::MAX) {
            let quotient = Number::from(a).divided_by(&number(&b.to_string())).unwrap();
            prop_assert_eq!(Number::parse(&quotient.to_string()).unwrap(), quotient);
        }

        #[test]
        fn sums_are_undone_by_differences(a in any::<i64>(), b in any::<i64>()) {
            let sum = Number::from(a).plus(&Number::from(b)).unwrap();
            let whole = Number::whole(BigInt::from(a) + BigInt::from(b)).unwrap();
            prop_assert_eq!(&sum, &whole);
            prop_assert_eq!(sum.minus(&Number::from(b)).unwrap(), Number::from(a));
            prop_assert_eq!(Number::from(a) < Number::from(b), a < b);
        }
    }
}
