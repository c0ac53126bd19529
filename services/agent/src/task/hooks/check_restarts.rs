//! Lets failing checks restart the task while it runs.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HookError, TaskHook, TaskRun};
use crate::driver::Running;

/// The hook.
pub(super) struct CheckRestarts;

#[async_trait]
impl TaskHook for CheckRestarts {
    fn name(&self) -> &'static str {
        "check_restarts"
    }

    async fn poststart(&self, run: &TaskRun, _: &Arc<dyn Running>) -> Result<(), HookError> {
        run.context.checks.task_started(run.spec.id(), &run.name);
        Ok(())
    }

    async fn update(&self, run: &TaskRun) -> Result<(), HookError> {
        // A check that has changed has another id, and so is a new one.
        run.context.checks.task_updated(run.spec.id(), &run.name);
        Ok(())
    }

    async fn pre_kill(&self, run: &TaskRun) {
        run.context.checks.task_ending(run.spec.id(), &run.name);
    }

    async fn exited(&self, run: &TaskRun) -> Result<(), HookError> {
        run.context.checks.task_ending(run.spec.id(), &run.name);
        Ok(())
    }
}
