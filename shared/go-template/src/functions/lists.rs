//! Lists and maps.

use std::collections::BTreeSet;

use gotmpl::Value;

use super::{Named, World};
use crate::arguments::Arguments;
use crate::limits::VALUE_BYTES_MAX;
use crate::value::{list, map, string, strings};

/// The functions of this module.
pub(super) const FUNCTIONS: &[Named] = &[
    ("contains", contains),
    ("containsAll", |_, arguments| compared(arguments, |wanted, found| wanted.is_subset(found))),
    ("containsAny", |_, arguments| compared(arguments, |wanted, found| !wanted.is_disjoint(found))),
    ("containsNone", |_, arguments| compared(arguments, |wanted, found| wanted.is_disjoint(found))),
    ("containsNotAll", |_, arguments| compared(arguments, |wanted, found| !wanted.is_subset(found))),
    ("in", |world, arguments| {
        arguments.count(2, 2)?;
        contains(world, Arguments(&[arguments.value(1).clone(), arguments.value(0).clone()]))
    }),
    ("join", join),
    ("loop", numbers),
    ("mergeMap", |_, arguments| merged(arguments, false)),
    ("mergeMapWithOverride", |_, arguments| merged(arguments, true)),
    ("split", split),
    ("splitToMap", split_to_map),
];

/// The largest number of items that a function makes: more would be too large in any case.
pub(super) const ITEMS_MAX: usize = 1 << 19;

/// `contains VALUE COLLECTION`: whether a list has the value, a map the key, or a text the part.
fn contains(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let wanted = arguments.value(0);
    Ok(Value::Bool(match arguments.value(1) {
        Value::List(items) => items.contains(wanted),
        Value::Map(members) => members.contains_key(arguments.text(0)?.as_str()),
        Value::String(text) => text.contains(&arguments.text(0)?),
        Value::Nil => false,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) | Value::Function(_) => {
            return Err("argument 2 must be a list, a map or a text".to_owned());
        }
    }))
}

/// Compares the wanted texts, which come first, with those of a list.
fn compared(
    arguments: Arguments<'_>,
    compare: fn(&BTreeSet<String>, &BTreeSet<String>) -> bool,
) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let set = |position| Ok::<_, String>(arguments.texts(position)?.into_iter().collect());
    Ok(Value::Bool(compare(&set(0)?, &set(1)?)))
}

/// `join SEPARATOR LIST`.
fn join(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let (separator, items) = (arguments.text(0)?, arguments.texts(1)?);
    check_repeated(separator.len(), items.len())?;
    Ok(string(items.join(&separator)))
}

/// `split SEPARATOR TEXT`. An empty text has no parts.
fn split(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let (separator, text) = (arguments.text(0)?, arguments.text(1)?);
    let text = text.trim();
    if text.is_empty() {
        return Ok(list([]));
    }
    let parts: Vec<String> = if separator.is_empty() {
        text.chars().take(ITEMS_MAX.saturating_add(1)).map(String::from).collect()
    } else {
        text.split(&separator).take(ITEMS_MAX.saturating_add(1)).map(str::to_owned).collect()
    };
    if parts.len() > ITEMS_MAX {
        return Err(format!("more than {ITEMS_MAX} parts"));
    }
    Ok(strings(parts))
}

/// `splitToMap PAIRS KEYS TEXT`: the separators of pairs, and of key and value.
fn split_to_map(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(3, 3)?;
    let (pairs, keys, text) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    if pairs.is_empty() || keys.is_empty() {
        return Err("a separator is empty".to_owned());
    }
    if text.matches(&pairs).count() > ITEMS_MAX {
        return Err(format!("more than {ITEMS_MAX} parts"));
    }
    let parts = text.split(&pairs).filter_map(|pair| pair.split_once(&keys));
    Ok(map(parts.map(|(key, value)| (key.trim().to_owned(), string(value.trim())))))
}

/// `loop END` or `loop START END`: the whole numbers before the end.
fn numbers(_: &World, arguments: Arguments<'_>) -> Result<Value, String> {
    arguments.count(1, 2)?;
    let (start, end) = match arguments.0.len() {
        1 => (0, arguments.whole(0)?),
        _ => (arguments.whole(0)?, arguments.whole(1)?),
    };
    let count = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    if count > ITEMS_MAX {
        return Err(format!("more than {ITEMS_MAX} numbers"));
    }
    Ok(list((start..end).map(Value::Int)))
}

/// Merges two maps. The first one is added to the second one.
fn merged(arguments: Arguments<'_>, overriding: bool) -> Result<Value, String> {
    arguments.count(2, 2)?;
    let (Value::Map(added), Value::Map(base)) = (arguments.value(0), arguments.value(1)) else {
        return Err("both arguments must be maps".to_owned());
    };
    let (lower, upper) = if overriding { (base, added) } else { (added, base) };
    let members = lower.iter().chain(upper.iter());
    Ok(map(members.map(|(key, value)| (key.to_string(), value.clone()))))
}

/// Refuses to make a text that repeats a part so often that it would be too long.
pub(super) fn check_repeated(part_bytes: usize, count: usize) -> Result<(), String> {
    let bytes = u64::try_from(part_bytes.saturating_mul(count)).unwrap_or(u64::MAX);
    if bytes > VALUE_BYTES_MAX {
        return Err(format!("the text would be longer than {VALUE_BYTES_MAX} bytes"));
    }
    Ok(())
}
