//! Metrics of the deployment watcher.

use model::Nanos;
use telemetry::metrics::catalogue::{
    LAUNCHER_COMMANDS_FAILED, LAUNCHER_LATENESS, LAUNCHER_TRACKED, WATCHER_COMMANDS_FAILED, WATCHER_DRAINED,
    WATCHER_DRAINING, WATCHER_FOUND, WATCHER_MARKED, WATCHER_WATCHED,
};
use wire::command::DeploymentStep;

/// Sets the number of active deployments.
pub(crate) fn watched(count: usize) {
    WATCHER_WATCHED.set(count as f64);
}

/// Counts a finding by its kind of step.
pub(crate) fn found(step: &DeploymentStep) {
    let step = match step {
        DeploymentStep::Advance => "advance",
        DeploymentStep::Replace { .. } => "replace",
        DeploymentStep::Promote => "promote",
        DeploymentStep::FailUnhealthy { .. } => "fail-unhealthy",
        DeploymentStep::FailLate { .. } => "fail-late",
    };
    WATCHER_FOUND.add_with(1, &[step]);
}

/// Sets the number of periodic jobs that are launched at times.
pub(crate) fn tracked(count: usize) {
    LAUNCHER_TRACKED.set(count as f64);
}

/// Records how late a launch was.
pub(crate) fn launched(late: Nanos) {
    LAUNCHER_LATENESS.record(late.0 as f64 / 1e9);
}

/// Counts a command with launches that failed or whose outcome is unknown.
pub(crate) fn launches_not_written() {
    LAUNCHER_COMMANDS_FAILED.add(1);
}

/// Counts a command about deployments that failed or whose outcome is unknown.
pub(crate) fn not_written() {
    WATCHER_COMMANDS_FAILED.add(1);
}

/// Sets the number of draining nodes.
pub(crate) fn draining(count: usize) {
    WATCHER_DRAINING.set(count as f64);
}

/// Counts allocations of draining nodes that are marked to migrate before the end of the drain.
pub(crate) fn marked(count: usize) {
    WATCHER_MARKED.add(count as u64);
}

/// Counts a drain that is over.
pub(crate) fn drained(deadline_reached: bool) {
    WATCHER_DRAINED.add_with(1, &[if deadline_reached { "deadline" } else { "done" }]);
}
