//! What a node has, and what of that is kept back: processor, memory, disk, networks, devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::NetworkResource;

/// What a node has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeResources {
    /// Processor in sum; a legacy copy of `Processors`.
    pub cpu: Option<LegacyNodeCpuResources>,
    /// Processor by cores.
    pub processors: Option<NodeProcessorResources>,
    /// Memory in sum.
    pub memory: Option<NodeMemoryResources>,
    /// Disk in sum.
    pub disk: Option<NodeDiskResources>,
    /// Devices such as GPUs.
    pub devices: Option<Vec<NodeDeviceResource>>,
    /// Networks by interface.
    pub node_networks: Option<Vec<NodeNetworkResource>>,
    /// Networks by mode, such as `bridge`; for interfaces legacy.
    pub networks: Option<Vec<NetworkResource>>,
    /// First port that the scheduler may choose.
    pub min_dynamic_port: Option<i64>,
    /// Last port that the scheduler may choose.
    pub max_dynamic_port: Option<i64>,
}

/// A node's processor in sum.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LegacyNodeCpuResources {
    /// All cores together in MHz.
    pub cpu_shares: Option<i64>,
    /// Number of cores.
    pub total_cpu_cores: Option<u64>,
    /// Ids of cores that tasks may reserve.
    pub reservable_cpu_cores: Option<Vec<u64>>,
}

/// A node's processor by cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeProcessorResources {
    /// The cores and how they lie to each other.
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
    /// Greatest frequency in MHz.
    pub max_speed: Option<u64>,
    /// Frequency in MHz guessed where neither is known.
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
    /// Ports not to use, such as `22,8000-8100`.
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
    /// The single devices.
    pub instances: Option<Vec<NodeDevice>>,
    /// What constraints may refer to.
    pub attributes: Option<BTreeMap<String, Attribute>>,
}

/// A single device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDevice {
    /// Unique among its kind on the node.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Whether it may be used.
    pub healthy: Option<bool>,
    /// Why it may not, for people.
    pub health_description: Option<String>,
    /// Where in the machine it is.
    pub locality: Option<NodeDeviceLocality>,
}

/// Where in a machine a device is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDeviceLocality {
    /// Address on the PCI bus.
    #[serde(rename = "PciBusID")]
    pub pci_bus_id: Option<String>,
}

/// A value with a type and perhaps a unit; one of the four types is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Attribute {
    /// The value as a number.
    pub float: Option<f64>,
    /// The value as an integer.
    pub int: Option<i64>,
    /// The value as text.
    pub string: Option<String>,
    /// The value as a truth value.
    pub bool: Option<bool>,
    /// Such as `MiB` or `GHz`; empty without one.
    pub unit: Option<String>,
}

/// What of a node is not for allocations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedResources {
    /// Processor kept back.
    pub cpu: Option<NodeReservedCpuResources>,
    /// Memory kept back.
    pub memory: Option<NodeReservedMemoryResources>,
    /// Disk kept back.
    pub disk: Option<NodeReservedDiskResources>,
    /// Ports kept back.
    pub networks: Option<NodeReservedNetworkResources>,
}

/// The processor time that is kept back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedCpuResources {
    /// In MHz.
    pub cpu_shares: Option<i64>,
    /// Ids of cores that no task may reserve.
    pub reserved_cpu_cores: Option<Vec<u64>>,
}

/// The memory that is kept back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedMemoryResources {
    /// In MB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
}

/// The disk that is kept back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedDiskResources {
    /// In MB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
}

/// The ports that are kept back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedNetworkResources {
    /// On all addresses, such as `22,8000-8100`.
    pub reserved_host_ports: Option<String>,
}
