//! Makes the control groups of a task before each start, and removes them after each end.

use std::sync::Arc;

use async_trait::async_trait;
use telemetry::chain;
use tokio::task::spawn_blocking;

use super::{HookError, StartDraft, TaskHook, TaskRun};

/// The hook.
pub(super) struct Cgroups;

#[async_trait]
impl TaskHook for Cgroups {
    fn name(&self) -> &'static str {
        "cgroups"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let Some(cgroups) = &run.context.cgroups else { return Ok(()) };
        let (_, task) = run.job_parts()?;
        if !run.context.drivers.get(&task.driver).is_some_and(|driver| driver.uses_cgroups()) {
            return Ok(());
        }
        let cgroup = cgroups.task(run.spec.id(), &run.name, &draft.resources);
        let (made, limits) = (cgroup.clone(), draft.resources.clone());
        let outcome = spawn_blocking(move || made.create(&limits)).await;
        let failed = |error: &dyn std::error::Error| {
            HookError::recoverable(format!("unable to configure cgroups: {}", chain(error)))
        };
        outcome.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        draft.cgroup = Some(cgroup);
        Ok(())
    }

    async fn exited(&self, run: &TaskRun) -> Result<(), HookError> {
        remove(run).await
    }

    async fn stop(&self, run: &TaskRun) -> Result<(), HookError> {
        remove(run).await
    }
}

/// Kills what is left in the groups of the task, and removes them.
async fn remove(run: &TaskRun) -> Result<(), HookError> {
    let (context, alloc, name) = (Arc::clone(&run.context), run.spec.id(), run.name.clone());
    let removed = spawn_blocking(move || match &context.cgroups {
        Some(cgroups) => cgroups.remove_task(alloc, &name),
        None => Ok(()),
    });
    let outcome = removed.await.map_err(|error| HookError::recoverable(chain(&error)))?;
    Ok(outcome?)
}
