//! What everything in the agent works with: settings, drivers, the memory on disk, and what jobs may know of the node.

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
use crate::task::names::NodeFacts;

/// Shared by all allocations.
pub(crate) struct Context {
    /// The settings.
    pub(crate) config: Config,
    /// The drivers.
    pub(crate) drivers: Drivers,
    /// The memory.
    pub(crate) store: Store,
    /// What jobs may know of the node.
    pub(crate) node: NodeFacts,
    /// The agent's environment, as far as tasks get it.
    pub(crate) host_env: BTreeMap<String, String>,
    /// Whether the servers have said what is to run here, since the agent started.
    pub(crate) contacted: watch::Receiver<bool>,
}

impl Context {
    /// An allocation's directories.
    pub(crate) fn dirs(&self, id: AllocId) -> AllocDirs {
        AllocDirs::new(self.config.allocs_dir().join(id.to_string()))
    }

    /// How full the disk is that allocations are on.
    pub(crate) fn disk_use(&self) -> DiskUse {
        disk_use(&self.config.allocs_dir())
    }
}

/// What a service manager tells the agent alone: a task that answers would speak for the agent.
const OF_SERVICE_MANAGER: [&str; 8] = [
    "CREDENTIALS_DIRECTORY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];
/// How the settings begin that the agent takes from its environment; some hold passwords.
const OF_AGENT: &str = "DROVER_";

/// The agent's environment without what is meant for the agent, and what the owner keeps from tasks.
pub(crate) fn host_env(denylist: &[String]) -> BTreeMap<String, String> {
    let readable = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    readable.filter(|(name, _)| is_for_tasks(name, denylist)).collect()
}

fn is_for_tasks(name: &str, denylist: &[String]) -> bool {
    let is_denied = denylist.iter().any(|denied| denied == name);
    !is_denied && !OF_SERVICE_MANAGER.contains(&name) && !name.starts_with(OF_AGENT)
}

fn disk_use(dir: &Path) -> DiskUse {
    match statvfs(dir) {
        Ok(disk) => DiskUse {
            percent: percent_used(disk.blocks(), disk.blocks_free(), disk.blocks_available()),
            inodes_percent: percent_used(disk.files(), disk.files_free(), disk.files_available()),
        },
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot look at the disk");
            DiskUse::default()
        }
    }
}

/// As `df` counts: what only the system may use is no part of it.
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
