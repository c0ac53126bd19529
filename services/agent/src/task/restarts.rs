//! Whether a task is started again after it ended (A-11). Pure; the events and the waiting are the runner's.

use model::job::{JobType, Lifecycle, LifecycleHook, RestartMode, RestartPolicy};
use model::{Nanos, Timestamp};

/// By how much of itself a wait may be longer, so that tasks do not all start at once (A-11.2).
const JITTER: f64 = 0.25;

/// Counts a task's ends in a window of time, which begins anew with the agent (A-11.6).
#[derive(Debug, Clone)]
pub(crate) struct Restarts {
    policy: RestartPolicy,
    on_success: bool,
    window_start: Timestamp,
    count: u32,
}

/// How a run of the task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It could not be started, and whether trying again may help.
    NotStarted { recoverable: bool },
    /// It ran, and whether it ended well.
    Exited { successful: bool },
}

/// What follows from a run's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is over, and that is all right.
    Done,
    /// It is over, and the task failed.
    Failed { reason: String },
    /// It is started again.
    Restart { reason: &'static str, delay: Nanos },
}

impl Restarts {
    /// A task's, by its policy, or its group's where it has none.
    pub(crate) fn new(policy: RestartPolicy, job: JobType, lifecycle: Option<Lifecycle>) -> Self {
        let on_success = match lifecycle {
            Some(Lifecycle { hook: LifecycleHook::Poststop, .. }) => false,
            Some(Lifecycle { hook: LifecycleHook::Prestart | LifecycleHook::Poststart, sidecar }) => sidecar,
            None => matches!(job, JobType::Service | JobType::System),
        };
        Self { policy, on_success, window_start: Timestamp::UNSET, count: 0 }
    }

    /// Takes another policy; what was counted stays.
    pub(crate) fn set_policy(&mut self, policy: RestartPolicy) {
        self.policy = policy;
    }

    /// Decides after a run's end (A-11.2); `chance` is in 0 to 1.
    pub(crate) fn decide(&mut self, ended: &Ended, now: Timestamp, chance: f64) -> Decision {
        let successful = *ended == (Ended::Exited { successful: true });
        let enough = successful && !self.on_success;
        if self.policy.attempts == 0 {
            return if enough { Decision::Done } else { failed("Policy allows no restarts") };
        }
        if now > self.window_start + self.policy.interval {
            self.window_start = now;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        if *ended == (Ended::NotStarted { recoverable: false }) {
            return failed("Error was unrecoverable");
        }
        if enough {
            return Decision::Done;
        }
        if self.count <= self.policy.attempts {
            let jitter = self.policy.delay.0 as f64 * JITTER * chance;
            let delay = self.policy.delay + Nanos(jitter as i64);
            return Decision::Restart { reason: "Restart within policy", delay };
        }
        match self.policy.mode {
            Some(RestartMode::Delay) => Decision::Restart {
                reason: "Exceeded allowed attempts, applying a delay",
                delay: self.window_start + self.policy.interval - now,
            },
            Some(RestartMode::Fail) | None => {
                let RestartPolicy { attempts, interval, .. } = &self.policy;
                failed(format!(
                    r#"Exceeded allowed attempts {attempts} in interval {interval} and mode is "fail""#
                ))
            }
        }
    }
}

fn failed(reason: impl Into<String>) -> Decision {
    Decision::Failed { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESS: Ended = Ended::Exited { successful: true };
    const FAILURE: Ended = Ended::Exited { successful: false };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    fn policy(attempts: u32, mode: RestartMode) -> RestartPolicy {
        RestartPolicy {
            attempts,
            interval: Nanos::from_mins(30),
            delay: Nanos::from_secs(15),
            mode: Some(mode),
            render_templates: false,
        }
    }

    fn restarts(attempts: u32, mode: RestartMode, job: JobType) -> Restarts {
        Restarts::new(policy(attempts, mode), job, None)
    }

    fn again(secs: i64) -> Decision {
        Decision::Restart { reason: "Restart within policy", delay: Nanos::from_secs(secs) }
    }

    #[test]
    fn failures_are_restarted_until_the_attempts_are_used_up() {
        let mut restarts = restarts(2, RestartMode::Fail, JobType::Service);
        assert_eq!(restarts.decide(&FAILURE, at(0), 0.0), again(15));
        let Decision::Restart { delay, .. } = restarts.decide(&FAILURE, at(20), 1.0) else {
            panic!("the second failure is within the policy");
        };
        assert_eq!(delay.to_string(), "18.75s");
        assert_eq!(
            restarts.decide(&FAILURE, at(40), 0.0),
            failed(r#"Exceeded allowed attempts 2 in interval 30m0s and mode is "fail""#)
        );
        assert_eq!(restarts.decide(&FAILURE, at(1_801), 0.0), again(15), "a new window begins");
    }

    #[test]
    fn in_mode_delay_the_task_waits_for_the_next_window() {
        let mut restarts = restarts(1, RestartMode::Delay, JobType::Batch);
        assert_eq!(restarts.decide(&FAILURE, at(0), 0.0), again(15));
        assert_eq!(
            restarts.decide(&FAILURE, at(100), 0.0),
            Decision::Restart {
                reason: "Exceeded allowed attempts, applying a delay",
                delay: Nanos::from_secs(1_700)
            }
        );
    }

    #[test]
    fn success_ends_batch_tasks_and_restarts_service_tasks() {
        let mut batch = restarts(3, RestartMode::Fail, JobType::Batch);
        assert_eq!(batch.decide(&SUCCESS, at(0), 0.0), Decision::Done);
        let mut service = restarts(3, RestartMode::Fail, JobType::Service);
        assert_eq!(service.decide(&SUCCESS, at(0), 0.0), again(15));
    }

    #[test]
    fn without_restarts_a_service_task_fails_even_by_success() {
        let mut service = restarts(0, RestartMode::Fail, JobType::Service);
        assert_eq!(service.decide(&SUCCESS, at(0), 0.0), failed("Policy allows no restarts"));
        let mut batch = restarts(0, RestartMode::Fail, JobType::SysBatch);
        assert_eq!(batch.decide(&SUCCESS, at(0), 0.0), Decision::Done);
        assert_eq!(batch.decide(&FAILURE, at(0), 0.0), failed("Policy allows no restarts"));
    }

    #[test]
    fn tasks_of_a_hook_restart_on_success_only_as_sidecars() {
        use LifecycleHook::{Poststart, Poststop, Prestart};
        for (hook, sidecar, expected) in [
            (Prestart, false, Decision::Done),
            (Prestart, true, again(15)),
            (Poststart, true, again(15)),
            (Poststop, true, Decision::Done),
        ] {
            let lifecycle = Some(Lifecycle { hook, sidecar });
            let mut restarts = Restarts::new(policy(3, RestartMode::Fail), JobType::Service, lifecycle);
            assert_eq!(restarts.decide(&SUCCESS, at(0), 0.0), expected, "{hook} {sidecar}");
        }
    }

    #[test]
    fn what_cannot_help_is_not_tried_again() {
        let mut restarts = restarts(3, RestartMode::Delay, JobType::Service);
        let for_good = Ended::NotStarted { recoverable: false };
        assert_eq!(restarts.decide(&for_good, at(0), 0.0), failed("Error was unrecoverable"));
        let transient = Ended::NotStarted { recoverable: true };
        assert_eq!(restarts.decide(&transient, at(1), 0.0), again(15));
    }
}
