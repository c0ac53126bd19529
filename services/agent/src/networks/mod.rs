//! The networks of allocations.

use std::path::PathBuf;

use model::alloc::NetworkStatus;
use serde::{Deserialize, Serialize};

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
