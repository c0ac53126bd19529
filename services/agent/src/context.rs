//! Values that all parts of the agent share: settings, drivers, the state store, and the facts about the node that jobs may
//! refer to.

use std::io;
use std::sync::Arc;

use model::AllocId;
use tokio::sync::{Semaphore, watch};

use crate::cgroups::Cgroups;
use crate::checks::Checks;
use crate::devices::Devices;
use crate::disk::dirs::AllocDirs;
use crate::disk::secrets::Storage;
use crate::disk::store::Store;
use crate::disk::usage::{DiskUse, disk_use};
use crate::driver::Drivers;
use crate::driver::running::RunningTasks;
use crate::networks::Networks;
use crate::node::config::Config;
use crate::node::facts::NodeFacts;
use crate::node::host_env::HostEnv;
use crate::services::Services;
use crate::starts::Starts;
use crate::volumes::HostVolumes;

/// Shared by all allocations.
pub(crate) struct Context {
    /// The settings.
    pub(crate) config: Config,
    /// The drivers.
    pub(crate) drivers: Drivers,
    /// The devices.
    pub(crate) devices: Devices,
    /// How many tasks may start at the same time.
    pub(crate) starts: Starts,
    /// The state on disk.
    pub(crate) store: Store,
    /// The facts about the node that jobs may refer to.
    pub(crate) node: NodeFacts,
    /// The part of the machine's environment that tasks get.
    pub(crate) host_env: HostEnv,
    /// The control groups of tasks; `None` if the agent cannot make any.
    pub(crate) cgroups: Option<Cgroups>,
    /// Where secrets of tasks are kept.
    pub(crate) secrets: Storage,
    /// The host volumes of the node.
    pub(crate) volumes: Arc<HostVolumes>,
    /// The networks of allocations.
    pub(crate) networks: Networks,
    /// The checks of services that the agent runs.
    pub(crate) checks: Arc<Checks>,
    /// The registries of services.
    pub(crate) services: Services,
    /// The tasks that are running.
    pub(crate) running: RunningTasks,
    /// Permits to render templates, one for each processor.
    pub(crate) renderings: Arc<Semaphore>,
    /// Whether the servers have sent this node's work since the agent started.
    pub(crate) contacted: watch::Receiver<bool>,
}

/// Permits to render templates, one for each processor.
pub(crate) fn renderings() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)))
}

impl Context {
    /// The directories of an allocation.
    pub(crate) fn dirs(&self, id: AllocId) -> AllocDirs {
        AllocDirs::new(self.config.allocs_dir().join(id.to_string()))
    }

    /// Kills what is left in the control groups of an allocation, and removes them. It may block for a while.
    pub(crate) fn remove_cgroups(&self, id: AllocId) -> io::Result<()> {
        self.cgroups.as_ref().map_or(Ok(()), |cgroups| cgroups.remove_alloc(id))
    }

    /// The usage of the disk with the allocations.
    pub(crate) fn disk_use(&self) -> DiskUse {
        disk_use(&self.config.allocs_dir())
    }
}
