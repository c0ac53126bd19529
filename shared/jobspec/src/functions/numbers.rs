//! Functions on numbers.

use num_bigint::BigInt;

use super::{Context, FunctionResult, bad_argument, fail, number_of, text_of, whole};
use crate::{
    number::Number,
    shown::quoted,
    value::{Sequence, Value},
};

/// Maximum number of values in a range.
const RANGE_MAX: usize = 1024;
/// Maximum number of digits of a parsed whole number. Parsing takes the square of it.
const DIGITS_MAX: usize = 4096;
/// Parsing `n` digits takes as long as `n * n / STEP_DIGITS` steps of an evaluation.
const STEP_DIGITS: usize = 512;

pub(super) fn abs(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let number = number_of(&arguments[0]);
    Ok(Value::Number(if number.is_negative() { number.negated() } else { number.clone() }))
}

pub(super) fn ceil(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::Number(number_of(&arguments[0]).ceil()))
}

pub(super) fn floor(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::Number(number_of(&arguments[0]).floor()))
}

pub(super) fn signum(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(Value::Number(Number::from(whole(&arguments, 0)?.signum())))
}

/// The logarithm, with the precision of doubles.
pub(super) fn log(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (number, base) = (number_of(&arguments[0]).to_f64(), number_of(&arguments[1]).to_f64());
    double(number.ln() / base.ln())
}

/// The power, with the precision of doubles.
pub(super) fn pow(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    double(number_of(&arguments[0]).to_f64().powf(number_of(&arguments[1]).to_f64()))
}

fn double(value: f64) -> FunctionResult {
    match Number::from_double(value) {
        Some(number) => Ok(Value::Number(number)),
        None => fail("the result is not a number"),
    }
}

pub(super) fn max(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    outermost(arguments.iter().map(number_of).max())
}

pub(super) fn min(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    outermost(arguments.iter().map(number_of).min())
}

fn outermost(number: Option<&Number>) -> FunctionResult {
    match number {
        Some(number) => Ok(Value::Number(number.clone())),
        None => fail("at least one number is required"),
    }
}

/// Parses a whole number in a base from 2 to 62. The digits are 0 to 9, a to z, A to Z; up to base 36, letter case is ignored.
pub(super) fn parseint(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let text = text_of(&arguments[0]);
    let Some(base) = whole(&arguments, 1).ok().filter(|base| (2..=62).contains(base)) else {
        return bad_argument(1, "the base must be a whole number between 2 and 62");
    };
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.len() > DIGITS_MAX {
        return bad_argument(
            0,
            format!("the number has {} digits; at most {DIGITS_MAX} are allowed", digits.len()),
        );
    }
    context.take_steps(digits.len() * digits.len() / STEP_DIGITS)?;
    let digit = |byte: &u8| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'z' => byte - b'a' + 10,
            b'A'..=b'Z' if base <= 36 => byte - b'A' + 10,
            b'A'..=b'Z' => byte - b'A' + 36,
            _ => return None,
        };
        (i64::from(digit) < base).then_some(digit)
    };
    let values: Option<Vec<u8>> = digits.iter().map(digit).collect();
    let Some(values) = values.filter(|values| !values.is_empty()) else {
        return bad_argument(0, format!("{} is not a whole number in base {base}", quoted(text)));
    };
    let number = values.iter().fold(BigInt::ZERO, |number, digit| number * base + *digit);
    match Number::whole(if negative { -number } else { number }) {
        Some(number) => Ok(Value::Number(number)),
        None => bad_argument(0, "the number is too large"),
    }
}

/// Numbers from a start (by default 0) up to, but not including, an end, by a step.
pub(super) fn range(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let numbers: Vec<Number> = arguments.iter().map(|argument| number_of(argument).clone()).collect();
    let zero = Number::from(0_i64);
    let (start, end) = match &numbers[..] {
        [end] => (zero.clone(), end.clone()),
        [start, end] | [start, end, _] => (start.clone(), end.clone()),
        _ => return fail("one, two or three numbers are required"),
    };
    let counts_down = end < start;
    let step = numbers.get(2).cloned().unwrap_or(Number::from(if counts_down { -1_i64 } else { 1 }));
    if counts_down && step > zero {
        return bad_argument(2, "the end must be greater than the start if the step is positive");
    }
    if !counts_down && step < zero && start != end {
        return bad_argument(2, "the end must be less than the start if the step is negative");
    }
    let mut values = Vec::new();
    let mut next = start;
    while if counts_down { next > end } else { next < end } {
        if values.len() >= RANGE_MAX {
            return fail(format!(
                "a range may have at most {RANGE_MAX} values; use a nearer end or a larger step"
            ));
        }
        let Some(following) = next.plus(&step) else { return fail("the numbers become too large") };
        values.push(Value::Number(std::mem::replace(&mut next, following)));
    }
    Ok(Value::List(Sequence::List, values))
}
