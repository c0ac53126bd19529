//! [`Fault`]: an error whose position is still an offset; and [`Evaluated`], a value or such an error.

use crate::{position::At, value::Value};

/// An error whose position is still an offset.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Index of the source. The job file is the first.
    pub(crate) source: usize,
    /// The byte range in the source. `None` if the error is about the whole source.
    pub(crate) at: Option<At>,
    /// The offset that the error is reported after, although it is about an earlier place.
    pub(crate) follows: Option<usize>,
    pub(crate) summary: &'static str,
    /// The text that replaces `{}` in the summary.
    pub(crate) subject: String,
    pub(crate) detail: String,
}

impl Fault {
    /// An error in the job file.
    pub(crate) fn new(at: At, summary: &'static str, detail: impl Into<String>) -> Fault {
        Fault {
            source: 0,
            at: Some(at),
            follows: None,
            summary,
            subject: String::new(),
            detail: detail.into(),
        }
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
}

/// The value of an expression, or the error in it.
pub(crate) type Evaluated<T = Value> = Result<T, Box<Fault>>;
