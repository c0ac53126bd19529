//! The limits of one rendering. A template that exceeds one ends with an error that names it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum size of a template, in bytes.
pub const SOURCE_BYTES_MAX: usize = 256 << 10;
/// Maximum size of the result, in bytes.
pub const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of steps: actions, texts and function calls that are carried out.
pub const STEPS_MAX: u64 = 2_000_000;
/// Maximum number of iterations of all `range` actions.
pub const ITERATIONS_MAX: u64 = 500_000;
/// Maximum size of one value, in bytes. A list or map counts [`ELEMENT_BYTES`] for each element.
pub const VALUE_BYTES_MAX: u64 = 8 << 20;
/// Maximum size of all values that functions return, in bytes.
pub const PRODUCED_BYTES_MAX: u64 = 48 << 20;
/// The size that an element of a list or map counts in addition to its content, in bytes.
pub const ELEMENT_BYTES: u64 = 16;
/// Maximum nesting of lists and maps.
pub const VALUE_DEPTH_MAX: usize = 64;
/// Maximum size of a compiled regular expression, in bytes.
pub const REGEX_BYTES_MAX: usize = 256 << 10;
/// Maximum size of a text in which a regular expression is searched, in bytes.
pub const REGEX_TEXT_BYTES_MAX: usize = 32 << 10;
/// Maximum size of a text that is parsed as JSON, in bytes.
pub const JSON_BYTES_MAX: usize = 1 << 20;
/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u64 = 64;

/// A limit of a rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// [`SOURCE_BYTES_MAX`].
    #[error("is longer than {SOURCE_BYTES_MAX} bytes")]
    Source,
    /// [`OUTPUT_BYTES_MAX`].
    #[error("writes more than {OUTPUT_BYTES_MAX} bytes")]
    Output,
    /// [`STEPS_MAX`].
    #[error("takes more than {STEPS_MAX} steps")]
    Steps,
    /// [`ITERATIONS_MAX`].
    #[error("has more than {ITERATIONS_MAX} iterations")]
    Iterations,
    /// [`VALUE_BYTES_MAX`].
    #[error("makes a value of more than {VALUE_BYTES_MAX} bytes")]
    Value,
    /// [`VALUE_DEPTH_MAX`].
    #[error("makes a value that is nested more than {VALUE_DEPTH_MAX} deep")]
    Depth,
    /// [`PRODUCED_BYTES_MAX`].
    #[error("makes values of more than {PRODUCED_BYTES_MAX} bytes")]
    Produced,
    /// The nesting of actions and of templates in templates.
    #[error("is nested too deep, or calls itself without end")]
    Recursion,
    /// The time that the caller grants.
    #[error("takes too long")]
    Time,
}

/// Counts what a rendering uses, and remembers the first limit that it exceeded.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    steps: AtomicU64,
    produced: AtomicU64,
    exceeded: Mutex<Option<Limit>>,
}

impl Meter {
    /// Counts a step.
    pub(crate) fn step(&self, is_out_of_time: impl FnOnce() -> bool) -> Result<(), Limit> {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        if steps >= STEPS_MAX {
            return self.exceed(Limit::Steps);
        }
        if steps.is_multiple_of(STEPS_PER_LOOK) && is_out_of_time() {
            return self.exceed(Limit::Time);
        }
        Ok(())
    }

    /// Ends the rendering if it has taken too long.
    pub(crate) fn look(&self, is_out_of_time: bool) -> Result<(), Limit> {
        if is_out_of_time { self.exceed(Limit::Time) } else { Ok(()) }
    }

    /// Counts a value that a function returns.
    pub(crate) fn produce(&self, bytes: u64) -> Result<(), Limit> {
        let before = self.produced.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > PRODUCED_BYTES_MAX {
            return self.exceed(Limit::Produced);
        }
        Ok(())
    }

    /// Remembers that a limit was exceeded.
    pub(crate) fn exceed(&self, limit: Limit) -> Result<(), Limit> {
        // A poisoned lock is harmless, because each change is a single step.
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(limit);
        Err(limit)
    }

    /// The first limit that was exceeded.
    pub(crate) fn exceeded(&self) -> Option<Limit> {
        *self.exceeded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
