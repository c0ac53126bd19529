//! Total and reserved resources of a node: processor, memory, disk, networks, devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::NetworkResource;

/// The resources of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeResources {
    /// Total processor capacity; a legacy copy of `Processors`.
    pub cpu: Option<LegacyNodeCpuResources>,
    /// The processor cores.
    pub processors: Option<NodeProcessorResources>,
    /// Total memory.
    pub memory: Option<NodeMemoryResources>,
    /// Total disk space.
    pub disk: Option<NodeDiskResources>,
    /// Devices such as GPUs.
    pub devices: Option<Vec<NodeDeviceResource>>,
    /// Networks by interface.
    pub node_networks: Option<Vec<NodeNetworkResource>>,
    /// Networks by mode, such as `bridge`. The entries for interfaces are legacy.
    pub networks: Option<Vec<NetworkResource>>,
    /// First port that the scheduler may choose.
    pub min_dynamic_port: Option<i64>,
    /// Last port that the scheduler may choose.
    pub max_dynamic_port: Option<i64>,
}

/// The total processor capacity of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LegacyNodeCpuResources {
    /// Sum of all cores in MHz.
    pub cpu_shares: Option<i64>,
    /// Number of cores.
    pub total_cpu_cores: Option<u64>,
    /// Ids of cores that tasks may reserve.
    pub reservable_cpu_cores: Option<Vec<u64>>,
}

/// The processor cores of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeProcessorResources {
    /// The cores and their NUMA nodes.
    pub topology: Option<Topology>,
}

/// Cores and NUMA nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Topology {
    /// Ids of the NUMA nodes.
    pub nodes: Option<Vec<u64>>,
    /// Relative cost of memory access, from NUMA node to NUMA node.
    pub distances: Option<Vec<Vec<u64>>>,
    /// The cores.
    pub cores: Option<Vec<TopologyCore>>,
    /// MHz that the operator set in place of the sum over cores; 0 is unset.
    pub override_total_compute: Option<u64>,
    /// MHz that the operator withholds from allocations.
    pub override_withold_compute: Option<u64>,
}

/// One core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TopologyCore {
    /// The socket it is in.
    #[serde(rename = "SocketID")]
    pub socket_id: Option<u64>,
    /// The NUMA node it belongs to.
    #[serde(rename = "NodeID")]
    pub node_id: Option<u64>,
    /// Number of the core in the operating system.
    #[serde(rename = "ID")]
    pub id: Option<u64>,
    /// True for a performance core, false for an efficiency core.
    pub grade: Option<bool>,
    /// Whether tasks may not use it.
    pub disable: Option<bool>,
    /// Base frequency in MHz.
    pub base_speed: Option<u64>,
    /// Highest frequency in MHz.
    pub max_speed: Option<u64>,
    /// Estimated frequency in MHz, if neither of the others is known.
    pub guess_speed: Option<u64>,
}

/// A node's memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeMemoryResources {
    /// In MB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
}

/// A node's disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDiskResources {
    /// In MB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
}

/// A network of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeNetworkResource {
    /// `host`, `bridge` or `cni/<name>`.
    pub mode: Option<String>,
    /// Network interface.
    pub device: Option<String>,
    /// Its hardware address.
    pub mac_address: Option<String>,
    /// In Mbit/s.
    pub speed: Option<i64>,
    /// Its addresses.
    pub addresses: Option<Vec<NodeNetworkAddress>>,
}

/// An address of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeNetworkAddress {
    /// `ipv4` or `ipv6`.
    pub family: Option<String>,
    /// The host network it belongs to, such as `default`.
    pub alias: Option<String>,
    /// The address.
    pub address: Option<String>,
    /// Ports that may not be allocated, such as `22,8000-8100`.
    pub reserved_ports: Option<String>,
    /// Gateway of the network.
    pub gateway: Option<String>,
}

/// Devices of one kind on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDeviceResource {
    /// Such as `nvidia`.
    pub vendor: Option<String>,
    /// Such as `gpu`.
    pub r#type: Option<String>,
    /// The model.
    pub name: Option<String>,
    /// The individual devices.
    pub instances: Option<Vec<NodeDevice>>,
    /// Attributes that constraints may refer to.
    pub attributes: Option<BTreeMap<String, Attribute>>,
}

/// An individual device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDevice {
    /// Unique among its kind on the node.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Whether it may be used.
    pub healthy: Option<bool>,
    /// Human-readable reason why it may not be used.
    pub health_description: Option<String>,
    /// Location in the machine.
    pub locality: Option<NodeDeviceLocality>,
}

/// Location of a device in the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDeviceLocality {
    /// Address on the PCI bus.
    #[serde(rename = "PciBusID")]
    pub pci_bus_id: Option<String>,
}

/// A typed value with an optional unit. One of the four value fields is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Attribute {
    /// The value as a number.
    pub float: Option<f64>,
    /// The value as an integer.
    pub int: Option<i64>,
    /// The value as text.
    pub string: Option<String>,
    /// The value as a boolean.
    pub bool: Option<bool>,
    /// Such as `MiB` or `GHz`; empty without one.
    pub unit: Option<String>,
}

/// Resources of a node that are reserved and not available to allocations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedResources {
    /// Reserved processor capacity.
    pub cpu: Option<NodeReservedCpuResources>,
    /// Reserved memory.
    pub memory: Option<NodeReservedMemoryResources>,
    /// Reserved disk space.
    pub disk: Option<NodeReservedDiskResources>,
    /// Reserved ports.
    pub networks: Option<NodeReservedNetworkResources>,
}

/// The reserved processor capacity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedCpuResources {
    /// In MHz.
    pub cpu_shares: Option<i64>,
    /// Ids of cores that no task may reserve.
    pub reserved_cpu_cores: Option<Vec<u64>>,
}

/// The reserved memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedMemoryResources {
    /// In MB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
}

/// The reserved disk space.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedDiskResources {
    /// In MB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
}

/// The reserved ports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedNetworkResources {
    /// On all addresses, such as `22,8000-8100`.
    pub reserved_host_ports: Option<String>,
}
