//! Waits for the allocations that this one replaces, or that made room for it.

use async_trait::async_trait;
use tokio::sync::watch;

use super::{AllocHook, AllocRun, AllocSetup, HookError};

/// The hook.
pub(super) struct AwaitPreviousAllocations {
    /// The ends of the allocations.
    pub(super) ends: Vec<watch::Receiver<bool>>,
}

#[async_trait]
impl AllocHook for AwaitPreviousAllocations {
    fn name(&self) -> &'static str {
        "await_previous_allocations"
    }

    async fn prerun(&self, _: &AllocRun, _: &mut AllocSetup) -> Result<(), HookError> {
        for end in &self.ends {
            // If the sender is gone, the allocation has ended, too.
            let _ = end.clone().wait_for(|ended| *ended).await;
        }
        Ok(())
    }
}
