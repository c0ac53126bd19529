//! What the watcher counts.

use telemetry::metrics::{Counter, Gauge, counter, gauge};
use wire::command::DeploymentStep;

static WATCHED: Gauge = gauge("drover.watcher.deployments.watched");
static FOUND: Counter = counter("drover.watcher.found");
static NOT_WRITTEN: Counter = counter("drover.watcher.not_written");

/// So many deployments are to be looked at, now or later.
pub(crate) fn watched(count: usize) {
    WATCHED.set(count as f64);
}

/// Something is to be written of a deployment.
pub(crate) fn found(step: &DeploymentStep) {
    let step = match step {
        DeploymentStep::Advance => "advance",
        DeploymentStep::Replace { .. } => "replace",
        DeploymentStep::FailUnhealthy { .. } => "fail-unhealthy",
        DeploymentStep::FailLate { .. } => "fail-late",
    };
    FOUND.add_with(1, &[("step", step)]);
}

/// A command failed, or what became of it is not known.
pub(crate) fn not_written() {
    NOT_WRITTEN.add(1);
}
