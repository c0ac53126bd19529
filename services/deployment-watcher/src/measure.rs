//! What the watcher records of its work.

use telemetry::metrics::catalogue::{WATCHER_FOUND, WATCHER_NOT_WRITTEN, WATCHER_WATCHED};
use wire::command::DeploymentStep;

/// So many deployments are to be looked at, now or later.
pub(crate) fn watched(count: usize) {
    WATCHER_WATCHED.set(count as f64);
}

/// Something is to be written of a deployment.
pub(crate) fn found(step: &DeploymentStep) {
    let step = match step {
        DeploymentStep::Advance => "advance",
        DeploymentStep::Replace { .. } => "replace",
        DeploymentStep::FailUnhealthy { .. } => "fail-unhealthy",
        DeploymentStep::FailLate { .. } => "fail-late",
    };
    WATCHER_FOUND.add_with(1, &[step]);
}

/// A command failed, or what became of it is not known.
pub(crate) fn not_written() {
    WATCHER_NOT_WRITTEN.add(1);
}
