//! What a task asks for. What an allocation then occupies is in `alloc.rs`, what a node has in `node_resources.rs`.

use serde::{Deserialize, Serialize};

use crate::{Affinity, Constraint, NetworkResource};

/// What a task asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Resources {
    /// Share of the processor in MHz; default 100, or 0 with `Cores`.
    #[serde(rename = "CPU")]
    pub cpu: Option<i64>,
    /// Whole cores, reserved exclusively.
    pub cores: Option<i64>,
    /// Memory in MB; default 300.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
    /// Memory in MB that it may use when the node has more; -1 is no limit, unset is `MemoryMB`.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: Option<i64>,
    /// Disk in MB; legacy, see `EphemeralDisk`.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
    /// Legacy and without effect.
    #[serde(rename = "IOPS")]
    pub iops: Option<i64>,
    /// Network and ports of the task; legacy, see the group's.
    pub networks: Option<Vec<NetworkResource>>,
    /// Devices such as GPUs.
    pub devices: Option<Vec<RequestedDevice>>,
    /// How cores and devices relate to NUMA nodes.
    #[serde(rename = "NUMA")]
    pub numa: Option<Numa>,
    /// Size of the secrets directory in MB.
    #[serde(rename = "SecretsMB")]
    pub secrets_mb: Option<i64>,
}

/// Devices of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestedDevice {
    /// `type`, `vendor/type` or `vendor/type/name`.
    pub name: Option<String>,
    /// How many; default 1.
    pub count: Option<u64>,
    /// What the device must fulfil.
    pub constraints: Option<Vec<Constraint>>,
    /// What makes a device more desirable.
    pub affinities: Option<Vec<Affinity>>,
}

/// How a task's cores and devices relate to NUMA nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Numa {
    /// Whether cores come from one NUMA node: `none`, `prefer` or `require`.
    pub affinity: Option<String>,
    /// Requested devices, by name, that come from the same one.
    pub devices: Option<Vec<String>>,
}
