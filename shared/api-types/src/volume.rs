//! Volumes: CSI volumes, dynamic host volumes, and the claims that sticky host volumes leave.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AllocListStub, Constraint, Time};

/// A volume of a storage provider, accessed through a CSI plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiVolume {
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Display name; also passed to the provider on creation.
    pub name: Option<String>,
    /// The provider's id.
    #[serde(rename = "ExternalID")]
    pub external_id: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Topologies requested on creation.
    pub requested_topologies: Option<CsiTopologyRequest>,
    /// Topologies from which it is reachable. A node must match one of them; an empty list matches every node.
    pub topologies: Option<Vec<CsiTopology>>,
    /// Access mode of the current claims, such as `single-node-writer`; empty without claims.
    pub access_mode: Option<String>,
    /// Attachment mode of the current claims: `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Options for mounting a file system.
    pub mount_options: Option<CsiMountOptions>,
    /// For the plugin; redacted when read.
    pub secrets: Option<BTreeMap<String, String>>,
    /// The plugin's parameters on creation.
    pub parameters: Option<BTreeMap<String, String>>,
    /// Context that the plugin wants to receive with every call.
    pub context: Option<BTreeMap<String, String>>,
    /// In bytes.
    pub capacity: Option<i64>,
    /// Least capacity asked for on creation, in bytes.
    pub requested_capacity_min: Option<i64>,
    /// Greatest capacity asked for on creation, in bytes.
    pub requested_capacity_max: Option<i64>,
    /// Access and attachment modes in which it may be claimed.
    pub requested_capabilities: Option<Vec<CsiVolumeCapability>>,
    /// Volume that it was created from.
    #[serde(rename = "CloneID")]
    pub clone_id: Option<String>,
    /// Snapshot that it was created from.
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: Option<String>,
    /// Claims for reading, by the id of the allocation.
    pub read_allocs: Option<BTreeMap<String, CsiClaim>>,
    /// Claims for writing, by the id of the allocation.
    pub write_allocs: Option<BTreeMap<String, CsiClaim>>,
    /// Whether the plugin is healthy enough for new claims.
    pub schedulable: Option<bool>,
    /// The plugin that serves it.
    #[serde(rename = "PluginID")]
    pub plugin_id: Option<String>,
    /// The vendor's name for the plugin.
    pub provider: Option<String>,
    /// The vendor's version of the plugin.
    pub provider_version: Option<String>,
    /// Whether attaching needs a controller.
    pub controller_required: Option<bool>,
    /// Controllers of the plugin that work.
    pub controllers_healthy: Option<i64>,
    /// Controllers of the plugin in all.
    pub controllers_expected: Option<i64>,
    /// Nodes where the plugin works.
    pub nodes_healthy: Option<i64>,
    /// Nodes where the plugin runs.
    pub nodes_expected: Option<i64>,
    /// When a claim last failed because the volume was exhausted.
    pub resource_exhausted: Option<Time>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    pub modify_time: Option<i64>,
    /// The allocations that claim it; filled in when it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Vec<AllocListStub>>,
}

/// A claim of an allocation. It is null in responses, and may be the allocation in requests, where it is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CsiClaim;

impl Serialize for CsiClaim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl<'de> Deserialize<'de> for CsiClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// A topology, in the storage provider's terms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiTopology {
    /// Such as `zone`, by name.
    pub segments: Option<BTreeMap<String, String>>,
}

/// Topologies from which a new volume should be reachable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiTopologyRequest {
    /// The volume must be reachable from at least one of these.
    pub required: Option<Vec<CsiTopology>>,
    /// Preferred topologies, best first.
    pub preferred: Option<Vec<CsiTopology>>,
}

/// An access and attachment mode in which a CSI volume may be claimed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiVolumeCapability {
    /// `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Such as `single-node-writer` or `multi-node-multi-writer`.
    pub access_mode: Option<String>,
}

/// Options for mounting a file system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiMountOptions {
    /// Such as `ext4`.
    #[serde(rename = "FSType")]
    pub fs_type: Option<String>,
    /// Flags for mount.
    pub mount_flags: Option<Vec<String>>,
}

/// A dynamic host volume: a directory on a node that was created on request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostVolume {
    /// Its namespace.
    pub namespace: Option<String>,
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Name that requests refer to; unique on the node.
    pub name: Option<String>,
    /// The plugin that creates it, such as `mkdir`.
    #[serde(rename = "PluginID")]
    pub plugin_id: Option<String>,
    /// Node pool of its node.
    pub node_pool: Option<String>,
    /// The node it is on.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// Constraints that the node had to satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Vec<Constraint>>,
    /// Least capacity asked for, in bytes.
    pub requested_capacity_min_bytes: Option<i64>,
    /// Greatest capacity asked for, in bytes.
    pub requested_capacity_max_bytes: Option<i64>,
    /// Capacity in bytes.
    pub capacity_bytes: Option<i64>,
    /// Access and attachment modes in which it may be claimed; default a file system with a single node as writer.
    pub requested_capabilities: Option<Vec<HostVolumeCapability>>,
    /// The plugin's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// Directory on the host.
    pub host_path: Option<String>,
    /// `pending`, `ready` or `unavailable`.
    pub state: Option<String>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    pub create_time: Option<i64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// When it last changed: Unix time in nanoseconds.
    pub modify_time: Option<i64>,
    /// The allocations that use it; filled in when it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Vec<AllocListStub>>,
}

/// An access and attachment mode in which a host volume may be claimed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostVolumeCapability {
    /// `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Such as `single-node-writer` or `single-node-multi-writer`.
    pub access_mode: Option<String>,
}

/// A claim of a task group on a host volume. A sticky volume leaves it, so that later allocations get the same volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupHostVolumeClaim {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The group.
    pub task_group_name: Option<String>,
    /// The allocation that holds the claim, or held it last.
    #[serde(rename = "AllocID")]
    pub alloc_id: Option<String>,
    /// The host volume.
    #[serde(rename = "VolumeID")]
    pub volume_id: Option<String>,
    /// That volume's name.
    pub volume_name: Option<String>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}
