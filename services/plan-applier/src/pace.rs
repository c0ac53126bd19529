//! [`Pace`]: how soon one commit may follow another. On a quiet cluster at once; under load some milliseconds apart, for
//! much of what a commit costs is the same however many change sets it has: a round trip to the database, a write of its
//! log, a message to all replicas, and the threads that all of that wakes.

use std::time::{Duration, Instant};

/// How far apart commits are under load.
const APART: Duration = Duration::from_millis(6);
/// How many may come as fast as they can after a quiet time, so that what a user does on a quiet cluster never waits.
const AT_ONCE: u32 = 8;

/// When commits may begin: a leaky bucket.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When they would be spent evenly up to now.
    spent_until: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { spent_until: now }
    }

    /// When the next commit may begin.
    pub(crate) fn next(&self) -> Instant {
        let ahead = self.spent_until.checked_sub(APART * (AT_ONCE - 1));
        ahead.expect("an applier starts later than some milliseconds after its machine")
    }

    /// One begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.spent_until = self.spent_until.max(now) + APART;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_may_follow_at_once_and_the_rest_evenly() {
        let start = telemetry::clock::monotonic();
        let mut pace = Pace::new(start);
        let mut began = Vec::new();
        let mut now = start;
        for _ in 0..3 * AT_ONCE {
            now = now.max(pace.next());
            pace.begin(now);
            began.push(now - start);
        }
        let (first, rest) = began.split_at(AT_ONCE as usize);
        assert!(first.iter().all(Duration::is_zero));
        let evenly: Vec<Duration> = (1..=2 * AT_ONCE).map(|n| APART * n).collect();
        assert_eq!(rest, evenly);

        // After a quiet time it is as in the beginning.
        let later = now + APART * AT_ONCE;
        (0..AT_ONCE).for_each(|_| {
            assert!(pace.next() <= later);
            pace.begin(later);
        });
        assert!(pace.next() > later);
    }
}
