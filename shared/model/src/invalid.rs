//! Values that the domain cannot hold: where one stands in the API's JSON, and what is wrong with it.
//!
//! Whoever refuses a value knows only the problem; each caller adds its own step in front while the error goes out
//! (`….at("Count")?`, `….at("TaskGroups")?`), so that the path costs nothing as long as all is well.

use std::fmt::{self, Display};

use crate::ids::InvalidId;
use crate::text::UnknownWord;

/// A value that the domain cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Where it stands, for instance `TaskGroups[0].Count`; empty for the whole.
    pub path: String,
    /// What is wrong with it, for instance `-1 is negative`.
    pub problem: String,
}

impl Invalid {
    /// A problem whose place its callers will add.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into() }
    }

    /// The same problem, one step further in.
    fn below(self, step: &str) -> Self {
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

impl From<UnknownWord> for Invalid {
    fn from(error: UnknownWord) -> Self {
        Self::new(error.to_string())
    }
}

impl From<InvalidId> for Invalid {
    fn from(error: InvalidId) -> Self {
        Self::new(error.to_string())
    }
}

/// Says where a value stands, one step at a time, the innermost first.
pub trait At<T> {
    /// The value is the member `name` of an object.
    fn at(self, name: &str) -> Result<T, Invalid>;

    /// The value is the item of a list at the place `key`, or that of a map under `key`.
    fn at_item(self, key: impl Display) -> Result<T, Invalid>;
}

impl<T, E: Into<Invalid>> At<T> for Result<T, E> {
    fn at(self, name: &str) -> Result<T, Invalid> {
        self.map_err(|error| error.into().below(name))
    }

    fn at_item(self, key: impl Display) -> Result<T, Invalid> {
        self.map_err(|error| error.into().below(&format!("[{key}]")))
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
