//! Total and reserved resources of a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Attribute;
use crate::Text;
use crate::job::NetworkResource;

/// The total resources of a node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeResources {
    /// Its processors.
    pub processors: Topology,
    /// The processor capacity in the form that older clients read.
    pub cpu: LegacyCpu,
    /// Memory, in MB.
    pub memory_mb: u32,
    /// Disk, in MB.
    pub disk_mb: u32,
    /// Its devices.
    pub devices: Vec<NodeDeviceGroup>,
    /// Its networks with their addresses.
    pub node_networks: Vec<NodeNetwork>,
    /// Its networks in the older form.
    pub networks: Vec<NetworkResource>,
    /// The lowest dynamic port; 0 is the default.
    pub dynamic_port_min: u16,
    /// The highest dynamic port, which the random probes of the scheduler exclude; 0 is the default.
    pub dynamic_port_max: u16,
}

/// The processor capacity of a node, in the form that older clients read.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyCpu {
    /// Sum of all cores, in MHz.
    pub cpu_mhz: u32,
    /// Number of usable cores.
    pub total_cores: u16,
    /// Ids of the cores that tasks may reserve exclusively.
    pub reservable_cores: Vec<u16>,
}

/// The cores and NUMA nodes of a machine.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Ids of its NUMA nodes.
    pub nodes: Vec<u16>,
    /// Distances between the NUMA nodes.
    pub distances: Vec<Vec<u32>>,
    /// Its cores.
    pub cores: Vec<Core>,
    /// Total processor capacity set by the operator, in MHz; 0 is the sum of the cores.
    pub override_total_mhz: u32,
    /// Processor capacity withheld by the operator, in MHz. It is only stored and returned, because it is also part of
    /// the reserved resources.
    pub override_withheld_mhz: u32,
}

impl Topology {
    /// Total processor capacity in MHz, including disabled cores. Their capacity is part of the node's reserved
    /// resources, which [`NodeSpec::capacity`](super::NodeSpec::capacity) subtracts.
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
    /// Its NUMA node.
    pub node_id: u16,
    /// Its id.
    pub id: u16,
    /// Whether it is a performance core.
    pub grade: bool,
    /// Whether tasks may not reserve it.
    pub disable: bool,
    /// Base frequency in MHz.
    pub base_mhz: u32,
    /// Highest frequency in MHz.
    pub max_mhz: u32,
    /// Estimated frequency in MHz, if neither of the others is known.
    pub guess_mhz: u32,
}

impl Core {
    /// Its frequency in MHz: the first known of base, highest and estimated frequency.
    pub fn mhz(&self) -> u32 {
        [self.base_mhz, self.max_mhz, self.guess_mhz].into_iter().find(|mhz| *mhz > 0).unwrap_or(0)
    }
}

/// Devices of one vendor, type and model.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeDeviceGroup {
    /// The vendor.
    pub vendor: Text,
    /// The type of device, such as `gpu`.
    pub kind: Text,
    /// The model.
    pub name: Text,
    /// The individual devices.
    pub instances: Vec<NodeDevice>,
    /// Attributes that constraints may refer to, in the form of the API.
    pub attributes: BTreeMap<Text, Attribute>,
}

/// An individual device.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDevice {
    /// Its id.
    pub id: Text,
    /// Whether it is healthy.
    pub healthy: bool,
    /// Human-readable reason for the health.
    pub health_description: Text,
    /// Address on the PCI bus.
    pub pci_bus_id: Option<Text>,
}

/// A network of a node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNetwork {
    /// `host`, `bridge`, `cni/<name>`.
    pub mode: Text,
    /// Its network interface.
    pub device: Text,
    /// Hardware address of the interface.
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
    /// Ports that are not available to tasks, as a list of ports and ranges.
    pub reserved_ports: Text,
    /// Gateway of the network.
    pub gateway: Text,
}

/// Resources of a node that are not available to tasks.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReserved {
    /// Processor capacity in MHz, including that of [`Self::cores`].
    pub cpu_mhz: u32,
    /// Ids of the cores that no task may reserve. They are also disabled in the topology.
    pub cores: Vec<u16>,
    /// Memory, in MB.
    pub memory_mb: u32,
    /// Disk, in MB.
    pub disk_mb: u32,
    /// Ports on every address, as a list of ports and ranges such as `22,8000-8010`.
    pub ports: Text,
}
