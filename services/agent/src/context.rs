//! Values that all parts of the agent share: settings, drivers, the state store, and the facts about the node that jobs may
//! refer to.

use std::collections::BTreeMap;
use std::path::Path;

use model::AllocId;
use nix::sys::statvfs::statvfs;
use telemetry::chain;
use tokio::sync::watch;

use crate::config::Config;
use crate::driver::Drivers;
use crate::gc::DiskUse;
use crate::store::Store;
use crate::task::dirs::AllocDirs;
use crate::task::interpolation::NodeFacts;

/// Shared by all allocations.
pub(crate) struct Context {
    /// The settings.
    pub(crate) config: Config,
    /// The drivers.
    pub(crate) drivers: Drivers,
    /// The state on disk.
    pub(crate) store: Store,
    /// The facts about the node that jobs may refer to.
    pub(crate) node: NodeFacts,
    /// The agent's environment without the variables that tasks do not get.
    pub(crate) host_env: BTreeMap<String, String>,
    /// Whether the servers have sent this node's work since the agent started.
    pub(crate) contacted: watch::Receiver<bool>,
}

impl Context {
    /// The directories of an allocation.
    pub(crate) fn dirs(&self, id: AllocId) -> AllocDirs {
        AllocDirs::new(self.config.allocs_dir().join(id.to_string()))
    }

    /// The usage of the disk with the allocations.
    pub(crate) fn disk_use(&self) -> DiskUse {
        disk_use(&self.config.allocs_dir())
    }
}

/// Variables that a service manager sets for the agent alone. A task that used them would speak for the agent.
const SERVICE_MANAGER_VARIABLES: [&str; 8] = [
    "CREDENTIALS_DIRECTORY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];
/// The prefix of variables with the agent's own settings. Some of them hold passwords.
const AGENT_PREFIX: &str = "DROVER_";

/// The agent's environment without its own settings, the service manager's variables and the denylist.
pub(crate) fn host_env(denylist: &[String]) -> BTreeMap<String, String> {
    let readable = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    readable.filter(|(name, _)| is_for_tasks(name, denylist)).collect()
}

fn is_for_tasks(name: &str, denylist: &[String]) -> bool {
    let is_denied = denylist.iter().any(|denied| denied == name);
    !is_denied && !SERVICE_MANAGER_VARIABLES.contains(&name) && !name.starts_with(AGENT_PREFIX)
}

fn disk_use(dir: &Path) -> DiskUse {
    match statvfs(dir) {
        Ok(disk) => DiskUse {
            percent: percent_used(disk.blocks(), disk.blocks_free(), disk.blocks_available()),
            inodes_percent: percent_used(disk.files(), disk.files_free(), disk.files_available()),
        },
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot read the disk usage");
            DiskUse::default()
        }
    }
}

/// The used share of a disk in percent, as `df` computes it: space that only root may use counts neither as used nor as
/// available.
pub(crate) fn percent_used(all: u64, free: u64, available: u64) -> f64 {
    let used = all.saturating_sub(free);
    let usable = used.saturating_add(available);
    if usable == 0 { 0.0 } else { 100.0 * used as f64 / usable as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_as_full_as_its_users_see_it() {
        assert!((percent_used(200, 50, 50) - 75.0).abs() < f64::EPSILON);
        assert!((percent_used(200, 50, 0) - 100.0).abs() < f64::EPSILON);
        assert!(percent_used(0, 0, 0).abs() < f64::EPSILON, "some file systems have no inodes");
    }

    #[test]
    fn what_is_denied_does_not_reach_tasks() {
        let path = host_env(&[]);
        assert!(path.contains_key("PATH"));
        assert!(!host_env(&["PATH".to_owned()]).contains_key("PATH"));
    }

    #[test]
    fn what_is_meant_for_the_agent_does_not_reach_tasks() {
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY", "DROVER_NATS_URL"] {
            assert!(!is_for_tasks(name, &[]), "{name}");
        }
        assert!(is_for_tasks("HOME", &["PATH".to_owned()]));
    }
}
