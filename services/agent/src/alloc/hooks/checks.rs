//! Begins and ends the checks of the services of an allocation: they run from the end of its preparation until its
//! tasks are ended.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use model::Text;
use telemetry::chain;
use tokio::task::spawn_blocking;

use super::{AllocHook, AllocRun, AllocSetup, HookError};
use crate::alloc::checks::checks;
use crate::checks::core::CheckResult;
use crate::checks::runner::saved_results;
use crate::networks::AllocNetwork;

/// The hook.
#[derive(Default)]
pub(super) struct Checks {
    /// The network of the allocation, once it is known.
    network: OnceLock<Option<Arc<AllocNetwork>>>,
    /// Whether the tasks are being ended. Then no update begins checks again.
    is_ending: AtomicBool,
}

impl Checks {
    /// Sets the checks of the allocation as the servers describe them now.
    fn set(&self, alloc: &AllocRun, saved: &BTreeMap<Text, CheckResult>) {
        let (context, network) = (&alloc.context, self.network.get().cloned().flatten());
        let wanted = checks(&alloc.spec, &context.node, &alloc.dirs(), network.as_deref());
        context.checks.set(alloc.spec.id(), wanted, saved);
    }
}

#[async_trait]
impl AllocHook for Checks {
    fn name(&self) -> &'static str {
        "checks"
    }

    async fn prerun(&self, alloc: &AllocRun, setup: &mut AllocSetup) -> Result<(), HookError> {
        // Nothing else sets it.
        let _ = self.network.set(setup.network.clone());
        let (store, id) = (alloc.context.store.clone(), alloc.spec.id());
        let saved = spawn_blocking(move || saved_results(&store, id)).await;
        let saved = saved.map_err(|error| HookError::recoverable(chain(&error)))?;
        // A restored allocation may be ending while it is prepared.
        if !self.is_ending.load(Relaxed) {
            self.set(alloc, &saved);
        }
        Ok(())
    }

    async fn update(&self, alloc: &AllocRun) -> Result<(), HookError> {
        if !self.is_ending.load(Relaxed) {
            self.set(alloc, &BTreeMap::new());
        }
        Ok(())
    }

    async fn pre_kill(&self, alloc: &AllocRun) {
        self.is_ending.store(true, Relaxed);
        alloc.context.checks.remove(alloc.spec.id());
    }

    async fn postrun(&self, alloc: &AllocRun) -> Result<(), HookError> {
        alloc.context.checks.forget(alloc.spec.id());
        Ok(())
    }
}
