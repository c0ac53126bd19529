//! Resources that a task requests. Resources of an allocation are in `alloc.rs`, those of a node in
//! `node_resources.rs`.

use serde::{Deserialize, Serialize};

use crate::{Affinity, Constraint, NetworkResource};

/// Resources that a task requests.
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
    /// Memory in MB that it may use if the node has spare memory; -1 is no limit, unset means `MemoryMB`.
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
    /// NUMA affinity of cores and devices.
    #[serde(rename = "NUMA")]
    pub numa: Option<Numa>,
    /// Size of the secrets directory in MB.
    #[serde(rename = "SecretsMB")]
    pub secrets_mb: Option<i64>,
}

/// A request for devices of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RequestedDevice {
    /// `type`, `vendor/type` or `vendor/type/name`.
    pub name: Option<String>,
    /// How many; default 1.
    pub count: Option<u64>,
    /// Constraints that the device must satisfy.
    pub constraints: Option<Vec<Constraint>>,
    /// Preferences for devices.
    pub affinities: Option<Vec<Affinity>>,
}

/// NUMA affinity of a task's cores and devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Numa {
    /// Whether cores come from one NUMA node: `none`, `prefer` or `require`.
    pub affinity: Option<String>,
    /// Names of requested devices that must come from the same NUMA node.
    pub devices: Option<Vec<String>>,
}
