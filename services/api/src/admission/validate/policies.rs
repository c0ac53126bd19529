//! Validation of the restart, reschedule, update, migrate and disconnect blocks (N-19.5 to N-19.9).

use api_types::{DisconnectStrategy, MigrateStrategy, ReschedulePolicy, RestartPolicy, UpdateStrategy};
use model::Nanos;
use model::job::{HealthCheck, JobType, Reconcile, RestartMode};
use model::text::quoted;

use crate::admission::fields::{flag, number, text};
use crate::admission::problems::Problems;

/// Minimum interval in which restarts are counted.
const RESTART_INTERVAL_MIN: Nanos = Nanos::from_secs(5);
/// Minimum delay before a reschedule, and minimum of `max_delay`.
const RESCHEDULE_DELAY_MIN: Nanos = Nanos::from_secs(5);

/// Minimum interval in which reschedules are counted.
const RESCHEDULE_INTERVAL_MIN: Nanos = Nanos::from_secs(15);

/// Checks a restart policy (N-19.5).
pub(crate) fn restart(policy: &RestartPolicy) -> Problems {
    let mut problems = Problems::default();
    let mode = text(&policy.mode);
    let (attempts, interval, delay) =
        (number(policy.attempts), Nanos(number(policy.interval)), Nanos(number(policy.delay)));
    match mode.parse::<RestartMode>() {
        Ok(RestartMode::Fail) => {}
        Ok(RestartMode::Delay) => problems.add_if(attempts == 0, || {
            format!("Restart policy {} with {attempts} attempts is ambiguous", quoted(mode))
        }),
        Err(_) => problems.add(format!("Unsupported restart mode: {}", quoted(mode))),
    }
    problems.add_if(attempts < 0, || format!("Restart attempts can not be less than zero: {attempts} < 0"));
    problems.add_if(delay < Nanos::ZERO, || format!("Restart delay can not be less than zero: {delay}"));
    problems.add_if(interval < RESTART_INTERVAL_MIN, || {
        format!("Interval can not be less than {RESTART_INTERVAL_MIN} (got {interval})")
    });
    problems.add_if(attempts.saturating_mul(delay.0) > interval.0, || {
        format!(
            "Nomad can't restart the TaskGroup {attempts} times in an interval of {interval} with a delay of {delay}"
        )
    });
    problems
}

/// Checks a reschedule policy (N-19.6). A policy without attempts is disabled.
pub(crate) fn reschedule(policy: &ReschedulePolicy) -> Problems {
    let mut problems = Problems::default();
    let unlimited = flag(policy.unlimited);
    let attempts = number(policy.attempts);
    if !unlimited && attempts <= 0 {
        return problems;
    }
    let (interval, delay, max_delay) =
        (Nanos(number(policy.interval)), Nanos(number(policy.delay)), Nanos(number(policy.max_delay)));
    if attempts > 0 {
        problems.add_if(interval <= Nanos::ZERO, || "Interval must be a non zero value if Attempts > 0");
        problems.add_if(interval > Nanos::ZERO && interval < RESCHEDULE_INTERVAL_MIN, || {
            format!("Interval cannot be less than {RESCHEDULE_INTERVAL_MIN} (got {interval})")
        });
        problems.add_if(unlimited, || {
            format!(
                "Reschedule Policy with Attempts = {attempts}, Interval = {interval}, and Unlimited = true is ambiguous"
            )
        });
        problems.add_if(unlimited, || "If Attempts >0, Unlimited cannot also be set to true");
    }
    let mut of_delays = delays(policy, delay, max_delay);
    if !unlimited && of_delays.is_empty() {
        let (function, fit) = (text(&policy.delay_function), Fit::of(policy, attempts, interval));
        of_delays.add_if(fit.attempts < attempts, || {
            format!(
                "Nomad can only make {} attempts in {interval} with initial delay {delay}, delay function {}, and \
                 delay ceiling {max_delay}",
                fit.attempts,
                quoted(function)
            )
        });
        of_delays.add_if(fit.attempts < attempts, || {
            format!("Set the interval to at least {} to accommodate {attempts} attempts", fit.needed)
        });
    }
    problems.append(of_delays);
    problems
}

/// Checks the delays of a reschedule policy.
fn delays(policy: &ReschedulePolicy, delay: Nanos, max_delay: Nanos) -> Problems {
    let mut problems = Problems::default();
    problems.add_if(delay < RESCHEDULE_DELAY_MIN, || {
        format!("Delay cannot be less than {RESCHEDULE_DELAY_MIN} (got {delay})")
    });
    let function = text(&policy.delay_function);
    let grows = match function {
        "constant" => false,
        "exponential" | "fibonacci" => true,
        _ => {
            problems.add(format!(
                "Invalid delay function {}, must be one of [\"constant\" \"exponential\" \"fibonacci\"]",
                quoted(function)
            ));
            false
        }
    };
    if grows {
        // The text has the delay, not its maximum (http-api, appendix E).
        problems.add_if(max_delay < RESCHEDULE_DELAY_MIN, || {
            format!("Max Delay cannot be less than {RESCHEDULE_DELAY_MIN} (got {delay})")
        });
        problems.add_if(max_delay < delay, || {
            format!("Max Delay cannot be less than Delay {delay} (got {max_delay})")
        });
    }
    problems
}

