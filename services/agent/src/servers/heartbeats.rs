//! When an agent registers and sends its next heartbeat. Pure: `chance` is a random number between 0 and 1.
//!
//! Departs from when no server answers. Services take over from each other within a second, and NATS
//! reports at once that nobody serves a subject. So an agent that has had no contact yet, or finds no server, retries after
//! one to two seconds instead of fifteen to thirty.

use std::time::{Duration, Instant};

use crate::node::presence::LastContact;

/// The usual pause before a retry: one to two seconds.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// The minimum pause after a refusal; the maximum is twice as long.
const REFUSED_PAUSE: Duration = Duration::from_secs(15);
/// How long after its due time a heartbeat is retried with the usual pause.
const SHORT_OVERDUE_MAX: Duration = Duration::from_secs(30);
/// The range of the longest pauses before a heartbeat is retried.
const LONGEST_PAUSE: (Duration, Duration) = (Duration::from_secs(25), Duration::from_secs(30));

/// The pause before the registration is retried.
pub(crate) fn register_retry(refused: bool, chance: f64) -> Duration {
    let base = if refused { REFUSED_PAUSE } else { SHORT_PAUSE };
    base.mul_f64(1.0 + chance)
}

/// The pause before an unanswered heartbeat is retried.
pub(crate) fn heartbeat_retry(last: Option<LastContact>, now: Instant, chance: f64) -> Duration {
    let short_pause = SHORT_PAUSE.mul_f64(1.0 + chance);
    let Some(LastContact { at, ttl }) = last else { return short_pause };
    let due = at + ttl;
    let overdue = now.saturating_duration_since(due);
    let left = if overdue > Duration::ZERO { overdue } else { due.saturating_duration_since(now) };
    if overdue > Duration::ZERO && overdue <= SHORT_OVERDUE_MAX {
        return short_pause;
    }
    let drawn = left.mul_f64(chance);
    if drawn < SHORT_PAUSE {
        short_pause
    } else if drawn > LONGEST_PAUSE.1 {
        LONGEST_PAUSE.0 + (LONGEST_PAUSE.1 - LONGEST_PAUSE.0).mul_f64(chance)
    } else {
        drawn
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_refused_registration_waits_longer_than_an_unanswered_one() {
        assert_eq!(register_retry(true, 0.0), secs(15));
        assert_eq!(register_retry(true, 1.0), secs(30));
        assert_eq!(register_retry(false, 0.5), Duration::from_millis(1_500));
    }

    #[test]
    fn a_failed_heartbeat_is_retried_within_the_remaining_time() {
        let at = telemetry::clock::monotonic();
        let last = Some(LastContact { at, ttl: secs(20) });
        assert_eq!(heartbeat_retry(None, at, 0.0), secs(1));
        assert_eq!(heartbeat_retry(last, at, 0.5), secs(10), "spread over the remaining time");
        assert_eq!(heartbeat_retry(last, at + secs(45), 0.5), Duration::from_millis(1_500));
        assert_eq!(heartbeat_retry(last, at + secs(70), 0.5), secs(25), "the pause grows");
        assert_eq!(heartbeat_retry(last, at + secs(4_000), 0.5), Duration::from_millis(27_500));
    }

    proptest! {
        #[test]
        fn a_pause_is_never_short_and_never_long(
            ttl in 0u64..100, passed in 0u64..10_000, chance in 0.0f64..1.0,
        ) {
            let at = telemetry::clock::monotonic();
            let last = LastContact { at, ttl: secs(ttl) };
            let pause = heartbeat_retry(Some(last), at + secs(passed), chance);
            prop_assert!((secs(1)..=secs(30)).contains(&pause));
        }
    }
}
