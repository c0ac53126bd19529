//! Functions on times, which are text in the format of RFC 3339.

use jiff::civil::DateTime;

use super::{Context, FunctionResult, bad_argument, fail, text_of};
use crate::{shown::quoted, value::Value};

/// A time with its UTC offset.
struct Moment {
    local: DateTime,
    /// Minutes east of UTC.
    offset_minutes: i32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Parses a time such as `2024-01-01T00:00:00.5+02:00`.
fn moment(text: &str) -> Option<Moment> {
    let (date_and_time, zone) = match text.as_bytes().last()? {
        b'Z' => (text.strip_suffix('Z')?, None),
        _ => {
            let at = text.len().checked_sub(6)?;
            (text.get(..at)?, Some(text.get(at..)?))
        }
    };
    let offset_minutes = match zone {
        None => 0,
        Some(zone) => {
            let sign = match zone.as_bytes()[0] {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = zone[1..].split_once(':')?;
            let (hours, minutes) = (two_digits(hours, 24)?, two_digits(minutes, 59)?);
            sign * (hours * 60 + minutes)
        }
    };
    let is_shaped = date_and_time.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        19 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    if !is_shaped || date_and_time.len() < 19 || date_and_time.len() == 20 {
        return None;
    }
    Some(Moment { local: date_and_time.parse().ok()?, offset_minutes })
}

fn two_digits(text: &str, most: i32) -> Option<i32> {
    let number = if text.len() == 2 { text.parse().ok()? } else { return None };
    (0..=most).contains(&number).then_some(number)
}

impl Moment {
    /// The offset, such as `+02:00`.
    fn offset(&self, colon: &str) -> String {
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let minutes = self.offset_minutes.abs();
        format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60)
    }

    fn zone(&self) -> String {
        if self.offset_minutes == 0 { "Z".to_owned() } else { self.offset(":") }
    }
}

const NOT_A_TIME: &str = "a time such as \"2024-01-31T12:00:00Z\" is required (RFC 3339)";

/// Adds a duration to a time.
pub(super) fn timeadd(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let Some(moment) = moment(text_of(&arguments[0])) else { return fail(NOT_A_TIME) };
    let nanoseconds = match api_types::duration::parse(text_of(&arguments[1])) {
        Ok(nanoseconds) => nanoseconds,
        Err(error) => return fail(error.to_string()),
    };
    match moment.local.checked_add(jiff::SignedDuration::from_nanos(nanoseconds)) {
        Ok(local) => Ok(Value::text(format!("{}{}", local.strftime("%Y-%m-%dT%H:%M:%S"), moment.zone()))),
        Err(_) => fail("the time is out of range"),
    }
}

/// Formats a time by a pattern of letters, such as `YYYY-MM-DD`.
pub(super) fn formatdate(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let Some(moment) = moment(text_of(&arguments[1])) else { return bad_argument(1, NOT_A_TIME) };
    let (mut text, mut rest) = (String::new(), text_of(&arguments[0]));
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let Some((literal, after)) = quoted_literal(&rest[1..]) else {
                return bad_argument(0, "the apostrophe that ends literal text is missing");
            };
            text.push_str(&literal);
            rest = after;
            continue;
        }
        let length = if first.is_ascii_alphabetic() {
            rest.bytes().take_while(|byte| char::from(*byte) == first).count()
        } else {
            first.len_utf8()
        };
        let verb = &rest[..length];
        rest = &rest[length..];
        if !first.is_ascii_alphabetic() {
            text.push(first);
            continue;
        }
        match written(&moment, verb) {
            Some(part) => text.push_str(&part),
            None => {
                let verb = quoted(verb);
                let reason = format!("unknown letters {verb} in a date; put literal text in apostrophes");
                return bad_argument(0, reason);
            }
        }
    }
    Ok(Value::text(text))
}

/// Literal text up to its closing apostrophe, where two apostrophes stand for one; and the text after it.
fn quoted_literal(text: &str) -> Option<(String, &str)> {
    let mut literal = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('\'')?;
        literal.push_str(before);
        match after.strip_prefix('\'') {
            Some(after) => {
                literal.push('\'');
                rest = after;
            }
            None => return Some((literal, after)),
        }
    }
}

fn written(moment: &Moment, verb: &str) -> Option<String> {
    let local = &moment.local;
    let month = MONTHS[usize::from(local.month().unsigned_abs()) - 1];
    let day = DAYS[usize::from(local.weekday().to_monday_zero_offset().unsigned_abs())];
    let twelfth = (local.hour() + 11) % 12 + 1;
    let half = if local.hour() < 12 { "am" } else { "pm" };
    Some(match verb {
        "YYYY" => format!("{:04}", local.year()),
        "YY" => format!("{:02}", local.year() % 100),
        "MMMM" => month.to_owned(),
        "MMM" => month[..3].to_owned(),
        "MM" => format!("{:02}", local.month()),
        "M" => local.month().to_string(),
        "DD" => format!("{:02}", local.day()),
        "D" => local.day().to_string(),
        "EEEE" => day.to_owned(),
        "EEE" => day[..3].to_owned(),
        "hh" => format!("{:02}", local.hour()),
        "h" => local.hour().to_string(),
        "HH" => format!("{twelfth:02}"),
        "H" => twelfth.to_string(),
        "AA" => half.to_uppercase(),
        "aa" => half.to_owned(),
        "mm" => format!("{:02}", local.minute()),
        "m" => local.minute().to_string(),
        "ss" => format!("{:02}", local.second()),
        "s" => local.second().to_string(),
        "ZZZZZ" => moment.offset(":"),
        "ZZZ" if moment.offset_minutes == 0 => "UTC".to_owned(),
        "ZZZZ" | "ZZZ" => moment.offset(""),
        "Z" => moment.zone(),
        _ => return None,
    })
}
