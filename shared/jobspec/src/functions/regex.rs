//! The function with regular expressions. The cost of a search is counted before the search begins, because a search
//! cannot be cancelled.

use model::pattern::PatternCost;
use regex::{Regex, RegexBuilder};

use super::{Context, Failure, FunctionResult, text_of};
use crate::{shown::quoted, value::Value};

/// Number of steps for every expression, however small.
const COMPILE_STEPS: usize = 64;
/// Maximum number of transitions of an expression, and maximum size of a compiled one, in bytes. Without limits, a short
/// expression can become much larger.
const TRANSITIONS_MAX: u64 = 1 << 16;
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Number of bytes that are searched in one step of an evaluation, if a search is in one state at a time.
const SEARCHED_BYTES_PER_STEP: usize = 32;

/// Replaces every match of a pattern. The replacement may contain groups as `$1` and `${name}`.
pub(super) fn regex_replace(context: &Context<'_>, arguments: Vec<Value>) -> FunctionResult {
    let [text, pattern, replacement] = [0, 1, 2].map(|at| text_of(&arguments[at]));
    let (regex, cost) = compile(context, pattern)?;
    let search = |bytes: usize| {
        let states = usize::try_from(cost.states).unwrap_or(usize::MAX).max(1);
        context.take_steps(bytes.saturating_mul(states) / SEARCHED_BYTES_PER_STEP)
    };
    search(text.len())?;
    let groups = replacement.matches('$').count();
    let mut replaced = String::new();
    let mut copied = 0;
    for captures in regex.captures_iter(text) {
        let found = captures.get(0).expect("group 0 is the whole match");
        // A group is at most as long as the whole match.
        let inserted = replacement.len().saturating_add(groups.saturating_mul(found.len()));
        context.reserve((found.start() - copied).saturating_add(inserted))?;
        replaced.push_str(&text[copied..found.start()]);
        captures.expand(replacement, &mut replaced);
        copied = found.end();
        // The next search begins here. Before it finds the next match, it may have read up to the end of the text.
        let rest = text.len() - copied;
        search(cost.longest.map_or(rest, |longest| rest.min(longest)))?;
    }
    replaced.push_str(&text[copied..]);
    Ok(Value::text(replaced))
}

fn compile(context: &Context<'_>, pattern: &str) -> Result<(Regex, PatternCost), Failure> {
    let invalid = |reason: &str| Failure::Call(format!("invalid pattern {}: {reason}", quoted(pattern)));
    let cost = PatternCost::of(pattern, TRANSITIONS_MAX).map_err(|error| invalid(&error.to_string()))?;
    let transitions = usize::try_from(cost.transitions).unwrap_or(usize::MAX);
    context.take_steps(COMPILE_STEPS.saturating_add(transitions))?;
    let regex = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| {
        let reason = error.to_string();
        invalid(reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: "))
    })?;
    Ok((regex, cost))
}
