//! Hooks of allocations: each prepares one thing that the tasks of an allocation share, in a file of its own, and
//! takes it back. The runner calls them in the order of [`all`], and knows none of them.
//!
//! A hook may be interrupted at every point and runs again after a restart of the agent: what it does, it finds done.

mod alloc_dir;
mod await_previous_allocations;
mod cgroups;
pub(crate) mod chain;
mod group_services;
mod migrate_disk;
mod network;

use std::sync::Arc;

use async_trait::async_trait;
use model::AllocId;
use model::job::TaskGroup;
use model::text::quoted;
use tokio::sync::watch;

use self::alloc_dir::AllocDir;
use self::await_previous_allocations::AwaitPreviousAllocations;
use self::cgroups::Cgroups;
use self::chain::AllocHooks;
use self::group_services::GroupServices;
use self::migrate_disk::MigrateDisk;
use self::network::Network;
use crate::context::Context;
use crate::disk::dirs::AllocDirs;
pub(crate) use crate::task::hooks::HookError;
pub(crate) use crate::task::setup::AllocSetup;
use crate::work::spec::AllocSpec;

/// The allocations that a new allocation waits for.
#[derive(Debug, Default)]
pub(crate) struct Predecessors {
    /// The ends of allocations of this node that it replaces or that were preempted for it.
    pub(crate) ends: Vec<watch::Receiver<bool>>,
    /// The allocation that it replaces, if its data is moved.
    pub(crate) data_of: Option<AllocId>,
}

/// The hooks of an allocation, in their order. A restored allocation waits for no others.
pub(crate) fn all(predecessors: Predecessors) -> AllocHooks {
    let Predecessors { ends, data_of } = predecessors;
    AllocHooks::new(vec![
        Box::new(AllocDir),
        Box::new(AwaitPreviousAllocations { ends }),
        Box::new(MigrateDisk { data_of }),
        Box::new(Cgroups),
        Box::new(Network),
        Box::new(GroupServices::default()),
    ])
}

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

    /// Runs when the servers have changed the allocation, unless they want it to end.
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
    /// The allocation's group, as the job describes it.
    ///
    /// # Errors
    /// If the job does not have the group.
    pub(crate) fn group(&self) -> Result<&TaskGroup, HookError> {
        let missing = || format!("the job has no group {}", quoted(&self.spec.common.task_group));
        self.spec.group().ok_or_else(|| HookError::unrecoverable(missing()))
    }

    /// The allocation's directories.
    pub(crate) fn dirs(&self) -> AllocDirs {
        self.context.dirs(self.spec.id())
    }
}
