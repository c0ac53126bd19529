//! What a task or a group takes of its node.

use serde::{Deserialize, Serialize};

use super::{Affinity, Constraint, NetworkResource};
use crate::Text;
use crate::mirror::{mirror, passthrough};

// Stored and shown, but not looked at.
passthrough!(api_types::Numa);

/// What a task asks for.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Compute, in MHz; 0 when whole cores are asked for.
    pub cpu_mhz: u32,
    /// Number of cores that shall be its alone.
    pub cores: u32,
    /// Memory, in MB.
    pub memory_mb: u32,
    /// Memory that it may grow to, in MB; 0 is not set, -1 no limit.
    pub memory_max_mb: i64,
    /// Disk, in MB; obsolete, a group's disk is what counts.
    pub disk_mb: u32,
    /// Disk operations a second; obsolete.
    pub iops: u32,
    /// Networks of its own, as older job files ask for them.
    pub networks: Vec<NetworkResource>,
    /// Devices that shall be its alone.
    pub devices: Vec<RequestedDevice>,
    /// Wishes about memory nodes.
    pub numa: Option<api_types::Numa>,
    /// Size of its secrets directory, in MB; it adds to the memory.
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

/// Instances of a device that a task asks for.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedDevice {
    /// `type`, `vendor/type` or `vendor/type/name`.
    pub name: Text,
    /// How many instances.
    pub count: u64,
    /// What the device must fulfil.
    pub constraints: Vec<Constraint>,
    /// What makes it more desirable, or less.
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
    /// Whether a replacement prefers the same node, and finds the data there.
    pub sticky: bool,
    /// Its size, in MB.
    pub size_mb: u32,
    /// Whether the data follows to another node, as far as possible.
    pub migrate: bool,
}

mirror! {
    EphemeralDisk = EphemeralDisk { sticky: "Sticky", size_mb: "SizeMB", migrate: "Migrate" }
}
