//! Functions on sets.

use std::rc::Rc;

use super::{Context, Failure, FunctionResult, bad_argument, elements_of, fail};
use crate::{
    types::{Type, common_of, compare, set},
    value::{Sequence, Value},
};

/// The values that are in all sets.
pub(super) fn setintersection(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let mut sets = unified(arguments)?.into_iter();
    let first = sets.next().unwrap_or_default();
    let common = sets.fold(first, |common, other| {
        common.into_iter().filter(|value| other.binary_search_by(|it| compare(it, value)).is_ok()).collect()
    });
    Ok(Value::List(Sequence::Set, common))
}

/// The values that are in any of the sets.
pub(super) fn setunion(_: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    Ok(set(unified(arguments)?.into_iter().flatten().collect()))
}

/// The sorted elements of all sets, converted to their common kind.
fn unified(arguments: Vec<Value>) -> Result<Vec<Vec<Value>>, Failure> {
    let all: Vec<Value> = arguments.iter().cloned().flat_map(elements_of).collect();
    let Some(common) = common_of(&all) else {
        return fail("all sets must have elements of the same kind");
    };
    let kind = Type::Set(Rc::new(common));
    let sets = arguments.into_iter().map(|set| kind.convert(set).map(elements_of));
    sets.collect::<Result<_, _>>().or_else(fail)
}

/// All combinations of one element from each list or set.
pub(super) fn setproduct(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    if arguments.len() < 2 {
        return fail("at least two sets or lists are required");
    }
    let (mut lists, mut is_set) = (Vec::new(), false);
    for (index, argument) in arguments.into_iter().enumerate() {
        match argument {
            Value::List(kind, values) => {
                is_set |= kind == Sequence::Set;
                lists.push(values);
            }
            other => {
                return bad_argument(
                    index,
                    format!("a set or a list is required, but have {}", other.kind()),
                );
            }
        }
    }
    // Nothing of the product is made before all of it is counted.
    let count = lists.iter().fold(1_usize, |count, list| count.saturating_mul(list.len()));
    let widest = lists.iter().flatten().map(|value| value.cost().bytes).max().unwrap_or_default();
    context.reserve(count.saturating_mul(lists.len()).saturating_mul(widest))?;
    let tuples: Vec<Value> = (0..count).map(|number| Value::tuple(combination(&lists, number))).collect();
    Ok(if is_set { set(tuples) } else { Value::List(Sequence::List, tuples) })
}

/// The combination with a number, in an order in which the last list varies fastest. No list may be empty.
fn combination(lists: &[Vec<Value>], number: usize) -> Vec<Value> {
    let mut rest = number;
    let mut elements: Vec<Value> = Vec::with_capacity(lists.len());
    for list in lists.iter().rev() {
        elements.push(list[rest % list.len()].clone());
        rest /= list.len();
    }
    elements.reverse();
    elements
}
