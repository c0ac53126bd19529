//! Random delays before a retry, which grow with each attempt.

use std::time::Duration;

/// A random delay between `shortest` and a limit that doubles with each attempt, up to `longest`. The first attempt is
/// 0. The delay is random over the whole range, so that processes that failed together do not retry together.
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
