//! Says where the task's output goes.

use async_trait::async_trait;

use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::disk::logs::LogFiles;

/// The number of bytes in a MB of log files.
const MB: u64 = 1 << 20;

/// The hook.
pub(super) struct Logs;

#[async_trait]
impl TaskHook for Logs {
    fn name(&self) -> &'static str {
        "logmon"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let config = &run.job_parts()?.1.log_config;
        draft.logs = (!config.disabled).then(|| LogFiles {
            alloc: run.dirs.alloc.clone(),
            task: run.name.to_string(),
            files_max: u64::from(config.max_files.max(1)),
            file_bytes_max: u64::from(config.max_file_size_mb.max(1)) * MB,
        });
        Ok(())
    }
}
