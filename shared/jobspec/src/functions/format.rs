//! The functions `format` and `formatlist`, with verbs such as `%5.2f`, as in C and Go.

use std::iter::Peekable;

use num_bigint::Sign;
use unicode_segmentation::UnicodeSegmentation as _;

use super::{
    Context, Failure, FunctionResult, bad_argument,
    encoding::{ESCAPED_BYTES_MAX, json_text},
    fail, text_of,
};
use crate::{
    number::Number,
    shown::quoted,
    value::{Cost, Sequence, Value},
};

/// Maximum width and precision of a verb.
const WIDTH_MAX: usize = 1024;

/// Formats the values by the verbs of a pattern.
pub(super) fn format(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (pattern, values) = arguments.split_first().expect("the pattern is the first argument");
    formatted(context, text_of(pattern), &values.iter().collect::<Vec<_>>()).map(Value::text)
}

/// The same as `format` for each element of the lists among the values.
pub(super) fn formatlist(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (pattern, values) = arguments.split_first().expect("the pattern is the first argument");
    let mut length = None;
    for (index, value) in values.iter().enumerate() {
        let Value::List(_, elements) = value else { continue };
        match length {
            None => length = Some((index, elements.len())),
            Some((first, length)) if length != elements.len() => {
                let other = elements.len();
                let first = first + 2;
                return bad_argument(
                    index + 1,
                    format!("the list has {other} elements, but argument {first} has {length}"),
                );
            }
            Some(_) => {}
        }
    }
    let rounds = length.map_or(1, |(_, length)| length);
    let mut texts = Vec::new();
    for round in 0..rounds {
        let of_round = values.iter().map(|value| match value {
            Value::List(_, elements) => &elements[round],
            other => other,
        });
        let of_round: Vec<&Value> = of_round.collect();
        context.reserve(values.len() * 64)?;
        texts.push(Value::text(formatted(context, text_of(pattern), &of_round)?));
    }
    Ok(Value::List(Sequence::List, texts))
}

/// A verb with its flags, width and precision.
#[derive(Default)]
struct Verb {
    written: String,
    letter: char,
    plus: bool,
    minus: bool,
    zero: bool,
    space: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
    /// The number of the argument, from 1, if the verb names one.
    argument: Option<usize>,
}

fn formatted(context: &Context<'_>, pattern: &str, values: &[&Value]) -> Result<String, Failure> {
    let (mut text, mut rest) = (String::new(), pattern);
    let (mut next, mut most) = (0, 0);
    let mut names_arguments = false;
    context.reserve(pattern.len())?;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("%%") {
            text.push('%');
            rest = after;
            continue;
        }
        let offset = pattern.len() - rest.len();
        let (verb, length) = verb(rest, offset)?;
        rest = &rest[length..];
        let index = verb.argument.map_or(next, |argument| argument - 1);
        names_arguments |= verb.argument.is_some();
        next = index.saturating_add(1);
        most = most.max(next);
        let Some(value) = values.get(index) else {
            let reason =
                format!("{} at {offset} needs value {next}, which is missing", quoted(&verb.written));
            return fail(reason);
        };
        // A pattern may use one value many times.
        let Cost { bytes, steps, .. } = value.cost();
        let growth = if matches!(verb.letter, 'q' | 'v') { ESCAPED_BYTES_MAX } else { 1 };
        context.reserve(bytes.saturating_mul(growth) + verb.width + verb.precision.unwrap_or(0))?;
        context.take_steps(steps)?;
        let piece = verb.apply(value).or_else(|reason| {
            let verb = quoted(&verb.written);
            fail(format!("cannot format value {next} with {verb} at {offset}: {reason}"))
        })?;
        text.push_str(&piece);
    }
    if most < values.len() && !names_arguments {
        let used = if most == 0 { "none".to_owned() } else { format!("only {most}") };
        return fail(format!("there are {} values, but the pattern uses {used}", values.len()));
    }
    text.push_str(rest);
    Ok(text)
}

/// Parses the number at the start, if there is one.
fn number(characters: &mut Peekable<impl Iterator<Item = (usize, char)>>) -> Option<usize> {
    let mut number = None;
    while let Some((_, digit)) = characters.next_if(|(_, c)| c.is_ascii_digit()) {
        let digit = digit.to_digit(10).unwrap_or_default() as usize;
        number = Some(number.unwrap_or(0_usize).saturating_mul(10).saturating_add(digit));
    }
    number
}

