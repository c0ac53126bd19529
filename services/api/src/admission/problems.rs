//! Lists of problems and warnings, with the text forms that clients know (http-api §9.5, N-17.5).

use std::fmt::{self, Display};

/// Maximum size of the listed problems of an object, in bytes. Further ones are only counted.
const BYTES_MAX: usize = 1 << 20;

/// Problems of an object and its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    listed: Vec<String>,
    bytes: usize,
    /// Number of problems that are not listed.
    unlisted: usize,
}

impl Problems {
    /// Adds a problem.
    pub(crate) fn add(&mut self, problem: impl Into<String>) {
        self.add_if(true, || problem);
    }

    /// Adds a problem if `wrong`. The text is made only then, and only if it is listed.
    pub(crate) fn add_if<S: Into<String>>(&mut self, wrong: bool, problem: impl FnOnce() -> S) {
        if wrong && self.bytes > BYTES_MAX {
            self.unlisted += 1;
        } else if wrong {
            let problem = problem().into();
            self.bytes = self.bytes.saturating_add(problem.len());
            self.listed.push(problem);
        }
    }

    /// Adds the problems of a part as one problem, after an introduction that names the part.
    pub(crate) fn nest(&mut self, introduction: impl Display, part: &Self) {
        self.add_if(!part.is_empty(), || format!("{introduction}{part}"));
    }

    /// Adds the problems of a part, each by itself.
    pub(crate) fn append(&mut self, part: Self) {
        part.listed.into_iter().for_each(|problem| self.add(problem));
        self.unlisted += part.unlisted;
    }

    /// Whether there are no problems.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The problems, each by itself. The last item counts those that are not listed, if there are any.
    pub(crate) fn into_vec(mut self) -> Vec<String> {
        self.listed.extend(self.rest());
        self.listed
    }

    fn rest(&self) -> Option<String> {
        (self.unlisted > 0).then(|| format!("and {} more", self.unlisted))
    }
}

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.listed.len() + self.unlisted {
            1 => f.write_str("1 error occurred:")?,
            many => write!(f, "{many} errors occurred:")?,
        }
        for problem in self.listed.iter().chain(&self.rest()) {
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

    /// Adds the warnings of a part as one warning that names the part. The reference lists them like problems.
    pub(crate) fn nest(&mut self, part: impl Display, warnings: &Problems) {
        if !warnings.is_empty() {
            self.add(format!("{part} has warnings: {warnings}"));
        }
    }
}

/// Empty if there are no warnings. There are no newlines at the end.
impl Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => return Ok(()),
            1 => writeln!(f, "1 warning:")?,
            many => writeln!(f, "{many} warnings:")?,
        }
        let listed: String = self.0.iter().map(|warning| format!("\n* {warning}")).collect();
        f.write_str(listed.trim_end_matches('\n'))
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
    fn listed_problems_are_bounded_and_the_rest_is_counted() {
        let long = "x".repeat(BYTES_MAX / 10);
        let mut part = Problems::default();
        (0..20).for_each(|_| part.add(long.as_str()));
        let text = part.to_string();
        assert!(text.starts_with("20 errors occurred:\n\t* xxx"), "{}", &text[..50]);
        assert!(text.ends_with("xxx\n\t* and 9 more\n\n") && text.len() < BYTES_MAX + 2 * long.len());
        let mut whole = Problems::default();
        whole.add("a");
        whole.append(part);
        let listed = whole.into_vec();
        assert_eq!((listed[0].as_str(), listed[12].as_str(), listed.len()), ("a", "and 9 more", 13));
    }

    #[test]
    fn warnings_are_one_text_and_none_is_empty() {
        let mut warnings = Warnings::default();
        assert_eq!(warnings.to_string(), "");
        warnings.add("a");
        assert_eq!(warnings.to_string(), "1 warning:\n\n* a");
        let (mut group, mut task) = (Problems::default(), Problems::default());
        task.add("b");
        group.nest("Task \"t\" has warnings: ", &task);
        warnings.nest("Group \"g\"", &group);
        warnings.nest("never said", &Problems::default());
        assert_eq!(
            warnings.to_string(),
            "2 warnings:\n\n* a\n* Group \"g\" has warnings: 1 error occurred:\n\t* Task \"t\" has warnings: 1 error occurred:\n\t* b"
        );
    }
}
