//! Limits of the evaluation of a filter: the number of steps that it takes on all objects of a request, and the texts that
//! regular expressions are matched with. Pure: the time that a regular expression took comes from the caller.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Default of the maximum number of steps that a filter takes on all objects of a request. A comparison takes one step and
/// one for each part of its path, so that a list of 100,000 objects affords a chain of 500 comparisons.
pub(crate) const FILTER_STEPS_MAX: u64 = 200_000_000;
/// Bytes of a text that are searched in one step.
const BYTES_PER_STEP: usize = 64;
/// Time of a regular expression that counts as one step. Steps cannot be counted in it: its speed depends on the text.
const TIME_PER_STEP: Duration = Duration::from_nanos(20);
/// Maximum product of the size of a compiled regular expression and the length of a text that it is matched with. Matching
/// cannot be interrupted, and takes a time of about this product in the worst case: a tenth of a second.
const REGEX_WORK_MAX: usize = 1 << 30;

/// A filter cannot be evaluated within its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitExceeded {
    /// It takes too many steps.
    #[error(
        "the filter expression takes more than {max} steps on these objects: use fewer quantifiers inside quantifiers, or \
         narrow the list by prefix or namespace"
    )]
    Steps {
        /// Maximum number of steps.
        max: u64,
    },
    /// A regular expression would be matched with a text that is too long for it.
    #[error("a regular expression of this size is only matched with texts of up to {bytes_max} bytes")]
    Text {
        /// Maximum length of the text.
        bytes_max: usize,
    },
}

/// The steps of a filter for all objects of a request. Threads that share a filter use it one after another.
#[derive(Debug)]
pub(super) struct Budget {
    max: u64,
    left: AtomicU64,
}

impl Budget {
    pub(super) fn new(max: u64) -> Self {
        Self { max, left: AtomicU64::new(max) }
    }

    /// Steps that are left.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// The steps for the next object. [`Self::put_back`] returns what is left of them.
    pub(super) fn take(&self) -> Steps {
        Steps { max: self.max, left: Cell::new(self.left()) }
    }

    /// Returns the steps that are left.
    pub(super) fn put_back(&self, steps: &Steps) {
        self.left.store(steps.left.get(), Ordering::Relaxed);
    }

    /// Begins again with all steps.
    pub(super) fn renew(&self) {
        self.left.store(self.max, Ordering::Relaxed);
    }
}

/// Steps for one object.
pub(super) struct Steps {
    max: u64,
    left: Cell<u64>,
}

impl Steps {
    /// Takes steps.
    pub(super) fn take(&self, count: usize) -> Result<(), LimitExceeded> {
        let left = self.left.get().checked_sub(count as u64);
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or(LimitExceeded::Steps { max: self.max })
    }

    /// Takes the steps of a search in a text.
    pub(super) fn take_search(&self, text: &str) -> Result<(), LimitExceeded> {
        self.take(text.len() / BYTES_PER_STEP)
    }

    /// Takes the steps of a regular expression that took so long.
    pub(super) fn take_time(&self, took: Duration) -> Result<(), LimitExceeded> {
        let steps = took.as_nanos() / TIME_PER_STEP.as_nanos();
        self.take(usize::try_from(steps).unwrap_or(usize::MAX))
    }
}

/// Checks that a regular expression of a size may be matched with a text.
pub(super) fn check_text(regex_bytes: usize, text: &str) -> Result<(), LimitExceeded> {
    let bytes_max = REGEX_WORK_MAX / regex_bytes;
    if text.len() <= bytes_max { Ok(()) } else { Err(LimitExceeded::Text { bytes_max }) }
}
