//! When an agent gives its next sign of life. Pure: `chance` is in 0 to 1.
//!
//! Departs from where nobody answers: services take over from one another within a second, and NATS turns
//! away what nobody serves, so an agent that was not heard yet, or finds nobody, tries again after one to two seconds
//! instead of fifteen to thirty.

use std::time::{Duration, Instant};

/// The usual pause before trying again: one to two seconds.
const SOON: Duration = Duration::from_secs(1);
/// Pauses after a refusal: once to twice as long.
const REFUSED: Duration = Duration::from_secs(15);
/// Up to so long after it was due, a heartbeat is tried again soon.
const OVERDUE_SOON: Duration = Duration::from_secs(30);
/// The longest pauses before a heartbeat is tried again are between these.
const LONGEST: (Duration, Duration) = (Duration::from_secs(25), Duration::from_secs(30));

/// The last sign of life that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    /// When.
    pub(crate) at: Instant,
    /// When the next was due after it.
    pub(crate) ttl: Duration,
}

/// The pause before registering again.
pub(crate) fn register_again_after(refused: bool, chance: f64) -> Duration {
    let base = if refused { REFUSED } else { SOON };
    base.mul_f64(1.0 + chance)
}

/// The pause before a heartbeat that had no answer is tried again.
pub(crate) fn heartbeat_again_after(last: Option<Heard>, now: Instant, chance: f64) -> Duration {
    let soon = SOON.mul_f64(1.0 + chance);
    let Some(Heard { at, ttl }) = last else { return soon };
    let due = at + ttl;
    let overdue = now.saturating_duration_since(due);
    let left = if overdue > Duration::ZERO { overdue } else { due.saturating_duration_since(now) };
    if overdue > Duration::ZERO && overdue <= OVERDUE_SOON {
        return soon;
    }
    let drawn = left.mul_f64(chance);
    if drawn < SOON {
        soon
    } else if drawn > LONGEST.1 {
        LONGEST.0 + (LONGEST.1 - LONGEST.0).mul_f64(chance)
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
    fn what_was_refused_waits_longer_than_what_nobody_answered() {
        assert_eq!(register_again_after(true, 0.0), secs(15));
        assert_eq!(register_again_after(true, 1.0), secs(30));
        assert_eq!(register_again_after(false, 0.5), Duration::from_millis(1_500));
    }

    #[test]
    fn a_missed_heartbeat_is_tried_again_while_it_still_counts() {
        let at = telemetry::clock::monotonic();
        let last = Some(Heard { at, ttl: secs(20) });
        assert_eq!(heartbeat_again_after(None, at, 0.0), secs(1));
        assert_eq!(heartbeat_again_after(last, at, 0.5), secs(10), "spread over what is left");
        assert_eq!(heartbeat_again_after(last, at + secs(45), 0.5), Duration::from_millis(1_500));
        assert_eq!(heartbeat_again_after(last, at + secs(70), 0.5), secs(25), "less and less often");
        assert_eq!(heartbeat_again_after(last, at + secs(4_000), 0.5), Duration::from_millis(27_500));
    }

    proptest! {
        #[test]
        fn a_pause_is_never_short_and_never_long(
            ttl in 0u64..100, passed in 0u64..10_000, chance in 0.0f64..1.0,
        ) {
            let at = telemetry::clock::monotonic();
            let last = Heard { at, ttl: secs(ttl) };
            let pause = heartbeat_again_after(Some(last), at + secs(passed), chance);
            prop_assert!((secs(1)..=secs(30)).contains(&pause));
        }
    }
}
