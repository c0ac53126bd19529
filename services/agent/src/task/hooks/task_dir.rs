//! Creates the task's directories, with its secrets.

use async_trait::async_trait;
use model::Text;
use model::alloc::TaskEventKind;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::disk::secrets::Secrets;

/// The hook.
pub(super) struct TaskDir;

#[async_trait]
impl TaskHook for TaskDir {
    fn name(&self) -> &'static str {
        "task_dir"
    }

    async fn prestart(&self, run: &TaskRun, _: &mut StartDraft) -> Result<(), HookError> {
        let (_, task) = run.job_parts()?;
        if !run.dirs.task.exists() {
            run.event(TaskEventKind::TaskSetup { message: Text::default() }).await;
        }
        let secrets = Secrets {
            storage: run.context.secrets,
            owner: run.account.as_ref().map_or((0, 0), |account| (account.uid, account.gid)),
            size_mb: task.resources.secrets_mb,
        };
        run.dirs.build(&secrets)?;
        Ok(())
    }
}
