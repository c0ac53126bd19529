//! Takes over the data of the allocation that this one replaces on the same node.

use async_trait::async_trait;
use model::AllocId;
use telemetry::chain;

use super::{AllocHook, AllocRun, AllocSetup, HookError};

/// The hook.
pub(super) struct MigrateDisk {
    /// The allocation whose data is moved.
    pub(super) data_of: Option<AllocId>,
}

#[async_trait]
impl AllocHook for MigrateDisk {
    fn name(&self) -> &'static str {
        "migrate_disk"
    }

    async fn prerun(&self, alloc: &AllocRun, _: &mut AllocSetup) -> Result<(), HookError> {
        let Some(previous) = self.data_of else { return Ok(()) };
        let tasks = alloc.group()?.tasks.iter().map(|task| &*task.name);
        if let Err(error) = alloc.dirs().take_over(&alloc.context.dirs(previous), tasks) {
            tracing::warn!(
                alloc.id = %alloc.spec.id(), previous.id = %previous, error = chain(&error),
                "cannot move the previous allocation's data; continuing without it"
            );
        }
        Ok(())
    }
}
