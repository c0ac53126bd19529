//! Removes what is left of the control groups of an allocation when all of its tasks have ended. The tasks make and remove
//! their own.

use std::sync::Arc;

use async_trait::async_trait;
use telemetry::chain;
use tokio::task::spawn_blocking;

use super::{AllocHook, AllocRun, HookError};

/// The hook.
pub(super) struct Cgroups;

#[async_trait]
impl AllocHook for Cgroups {
    fn name(&self) -> &'static str {
        "cgroups"
    }

    async fn postrun(&self, alloc: &AllocRun) -> Result<(), HookError> {
        let (context, id) = (Arc::clone(&alloc.context), alloc.spec.id());
        let outcome = spawn_blocking(move || context.remove_cgroups(id)).await;
        Ok(outcome.map_err(|error| HookError::recoverable(chain(&error)))??)
    }
}
