//! How long to wait before trying again.

use std::time::Duration;

/// A random time from `shortest` to a longest one that doubles with each attempt, the first being 0, up to `longest`.
/// Random over all of that range, because whoever failed together should not come back together.
pub(crate) fn backoff(attempt: u32, shortest: Duration, longest: Duration) -> Duration {
    rand::random_range(shortest..=ceiling(attempt, shortest, longest))
}

fn ceiling(attempt: u32, shortest: Duration, longest: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(attempt.saturating_add(1));
    shortest.saturating_mul(factor).min(longest).max(shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_doubles_up_to_a_limit() {
        let (shortest, longest) = (Duration::from_millis(50), Duration::from_secs(1));
        let ceilings =
            [0, 1, 2, 3, 4, 40, u32::MAX].map(|attempt| ceiling(attempt, shortest, longest).as_millis());
        assert_eq!(ceilings, [100, 200, 400, 800, 1000, 1000, 1000]);
        assert_eq!(ceiling(0, longest, shortest), longest, "never below the shortest");
        for attempt in 0..100 {
            assert!((shortest..=longest).contains(&backoff(attempt, shortest, longest)));
        }
    }
}
