//! What is wrong with a job file, and where.

use std::{cell::RefCell, fmt};

use crate::{source::Source, syntax::At};

/// More tell nobody anything new.
const DIAGNOSTICS_MAX: usize = 50;

/// A job file that cannot be read: everything that was found wrong, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Error {
    /// At least one.
    pub diagnostics: Vec<Diagnostic>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as it was given.
    pub file: String,
    /// Where in the file; none where something is wrong with it as a whole.
    pub place: Option<Place>,
    /// What is wrong, in words that stay the same.
    pub summary: String,
    /// What would be right.
    pub detail: String,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters as people see them, from 1.
    pub column: usize,
    /// The line of the end.
    pub end_line: usize,
    /// The column behind the last character.
    pub end_column: usize,
    /// The text of the first line.
    pub excerpt: String,
    /// The bytes of the excerpt that are meant.
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

/// Something wrong at a place that is still an offset.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Which of the sources: the job file is the first.
    pub(crate) source: usize,
    /// Bytes in the source; none where it is about the source as a whole.
    pub(crate) at: Option<At>,
    pub(crate) summary: &'static str,
    /// What stands in the summary's braces.
    pub(crate) subject: String,
    pub(crate) detail: String,
}

impl Fault {
    /// In the job file.
    pub(crate) fn new(at: At, summary: &'static str, detail: impl Into<String>) -> Fault {
        Fault { source: 0, at: Some(at), summary, subject: String::new(), detail: detail.into() }
    }

    /// One whose summary has the name in it of what it is about.
    pub(crate) fn about(at: At, summary: &'static str, subject: &str, detail: impl Into<String>) -> Fault {
        Fault { subject: subject.to_owned(), ..Fault::new(at, summary, detail) }
    }

    /// The same in another source.
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

/// One fault as an error.
pub(crate) fn refused(fault: Fault, sources: &[Source<'_>]) -> Error {
    Error { diagnostics: vec![fault.diagnostic(sources)] }
}

/// Collects what is wrong, so that one reading tells of all of it.
#[derive(Default)]
pub(crate) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub(crate) fn note(&self, fault: Fault) {
        self.0.borrow_mut().push(fault);
    }

    /// The value, or nothing and a note of what is wrong.
    pub(crate) fn noted<T>(&self, result: Result<T, Box<Fault>>) -> Option<T> {
        result.map_err(|fault| self.note(*fault)).ok()
    }

    /// An error if anything was noted.
    pub(crate) fn settle(&self, sources: &[Source<'_>]) -> Result<(), Error> {
        let mut faults = self.0.take();
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|fault| (fault.source, fault.at.as_ref().map_or(usize::MAX, |at| at.start)));
        faults.truncate(DIAGNOSTICS_MAX);
        Err(Error { diagnostics: faults.into_iter().map(|fault| fault.diagnostic(sources)).collect() })
    }
}
