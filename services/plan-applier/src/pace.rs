//! [`Pace`]: when the next commit may begin. On a quiet cluster a commit begins at once; under load, commits are some
//! milliseconds apart. Much of the cost of a commit does not depend on the number of its change sets: a round trip to the
//! database, a write of its log, a message to every replica, and waking the threads for all of that.

use std::time::{Duration, Instant};

/// Minimum distance between commits under load. Three milliseconds did not increase the number of small jobs placed; with
/// six, jobs waited for commits while a tenth of the processors' time was idle.
const DISTANCE_MIN: Duration = Duration::from_millis(4);
/// Maximum distance between commits.
const DISTANCE_MAX: Duration = Duration::from_millis(12);
/// Between these limits, the distance is this multiple of the duration of a commit. A long duration shows that the
/// processors or the disk are overloaded, which is when batching saves the most.
const DISTANCE_FACTOR: f64 = 2.0;
/// The weight of the last commit in the average duration.
const SMOOTHING: f64 = 0.125;
/// How many commits may begin without a distance after a quiet time, so that a user's action on a quiet cluster never
/// waits.
const BURST: u32 = 8;

/// Schedules commits: a leaky bucket.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The time up to which evenly spaced commits have been scheduled.
    scheduled_until: Instant,
    distance: Duration,
    /// The average duration of a commit.
    duration: Duration,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { scheduled_until: now, distance: DISTANCE_MIN, duration: Duration::ZERO }
    }

    /// When the next commit may begin.
    pub(crate) fn next(&self) -> Instant {
        let ahead = self.scheduled_until.checked_sub(self.distance * (BURST - 1));
        ahead.expect("the monotonic clock is past the first burst")
    }

    /// Records that a commit begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.scheduled_until = self.scheduled_until.max(now) + self.distance;
    }

    /// Records the duration of a commit that ends at `now`.
    pub(crate) fn took(&mut self, took: Duration, now: Instant) {
        self.duration = self.duration.mul_f64(1.0 - SMOOTHING) + took.mul_f64(SMOOTHING);
        let before = std::mem::replace(
            &mut self.distance,
            self.duration.mul_f64(DISTANCE_FACTOR).clamp(DISTANCE_MIN, DISTANCE_MAX),
        );
        // The number of commits that are ahead of the even spacing stays the same.
        let ahead = self.scheduled_until.saturating_duration_since(now);
        self.scheduled_until = now + ahead.mul_f64(self.distance.div_duration_f64(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When `count` commits begin that are each started as early as allowed.
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
        let began = since(start, &begins(&mut pace, start, 3 * BURST));
        let (first, rest) = began.split_at(BURST as usize);
        assert!(first.iter().all(Duration::is_zero));
        let evenly: Vec<Duration> = (1..=2 * BURST).map(|n| DISTANCE_MIN * n).collect();
        assert_eq!(rest, evenly);

        // After a quiet time, a burst is allowed again.
        let later = start + DISTANCE_MIN * 3 * BURST;
        let began = begins(&mut pace, later, BURST + 1);
        assert_eq!(began[BURST as usize - 1], later);
        assert_eq!(began[BURST as usize], later + DISTANCE_MIN);
    }

    #[test]
    fn where_commits_take_long_they_are_farther_apart_and_as_many_may_follow_at_once() {
        let start = telemetry::clock::monotonic();
        let mut pace = Pace::new(start);
        pace.took(Duration::from_millis(1), start);
        assert_eq!(pace.distance, DISTANCE_MIN, "one commit hardly changes the average");
        (0..100).for_each(|_| pace.took(Duration::from_millis(4), start));
        let distance = |pace: &Pace| pace.distance.as_micros().div_ceil(100);
        assert_eq!(distance(&pace), 80);
        (0..100).for_each(|_| pace.took(Duration::from_secs(1), start));
        assert_eq!(pace.distance, DISTANCE_MAX, "the maximum");

        let began = since(start, &begins(&mut pace, start, BURST + 1));
        assert_eq!(began[BURST as usize - 1..], [Duration::ZERO, DISTANCE_MAX]);
        // The number of commits above the even spacing is kept when the distance shrinks again.
        (0..100).for_each(|_| pace.took(Duration::ZERO, start));
        assert_eq!(pace.next() - start, 2 * DISTANCE_MIN);
    }
}
