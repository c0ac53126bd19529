//! Filter expressions (http-api §7): which objects of a list are wanted. Pure: text in, an answer for each object out.
//!
//! `parse` reads the text, `shape` says what a selector leads to in an object of a type, which finds wrong ones before any
//! object is looked at, and `check` puts the two together. An object is asked for a field that it has at hand first; only
//! for the others is it written out as the API shows it.

mod check;
mod eval;
mod parse;
mod shape;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::http::Error;

pub(crate) use eval::Filter;

/// The longest expression, in bytes.
const BYTES_MAX: usize = 16 << 10;
/// How deep parentheses, `not` and quantifiers may nest.
const DEPTH_MAX: usize = 32;
/// The most regular expressions in one expression, and how much memory one may take.
const REGEXES_MAX: usize = 32;
const REGEX_BYTES_MAX: usize = 256 << 10;

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// It is none.
    #[error("1:{column} ({offset}): {what}", column = offset + 1)]
    Syntax {
        /// Where, in bytes.
        offset: usize,
        /// What is wrong there.
        what: String,
    },
    /// It asks for something that objects do not have, or compares what cannot be compared.
    #[error("{0}")]
    Selector(String),
}

/// Reads an expression about objects that the API shows as `T`; an empty one wants them all.
///
/// # Errors
/// If it is none for them.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<Option<Filter>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    check::check::<T>(&parse::parse(text)?).map(Some)
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let step = match problem {
            Problem::Syntax { .. } => "failed to create result paginator: failed to read filter expression",
            Problem::Selector(_) => "failed to read result page",
        };
        Self::bad_request(format!("{step}: {problem}"))
    }
}

/// An object that filters look at.
pub(crate) trait Object {
    /// A field at the top that is at hand; `None` if the object has to be written out for it.
    fn stored_field(&self, field: &str) -> Option<Cow<'_, str>>;

    /// The object as the API shows it.
    fn to_json(&self) -> serde_json::Value;
}
