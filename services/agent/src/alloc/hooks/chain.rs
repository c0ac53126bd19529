//! The hooks of one allocation, in their order.

use std::future::Future;

use tokio::time::timeout;
use tracing::Instrument as _;

use super::{AllocHook, AllocRun, AllocSetup, HookError};
use crate::task::hooks::chain::{HOOK_TIMEOUT, hook_span, too_slow};

/// The hooks of one allocation, in their order.
pub(crate) struct AllocHooks(Vec<Box<dyn AllocHook>>);

impl AllocHooks {
    /// These hooks.
    pub(crate) fn new(hooks: Vec<Box<dyn AllocHook>>) -> Self {
        Self(hooks)
    }

    /// Prepares the allocation. It ends at the first hook that fails.
    pub(crate) async fn prerun(&self, alloc: &AllocRun) -> Result<AllocSetup, HookError> {
        let mut setup = AllocSetup::default();
        for hook in &self.0 {
            hook.prerun(alloc, &mut setup).instrument(hook_span(hook.name())).await?;
        }
        Ok(setup)
    }

    /// Follows a change of the allocation. Failures are only logged.
    pub(crate) async fn update(&self, alloc: &AllocRun) {
        for hook in &self.0 {
            within_limit(alloc, hook.name(), "update", hook.update(alloc)).await;
        }
    }

    /// Precedes the end of the tasks.
    pub(crate) async fn pre_kill(&self, alloc: &AllocRun) {
        for hook in &self.0 {
            let work = async {
                hook.pre_kill(alloc).await;
                Ok(())
            };
            within_limit(alloc, hook.name(), "pre_kill", work).await;
        }
    }

    /// Follows the end of all tasks. Every hook runs, even if another fails. Returns whether none failed.
    pub(crate) async fn postrun(&self, alloc: &AllocRun) -> bool {
        let mut all_done = true;
        for hook in &self.0 {
            all_done &= within_limit(alloc, hook.name(), "postrun", hook.postrun(alloc)).await;
        }
        all_done
    }

    /// Precedes the removal of the allocation's files.
    pub(crate) async fn destroy(&self, alloc: &AllocRun) {
        for hook in &self.0 {
            within_limit(alloc, hook.name(), "destroy", hook.destroy(alloc)).await;
        }
    }
}

/// Logs the failure of a hook. Returns whether there was none.
async fn within_limit(
    alloc: &AllocRun,
    hook: &'static str,
    step: &'static str,
    work: impl Future<Output = Result<(), HookError>>,
) -> bool {
    let error = match timeout(HOOK_TIMEOUT, work).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => error.message,
        Err(_) => too_slow(),
    };
    tracing::warn!(alloc.id = %alloc.spec.id(), hook, step, error, "a hook of an allocation failed");
    false
}
