//! [`Deployments`]: the core [`Watcher`] in its shell, with its metrics, logs and traces.

use model::{Epoch, Timestamp};
use singleton::{Core, Write};
use state::{Snapshot, Step};
use telemetry::{attribute, traces};
use tracing::Span;
use wire::command::{Command, DeploymentFinding, DeploymentStep, Done, UpdateDeployments};

use crate::core::{Settings, Watcher};
use crate::metrics;

/// The active deployment watcher.
pub struct Deployments {
    watcher: Watcher,
    settings: Settings,
}

impl Deployments {
    /// Creates a watcher that checks every active deployment in `state` at once.
    pub fn new(settings: Settings, state: Snapshot, now: Timestamp) -> Self {
        Self { watcher: Watcher::restore(settings, state, now), settings }
    }

    /// The span of an update. It is disabled if no deployment in the update has a trace. A deployment outlives the trace in
    /// which it began, so an update gets its own trace, which links to the traces of its deployments.
    fn span(&self, update: &UpdateDeployments) -> Span {
        if !traces::are_exported() {
            return Span::none();
        }
        let traces = update.findings.iter().filter_map(|finding| self.watcher.trace_of(finding.id));
        let traces: Vec<_> = traces.collect();
        if traces.is_empty() {
            return Span::none();
        }
        let only = match &update.findings[..] {
            [only] => Some(only.id.to_string()),
            _ => None,
        };
        let span = tracing::info_span!(
            parent: None,
            "update deployments",
            { attribute::DEPLOYMENTS } = update.findings.len().cast_signed() as i64,
            { attribute::DEPLOYMENT_ID } = only,
        );
        traces::link_all(&span, traces);
        span
    }
}

impl Core for Deployments {
    const CANNOT_COMMIT: &'static str = "cannot commit deployment updates";
    const COMMITS_AGAIN: &'static str = "deployment updates are committed again";

    fn restore(&mut self, state: Snapshot, now: Timestamp) {
        self.watcher = Watcher::restore(self.settings, state, now);
    }

    fn step(&mut self, step: &Step, now: Timestamp) {
        self.watcher.step(step, now);
    }

    fn work(&mut self, _: Timestamp) {
        metrics::watched(self.watcher.active_count());
    }

    fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<Write> {
        let write = self.watcher.next_write(epoch, now)?;
        let span = self.span(&write);
        span.in_scope(|| write.findings.iter().for_each(log_finding));
        Some(Write { command: Command::UpdateDeployments(write), span })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.watcher.poll_timeout()
    }

    fn written(&mut self, done: &Done, _: Timestamp) {
        self.watcher.written(done.index);
    }

    fn not_written(&mut self, now: Timestamp) {
        metrics::not_written();
        self.watcher.not_written(now);
    }
}

/// Counts a finding and logs the ones that operators care about.
fn log_finding(finding: &DeploymentFinding) {
    let DeploymentFinding { id, step } = finding;
    metrics::found(step);
    match step {
        DeploymentStep::FailUnhealthy { allocs } => {
            let unhealthy = allocs.len();
            tracing::info!(deployment.id = %id, unhealthy, "failing a deployment: its allocations are unhealthy");
        }
        DeploymentStep::FailLate { .. } => {
            tracing::info!(deployment.id = %id, "failing a deployment: it missed its progress deadline");
        }
        DeploymentStep::Promote => {
            tracing::info!(deployment.id = %id, "promoting the canaries of a deployment");
        }
        DeploymentStep::Advance | DeploymentStep::Replace { .. } => {}
    }
}
