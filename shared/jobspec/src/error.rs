//! Errors in a job file and their positions.

use std::{cell::RefCell, fmt};

use crate::{source::Source, syntax::At};

/// Maximum number of reported errors.
const DIAGNOSTICS_MAX: usize = 50;

/// The errors in a job file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Error {
    /// The errors; at least one.
    pub diagnostics: Vec<Diagnostic>,
}

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the file.
    pub file: String,
    /// The position in the file. `None` if the error is about the whole file.
    pub place: Option<Place>,
    /// What is wrong, in words that do not depend on the file.
    pub summary: String,
    /// Details, and how to correct the error.
    pub detail: String,
}

/// A range in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The line of the start, from 1.
    pub line: usize,
    /// The column of the start in grapheme clusters, from 1.
    pub column: usize,
    /// The line of the end.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// The text of the first line.
    pub excerpt: String,
    /// The range within the excerpt, in bytes.
    pub marked: std::ops::Range<usize>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { file, place, summary, detail } = self;
        match place {
            None => write!(f, "{file}: {summary}; {detail}"),
            Some(Place { line, column, end_line, end_column, .. }) if line == end_line => {
                write!(f, "{file}:{line},{column}-{end_column}: {summary}; {detail}")
            }
            Some(Place { line, column, end_line, end_column, .. }) => {
                write!(f, "{file}:{line},{column}-{end_line},{end_column}: {summary}; {detail}")
            }
        }
    }
}

/// An error whose position is still an offset.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Index of the source. The job file is the first.
    pub(crate) source: usize,
    /// The byte range in the source. `None` if the error is about the whole source.
    pub(crate) at: Option<At>,
    pub(crate) summary: &'static str,
    /// The text that replaces `{}` in the summary.
    pub(crate) subject: String,
    pub(crate) detail: String,
}

impl Fault {
    /// An error in the job file.
    pub(crate) fn new(at: At, summary: &'static str, detail: impl Into<String>) -> Fault {
        Fault { source: 0, at: Some(at), summary, subject: String::new(), detail: detail.into() }
    }

    /// An error whose summary contains a name.
    pub(crate) fn with_subject(
        at: At,
        summary: &'static str,
        subject: &str,
        detail: impl Into<String>,
    ) -> Fault {
        Fault { subject: subject.to_owned(), ..Fault::new(at, summary, detail) }
    }

    /// The same error in another source.
    pub(crate) fn in_source(self, source: usize) -> Fault {
        Fault { source, ..self }
    }

    fn diagnostic(self, sources: &[Source<'_>]) -> Diagnostic {
        let source = &sources[self.source];
        Diagnostic {
            file: source.name.to_string(),
            place: self.at.map(|at| source.place(at)),
            summary: self.summary.replace("{}", &self.subject),
            detail: self.detail,
        }
    }
}

/// An error with one diagnostic.
pub(crate) fn single_error(fault: Fault, sources: &[Source<'_>]) -> Error {
    Error { diagnostics: vec![fault.diagnostic(sources)] }
}

/// Collects errors, so that one pass reports all of them.
#[derive(Default)]
pub(crate) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub(crate) fn record(&self, fault: Fault) {
        self.0.borrow_mut().push(fault);
    }

    /// Unwraps a result. Records the error if there is one.
    pub(crate) fn ok_or_record<T>(&self, result: Result<T, Box<Fault>>) -> Option<T> {
        result.map_err(|fault| self.record(*fault)).ok()
    }

    /// Returns the recorded errors, if there are any.
    pub(crate) fn finish(&self, sources: &[Source<'_>]) -> Result<(), Error> {
        let mut faults = self.0.take();
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|fault| (fault.source, fault.at.as_ref().map_or(usize::MAX, |at| at.start)));
        faults.truncate(DIAGNOSTICS_MAX);
        Err(Error { diagnostics: faults.into_iter().map(|fault| fault.diagnostic(sources)).collect() })
    }
}
