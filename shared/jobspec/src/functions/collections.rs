//! Functions on lists and maps.

use std::{collections::BTreeMap, rc::Rc};

use super::{Context, FunctionResult, bad_argument, elements_of, fail, number_of, text_of, whole};
use crate::{
    members::indexed,
    types::{Type, common_of},
    value::{Mapping, Sequence, Value},
};

/// Splits a list into chunks of a size; 0 gives one chunk.
pub(super) fn chunklist(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let size = whole(&arguments, 1)?;
    let Ok(size) = usize::try_from(size) else { return fail("the size must not be negative") };
    let values = elements_of(arguments.swap_remove(0));
    let size = if size == 0 { values.len().max(1) } else { size };
    let chunks = values.chunks(size).map(|chunk| Value::List(Sequence::List, chunk.to_vec()));
    Ok(Value::List(Sequence::List, chunks.collect()))
}

/// The first argument that is not null, converted to the common kind of all arguments.
pub(super) fn coalesce(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let Some(common) = common_of(&arguments).filter(|_| !arguments.is_empty()) else {
        return fail("all arguments must be of the same kind");
    };
    match arguments.into_iter().find(|argument| *argument != Value::Null) {
        Some(value) => common.convert(value).or_else(fail),
        None => fail("all arguments are null"),
    }
}

/// The first list that is not empty.
pub(super) fn coalescelist(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    if arguments.is_empty() {
        return fail("at least one list is required");
    }
    for argument in arguments {
        match argument {
            Value::Null => {}
            Value::List(Sequence::List | Sequence::Tuple, ref values) if values.is_empty() => {}
            Value::List(Sequence::List | Sequence::Tuple, _) => return Ok(argument),
            other => {
                return fail(format!("all arguments must be lists, but have {}", other.kind()));
            }
        }
    }
    fail("all lists are null or empty")
}

/// The strings that are not empty.
pub(super) fn compact(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let values = elements_of(arguments.swap_remove(0));
    let has_text = |value: &Value| !matches!(value, Value::Null) && !text_of(value).is_empty();
    Ok(Value::List(Sequence::List, values.into_iter().filter(has_text).collect()))
}

/// The elements of all lists in sequence.
pub(super) fn concat(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (mut all, mut are_lists) = (Vec::new(), true);
    for (index, argument) in arguments.into_iter().enumerate() {
        match argument {
            Value::List(kind @ (Sequence::List | Sequence::Tuple), values) => {
                are_lists &= kind == Sequence::List;
                all.extend(values);
            }
            other => {
                return bad_argument(
                    index,
                    format!("a list or a tuple is required, but have {}", other.kind()),
                );
            }
        }
    }
    let common = common_of(&all).filter(|_| are_lists);
    match common {
        Some(common) => Type::List(Rc::new(common)).convert(Value::tuple(all)).or_else(fail),
        None => Ok(Value::tuple(all)),
    }
}

pub(super) fn contains(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    match &arguments[0] {
        Value::List(_, values) => Ok(Value::Bool(values.contains(&arguments[1]))),
        other => fail(format!("a list or a set is required, but have {}", other.kind())),
    }
}

/// The elements without duplicates, in the order of their first occurrence.
pub(super) fn distinct(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let values = elements_of(arguments.swap_remove(0));
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| crate::types::compare(&values[*a], &values[*b]).then(a.cmp(b)));
    order.dedup_by(|b, a| values[*a] == values[*b]);
    order.sort_unstable();
    Ok(Value::List(Sequence::List, order.into_iter().map(|at| values[at].clone()).collect()))
}

/// The element at an index modulo the length. A negative index counts from the end.
pub(super) fn element(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let Some(index) = number_of(&arguments[1]).to_i64() else {
        return fail("the index must be a whole number");
    };
    match arguments.swap_remove(0) {
        Value::List(Sequence::List | Sequence::Tuple, mut values) => match i64::try_from(values.len()) {
            Ok(length) if length > 0 => Ok(values.swap_remove(index.rem_euclid(length) as usize)),
            _ => fail("an empty list has no elements"),
        },
        other => fail(format!("a list is required, but have {}", other.kind())),
    }
}

/// All elements of nested lists.
pub(super) fn flatten(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    fn append(values: Vec<Value>, flat: &mut Vec<Value>) {
        for value in values {
            match value {
                Value::List(_, inner) => append(inner, flat),
                other => flat.push(other),
            }
        }
    }
    match arguments.swap_remove(0) {
        Value::List(_, values) => {
            let mut flat = Vec::new();
            append(values, &mut flat);
            Ok(Value::tuple(flat))
        }
        other => fail(format!("a list or a set is required, but have {}", other.kind())),
    }
}

/// The element with an index or a key. It does not search. Objects are refused (§14).
pub(super) fn index(context: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let key = arguments.swap_remove(1);
    let collection = arguments.swap_remove(0);
    match (&collection, &key) {
        (Value::List(Sequence::List | Sequence::Tuple, _), Value::Number(_))
        | (Value::Map(Mapping::Map, _), Value::Text(_)) => {
            indexed(collection, &key, context.at).or_else(|fault| fail(fault.detail))
        }
        (Value::List(Sequence::List | Sequence::Tuple, _), _) => fail("the index of a list must be a number"),
        (Value::Map(Mapping::Map, _), _) => fail("the key of a map must be a string"),
        (other, _) => {
            let kind = other.kind();
            fail(format!(
                "a list, a map or a tuple is required, but have {kind}; to make a map of an object, use convert"
            ))
        }
    }
}

