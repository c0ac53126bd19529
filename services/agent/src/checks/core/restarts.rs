//! Decides when a check that does not pass restarts its task. Pure.

use model::{Nanos, Timestamp};

use crate::checks::check::RestartRule;

/// Watches one check since a start of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RestartWatch {
    grace_until: Timestamp,
    /// How long the check may be unhealthy.
    patience: Nanos,
    unhealthy_since: Option<Timestamp>,
}

impl RestartWatch {
    /// Begins to watch.
    pub(super) fn begin(rule: RestartRule, interval: Nanos, now: Timestamp) -> Self {
        let intervals = i64::from(rule.limit.saturating_sub(1));
        Self {
            grace_until: now + rule.grace,
            patience: Nanos(interval.0.saturating_mul(intervals)),
            unhealthy_since: None,
        }
    }

    /// Records whether the check passes now. A check that has not run yet does not pass.
    pub(super) fn observe(&mut self, passes: bool, now: Timestamp) {
        self.unhealthy_since = match passes {
            true => None,
            false => Some(self.unhealthy_since.unwrap_or(now.max(self.grace_until))),
        };
    }

    /// When the task has to be restarted, if the check does not pass before.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.unhealthy_since.map(|since| since + self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000 + secs)
    }

    fn watch(limit: u32) -> RestartWatch {
        let rule = RestartRule { limit, grace: Nanos::from_secs(5) };
        RestartWatch::begin(rule, Nanos::from_secs(10), at(0))
    }

    //
    #[test]
    fn a_restart_is_due_one_interval_less_than_the_limit_after_the_first_failure() {
        for (limit, expected) in [(1, 20), (2, 30), (4, 50)] {
            let mut watch = watch(limit);
            assert_eq!(watch.due(), None);
            watch.observe(false, at(20));
            watch.observe(false, at(25));
            assert_eq!(watch.due(), Some(at(expected)), "{limit}");
        }
    }

    //
    #[test]
    fn failures_in_the_grace_period_count_from_its_end() {
        let mut watch = watch(2);
        watch.observe(false, at(1));
        assert_eq!(watch.due(), Some(at(15)));
    }

    //
    #[test]
    fn a_success_begins_again() {
        let mut watch = watch(2);
        watch.observe(false, at(20));
        watch.observe(true, at(29));
        assert_eq!(watch.due(), None);
        watch.observe(false, at(39));
        assert_eq!(watch.due(), Some(at(49)));
    }

    #[test]
    fn huge_limits_do_not_overflow() {
        let rule = RestartRule { limit: u32::MAX, grace: Nanos(i64::MAX) };
        let mut watch = RestartWatch::begin(rule, Nanos(i64::MAX), at(0));
        watch.observe(false, at(1));
        assert_eq!(watch.due(), Some(Timestamp(i64::MAX)));
    }
}
