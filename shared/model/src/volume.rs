//! Volumes as far as schedulers look at them, and the claims on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text::words;
use crate::{AllocId, HostVolumeId, Index, JobKey, NodeId, Text, Timestamp, VolumeClaimId};

words! {
    /// Where a dynamic host volume is in its life.
    HostVolumeState, "host volume state" {
        /// Being made.
        Pending => "pending",
        /// There.
        Ready => "ready",
        /// Its node does not have it at the moment.
        Unavailable => "unavailable",
    }
}

/// How a volume may be attached and used, in the API's words.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeCapability {
    /// `file-system` or `block-device`.
    pub attachment_mode: Text,
    /// For instance `single-node-writer`.
    pub access_mode: Text,
}

/// A dynamic host volume: space on one node with a life of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostVolume {
    /// Its id.
    pub id: HostVolumeId,
    /// The namespace that it belongs to.
    pub namespace: Text,
    /// The name that jobs ask for.
    pub name: Text,
    /// The plugin that made it.
    pub plugin_id: Text,
    /// The node that it is on.
    pub node_id: Option<NodeId>,
    /// That node's pool.
    pub node_pool: Text,
    /// What a node must have to hold it.
    #[serde(default)]
    pub constraints: Vec<crate::job::Constraint>,
    /// The least space asked for, in bytes.
    #[serde(default)]
    pub requested_bytes_min: i64,
    /// The most space asked for, in bytes.
    #[serde(default)]
    pub requested_bytes_max: i64,
    /// The space that it has, in bytes.
    #[serde(default)]
    pub capacity_bytes: i64,
    /// How it may be used.
    #[serde(default)]
    pub capabilities: Vec<VolumeCapability>,
    /// What the plugin was told.
    #[serde(default)]
    pub parameters: BTreeMap<Text, Text>,
    /// Where it is on the node.
    #[serde(default)]
    pub host_path: Text,
    /// Where it is in its life.
    pub state: HostVolumeState,
    /// The index that made it.
    #[serde(default)]
    pub create_index: Index,
    /// The last index that changed it.
    #[serde(default)]
    pub modify_index: Index,
    /// When it was made.
    #[serde(default)]
    pub create_time: Timestamp,
    /// When it changed last.
    #[serde(default)]
    pub modify_time: Timestamp,
}

/// A claim of a sticky volume by a task group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeClaim {
    /// Its id.
    pub id: VolumeClaimId,
    /// The job that claims.
    pub job: JobKey,
    /// Its task group.
    pub task_group: Text,
    /// The allocation that holds the claim.
    pub alloc_id: AllocId,
    /// The volume.
    pub volume_id: HostVolumeId,
    /// The volume's name.
    pub volume_name: Text,
    /// The index that made it.
    #[serde(default)]
    pub create_index: Index,
    /// The last index that changed it.
    #[serde(default)]
    pub modify_index: Index,
}

/// Names a CSI volume: ids are unique within a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CsiVolumeKey {
    /// The namespace that it belongs to.
    pub namespace: Text,
    /// Its id within it.
    pub id: Text,
}

/// A volume of a CSI plugin with its claims.
///
/// Feasibility looks at a handful of its fields; the rest is the plugin's and is carried as the
/// API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CsiVolume {
    /// Its name in the cluster.
    pub key: CsiVolumeKey,
    /// All of it as the API shows it, claims included.
    pub volume: Box<api_types::CsiVolume>,
    /// The index that made it.
    pub create_index: Index,
    /// The last index that changed it.
    pub modify_index: Index,
}
