//! Prints events with the time at which they happen.

use std::time::{Duration, Instant};

/// The clock of a drill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    begun: Instant,
}

impl Timeline {
    /// Starts the clock.
    pub(crate) fn begin() -> Self {
        Self { begun: telemetry::clock::monotonic() }
    }

    /// Prints an event.
    pub(crate) fn note(&self, what: &str) {
        println!("{:7.1} s  {what}", self.elapsed().as_secs_f64());
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        telemetry::clock::monotonic() - self.begun
    }
}
