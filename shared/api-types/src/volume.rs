//! Volumes: those of storage providers (CSI), those made on a node by request, and the claims that sticky ones leave.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AllocListStub, Allocation, Constraint, Time};

/// A volume of a storage provider, reached by a CSI plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiVolume {
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// For people, and for the provider on creation.
    pub name: Option<String>,
    /// The provider's id.
    #[serde(rename = "ExternalID")]
    pub external_id: Option<String>,
    /// The namespace it lives in.
    pub namespace: Option<String>,
    /// Where it was asked to be reachable.
    pub requested_topologies: Option<CsiTopologyRequest>,
    /// Where it is reachable: a node must match one; none is everywhere.
    pub topologies: Option<Vec<CsiTopology>>,
    /// How it is claimed now, such as `single-node-writer`; empty without claims.
    pub access_mode: Option<String>,
    /// How it is claimed now, `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Options for mounting a file system.
    pub mount_options: Option<CsiMountOptions>,
    /// For the plugin; redacted when read.
    pub secrets: Option<BTreeMap<String, String>>,
    /// The plugin's parameters on creation.
    pub parameters: Option<BTreeMap<String, String>>,
    /// What the plugin wants to be told upon each use.
    pub context: Option<BTreeMap<String, String>>,
    /// In bytes.
    pub capacity: Option<i64>,
    /// Least capacity asked for on creation, in bytes.
    pub requested_capacity_min: Option<i64>,
    /// Greatest capacity asked for on creation, in bytes.
    pub requested_capacity_max: Option<i64>,
    /// Ways in which it may be claimed.
    pub requested_capabilities: Option<Vec<CsiVolumeCapability>>,
    /// Volume that it was created from.
    #[serde(rename = "CloneID")]
    pub clone_id: Option<String>,
    /// Snapshot that it was created from.
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: Option<String>,
    /// Allocations that claim it for reading, by id; reads of the API show null for each.
    pub read_allocs: Option<BTreeMap<String, Option<Allocation>>>,
    /// Allocations that claim it for writing, by id; reads of the API show null for each.
    pub write_allocs: Option<BTreeMap<String, Option<Allocation>>>,
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
    /// When it was last found that no more claims fit.
    pub resource_exhausted: Option<Time>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    pub modify_time: Option<i64>,
    /// The allocations that claim it; added on read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Vec<AllocListStub>>,
}

/// A place, in the storage provider's terms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiTopology {
    /// Such as `zone`, by name.
    pub segments: Option<BTreeMap<String, String>>,
}

/// Where a volume is asked to be reachable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiTopologyRequest {
    /// From at least one of these.
    pub required: Option<Vec<CsiTopology>>,
    /// The same as a wish, best first.
    pub preferred: Option<Vec<CsiTopology>>,
}

/// A way in which a CSI volume may be claimed.
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

/// A directory of a node that was made by request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostVolume {
    /// The namespace it lives in.
    pub namespace: Option<String>,
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Name that requests refer to; unique on the node.
    pub name: Option<String>,
    /// The plugin that makes it, such as `mkdir`.
    #[serde(rename = "PluginID")]
    pub plugin_id: Option<String>,
    /// Node pool of its node.
    pub node_pool: Option<String>,
    /// The node it is on.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// What the node had to fulfil.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Vec<Constraint>>,
    /// Least capacity asked for, in bytes.
    pub requested_capacity_min_bytes: Option<i64>,
    /// Greatest capacity asked for, in bytes.
    pub requested_capacity_max_bytes: Option<i64>,
    /// Capacity in bytes.
    pub capacity_bytes: Option<i64>,
    /// Ways in which it may be claimed; default a file system with a single node as writer.
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
    /// The allocations that use it; added on read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Vec<AllocListStub>>,
}

/// A way in which a host volume may be claimed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostVolumeCapability {
    /// `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Such as `single-node-writer` or `single-node-multi-writer`.
    pub access_mode: Option<String>,
}

/// A host volume that a group's allocations must come back to: what a sticky volume leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupHostVolumeClaim {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// The namespace it lives in.
    pub namespace: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// The group.
    pub task_group_name: Option<String>,
    /// The allocation that holds it now, or held it last.
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
