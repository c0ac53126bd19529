//! What a machine has to give, and what of it is not for tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Attribute;
use crate::Text;
use crate::job::NetworkResource;

/// What a node has to give.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeResources {
    /// Its processors.
    pub processors: Topology,
    /// What older clients call the same.
    pub cpu: LegacyCpu,
    /// Memory, in MB.
    pub memory_mb: u32,
    /// Disk, in MB.
    pub disk_mb: u32,
    /// Its devices.
    pub devices: Vec<NodeDeviceGroup>,
    /// Its networks with their addresses.
    pub node_networks: Vec<NodeNetwork>,
    /// The same in the older form.
    pub networks: Vec<NetworkResource>,
    /// The lowest dynamic port; 0 is the default.
    pub dynamic_port_min: u16,
    /// The highest dynamic port, which random probes leave out; 0 is the default.
    pub dynamic_port_max: u16,
}

/// A node's compute as older clients see it.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyCpu {
    /// What all cores make, in MHz.
    pub cpu_mhz: u32,
    /// How many cores are for use.
    pub total_cores: u16,
    /// Ids of cores that tasks may have for themselves.
    pub reservable_cores: Vec<u16>,
}

/// How a node's processors are built.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Ids of its memory nodes.
    pub nodes: Vec<u16>,
    /// Distances between them.
    pub distances: Vec<Vec<u32>>,
    /// Its cores.
    pub cores: Vec<Core>,
    /// Compute that its owner says it has, in MHz; 0 is what the cores make.
    pub override_total_mhz: u32,
    /// Compute that its owner keeps back, in MHz; stored and shown, but not looked at (it is reserved, too).
    pub override_withheld_mhz: u32,
}

impl Topology {
    /// What all cores make, in MHz, those that are not for use among them: what they make is part of what the
    /// node keeps back, so [`NodeSpec::capacity`](super::NodeSpec::capacity) takes it off there.
    pub fn total_mhz(&self) -> u32 {
        if self.override_total_mhz > 0 {
            return self.override_total_mhz;
        }
        self.cores.iter().fold(0, |mhz, core| mhz.saturating_add(core.mhz()))
    }
}

/// One core.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Its socket.
    pub socket_id: u16,
    /// Its memory node.
    pub node_id: u16,
    /// Its id.
    pub id: u16,
    /// Whether it is one of the fast ones.
    pub grade: bool,
    /// Whether it is not for use.
    pub disable: bool,
    /// Its base speed, in MHz.
    pub base_mhz: u32,
    /// Its highest speed, in MHz.
    pub max_mhz: u32,
    /// What its speed is taken to be where neither is known, in MHz.
    pub guess_mhz: u32,
}

impl Core {
    /// Its speed: base, else highest, else guessed.
    pub fn mhz(&self) -> u32 {
        [self.base_mhz, self.max_mhz, self.guess_mhz].into_iter().find(|mhz| *mhz > 0).unwrap_or(0)
    }
}

/// Devices of one make.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeDeviceGroup {
    /// Who makes them.
    pub vendor: Text,
    /// What kind of device they are.
    pub kind: Text,
    /// The model.
    pub name: Text,
    /// The devices themselves.
    pub instances: Vec<NodeDevice>,
    /// What constraints can ask of them, as the API shows it.
    pub attributes: BTreeMap<Text, Attribute>,
}

/// One device.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDevice {
    /// Its id.
    pub id: Text,
    /// Whether it works.
    pub healthy: bool,
    /// Why it does not.
    pub health_description: Text,
    /// Where it sits on the bus.
    pub pci_bus_id: Option<Text>,
}

/// A network of a node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNetwork {
    /// `host`, `bridge`, `cni/<name>`.
    pub mode: Text,
    /// Its device.
    pub device: Text,
    /// That device's hardware address.
    pub mac_address: Text,
    /// In MBit/s.
    pub speed_mbits: u32,
    /// Its addresses.
    pub addresses: Vec<NodeAddress>,
}

/// An address of a node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// `ipv4` or `ipv6`.
    pub family: Text,
    /// The host network that it belongs to.
    pub alias: Text,
    /// The address.
    pub address: Text,
    /// Ports that are not for tasks, as a list with ranges.
    pub reserved_ports: Text,
    /// The way out.
    pub gateway: Text,
}

/// What of a node is not for tasks.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReserved {
    /// Compute, in MHz, with what [`Self::cores`] make.
    pub cpu_mhz: u32,
    /// Ids of the cores that no task gets for itself; they are disabled in the topology, too.
    pub cores: Vec<u16>,
    /// Memory, in MB.
    pub memory_mb: u32,
    /// Disk, in MB.
    pub disk_mb: u32,
    /// Ports on every address, as a list with ranges such as `22,8000-8010`.
    pub ports: Text,
}
