//! Refuses a task that this agent cannot run.

use async_trait::async_trait;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::driver::read_signal;
use crate::task::unsupported::unsupported;

/// The hook.
pub(super) struct Validate;

#[async_trait]
impl TaskHook for Validate {
    fn name(&self) -> &'static str {
        "validate"
    }

    async fn prestart(&self, run: &TaskRun, _: &mut StartDraft) -> Result<(), HookError> {
        let (group, task) = run.job_parts()?;
        if let Some(what) = unsupported(group, task) {
            return Err(HookError::invalid(what));
        }
        read_signal(&task.kill_signal).map_err(HookError::invalid)?;
        let users = &run.context.config.users;
        let user = run.context.drivers.user(&task.driver, &task.user);
        users.check(&task.driver, user, run.account.as_ref()).map_err(HookError::invalid)
    }
}
