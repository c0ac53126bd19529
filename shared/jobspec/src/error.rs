//! Errors in a job file, with their lines and columns.

use std::{cell::RefCell, fmt};

use crate::{fault::Fault, position::Place, source::Source};

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

impl Diagnostic {
    /// The error with its position in the sources as lines and columns.
    fn new(fault: Fault, sources: &[Source<'_>]) -> Diagnostic {
        let source = &sources[fault.source];
        Diagnostic {
            file: source.name.to_string(),
            place: fault.at.map(|at| source.place(at)),
            summary: fault.summary.replace("{}", &fault.subject),
            detail: fault.detail,
        }
    }
}

/// An error with one diagnostic.
pub(crate) fn single_error(fault: Fault, sources: &[Source<'_>]) -> Error {
    Error { diagnostics: vec![Diagnostic::new(fault, sources)] }
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
        Err(Error { diagnostics: faults.into_iter().map(|fault| Diagnostic::new(fault, sources)).collect() })
    }
}
