//! Filter expressions for lists (http-api §7). Pure: an expression is text, and the result is a decision for each object.
//!
//! `parse` reads the text into a tree. `shape` finds the type of a selector. `check` combines the two into a filter, and
//! `eval` evaluates it, within the limits of `steps`. A comparison that does not fit the type, for example because of an
//! unknown field, is an error only when an object is compared, as in the reference: with an empty list it is none. A filter
//! first requests a field from the object directly. Only if the object does not provide the field is it serialized as
//! JSON. `objects` lists the types that can be filtered.

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
pub(crate) use steps::FILTER_STEPS_MAX;
#[cfg(test)]
pub(crate) use steps::LimitExceeded;

/// Maximum length of an expression, in bytes.
const BYTES_MAX: usize = 16 << 10;
/// Maximum nesting of parentheses, `not` and quantifiers.
const DEPTH_MAX: usize = 32;
/// Maximum number of regular expressions in an expression, and the maximum memory of one, in bytes.
const REGEXES_MAX: usize = 32;
const REGEX_BYTES_MAX: usize = 256 << 10;

/// Error of an expression: the text is not a valid one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("1:{column} ({offset}): {what}", column = offset + 1)]
pub(crate) struct SyntaxError {
    /// Byte offset of the error.
    offset: usize,
    /// Description of the error.
    what: String,
}

/// Why a filter cannot decide about an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    /// It has reached a limit.
    #[error(transparent)]
    Limit(#[from] steps::LimitExceeded),
    /// A selector does not exist in the object, or an operator or value does not fit its type.
    #[error("{0}")]
    Unfit(String),
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
/// If the expression is malformed.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    limits: FilterLimits,
) -> Result<Option<Filter>, SyntaxError> {
    if text.is_empty() {
        return Ok(None);
    }
    let root = check::check::<T>(&parse::parse(text)?)?;
    Ok(Some(Filter::new(root, limits)))
}

/// How a selector is shown in errors.
fn pointer<'a>(steps: impl IntoIterator<Item = &'a String>) -> String {
    steps.into_iter().map(|step| format!("/{step}")).collect()
}

impl From<SyntaxError> for Error {
    fn from(error: SyntaxError) -> Self {
        Self::bad_request(format!(
            "failed to create result paginator: failed to read filter expression: {error}"
        ))
    }
}

impl From<FilterError> for Error {
    fn from(error: FilterError) -> Self {
        Self::bad_request(format!("failed to read result page: {error}"))
    }
}

/// An object that can be filtered.
pub(crate) trait Object {
    /// A top-level field that is available without serializing the object; `None` for all other fields.
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>>;

    /// The object's JSON form in the API.
    fn to_json(&self) -> serde_json::Value;
}
