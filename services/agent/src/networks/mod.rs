//! Networks of allocations: namespaces with an interface that CNI plugins make, ports mapped to it, and the files
//! that tasks resolve names with.
//!
//! [`Networks`] sets up and removes them. What it made for an allocation is in a directory of its own, so that a restarted
//! agent finds it again, and removes what no allocation needs any more. What plugins are given and what their answers
//! mean is in pure files: `conflist`, `attachment`, `outcome`, `resolver`, `settings`, `subnet`.

pub(crate) mod attachment;
mod chain;
mod configs;
mod conflist;
pub(crate) mod detected;
mod firewall;
pub(crate) mod namespace;
mod netlink;
mod outcome;
mod place;
mod plugin;
mod resolver;
pub(crate) mod settings;
pub(crate) mod setup;
pub(crate) mod subnet;
#[cfg(test)]
mod tests;
mod versions;

use std::path::PathBuf;

use model::alloc::NetworkStatus;
use serde::{Deserialize, Serialize};

pub(crate) use self::place::machine_resolv_conf;
pub(crate) use self::resolver::name_servers;
pub(crate) use self::setup::Networks;

/// The network of an allocation, in a namespace of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AllocNetwork {
    /// The network namespace, as a file that it is mounted on.
    pub(crate) namespace: PathBuf,
    /// The host name that its tasks see.
    pub(crate) hostname: Option<String>,
    /// What is reported to the servers.
    pub(crate) status: Option<NetworkStatus>,
    /// The file that tasks with a mount namespace see as `/etc/hosts`.
    pub(crate) hosts_file: Option<PathBuf>,
    /// The file that they see as `/etc/resolv.conf`.
    pub(crate) resolv_conf: Option<PathBuf>,
}