/// How many of the wanted attempts of a reschedule policy fit in its interval, and the interval that holds all of them.
struct Fit {
    attempts: i64,
    needed: Nanos,
}

impl Fit {
    fn of(policy: &ReschedulePolicy, wanted: i64, interval: Nanos) -> Self {
        let function = text(&policy.delay_function);
        let (delay, max_delay) = (Nanos(number(policy.delay)), Nanos(number(policy.max_delay)));
        let (mut attempts, mut sum, mut wait, mut previous) = (0, Nanos::ZERO, delay, Nanos::ZERO);
        for attempt in 0..wanted {
            if function == "constant" || wait == max_delay {
                // From here on the delays are all equal.
                let left = wanted - attempt;
                let in_interval = ((interval.0 - sum.0).max(0) / wait.0.max(1)).min(left);
                let needed = Nanos(sum.0.saturating_add(wait.0.saturating_mul(left)));
                return Self { attempts: attempts + in_interval, needed };
            }
            sum = Nanos(sum.0.saturating_add(wait.0));
            attempts += i64::from(sum <= interval);
            let next = match function {
                "exponential" => wait.0.saturating_mul(2),
                _ => wait.0.saturating_add(previous.0),
            };
            previous = wait;
            wait = Nanos(next).min(max_delay);
        }
        Self { attempts, needed: sum }
    }
}

/// Checks an update strategy (N-19.7), also one that is off because `max_parallel` is 0.
pub(crate) fn update(update: &UpdateStrategy) -> Problems {
    let mut problems = Problems::default();
    let (max_parallel, canary) = (number(update.max_parallel), number(update.canary));
    let [healthy_for, healthy_by, progress_by, stagger] =
        [update.min_healthy_time, update.healthy_deadline, update.progress_deadline, update.stagger]
            .map(|length| Nanos(number(length)));
    let check = text(&update.health_check);
    problems.add_if(check.parse::<HealthCheck>().is_err(), || {
        format!("Invalid health check given: {}", quoted(check))
    });
    problems
        .add_if(max_parallel < 0, || format!("Max parallel can not be less than zero: {max_parallel} < 0"));
    problems.add_if(canary < 0, || format!("Canary count can not be less than zero: {canary} < 0"));
    problems.add_if(
        canary == 0 && flag(update.auto_promote),
        || "Auto Promote requires a Canary count greater than zero",
    );
    problems.add_if(healthy_for < Nanos::ZERO, || {
        format!("Minimum healthy time may not be less than zero: {healthy_for}")
    });
    problems.add_if(healthy_by <= Nanos::ZERO, || {
        format!("Healthy deadline must be greater than zero: {healthy_by}")
    });
    problems.add_if(progress_by < Nanos::ZERO, || {
        format!("Progress deadline must be zero or greater: {progress_by}")
    });
    problems.add_if(healthy_for >= healthy_by && healthy_by > Nanos::ZERO, || {
        format!("Minimum healthy time must be less than healthy deadline: {healthy_for} > {healthy_by}")
    });
    problems.add_if(progress_by > Nanos::ZERO && healthy_by >= progress_by, || {
        format!("Healthy deadline must be less than progress deadline: {healthy_by} > {progress_by}")
    });
    problems.add_if(stagger <= Nanos::ZERO, || format!("Stagger must be greater than zero: {stagger}"));
    problems
}

/// Checks a migrate strategy (N-19.8).
pub(crate) fn migrate(migrate: &MigrateStrategy) -> Problems {
    let mut problems = Problems::default();
    let max_parallel = number(migrate.max_parallel);
    let (healthy_for, healthy_by) =
        (Nanos(number(migrate.min_healthy_time)), Nanos(number(migrate.healthy_deadline)));
    problems.add_if(max_parallel < 0, || format!("MaxParallel must be >= 0 but found {max_parallel}"));
    let check = text(&migrate.health_check);
    problems.add_if(!matches!(check, "checks" | "task_states"), || {
        format!("Invalid HealthCheck: {}", quoted(check))
    });
    problems
        .add_if(healthy_for < Nanos::ZERO, || format!("MinHealthyTime is {healthy_for} and must be >= 0"));
    problems.add_if(healthy_by < Nanos::ZERO, || format!("HealthyDeadline is {healthy_by} and must be >= 0"));
    problems.add_if(
        healthy_for >= healthy_by && healthy_by >= Nanos::ZERO,
        || "MinHealthyTime must be less than HealthyDeadline",
    );
    problems
}

