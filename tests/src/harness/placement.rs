//! Where and how a process runs, if it does not share everything with this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::host_clock::HostClock;
use super::network::{Link, Network};
use super::small_disk::SmallDisk;

/// What a process has of its own. It outlives the process, which may be killed and started again.
#[derive(Debug, Default)]
pub struct Placement {
    /// A network with relays to both servers.
    pub network: Option<Network>,
    /// A wall clock.
    pub clock: Option<HostClock>,
    /// A disk for the data of an agent.
    pub disk: Option<SmallDisk>,
    /// Another binary than that of the cluster.
    pub binary: Option<PathBuf>,
}

impl Placement {
    /// The command that runs a binary, or that of the placement, where the process belongs.
    pub(crate) fn command(&self, binary: &Path) -> Command {
        let binary = self.binary.as_deref().unwrap_or(binary);
        let mut command = match &self.network {
            Some(network) => network.command(binary),
            None => Command::new(binary),
        };
        command.envs(self.clock.iter().flat_map(HostClock::environment));
        command
    }

    /// The URL of a server as the process reaches it.
    pub(crate) fn url(&self, link: Link, url: String) -> String {
        match &self.network {
            Some(network) => url.replace("127.0.0.1", &network.near(link).to_string()),
            None => url,
        }
    }
}
