//! [`Spread`]: much that is written evenly over a time, so that a database on busy cores never takes a whole one from
//! those who wait for commits.

use std::time::Duration;

use tokio::time::Instant;

use crate::touched::Touched;

/// Fewer rows than this are written as fast as they can be.
const ROWS_MIN: usize = 2_048;

/// How far the rows are along, and how far they may be.
pub(crate) struct Spread {
    begun: Instant,
    over: Duration,
    /// How many rows there are about, and how many of them are written.
    rows: usize,
    written: usize,
}

impl Spread {
    /// As fast as it goes.
    pub(crate) fn none() -> Self {
        Self { begun: Instant::now(), over: Duration::ZERO, rows: 0, written: 0 }
    }

    /// So that what was touched is written within that time, if it can be.
    pub(crate) fn over(time: Duration, touched: &Touched) -> Self {
        let rows = touched.rows();
        let over = if rows < ROWS_MIN { Duration::ZERO } else { time };
        Self { over, rows, ..Self::none() }
    }

    /// So many more rows are written: waits until it is time for others.
    pub(crate) async fn wrote(&mut self, rows: usize) {
        self.written += rows;
        let ahead = self.ahead(Instant::now());
        if !ahead.is_zero() {
            tokio::time::sleep(ahead).await;
        }
    }

    fn ahead(&self, now: Instant) -> Duration {
        let share = self.written.min(self.rows) as f64 / self.rows.max(1) as f64;
        self.over.mul_f64(share).saturating_sub(now.saturating_duration_since(self.begun))
    }
}

#[cfg(test)]
mod tests {
    use model::AllocId;

    use super::*;

    fn spread(rows: usize) -> Spread {
        let allocs = vec![AllocId::from_bytes([0; 16]); rows];
        Spread::over(Duration::from_secs(2), &Touched { allocs, ..Touched::default() })
    }

    /// How long it waits after so many of its rows, which took so long.
    fn wait(mut spread: Spread, written: usize, took: Duration) -> Duration {
        spread.written = written;
        spread.ahead(spread.begun + took)
    }

    #[test]
    fn rows_come_evenly_and_nobody_waits_who_is_late() {
        let half = Duration::from_secs(1);
        assert_eq!(wait(spread(10_000), 5_000, Duration::ZERO), half);
        assert_eq!(wait(spread(10_000), 5_000, half / 4), half / 4 * 3);
        assert_eq!(wait(spread(10_000), 5_000, 3 * half), Duration::ZERO);
        assert_eq!(wait(spread(10_000), 20_000, half), half, "more rows than were expected take no longer");
    }

    #[test]
    fn few_rows_wait_for_nothing() {
        assert_eq!(wait(spread(ROWS_MIN - 1), 1, Duration::ZERO), Duration::ZERO);
        assert_eq!(wait(Spread::none(), 1, Duration::ZERO), Duration::ZERO);
    }
}
