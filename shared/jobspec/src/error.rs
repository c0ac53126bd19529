//! What is wrong with a job file, and where.

use std::{cell::RefCell, fmt, ops::Range};

use crate::source::Source;

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
    /// From 1; 0 where something is missing from the file as a whole.
    pub line: usize,
    /// In characters, from 1; 0 as the line.
    pub column: usize,
    /// What is wrong, in words that stay the same.
    pub summary: String,
    /// What would be right.
    pub detail: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { file, line, column, summary, detail } = self;
        match line {
            0 => write!(f, "{file}: {summary}; {detail}"),
            _ => write!(f, "{file}:{line},{column}: {summary}; {detail}"),
        }
    }
}

/// Something wrong at a place that is still an offset.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Bytes in the source; none where it is about the file as a whole.
    pub(crate) at: Option<Range<usize>>,
    pub(crate) summary: &'static str,
    pub(crate) subject: String,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn new(at: Range<usize>, summary: &'static str, detail: impl Into<String>) -> Fault {
        Fault { at: Some(at), summary, subject: String::new(), detail: detail.into() }
    }

    /// One whose summary ends with the name of what it is about.
    pub(crate) fn about(
        at: Range<usize>,
        summary: &'static str,
        subject: &str,
        detail: impl Into<String>,
    ) -> Fault {
        Fault { subject: subject.to_owned(), ..Fault::new(at, summary, detail) }
    }

    /// Part of the language, but not of this parser yet.
    pub(crate) fn not_built(at: Range<usize>, what: &str) -> Fault {
        Fault::new(at, "Not built yet", format!("{what} cannot be read yet"))
    }

    pub(crate) fn diagnostic(&self, source: &Source<'_>) -> Diagnostic {
        let (line, column) = self.at.as_ref().map_or((0, 0), |at| source.position(at.start));
        let summary = self.summary.replace("{}", &self.subject);
        Diagnostic { file: source.name.to_owned(), line, column, summary, detail: self.detail.clone() }
    }
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
    pub(crate) fn settle(&self, source: &Source<'_>) -> Result<(), Error> {
        let mut faults = self.0.borrow_mut();
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|fault| fault.at.as_ref().map_or(usize::MAX, |at| at.start));
        faults.truncate(DIAGNOSTICS_MAX);
        Err(Error { diagnostics: faults.iter().map(|fault| fault.diagnostic(source)).collect() })
    }
}