/// Parses the verb at the start of a text. Returns it with its length in bytes.
fn verb(text: &str, offset: usize) -> Result<(Verb, usize), Failure> {
    let mut verb = Verb::default();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((_, flag)) = characters.next_if(|(_, c)| matches!(c, '+' | '-' | '0' | ' ' | '#')) {
        match flag {
            '+' => verb.plus = true,
            '-' => verb.minus = true,
            '0' => verb.zero = true,
            ' ' => verb.space = true,
            _ => verb.sharp = true,
        }
    }
    verb.width = number(&mut characters).unwrap_or(0);
    if characters.next_if(|(_, c)| *c == '.').is_some() {
        verb.precision = Some(number(&mut characters).unwrap_or(0));
    }
    if characters.next_if(|(_, c)| *c == '[').is_some() {
        verb.argument = number(&mut characters).filter(|argument| *argument > 0);
        if characters.next_if(|(_, c)| *c == ']').is_none() || verb.argument.is_none() {
            return fail(format!("the number of a value, such as [1], is expected at {offset}"));
        }
    }
    if verb.width > WIDTH_MAX || verb.precision.is_some_and(|precision| precision > WIDTH_MAX) {
        return fail(format!("the width and the precision of a verb must be at most {WIDTH_MAX}"));
    }
    let Some((at, letter)) = characters.next() else {
        return fail(format!("the verb at {offset} is incomplete; to write a percent sign, double it"));
    };
    let length = at + letter.len_utf8();
    verb.letter = letter;
    verb.written = text[..length].to_owned();
    if !"vtbdoxXeEfgGsq".contains(letter) {
        return fail(format!("unknown verb {letter:?} in {} at {offset}", quoted(&verb.written)));
    }
    Ok((verb, length))
}

impl Verb {
    fn apply(&self, value: &Value) -> Result<String, String> {
        let wanted = |what: &str| Err(format!("{what} is required, but have {}", value.kind()));
        match self.letter {
            'v' => Ok(self.as_it_is(value)),
            _ if *value == Value::Null => wanted("a value"),
            't' => {
                value.to_bool().map_or_else(|| wanted("a bool"), |flag| Ok(self.padded(&flag.to_string())))
            }
            's' | 'q' => {
                let Some(text) = value.to_text() else { return wanted("a string") };
                let text = match self.precision {
                    Some(length) if self.letter == 's' => text.graphemes(true).take(length).collect(),
                    _ => text,
                };
                let text = if self.letter == 'q' { json_text(&Value::text(text)) } else { text };
                Ok(self.padded(&text))
            }
            'e' | 'E' | 'f' | 'g' | 'G' => {
                let Some(number) = value.to_number() else { return wanted("a number") };
                Ok(self.signed(number.is_negative(), &self.digits(&number)))
            }
            _ => {
                let Some(number) = value.to_number() else { return wanted("a number") };
                let Some(whole) = number.to_bigint() else {
                    return Err("a whole number is required".to_owned());
                };
                let (sign, magnitude) = whole.into_parts();
                let (base, prefix) = match self.letter {
                    'b' => (2, "0b"),
                    'o' => (8, "0"),
                    'x' => (16, "0x"),
                    'X' => (16, "0X"),
                    _ => (10, ""),
                };
                let digits = magnitude.to_str_radix(base);
                let digits = if self.letter == 'X' { digits.to_uppercase() } else { digits };
                let least = self.precision.unwrap_or(0);
                let prefix = if self.sharp { prefix } else { "" };
                Ok(self.signed(sign == Sign::Minus, &format!("{prefix}{digits:0>least$}")))
            }
        }
    }

    fn as_it_is(&self, value: &Value) -> String {
        match value {
            Value::Text(text) if !self.sharp => self.padded(text),
            Value::Number(number) if !self.sharp => {
                let sign = if number.is_negative() { "-" } else { "" };
                self.padded(&format!("{sign}{}", general(number, None, 'e')))
            }
            other => self.padded(&json_text(other)),
        }
    }

    /// The digits of a number without its sign.
    fn digits(&self, number: &Number) -> String {
        let magnitude = if number.is_negative() { number.negated() } else { number.clone() };
        if magnitude.is_infinite() {
            return "Inf".to_owned();
        }
        match self.letter {
            'f' => fixed(&magnitude, self.precision.unwrap_or(6)),
            'e' | 'E' => scientific(&magnitude, Some(self.precision.unwrap_or(6)), self.letter),
            letter => general(&magnitude, self.precision, if letter == 'g' { 'e' } else { 'E' }),
        }
    }

    fn signed(&self, is_negative: bool, digits: &str) -> String {
        let sign = match () {
            () if is_negative => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        };
        if self.zero && !self.minus {
            let width = self.width.saturating_sub(sign.len());
            return format!("{sign}{digits:0>width$}");
        }
        self.padded(&format!("{sign}{digits}"))
    }

    fn padded(&self, text: &str) -> String {
        let missing = self.width.saturating_sub(text.graphemes(true).count());
        match (self.minus, self.zero) {
            (true, _) => format!("{text}{}", " ".repeat(missing)),
            (false, true) => format!("{}{text}", "0".repeat(missing)),
            (false, false) => format!("{}{text}", " ".repeat(missing)),
        }
    }
}

