//! Decides whether an allocation is healthy, for its deployment or a drain, from the states of its tasks and the
//! results of its checks. Pure.

use model::alloc::{TaskRunState, TaskState};
use model::job::{HealthCheck, JobType};
use model::{Nanos, Text, Timestamp};

use super::checks;
use super::class::Class;
use super::status::{Member, Tasks};
use crate::checks::core::CheckHealth;
use crate::work::spec::AllocSpec;

/// The parameters for groups without a `migrate` block (N-18).
const DEFAULT_MIN_HEALTHY_TIME: Nanos = Nanos::from_secs(10);
const DEFAULT_HEALTHY_DEADLINE: Nanos = Nanos::from_mins(5);

/// The conditions for a health verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// How long all tasks must run to be healthy.
    min_healthy_time: Nanos,
    /// The time after which an allocation that is not healthy is unhealthy.
    deadline: Nanos,
    /// The number of checks that must pass, too; 0 if only the tasks count.
    checks: usize,
    /// Whether the verdict is for a deployment, which also needs the reasons.
    for_deployment: bool,
}

impl Rule {
    /// The rule for an allocation, or `None` if no verdict is needed.
    pub(crate) fn of(spec: &AllocSpec) -> Option<Self> {
        if !matches!(spec.job.spec.kind, JobType::Service | JobType::System) || !spec.should_run() {
            return None;
        }
        let group = spec.group()?;
        if spec.common.deployment_id.is_some() {
            let update = group.update.as_ref().filter(|update| update.max_parallel > 0)?;
            let manual = update.health_check == Some(HealthCheck::Manual);
            return (!manual).then(|| Self {
                min_healthy_time: update.min_healthy_time,
                deadline: update.healthy_deadline,
                checks: required_checks(spec, update.health_check),
                for_deployment: true,
            });
        }
        let migrate = group.migrate.as_ref();
        Some(Self {
            min_healthy_time: migrate.map_or(DEFAULT_MIN_HEALTHY_TIME, |migrate| migrate.min_healthy_time),
            deadline: migrate.map_or(DEFAULT_HEALTHY_DEADLINE, |migrate| migrate.healthy_deadline),
            checks: required_checks(spec, migrate.and_then(|migrate| migrate.health_check)),
            for_deployment: false,
        })
    }

    /// The reason why an allocation is unhealthy, for each task that counts. Empty without a deployment.
    pub(crate) fn explain(&self, tasks: &Tasks, checks: &CheckHealth, now: Timestamp) -> Vec<(Text, String)> {
        if !self.for_deployment {
            return Vec::new();
        }
        let explained = tasks.iter().filter(|(_, task)| affects_health(task));
        explained
            .map(|(name, task)| (Text::clone(name), self.explain_task(&task.state, checks, now)))
            .collect()
    }

    fn explain_task(&self, task: &TaskState, checks: &CheckHealth, now: Timestamp) -> String {
        let Self { min_healthy_time, deadline, .. } = self;
        let has_run = self.checks > 0 && task.started_at + *min_healthy_time <= now;
        match task.state {
            _ if task.failed => "Unhealthy because of failed task".into(),
            TaskRunState::Pending => format!("Task not running by healthy_deadline of {deadline}"),
            TaskRunState::Dead => "Unhealthy because of dead task".into(),
            TaskRunState::Running if has_run => self.explain_checks(checks),
            TaskRunState::Running => format!(
                "Task not running for min_healthy_time of {min_healthy_time} by healthy_deadline of {deadline}"
            ),
        }
    }

    fn explain_checks(&self, checks: &CheckHealth) -> String {
        if checks.registered == 0 {
            return "Service checks not registered".into();
        }
        if checks.unhealthy.is_empty() {
            let (passing, required) = (checks.passing, self.checks);
            return format!("Only {passing} out of {required} checks registered and passing");
        }
        let names: Vec<&str> = checks.unhealthy.iter().map(|name| &**name).collect();
        format!("Services not healthy by deadline: {}", names.join(", "))
    }
}

/// The number of checks that count, in the way that a job asks for; nothing asks for `checks` (N-18).
fn required_checks(spec: &AllocSpec, asked: Option<HealthCheck>) -> usize {
    match asked {
        None | Some(HealthCheck::Checks) => checks::count(spec),
        Some(HealthCheck::TaskStates | HealthCheck::Manual) => 0,
    }
}

/// Waits for the verdict on one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthWatch {
    rule: Rule,
    deadline: Timestamp,
    healthy_at: Option<Timestamp>,
}

impl HealthWatch {
    /// Starts a watch.
    pub(crate) fn begin(rule: Rule, now: Timestamp) -> Self {
        Self { rule, deadline: now + rule.deadline, healthy_at: None }
    }

    /// The conditions of the verdict.
    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    /// When the verdict may change although no task has changed.
    pub(crate) fn poll_timeout(&self) -> Timestamp {
        self.healthy_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Looks at the tasks and the checks, and returns the verdict, once there is one. All tasks must run, and all
    /// checks must pass, for the minimum healthy time without interruption.
    pub(crate) fn check(&mut self, tasks: &Tasks, checks: &CheckHealth, now: Timestamp) -> Option<bool> {
        let since = match start_state(tasks) {
            StartState::Failed => return Some(false),
            StartState::NotYet => None,
            StartState::At(latest) if self.rule.checks == 0 => Some(latest),
            StartState::At(latest) => {
                checks.all_passing_since(self.rule.checks).map(|passing| passing.max(latest))
            }
        };
        self.healthy_at = since.map(|since| since + self.rule.min_healthy_time);
        match self.healthy_at {
            Some(at) if at <= now && at <= self.deadline => Some(true),
            Some(_) | None => (self.deadline <= now).then_some(false),
        }
    }
}

enum StartState {
    Failed,
    NotYet,
    At(Timestamp),
}

fn start_state(tasks: &Tasks) -> StartState {
    let mut latest = Timestamp::UNSET;
    let mut all = true;
    for task in tasks.values().filter(|task| affects_health(task)) {
        let state = &task.state;
        let may_be_dead = task.class == Class::Prestart;
        match state.state {
            TaskRunState::Dead if state.failed || !may_be_dead => return StartState::Failed,
            _ if state.failed => return StartState::Failed,
            TaskRunState::Pending => all = false,
            TaskRunState::Running | TaskRunState::Dead => latest = latest.max(state.started_at),
        }
    }
    if all { StartState::At(latest) } else { StartState::NotYet }
}

/// Whether a task counts for health: poststop tasks and successful poststart tasks do not.
fn affects_health(task: &Member) -> bool {
    match task.class {
        Class::Poststop => false,
        Class::Poststart => !task.state.successful(),
        Class::Prestart | Class::PrestartSidecar | Class::Main | Class::PoststartSidecar => true,
    }
}

#[cfg(test)]
mod tests;
