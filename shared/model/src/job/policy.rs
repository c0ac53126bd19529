//! What happens to allocations over time: updates, drains, restarts, reschedules, lost nodes.

use serde::{Deserialize, Serialize};

use crate::alloc::RescheduleTracker;
use crate::mirror::{mirror, text_members};
use crate::text::string_enum;
use crate::{Nanos, Timestamp};

string_enum! {
    /// What makes an allocation healthy.
    HealthCheck, "health check" {
        /// Its tasks run and its service checks pass.
        Checks => "checks",
        /// Its tasks run.
        TaskStates => "task_states",
        /// Somebody says so.
        Manual => "manual",
    }
}

string_enum! {
    /// What follows when a task's restarts are used up.
    RestartMode, "restart mode" {
        /// The task fails.
        Fail => "fail",
        /// It starts again in the next interval.
        Delay => "delay",
    }
}

string_enum! {
    /// How the wait before a reschedule grows.
    DelayFunction, "delay function" {
        /// It stays.
        Constant => "constant",
        /// It doubles.
        Exponential => "exponential",
        /// It is the sum of the last two.
        Fibonacci => "fibonacci",
    }
}

string_enum! {
    /// Which allocation stays when a disconnected node is back and its place was taken.
    Reconcile, "reconcile strategy" {
        /// The one on the node with the better score.
        BestScore => "best_score",
        /// The one that has run longest.
        LongestRunning => "longest_running",
        /// The one on the node that came back.
        KeepOriginal => "keep_original",
        /// The one that took its place.
        KeepReplacement => "keep_replacement",
    }
}

text_members!(HealthCheck, RestartMode, DelayFunction, Reconcile);

/// How allocations of an older version are replaced.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateStrategy {
    /// Time between batches, where no deployment paces them.
    pub stagger: Nanos,
    /// How many at a time; 0 is no deployment.
    pub max_parallel: u32,
    /// What makes a new allocation healthy.
    pub health_check: Option<HealthCheck>,
    /// How long it must stay so to count.
    pub min_healthy_time: Nanos,
    /// After how long without that it counts as unhealthy.
    pub healthy_deadline: Nanos,
    /// After how long without another healthy one the deployment fails; 0 is at the first unhealthy one.
    pub progress_deadline: Nanos,
    /// Whether failure brings the last stable version back.
    pub auto_revert: bool,
    /// Whether canaries are promoted once all are healthy.
    pub auto_promote: bool,
    /// How many to place beside the old ones first.
    pub canary: u32,
}

mirror! {
    UpdateStrategy = UpdateStrategy {
        stagger: "Stagger",
        max_parallel: "MaxParallel",
        health_check: "HealthCheck",
        min_healthy_time: "MinHealthyTime",
        healthy_deadline: "HealthyDeadline",
        progress_deadline: "ProgressDeadline",
        auto_revert: "AutoRevert",
        auto_promote: "AutoPromote",
        canary: "Canary",
    }
}

/// How allocations move off a draining node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrateStrategy {
    /// How many of the group at a time.
    pub max_parallel: u32,
    /// What makes a replacement healthy.
    pub health_check: Option<HealthCheck>,
    /// How long it must stay so to count.
    pub min_healthy_time: Nanos,
    /// After how long without that it counts as unhealthy.
    pub healthy_deadline: Nanos,
}

mirror! {
    MigrateStrategy = MigrateStrategy {
        max_parallel: "MaxParallel",
        health_check: "HealthCheck",
        min_healthy_time: "MinHealthyTime",
        healthy_deadline: "HealthyDeadline",
    }
}

/// How often a failed task starts again where it is.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Restarts allowed within [`Self::interval`].
    pub attempts: u32,
    /// The window that they are counted in.
    pub interval: Nanos,
    /// Wait before each.
    pub delay: Nanos,
    /// What follows when they are used up.
    pub mode: Option<RestartMode>,
    /// Whether templates are rendered anew each time.
    pub render_templates: bool,
}

mirror! {
    RestartPolicy = RestartPolicy {
        attempts: "Attempts",
        interval: "Interval",
        delay: "Delay",
        mode: "Mode",
        render_templates: "RenderTemplates",
    }
}

/// How often a failed allocation is tried on another node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReschedulePolicy {
    /// Attempts allowed within [`Self::interval`], unless unlimited.
    pub attempts: u32,
    /// The window that they are counted in.
    pub interval: Nanos,
    /// The first wait.
    pub delay: Nanos,
    /// How the wait grows.
    pub delay_function: Option<DelayFunction>,
    /// The longest wait; 0 is no bound.
    pub max_delay: Nanos,
    /// Whether attempts never run out.
    pub unlimited: bool,
}

impl ReschedulePolicy {
    /// Whether an allocation that failed then, after these reschedules, may be tried elsewhere at all; when, is another
    /// question.
    pub fn has_attempts_left(&self, earlier: Option<&RescheduleTracker>, failed_at: Timestamp) -> bool {
        let events = earlier.map_or(&[][..], |tracker| &tracker.events);
        let recent = events.iter().filter(|event| failed_at - event.time < self.interval).count();
        self.unlimited || recent < self.attempts as usize
    }
}

mirror! {
    ReschedulePolicy = ReschedulePolicy {
        attempts: "Attempts",
        interval: "Interval",
        delay: "Delay",
        delay_function: "DelayFunction",
        max_delay: "MaxDelay",
        unlimited: "Unlimited",
    }
}

/// What happens while a node is out of reach, and when it is back.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisconnectStrategy {
    /// How long its allocations are unknown before they are lost; 0 is at once.
    pub lost_after: Nanos,
    /// After how long without a server the node itself stops them; `None` is never.
    pub stop_on_client_after: Option<Nanos>,
    /// Whether others are placed meanwhile; `None` is yes.
    pub replace: Option<bool>,
    /// Which one stays when the node is back.
    pub reconcile: Option<Reconcile>,
}

mirror! {
    DisconnectStrategy = DisconnectStrategy {
        lost_after: "LostAfter",
        stop_on_client_after: "StopOnClientAfter",
        replace: "Replace",
        reconcile: "Reconcile",
    }
}
