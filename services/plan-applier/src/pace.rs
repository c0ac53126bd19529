//! [`Pace`]: how soon one commit may follow another. On a quiet cluster at once; under load some milliseconds apart, for
//! much of what a commit costs is the same however many change sets it has: a round trip to the database, a write of its
//! log, a message to all replicas, and the threads that all of that wakes.

use std::time::{Duration, Instant};

/// How far apart commits are under load, at least: at three milliseconds no more small jobs were placed, and at six they waited
/// for commits while a tenth of the processors was idle.
const APART_MIN: Duration = Duration::from_millis(4);
/// How far apart at most.
const APART_MAX: Duration = Duration::from_millis(12);
/// In between, so many times as far apart as a commit takes. One that takes long says that processors or the disk have more to
/// do than they can, and then gathering gains the most.
const TIMES: f64 = 2.0;
/// The share of the last commit in how long one takes.
const NEWEST: f64 = 0.125;
/// How many may come as fast as they can after a quiet time, so that what a user does on a quiet cluster never waits.
const AT_ONCE: u32 = 8;

/// When commits may begin: a leaky bucket.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When they would be spent evenly up to now.
    spent_until: Instant,
    apart: Duration,
    /// How long a commit takes.
    takes: Duration,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { spent_until: now, apart: APART_MIN, takes: Duration::ZERO }
    }

    /// When the next commit may begin.
    pub(crate) fn next(&self) -> Instant {
        let ahead = self.spent_until.checked_sub(self.apart * (AT_ONCE - 1));
        ahead.expect("an applier starts later than some milliseconds after its machine")
    }

    /// One begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.spent_until = self.spent_until.max(now) + self.apart;
    }

    /// One has taken so long, up to now.
    pub(crate) fn took(&mut self, took: Duration, now: Instant) {
        self.takes = self.takes.mul_f64(1.0 - NEWEST) + took.mul_f64(NEWEST);
        let before =
            std::mem::replace(&mut self.apart, self.takes.mul_f64(TIMES).clamp(APART_MIN, APART_MAX));
        // As many commits are ahead of their pace as before.
        let ahead = self.spent_until.saturating_duration_since(now);
        self.spent_until = now + ahead.mul_f64(self.apart.div_duration_f64(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When so many commits begin that want to as soon as they may.
    fn begins(pace: &mut Pace, mut now: Instant, count: u32) -> Vec<Instant> {
        let begin = |_| {
            now = now.max(pace.next());
            pace.begin(now);
            now
        };
        (0..count).map(begin).collect()
    }

    fn since(start: Instant, began: &[Instant]) -> Vec<Duration> {
        began.iter().map(|began| *began - start).collect()
    }

    #[test]
    fn some_may_follow_at_once_and_the_rest_evenly() {
        let start = telemetry::clock::monotonic();
        let mut pace = Pace::new(start);
        let began = since(start, &begins(&mut pace, start, 3 * AT_ONCE));
        let (first, rest) = began.split_at(AT_ONCE as usize);
        assert!(first.iter().all(Duration::is_zero));
        let evenly: Vec<Duration> = (1..=2 * AT_ONCE).map(|n| APART_MIN * n).collect();
        assert_eq!(rest, evenly);

        // After a quiet time it is as in the beginning.
        let later = start + APART_MIN * 3 * AT_ONCE;
        let began = begins(&mut pace, later, AT_ONCE + 1);
        assert_eq!(began[AT_ONCE as usize - 1], later);
        assert_eq!(began[AT_ONCE as usize], later + APART_MIN);
    }

    #[test]
    fn where_commits_take_long_they_are_farther_apart_and_as_many_may_follow_at_once() {
        let start = telemetry::clock::monotonic();
        let mut pace = Pace::new(start);
        pace.took(Duration::from_millis(1), start);
        assert_eq!(pace.apart, APART_MIN, "one is not many");
        (0..100).for_each(|_| pace.took(Duration::from_millis(4), start));
        let apart = |pace: &Pace| pace.apart.as_micros().div_ceil(100);
        assert_eq!(apart(&pace), 80);
        (0..100).for_each(|_| pace.took(Duration::from_secs(1), start));
        assert_eq!(pace.apart, APART_MAX, "however long");

        let began = since(start, &begins(&mut pace, start, AT_ONCE + 1));
        assert_eq!(began[AT_ONCE as usize - 1..], [Duration::ZERO, APART_MAX]);
        // What is ahead of its pace stays as many commits when they may follow sooner again.
        (0..100).for_each(|_| pace.took(Duration::ZERO, start));
        assert_eq!(pace.next() - start, 2 * APART_MIN);
    }
}
