//! Decides whether a task is restarted after it has ended (A-11). Pure; the runner adds the events and waits for the delay.

use model::job::{JobType, Lifecycle, LifecycleHook, RestartMode, RestartPolicy};
use model::{Nanos, Timestamp};

/// The maximum random addition to a delay, as a fraction of it, so that tasks do not all restart at once (A-11.2).
const JITTER: f64 = 0.25;

/// Counts the ends of a task within an interval. The count is lost when the agent restarts (A-11.6).
#[derive(Debug, Clone)]
pub(crate) struct Restarts {
    policy: RestartPolicy,
    on_success: bool,
    window_start: Timestamp,
    count: u32,
}

/// The result of one run of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunResult {
    /// The task could not be started; `recoverable` tells whether a retry may help.
    NotStarted { recoverable: bool },
    /// The task ran and exited.
    Exited { successful: bool },
}

/// The decision after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The task has ended without failure.
    Done,
    /// The task has failed.
    Failed { reason: String },
    /// The task is restarted after a delay.
    Restart { reason: &'static str, delay: Nanos },
}

impl Restarts {
    /// Creates the counter for a task with its own restart policy or its group's.
    pub(crate) fn new(policy: RestartPolicy, job: JobType, lifecycle: Option<Lifecycle>) -> Self {
        let on_success = match lifecycle {
            Some(Lifecycle { hook: LifecycleHook::Poststop, .. }) => false,
            Some(Lifecycle { hook: LifecycleHook::Prestart | LifecycleHook::Poststart, sidecar }) => sidecar,
            None => matches!(job, JobType::Service | JobType::System),
        };
        Self { policy, on_success, window_start: Timestamp::UNSET, count: 0 }
    }

    /// Replaces the policy. The count is kept.
    pub(crate) fn set_policy(&mut self, policy: RestartPolicy) {
        self.policy = policy;
    }

    /// Decides after a run (A-11.2). `chance` is a random number between 0 and 1.
    pub(crate) fn decide(&mut self, result: &RunResult, now: Timestamp, chance: f64) -> Decision {
        let successful = *result == (RunResult::Exited { successful: true });
        let is_done = successful && !self.on_success;
        if self.policy.attempts == 0 {
            return if is_done { Decision::Done } else { failed("Policy allows no restarts") };
        }
        if now > self.window_start + self.policy.interval {
            self.window_start = now;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        if *result == (RunResult::NotStarted { recoverable: false }) {
            return failed("Error was unrecoverable");
        }
        if is_done {
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

    const SUCCESS: RunResult = RunResult::Exited { successful: true };
    const FAILURE: RunResult = RunResult::Exited { successful: false };

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
        assert_eq!(restarts.decide(&FAILURE, at(1_801), 0.0), again(15), "a new interval begins");
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
    fn unrecoverable_failures_are_not_retried() {
        let mut restarts = restarts(3, RestartMode::Delay, JobType::Service);
        let unrecoverable = RunResult::NotStarted { recoverable: false };
        assert_eq!(restarts.decide(&unrecoverable, at(0), 0.0), failed("Error was unrecoverable"));
        let transient = RunResult::NotStarted { recoverable: true };
        assert_eq!(restarts.decide(&transient, at(1), 0.0), again(15));
    }
}
