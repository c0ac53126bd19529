//! Filter expressions for lists (http-api §7). Pure: an expression is text, and the result is a decision for each object.
//!
//! `parse` reads the text into a tree. `shape` finds the type of a selector, so that a wrong selector is reported before
//! any object is evaluated. `check` combines the two into a filter, and `eval` evaluates it, within the limits of `steps`. A
//! filter first requests a field from the object directly. Only if the object does not provide the field is it serialized
//! as JSON. `objects` lists the types that can be filtered.

mod check;
mod eval;
mod objects;
mod parse;
mod shape;
mod steps;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Instant;

use serde::de::DeserializeOwned;

use crate::http::Error;

pub(crate) use eval::Filter;
pub(crate) use objects::matches_filter;
pub(crate) use steps::{FILTER_STEPS_MAX, LimitExceeded};

/// Maximum length of an expression, in bytes.
const BYTES_MAX: usize = 16 << 10;
/// Maximum nesting of parentheses, `not` and quantifiers.
const DEPTH_MAX: usize = 32;
/// Maximum number of regular expressions in an expression, and the maximum memory of one, in bytes.
const REGEXES_MAX: usize = 32;
const REGEX_BYTES_MAX: usize = 256 << 10;

/// Error of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// The text is not a valid expression.
    #[error("1:{column} ({offset}): {what}", column = offset + 1)]
    Syntax {
        /// Byte offset of the error.
        offset: usize,
        /// Description of the error.
        what: String,
    },
    /// A selector does not exist, or an operator or value does not fit its type.
    #[error("{0}")]
    Selector(String),
}

/// How much the evaluation of a filter may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterLimits {
    /// Maximum number of steps on all objects of a request.
    pub(crate) steps_max: u64,
    /// Clock by which the time of regular expressions is measured.
    pub(crate) now: fn() -> Instant,
}

/// Parses and checks an expression for objects that the API shows as `T`; `None` if it is empty.
///
/// # Errors
/// If the expression is malformed or does not fit `T`.
pub(crate) fn read<T: DeserializeOwned>(text: &str, limits: FilterLimits) -> Result<Option<Filter>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let root = check::check::<T>(&parse::parse(text)?)?;
    Ok(Some(Filter::new(root, limits)))
}

const RESULT_PAGE: &str = "failed to read result page";

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let step = match problem {
            Problem::Syntax { .. } => "failed to create result paginator: failed to read filter expression",
            Problem::Selector(_) => RESULT_PAGE,
        };
        Self::bad_request(format!("{step}: {problem}"))
    }
}

impl From<LimitExceeded> for Error {
    fn from(limit: LimitExceeded) -> Self {
        Self::bad_request(format!("{RESULT_PAGE}: {limit}"))
    }
}

/// An object that can be filtered.
pub(crate) trait Object {
    /// A top-level field that is available without serializing the object; `None` for all other fields.
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>>;

    /// The object's JSON form in the API.
    fn to_json(&self) -> serde_json::Value;
}
