//! [`Pacer`]: spreads a large number of writes evenly over a given time, so that a database on busy cores does not take a
//! whole core from callers that wait for commits.

use std::time::Duration;

use tokio::time::Instant;

use crate::touched::Touched;

/// Fewer rows than this are written without pauses.
const ROWS_MIN: usize = 2_048;

/// How many rows are written, and how many should be by now.
pub(crate) struct Pacer {
    started: Instant,
    duration: Duration,
    /// The approximate total number of rows, and how many of them are written.
    rows: usize,
    written: usize,
}

impl Pacer {
    /// Writes without pauses.
    pub(crate) fn unlimited() -> Self {
        Self { started: Instant::now(), duration: Duration::ZERO, rows: 0, written: 0 }
    }

    /// Spreads the rows that `touched` names over `duration`, if they can be written that fast.
    pub(crate) fn new(duration: Duration, touched: &Touched) -> Self {
        let rows = touched.rows();
        let duration = if rows < ROWS_MIN { Duration::ZERO } else { duration };
        Self { duration, rows, ..Self::unlimited() }
    }

    /// Records that more rows were written, and waits until the next ones are due.
    pub(crate) async fn add_written(&mut self, rows: usize) {
        self.written += rows;
        let pause = self.pause(Instant::now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    fn pause(&self, now: Instant) -> Duration {
        let share = self.written.min(self.rows) as f64 / self.rows.max(1) as f64;
        self.duration.mul_f64(share).saturating_sub(now.saturating_duration_since(self.started))
    }
}

#[cfg(test)]
mod tests {
    use model::AllocId;

    use super::*;

    fn pacer(rows: usize) -> Pacer {
        let allocs = vec![AllocId::from_bytes([0; 16]); rows];
        Pacer::new(Duration::from_secs(2), &Touched { allocs, ..Touched::default() })
    }

    /// The pause of a pacer after it has written `written` rows in the time `took`.
    fn pause(mut pacer: Pacer, written: usize, took: Duration) -> Duration {
        pacer.written = written;
        pacer.pause(pacer.started + took)
    }

    #[test]
    fn rows_come_evenly_and_nobody_waits_who_is_late() {
        let half = Duration::from_secs(1);
        assert_eq!(pause(pacer(10_000), 5_000, Duration::ZERO), half);
        assert_eq!(pause(pacer(10_000), 5_000, half / 4), half / 4 * 3);
        assert_eq!(pause(pacer(10_000), 5_000, 3 * half), Duration::ZERO);
        assert_eq!(pause(pacer(10_000), 20_000, half), half, "more rows than were expected take no longer");
    }

    #[test]
    fn few_rows_wait_for_nothing() {
        assert_eq!(pause(pacer(ROWS_MIN - 1), 1, Duration::ZERO), Duration::ZERO);
        assert_eq!(pause(Pacer::unlimited(), 1, Duration::ZERO), Duration::ZERO);
    }
}
