//! Functions on sets.

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
    let kind = Type::Set(Box::new(common));
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
    let count = lists.iter().try_fold(1_usize, |count, list| count.checked_mul(list.len()));
    let Some(count) = count else { return fail("the product is too large") };
    let widest = lists.iter().flatten().map(Value::weight).max().unwrap_or_default();
    context.reserve(count.saturating_mul(lists.len()).saturating_mul(widest))?;
    let mut product = vec![Vec::new()];
    for list in &lists {
        let longer = |taken: &Vec<Value>, value: &Value| [&taken[..], std::slice::from_ref(value)].concat();
        product =
            product.iter().flat_map(|taken| list.iter().map(move |value| longer(taken, value))).collect();
    }
    let tuples: Vec<Value> = product.into_iter().map(Value::tuple).collect();
    Ok(if is_set { set(tuples) } else { Value::List(Sequence::List, tuples) })
}
