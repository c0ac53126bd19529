//! Lists of problems and warnings, with the text forms that clients know (http-api §9.5, N-17.5).

use std::fmt::{self, Display};

/// Problems of an object and its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    /// Adds a problem.
    pub(crate) fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    /// Adds a problem if `wrong`. The text is made only then.
    pub(crate) fn add_if<S: Into<String>>(&mut self, wrong: bool, problem: impl FnOnce() -> S) {
        if wrong {
            self.add(problem());
        }
    }

    /// Adds the problems of a part as one problem, after an introduction that names the part.
    pub(crate) fn nest(&mut self, introduction: impl Display, part: &Self) {
        if !part.is_empty() {
            self.add(format!("{introduction}{part}"));
        }
    }

    /// Adds the problems of a part, each by itself.
    pub(crate) fn append(&mut self, part: Self) {
        self.0.extend(part.0);
    }

    /// Whether there are no problems.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The problems, each by itself.
    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("1 error occurred:")?,
            many => write!(f, "{many} errors occurred:")?,
        }
        for problem in &self.0 {
            write!(f, "\n\t* {problem}")?;
        }
        f.write_str("\n\n")
    }
}

/// Warnings about an accepted job. A warning never prevents the registration (N-19.21).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a warning.
    pub(crate) fn add(&mut self, warning: impl Into<String>) {
        self.0.push(warning.into());
    }

    /// Adds the warnings of a part as one warning that names the part.
    pub(crate) fn nest(&mut self, part: impl Display, warnings: &Self) {
        if !warnings.0.is_empty() {
            self.add(format!("{part} has warnings: {warnings}"));
        }
    }
}

/// Empty if there are no warnings.
impl Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => return Ok(()),
            1 => writeln!(f, "1 warning:")?,
            many => writeln!(f, "{many} warnings:")?,
        }
        self.0.iter().try_for_each(|warning| write!(f, "\n* {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_read_as_clients_know_them() {
        let mut task = Problems::default();
        task.add("Task 2 redefines 'a' from task 1");
        let mut job = Problems::default();
        job.nest("Task group g validation failed: ", &task);
        job.nest("never said: ", &Problems::default());
        assert_eq!(
            job.to_string(),
            "1 error occurred:\n\t* Task group g validation failed: 1 error occurred:\n\t* Task 2 redefines 'a' from task 1\n\n\n\n"
        );
        job.add("Missing job ID");
        assert!(job.to_string().starts_with("2 errors occurred:\n\t* Task group g"));
        assert!(job.to_string().ends_with("task 1\n\n\n\t* Missing job ID\n\n"));
    }

    #[test]
    fn warnings_are_one_text_and_none_is_empty() {
        let mut warnings = Warnings::default();
        assert_eq!(warnings.to_string(), "");
        warnings.add("a");
        assert_eq!(warnings.to_string(), "1 warning:\n\n* a");
        let mut group = Warnings::default();
        group.add("b");
        warnings.nest("Group \"g\"", &group);
        assert_eq!(warnings.to_string(), "2 warnings:\n\n* a\n* Group \"g\" has warnings: 1 warning:\n\n* b");
    }
}
