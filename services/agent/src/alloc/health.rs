//! Whether an allocation is healthy, for its deployment or its drain, by how its tasks fare. Pure.
//!
//! Service checks are not built: tasks with services do not start, so there is none to wait for.

use model::alloc::{TaskRunState, TaskState};
use model::job::{HealthCheck, JobType};
use model::{Nanos, Text, Timestamp};

use super::class::Class;
use super::spec::AllocSpec;
use super::status::{Member, Tasks};

/// What makes an allocation healthy where its group does not say (`migrate`, N-18).
const DEFAULT_MIN_HEALTHY_TIME: Nanos = Nanos::from_secs(10);
const DEFAULT_HEALTHY_DEADLINE: Nanos = Nanos::from_mins(5);

/// What makes an allocation healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// How long its tasks must run.
    min_healthy_time: Nanos,
    /// After how long without that it is unhealthy.
    deadline: Nanos,
    /// Whether a deployment asks, and is told why if it is not.
    of_deployment: bool,
}

impl Rule {
    /// The rule for an allocation; `None` if nobody asks for a verdict.
    pub(crate) fn of(spec: &AllocSpec) -> Option<Self> {
        if !matches!(spec.job.spec.kind, JobType::Service | JobType::System) || !spec.should_run() {
            return None;
        }
        let group = spec.group()?;
        if spec.common.deployment_id.is_some() {
            let update = group.update.as_ref().filter(|update| update.max_parallel > 0)?;
            let manual = update.health_check == Some(HealthCheck::Manual);
            return (!manual).then_some(Self {
                min_healthy_time: update.min_healthy_time,
                deadline: update.healthy_deadline,
                of_deployment: true,
            });
        }
        let migrate = group.migrate.as_ref();
        Some(Self {
            min_healthy_time: migrate.map_or(DEFAULT_MIN_HEALTHY_TIME, |migrate| migrate.min_healthy_time),
            deadline: migrate.map_or(DEFAULT_HEALTHY_DEADLINE, |migrate| migrate.healthy_deadline),
            of_deployment: false,
        })
    }

    /// Why an allocation is unhealthy, for each task that has to do with it; only deployments are told.
    pub(crate) fn explain(&self, tasks: &Tasks) -> Vec<(Text, String)> {
        if !self.of_deployment {
            return Vec::new();
        }
        let explained = tasks.iter().filter(|(_, task)| counts(task));
        explained.map(|(name, task)| (Text::clone(name), self.explain_task(&task.state))).collect()
    }

    fn explain_task(&self, task: &TaskState) -> String {
        let Self { min_healthy_time, deadline, .. } = self;
        match task.state {
            _ if task.failed => "Unhealthy because of failed task".into(),
            TaskRunState::Pending => format!("Task not running by healthy_deadline of {deadline}"),
            TaskRunState::Dead => "Unhealthy because of dead task".into(),
            TaskRunState::Running => format!(
                "Task not running for min_healthy_time of {min_healthy_time} by healthy_deadline of {deadline}"
            ),
        }
    }
}

/// Waits for the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthWatch {
    rule: Rule,
    deadline: Timestamp,
    healthy_at: Option<Timestamp>,
}

impl HealthWatch {
    /// Begins to wait.
    pub(crate) fn begin(rule: Rule, now: Timestamp) -> Self {
        Self { rule, deadline: now + rule.deadline, healthy_at: None }
    }

    /// What it goes by.
    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    /// When there is something to look at although nothing has changed.
    pub(crate) fn poll_timeout(&self) -> Timestamp {
        self.healthy_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Looks at the tasks, which may have changed: the verdict, once there is one.
    pub(crate) fn look(&mut self, tasks: &Tasks, now: Timestamp) -> Option<bool> {
        self.healthy_at = match state_of(tasks) {
            Started::Never => return Some(false),
            Started::NotYet => None,
            Started::At(latest) => Some(latest + self.rule.min_healthy_time),
        };
        match self.healthy_at {
            Some(at) if at <= now && at <= self.deadline => Some(true),
            Some(_) | None => (self.deadline <= now).then_some(false),
        }
    }
}

enum Started {
    Never,
    NotYet,
    At(Timestamp),
}

fn state_of(tasks: &Tasks) -> Started {
    let mut latest = Timestamp::UNSET;
    let mut all = true;
    for task in tasks.values().filter(|task| counts(task)) {
        let state = &task.state;
        let may_be_over = task.class == Class::Prestart;
        match state.state {
            TaskRunState::Dead if state.failed || !may_be_over => return Started::Never,
            _ if state.failed => return Started::Never,
            TaskRunState::Pending => all = false,
            TaskRunState::Running | TaskRunState::Dead => latest = latest.max(state.started_at),
        }
    }
    if all { Started::At(latest) } else { Started::NotYet }
}

/// Whether a task has to do with health: poststop tasks have not, nor have poststart ones that did their work.
fn counts(task: &Member) -> bool {
    match task.class {
        Class::Poststop => false,
        Class::Poststart => !task.state.successful(),
        Class::Prestart | Class::PrestartSidecar | Class::Main | Class::PoststartSidecar => true,
    }
}

#[cfg(test)]
mod tests;
