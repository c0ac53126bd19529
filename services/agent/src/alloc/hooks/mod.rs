//! Hooks of allocations: each prepares one thing that the tasks of an allocation share, in a file of its own, and
//! takes it back. The runner calls them in the order of the list, and knows none of them.
//!
//! A hook may be interrupted at every point and runs again after a restart of the agent: what it does, it finds done.
//! What it must know of earlier runs is in a file of its own ([`AllocRun::file`]).

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::context::Context;
use crate::disk::dirs::AllocDirs;
pub(crate) use crate::task::hooks::HookError;
pub(crate) use crate::task::setup::AllocSetup;
use crate::work::spec::AllocSpec;

/// A hook of an allocation.
#[async_trait]
pub(crate) trait AllocHook: Send + Sync {
    /// Its name, as lists it.
    fn name(&self) -> &'static str;

    /// Runs before the tasks, and again when a restarted agent has found the allocation. It is cancelled if the
    /// allocation must end.
    async fn prerun(&self, _: &AllocRun, _: &mut AllocSetup) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs when the servers have changed the allocation.
    async fn update(&self, _: &AllocRun) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs before the tasks are ended.
    async fn pre_kill(&self, _: &AllocRun) {}

    /// Runs when all tasks have ended, also after a restart of the agent.
    async fn postrun(&self, _: &AllocRun) -> Result<(), HookError> {
        Ok(())
    }

    /// Runs before the files of the allocation are removed.
    async fn destroy(&self, _: &AllocRun) -> Result<(), HookError> {
        Ok(())
    }
}

/// An allocation, as its hooks see it.
pub(crate) struct AllocRun {
    /// The agent's shared values.
    pub(crate) context: Arc<Context>,
    /// The allocation, as the servers describe it now.
    pub(crate) spec: Arc<AllocSpec>,
}

impl AllocRun {
    /// The allocation's directories.
    pub(crate) fn dirs(&self) -> AllocDirs {
        self.context.dirs(self.spec.id())
    }

    /// The file that a hook keeps while the allocation is on this node.
    pub(crate) fn file(&self, hook: &str) -> PathBuf {
        self.context.store.alloc(self.spec.id()).join(format!("hook-{hook}"))
    }
}
