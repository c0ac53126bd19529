//! Resources that tasks and groups request.

use serde::{Deserialize, Serialize};

use super::{Affinity, Constraint, NetworkResource};
use crate::Text;
use crate::mirror::{mirror, passthrough};

// NUMA preferences are only stored and returned; the scheduler ignores them.
passthrough!(api_types::Numa);

/// Resources that a task requests.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Processor capacity in MHz; 0 if whole cores are requested.
    pub cpu_mhz: u32,
    /// Number of exclusively reserved cores.
    pub cores: u32,
    /// Memory in MB.
    pub memory_mb: u32,
    /// Memory limit in MB; 0 is unset, -1 is no limit.
    pub memory_max_mb: i64,
    /// Disk space in MB; obsolete, superseded by the disk of the group.
    pub disk_mb: u32,
    /// Disk operations per second; obsolete.
    pub iops: u32,
    /// Networks of the task, in older job files.
    pub networks: Vec<NetworkResource>,
    /// Exclusively reserved devices.
    pub devices: Vec<RequestedDevice>,
    /// NUMA preferences.
    pub numa: Option<api_types::Numa>,
    /// Size of its secrets directory in MB, which is added to the memory.
    pub secrets_mb: u32,
}

mirror! {
    Resources = Resources {
        cores: "Cores",
        memory_mb: "MemoryMB",
        memory_max_mb: "MemoryMaxMB",
        disk_mb: "DiskMB",
        iops: "IOPS",
        networks: "Networks",
        devices: "Devices",
        numa: "NUMA",
        secrets_mb: "SecretsMB",
    }
    renamed { cpu_mhz = cpu: "CPU" }
}

/// Instances of a device that a task requests.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedDevice {
    /// `type`, `vendor/type` or `vendor/type/name`.
    pub name: Text,
    /// Number of instances.
    pub count: u64,
    /// Constraints that the device must satisfy.
    pub constraints: Vec<Constraint>,
    /// Preferences for devices.
    pub affinities: Vec<Affinity>,
}

mirror! {
    RequestedDevice = RequestedDevice {
        name: "Name",
        count: "Count",
        constraints: "Constraints",
        affinities: "Affinities",
    }
}

/// Disk space that a group's tasks share.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EphemeralDisk {
    /// Whether a replacement prefers the same node and keeps the data there.
    pub sticky: bool,
    /// Its size in MB.
    pub size_mb: u32,
    /// Whether the data is copied to another node if possible.
    pub migrate: bool,
}

mirror! {
    EphemeralDisk = EphemeralDisk { sticky: "Sticky", size_mb: "SizeMB", migrate: "Migrate" }
}
