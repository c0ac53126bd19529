//! [`Invalid`]: the error for a value of the API's JSON that the domain types cannot represent, with the path of the value.
//!
//! The function that refuses a value knows only the problem. Each caller prepends its step to the path while the error
//! propagates (`….at("Count")?`, `….at("TaskGroups")?`), so that the path costs nothing if there is no error.

use std::fmt::{self, Display};

use crate::ids::InvalidId;
use crate::text::UnknownValue;

/// A value that the domain types cannot represent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Path of the value, for instance `TaskGroups[0].Count`; empty for the whole object.
    pub path: String,
    /// Description of the problem, for instance `-1 is negative`.
    pub problem: String,
}

impl Invalid {
    /// Creates an error with an empty path, which callers extend with [`At`].
    pub fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into() }
    }

    /// Prepends a step to the path.
    fn prepend(self, step: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{step}{separator}{}", self.path), ..self }
    }
}

impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Invalid {}

impl From<UnknownValue> for Invalid {
    fn from(error: UnknownValue) -> Self {
        Self::new(error.to_string())
    }
}

impl From<InvalidId> for Invalid {
    fn from(error: InvalidId) -> Self {
        Self::new(error.to_string())
    }
}

/// Adds the path of a value to an error, one step at a time, the innermost first.
pub trait At<T> {
    /// The value is the member `name` of an object.
    fn at(self, name: &str) -> Result<T, Invalid>;

    /// The value is the item of a list at position `key`, or the item of a map under `key`.
    fn at_item(self, key: impl Display) -> Result<T, Invalid>;
}

impl<T, E: Into<Invalid>> At<T> for Result<T, E> {
    fn at(self, name: &str) -> Result<T, Invalid> {
        self.map_err(|error| error.into().prepend(name))
    }

    fn at_item(self, key: impl Display) -> Result<T, Invalid> {
        self.map_err(|error| error.into().prepend(&format!("[{key}]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<(), Invalid> {
        Err(Invalid::new("-1 is negative"))
    }

    #[test]
    fn a_path_is_written_from_the_outside_in() {
        let error = refused().at("Count").at_item(0).at("TaskGroups").unwrap_err();
        assert_eq!(error.to_string(), "TaskGroups[0].Count: -1 is negative");
    }

    #[test]
    fn items_of_lists_of_lists_and_of_maps_have_their_place() {
        let error = refused().at_item(2).at_item("data").at("Volumes").unwrap_err();
        assert_eq!(error.path, "Volumes[data][2]");
    }

    #[test]
    fn a_problem_of_the_whole_has_no_path() {
        assert_eq!(refused().unwrap_err().to_string(), "-1 is negative");
    }
}