/// The digits of a number without sign and point, and the number of digits before the point. A negative number is the number
/// of zeros between the point and the digits.
fn decimal(number: &Number) -> (Vec<u8>, i64) {
    let text = if number.is_negative() { number.negated() } else { number.clone() }.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let all = [whole, fraction].concat();
    let zeros = all.bytes().take_while(|digit| *digit == b'0').count();
    let digits = all.as_bytes()[zeros..].to_vec();
    if digits.is_empty() { (vec![b'0'], 1) } else { (digits, whole.len() as i64 - zeros as i64) }
}

/// Rounds to the first `keep` digits, half to even. Returns 1 if that adds a digit before the point, otherwise 0.
fn rounded(digits: &[u8], keep: usize) -> (Vec<u8>, i64) {
    if keep >= digits.len() {
        return (digits.to_vec(), 0);
    }
    let rest = &digits[keep..];
    let is_even = keep.checked_sub(1).is_none_or(|last| digits[last].is_multiple_of(2));
    let raises = match rest.split_first() {
        Some((b'5', behind)) => !is_even || behind.iter().any(|digit| *digit != b'0'),
        Some((first, _)) => *first > b'5',
        None => false,
    };
    let mut kept = digits[..keep].to_vec();
    if !raises {
        return (kept, 0);
    }
    for digit in kept.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return (kept, 0);
        }
        *digit = b'0';
    }
    kept.insert(0, b'1');
    kept.truncate(keep.max(1));
    (kept, 1)
}

fn fixed(number: &Number, precision: usize) -> String {
    let (digits, point) = decimal(number);
    let keep = point + precision as i64;
    let (digits, carried) =
        if keep < 0 { (Vec::new(), 0) } else { rounded(&digits, usize::try_from(keep).unwrap_or(0)) };
    let point = point + carried;
    let digit = |place: i64| {
        usize::try_from(place)
            .ok()
            .and_then(|place| digits.get(place))
            .map_or('0', |digit| char::from(*digit))
    };
    let whole: String =
        (0.min(point - 1)..point.max(1)).skip_while(|place| *place < 0 && point > 0).map(digit).collect();
    let whole = whole.trim_start_matches('0');
    let fraction: String = (point..point + precision as i64).map(digit).collect();
    let whole = if point <= 0 || whole.is_empty() { "0" } else { whole };
    if precision == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

fn scientific(number: &Number, precision: Option<usize>, letter: char) -> String {
    let (digits, point) = decimal(number);
    let (digits, carried) = rounded(&digits, precision.map_or(digits.len(), |precision| precision + 1));
    let exponent = if number.is_zero() { 0 } else { point + carried - 1 };
    let mut fraction: String = digits[1..].iter().map(|digit| char::from(*digit)).collect();
    match precision {
        Some(precision) => fraction.push_str(&"0".repeat(precision.saturating_sub(fraction.len()))),
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
    }
    let dot = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}{dot}{fraction}{letter}{sign}{:02}", char::from(digits[0]), exponent.abs())
}

/// Formats with an exponent if that is shorter.
fn general(number: &Number, precision: Option<usize>, letter: char) -> String {
    let precision = precision.map(|precision| precision.max(1));
    let (digits, point) = decimal(number);
    let (kept, carried) = rounded(&digits, precision.unwrap_or(digits.len()));
    let significant = kept.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let exponent = if number.is_zero() { 0 } else { point + carried - 1 };
    let limit = match precision {
        None => 6,
        Some(precision) if precision > significant && significant as i64 > exponent => significant as i64,
        Some(precision) => precision as i64,
    };
    if exponent < -4 || exponent >= limit {
        return scientific(number, Some(significant - 1), letter);
    }
    fixed(number, usize::try_from(significant as i64 - 1 - exponent).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(verb_text: &str, value: &str) -> String {
        let (verb, _) = verb(verb_text, 0).unwrap_or_else(|_| panic!("{verb_text}"));
        verb.apply(&Value::Number(Number::parse(value).unwrap())).unwrap()
    }

    #[test]
    fn numbers_are_written_as_everywhere() {
        for (verb, value, expected) in [
            ("%d", "42", "42"),
            ("%05d", "-42", "-0042"),
            ("%+d", "7", "+7"),
            ("%-4d|", "7", "7   "),
            ("%x", "255", "ff"),
            ("%#X", "255", "0XFF"),
            ("%f", "1.5", "1.500000"),
            ("%.2f", "0.005", "0.00"),
            ("%.2f", "2.675", "2.68"),
            ("%.0f", "9.5", "10"),
            ("%6.1f", "9.96", "  10.0"),
            ("%.3f", "0", "0.000"),
            ("%f", "0.0001", "0.000100"),
            ("%e", "1234.5", "1.234500e+03"),
            ("%.1E", "0.00099", "9.9E-04"),
            ("%g", "100000", "100000"),
            ("%.3g", "123456", "1.23e+05"),
            ("%v", "1.5", "1.5"),
            ("%v", "-3", "-3"),
            ("%v", "1e21", "1e+21"),
            ("%v", "1000000", "1e+06"),
        ] {
            assert_eq!(shown(verb, value), expected, "{verb} {value}");
        }
    }
}
