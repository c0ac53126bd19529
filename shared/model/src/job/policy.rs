//! Policies for updates, migrations, restarts, reschedules and disconnected nodes.

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
        /// A user sets its health.
        Manual => "manual",
    }
}

string_enum! {
    /// What happens after the last restart attempt of a task.
    RestartMode, "restart mode" {
        /// The task fails.
        Fail => "fail",
        /// The task is restarted in the next interval.
        Delay => "delay",
    }
}

string_enum! {
    /// How the delay before a reschedule grows.
    DelayFunction, "delay function" {
        /// The delay is constant.
        Constant => "constant",
        /// The delay doubles.
        Exponential => "exponential",
        /// The delay is the sum of the last two.
        Fibonacci => "fibonacci",
    }
}

string_enum! {
    /// Which allocation is kept when a disconnected node reconnects and a replacement was placed.
    Reconcile, "reconcile strategy" {
        /// The allocation on the node with the better score.
        BestScore => "best_score",
        /// The allocation that has run longest.
        LongestRunning => "longest_running",
        /// The allocation on the reconnected node.
        KeepOriginal => "keep_original",
        /// The replacement.
        KeepReplacement => "keep_replacement",
    }
}

text_members!(HealthCheck, RestartMode, DelayFunction, Reconcile);

/// How allocations of an older version are replaced.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateStrategy {
    /// Time between batches of updates without a deployment.
    pub stagger: Nanos,
    /// Number of allocations updated at a time; 0 turns deployments off.
    pub max_parallel: u32,
    /// What makes a new allocation healthy.
    pub health_check: Option<HealthCheck>,
    /// How long an allocation must be healthy before it counts as healthy.
    pub min_healthy_time: Nanos,
    /// Time after which an allocation that is not healthy counts as unhealthy.
    pub healthy_deadline: Nanos,
    /// Time without a newly healthy allocation after which the deployment fails. With 0 it fails at the first unhealthy
    /// allocation.
    pub progress_deadline: Nanos,
    /// Whether a failure rolls the job back to its latest stable version.
    pub auto_revert: bool,
    /// Whether canaries are promoted once all are healthy.
    pub auto_promote: bool,
    /// Number of canaries, which are placed before any allocation of the old version is stopped.
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

/// How allocations are migrated from a draining node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrateStrategy {
    /// Number of allocations of the group that may be migrated at a time.
    pub max_parallel: u32,
    /// What makes a replacement healthy.
    pub health_check: Option<HealthCheck>,
    /// How long a replacement must be healthy before it counts as healthy.
    pub min_healthy_time: Nanos,
    /// Time after which a replacement that is not healthy counts as unhealthy.
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

/// When and how often a failed task is restarted on the same node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Restarts allowed within [`Self::interval`].
    pub attempts: u32,
    /// The window in which attempts are counted.
    pub interval: Nanos,
    /// Delay before a restart.
    pub delay: Nanos,
    /// What happens after the last attempt.
    pub mode: Option<RestartMode>,
    /// Whether templates are rendered again on a restart.
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

/// When and how often a failed allocation is rescheduled.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReschedulePolicy {
    /// Attempts allowed within [`Self::interval`], unless unlimited.
    pub attempts: u32,
    /// The window in which attempts are counted.
    pub interval: Nanos,
    /// The first delay.
    pub delay: Nanos,
    /// How the delay grows.
    pub delay_function: Option<DelayFunction>,
    /// The longest delay; 0 is unlimited.
    pub max_delay: Nanos,
    /// Whether the number of attempts is unlimited.
    pub unlimited: bool,
}

impl ReschedulePolicy {
    /// Whether an allocation that failed at `failed_at`, after the reschedules in `earlier`, may be rescheduled. The delay
    /// until then is not considered.
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

/// What happens while a node is disconnected, and when it reconnects.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisconnectStrategy {
    /// How long its allocations are unknown before they are lost. With 0 they are lost at once.
    pub lost_after: Nanos,
    /// Time without contact to a server after which the agent stops them; `None` is never.
    pub stop_on_client_after: Option<Nanos>,
    /// Whether replacements are placed meanwhile; `None` means yes.
    pub replace: Option<bool>,
    /// Which allocation is kept when the node reconnects.
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
