//! The hooks of one task, in their order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use telemetry::traces;
use tokio::time::timeout;
use tracing::{Instrument as _, Span};

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::driver::Running;

/// How long a hook may take at other times than before a start. A hook that takes longer must not keep a task from ending.
pub(crate) const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The hooks of one task, in their order.
pub(crate) struct TaskHooks(Vec<Box<dyn TaskHook>>);

/// A hook that failed before a start.
#[derive(Debug)]
pub(crate) struct FailedHook {
    /// Its name.
    pub(crate) hook: &'static str,
    /// Why it failed.
    pub(crate) error: HookError,
}

impl TaskHooks {
    /// These hooks.
    pub(crate) fn new(hooks: Vec<Box<dyn TaskHook>>) -> Self {
        Self(hooks)
    }

    /// Prepares a start. It ends at the first hook that fails (A-9.3a).
    pub(crate) async fn prestart(&self, task: &TaskRun, draft: &mut StartDraft) -> Result<(), FailedHook> {
        for hook in &self.0 {
            let outcome = hook.prestart(task, draft).instrument(hook_span(hook.name())).await;
            outcome.map_err(|error| FailedHook { hook: hook.name(), error })?;
        }
        Ok(())
    }

    /// Follows a start, or the recovery of a running task. Failures are only logged, as with all that follow.
    pub(crate) async fn poststart(&self, task: &TaskRun, running: &Arc<dyn Running>) {
        for hook in &self.0 {
            if let Err(error) = hook.poststart(task, running).await {
                failed(task, hook.name(), "poststart", &error.message);
            }
        }
    }

    /// Follows a change of the allocation.
    pub(crate) async fn update(&self, task: &TaskRun) {
        for hook in &self.0 {
            within_limit(task, hook.name(), "update", hook.update(task)).await;
        }
    }

    /// Precedes the end of the running task.
    pub(crate) async fn pre_kill(&self, task: &TaskRun) {
        for hook in &self.0 {
            let work = async {
                hook.pre_kill(task).await;
                Ok(())
            };
            within_limit(task, hook.name(), "pre_kill", work).await;
        }
    }

    /// Follows an end of the task, or a start that failed.
    pub(crate) async fn exited(&self, task: &TaskRun) {
        for hook in &self.0 {
            within_limit(task, hook.name(), "exited", hook.exited(task)).await;
        }
    }

    /// Follows the last end of the task.
    pub(crate) async fn stop(&self, task: &TaskRun) {
        for hook in &self.0 {
            within_limit(task, hook.name(), "stop", hook.stop(task)).await;
        }
    }
}

/// The span of what a hook prepares.
pub(crate) fn hook_span(name: &'static str) -> Span {
    traces::within(|| tracing::info_span!("hook", otel.name = %format_args!("hook {name}")))
}

async fn within_limit(
    task: &TaskRun,
    hook: &'static str,
    step: &'static str,
    work: impl Future<Output = Result<(), HookError>>,
) {
    match timeout(HOOK_TIMEOUT, work).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => failed(task, hook, step, &error.message),
        Err(_) => failed(task, hook, step, &too_slow()),
    }
}

/// The reason for the failure of a hook that took too long.
pub(crate) fn too_slow() -> String {
    format!("it took longer than {} seconds", HOOK_TIMEOUT.as_secs())
}

fn failed(task: &TaskRun, hook: &'static str, step: &'static str, error: &str) {
    tracing::warn!(alloc.id = %task.spec.id(), task = &*task.name, hook, step, error, "a hook of a task failed");
}
