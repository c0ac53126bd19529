//! [`Limits`] of time and memory for one input.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::memory;

/// The resources that one input may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum processor time of the thread. Other processes and threads do not count, so that a busy machine makes
    /// no difference.
    pub cpu_time: Duration,
    /// Maximum memory that the thread holds at any time, in addition to what it held before.
    pub bytes: usize,
}

impl Limits {
    /// Limits in an optimised build.
    pub const FUZZING: Self = Self { cpu_time: Duration::from_secs(1), bytes: 256 << 20 };
    /// Limits in the ordinary build of tests, which is many times slower.
    pub const REPLAY: Self = Self { cpu_time: Duration::from_secs(10), ..Self::FUZZING };

    /// Runs an input of a target, and panics if it takes more than the limits.
    pub(crate) fn check(self, target: &str, run: impl FnOnce()) {
        let begun = cpu_time();
        let held = memory::watch();
        run();
        let peak = memory::peak_since(held);
        let taken = cpu_time().saturating_sub(begun);
        let Self { cpu_time, bytes } = self;
        assert!(taken <= cpu_time, "{target}: the input took {taken:?} of processor time, not {cpu_time:?}");
        assert!(peak <= bytes, "{target}: the input took {peak} bytes of memory, not {bytes}");
    }
}

/// The processor time that this thread has used.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