pub(super) fn keys(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    match arguments.swap_remove(0) {
        Value::Map(kind, members) => {
            let keys = members.into_keys().map(Value::Text).collect();
            Ok(Value::List(sequence_of(kind), keys))
        }
        other => bad_argument(0, format!("a map or an object is required, but have {}", other.kind())),
    }
}

pub(super) fn values(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    match arguments.swap_remove(0) {
        Value::Map(kind, members) => Ok(Value::List(sequence_of(kind), members.into_values().collect())),
        other => bad_argument(0, format!("a map or an object is required, but have {}", other.kind())),
    }
}

fn sequence_of(kind: Mapping) -> Sequence {
    match kind {
        Mapping::Object => Sequence::Tuple,
        Mapping::Map => Sequence::List,
    }
}

/// The number of elements of lists, sets, maps and tuples. Strings and objects are refused (§14).
pub(super) fn length(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    match &arguments[0] {
        Value::List(_, values) => Ok(Value::Number(values.len().into())),
        Value::Map(Mapping::Map, members) => Ok(Value::Number(members.len().into())),
        Value::Text(_) => fail("a list or a map is required; to count characters, use strlen"),
        other => {
            let kind = other.kind();
            fail(format!("a list, a map or a tuple is required, but have {kind}"))
        }
    }
}

/// The value of a key, or a default if there is none.
pub(super) fn lookup(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let default = arguments.pop().expect("lookup has three arguments");
    let key = arguments.pop().expect("lookup has three arguments");
    match arguments.swap_remove(0) {
        Value::Map(kind, mut members) => match (members.remove(text_of(&key)), kind) {
            (Some(value), _) => Ok(value),
            (None, Mapping::Object) => Ok(default),
            (None, Mapping::Map) => {
                let values: Vec<Value> = members.into_values().collect();
                let common = common_of(&values).unwrap_or(Type::Any);
                common.convert(default).or_else(|reason| bad_argument(2, reason))
            }
        },
        other => bad_argument(0, format!("a map or an object is required, but have {}", other.kind())),
    }
}

/// The members of all arguments. Later arguments override earlier ones.
pub(super) fn merge(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let (mut merged, mut kind) = (BTreeMap::new(), Mapping::Map);
    for argument in arguments {
        match argument {
            Value::Null => {}
            Value::Map(of_argument, members) => {
                if of_argument == Mapping::Object {
                    kind = Mapping::Object;
                }
                merged.extend(members);
            }
            other => {
                return fail(format!("all arguments must be maps or objects, but have {}", other.kind()));
            }
        }
    }
    Ok(Value::Map(if merged.is_empty() { Mapping::Object } else { kind }, merged))
}

/// The elements from a start index up to, but not including, an end index.
pub(super) fn slice(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let (start, end) = (whole(&arguments, 1)?, whole(&arguments, 2)?);
    let (kind, values) = match arguments.swap_remove(0) {
        Value::List(kind @ (Sequence::List | Sequence::Tuple), values) => (kind, values),
        other => {
            return bad_argument(0, format!("a list or a tuple is required, but have {}", other.kind()));
        }
    };
    if start < 0 {
        return bad_argument(1, "the start index must not be negative");
    }
    if end < 0 {
        return bad_argument(2, "the end index must not be negative");
    }
    if start > end {
        return bad_argument(1, "the start index must not be greater than the end index");
    }
    match values.get(start as usize..end as usize) {
        Some(part) => Ok(Value::List(kind, part.to_vec())),
        None => bad_argument(
            2,
            format!("the end index must not be greater than the length of the list, {}", values.len()),
        ),
    }
}

/// The strings sorted by their bytes.
pub(super) fn sort(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let mut values = elements_of(arguments.swap_remove(0));
    if let Some(at) = values.iter().position(|value| *value == Value::Null) {
        return fail(format!("element {at} is null, which cannot be sorted"));
    }
    values.sort_by(|a, b| text_of(a).cmp(text_of(b)));
    Ok(Value::List(Sequence::List, values))
}

/// A map of keys to the values at the same positions.
pub(super) fn zipmap(_: &Context<'_>, mut arguments: Vec<Value>) -> FunctionResult {
    let (kind, values) = match arguments.pop() {
        Some(Value::List(Sequence::List, values)) => (Mapping::Map, values),
        Some(Value::List(Sequence::Tuple, values)) => (Mapping::Object, values),
        _ => return bad_argument(1, "a list or a tuple is required"),
    };
    let keys = elements_of(arguments.swap_remove(0));
    if keys.len() != values.len() {
        return fail(format!("there are {} keys and {} values", keys.len(), values.len()));
    }
    if let Some(at) = keys.iter().position(|key| *key == Value::Null) {
        return fail(format!("key {at} is null"));
    }
    let pairs = keys.iter().zip(values).map(|(key, value)| (text_of(key).to_owned(), value));
    Ok(Value::Map(kind, pairs.collect()))
}
