//! Errors in a job file, with their lines and columns.

use std::{cell::RefCell, fmt};

use crate::{fault::Fault, position::Place, source::Source};

/// Maximum number of reported errors.
const DIAGNOSTICS_MAX: usize = 50;
/// Maximum number of recorded errors. Of more, those that are not reported are dropped.
const RECORDED_MAX: usize = 1000;

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
    /// The kind of error, in words that do not depend on the file.
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
        let mut faults = self.0.borrow_mut();
        faults.push(fault);
        if faults.len() > RECORDED_MAX {
            keep_first(&mut faults);
        }
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
        keep_first(&mut faults);
        Err(Error { diagnostics: faults.into_iter().map(|fault| Diagnostic::new(fault, sources)).collect() })
    }
}

/// Sorts errors by their positions, and drops all but the first.
fn keep_first(faults: &mut Vec<Fault>) {
    faults.sort_by_key(|fault| {
        let start = fault.at.as_ref().map_or(usize::MAX, |at| at.start);
        let follows = fault.follows.filter(|other| *other > start);
        (fault.source, follows.unwrap_or(start), follows.is_some())
    });
    faults.truncate(DIAGNOSTICS_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_errors_the_first_in_the_file_are_kept() {
        let text = " ".repeat(100_000);
        let sources = [Source::new("f", &text)];
        let faults = Faults::default();
        for start in (0..100_000).rev() {
            faults.record(Fault::new(start..start, "wrong", ""));
        }
        assert!(faults.0.borrow().len() <= RECORDED_MAX);
        let error = faults.finish(&sources).unwrap_err();
        let columns = error
            .diagnostics
            .iter()
            .map(|diagnostic| diagnostic.place.as_ref().map_or(0, |place| place.column));
        assert!(columns.eq(1..=DIAGNOSTICS_MAX));
    }
}