/// Checks a disconnect strategy (N-19.9).
pub(crate) fn disconnect(disconnect: &DisconnectStrategy, kind: Option<JobType>) -> Problems {
    let mut problems = Problems::default();
    let lost_after = number(disconnect.lost_after);
    if let Some(stop_after) = disconnect.stop_on_client_after {
        problems
            .add_if(lost_after > 0, || "Disconnect cannot be configured with both lost_after and stop_after");
        problems.add_if(stop_after < 0, || "stop_after cannot be a negative duration");
        problems.add_if(
            !matches!(kind, Some(JobType::Service | JobType::Batch) | None),
            || "stop_after can only be used with service or batch job types",
        );
    }
    problems.add_if(lost_after < 0, || "lost_after cannot be a negative duration");
    let reconcile = text(&disconnect.reconcile);
    problems.add_if(!reconcile.is_empty() && reconcile.parse::<Reconcile>().is_err(), || {
        format!("reconcile option is invalid: {reconcile}")
    });
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn limited(function: &str, attempts: i64, interval: i64) -> ReschedulePolicy {
        ReschedulePolicy {
            attempts: Some(attempts),
            interval: Some(interval * S),
            delay: Some(5 * S),
            delay_function: Some(function.to_owned()),
            max_delay: Some(20 * S),
            unlimited: Some(false),
        }
    }

    #[test]
    fn attempts_must_fit_in_their_interval() {
        // 5 + 10 + 20 + 20 seconds.
        assert!(reschedule(&limited("exponential", 4, 55)).is_empty());
        assert_eq!(
            reschedule(&limited("exponential", 4, 54)).into_vec(),
            [
                "Nomad can only make 3 attempts in 54s with initial delay 5s, delay function \"exponential\", and delay \
                 ceiling 20s",
                "Set the interval to at least 55s to accommodate 4 attempts",
            ]
        );
        // 5 + 5 + 10 + 15 seconds.
        assert!(reschedule(&limited("fibonacci", 4, 35)).is_empty());
        assert!(!reschedule(&limited("fibonacci", 4, 34)).is_empty());
        assert!(reschedule(&limited("constant", 3, 15)).is_empty());
        assert_eq!(
            reschedule(&limited("constant", 4, 15)).into_vec()[1],
            "Set the interval to at least 20s to accommodate 4 attempts"
        );
        assert!(reschedule(&limited("constant", -4, 15)).is_empty(), "negative attempts are none");
    }

    #[test]
    fn a_number_of_attempts_beyond_reason_takes_no_time() {
        assert!(!reschedule(&limited("exponential", i64::MAX, 3_600)).is_empty());
        assert!(!reschedule(&limited("constant", i64::MAX, 3_600)).is_empty());
    }

    #[test]
    fn a_policy_without_attempts_is_off() {
        assert!(reschedule(&ReschedulePolicy::default()).is_empty());
    }

    #[test]
    fn attempts_and_unlimited_exclude_each_other() {
        let both = ReschedulePolicy { unlimited: Some(true), ..limited("constant", 1, 60) };
        assert_eq!(
            reschedule(&both).into_vec(),
            [
                "Reschedule Policy with Attempts = 1, Interval = 1m0s, and Unlimited = true is ambiguous",
                "If Attempts >0, Unlimited cannot also be set to true",
            ]
        );
    }

    #[test]
    fn restarts_are_counted_in_a_window_that_holds_them() {
        let policy = |attempts, interval: i64, delay: i64, mode: &str| RestartPolicy {
            attempts: Some(attempts),
            interval: Some(interval * S),
            delay: Some(delay * S),
            mode: Some(mode.to_owned()),
            render_templates: None,
        };
        assert!(restart(&policy(2, 30, 15, "fail")).is_empty());
        assert_eq!(
            restart(&policy(0, 30, 15, "delay")).into_vec(),
            ["Restart policy \"delay\" with 0 attempts is ambiguous"]
        );
        assert_eq!(
            restart(&policy(3, 30, 15, "fail")).into_vec(),
            ["Nomad can't restart the TaskGroup 3 times in an interval of 30s with a delay of 15s"]
        );
        assert!(!restart(&policy(i64::MAX, 30, 15, "fail")).is_empty());
    }

    #[test]
    fn disconnected_allocations_are_lost_or_stopped_but_not_both() {
        let both = DisconnectStrategy {
            lost_after: Some(S),
            stop_on_client_after: Some(S),
            reconcile: Some("best".to_owned()),
            replace: None,
        };
        assert_eq!(
            disconnect(&both, Some(JobType::System)).into_vec(),
            [
                "Disconnect cannot be configured with both lost_after and stop_after",
                "stop_after can only be used with service or batch job types",
                "reconcile option is invalid: best",
            ]
        );
    }
}
