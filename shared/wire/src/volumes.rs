//! Messages between the API and an agent about dynamic host volumes (http-api §22), on
//! [`Subject::AgentVolumes`](crate::Subject::AgentVolumes).
//!
//! An agent carries out one request at a time, and answers when what it has done is on its disk. A repeated request finds
//! its work done. A request that cannot be carried out is refused as `Invalid`, one that failed as `NotReady`.

use std::collections::BTreeMap;

use model::{HostVolumeId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Creates a volume by a plugin. A volume that exists is created again under its path, which may change its capacity. The
/// response is [`VolumeMade`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVolume {
    /// Id of the volume.
    pub id: HostVolumeId,
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// The plugin.
    pub plugin: Text,
    /// Smallest capacity in bytes; 0 is any.
    #[serde(default)]
    pub bytes_min: i64,
    /// Largest capacity in bytes; 0 is any.
    #[serde(default)]
    pub bytes_max: i64,
    /// Parameters of the plugin.
    #[serde(default)]
    pub parameters: BTreeMap<Text, Text>,
}

/// Makes an existing directory of the node a volume. The response is [`VolumeMade`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterVolume {
    /// Id of the volume.
    pub id: HostVolumeId,
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Path of the directory.
    pub host_path: Text,
}

/// Deletes a volume: its plugin deletes what it has created; a directory that was only registered stays. The response is
/// [`VolumeGone`], also for an unknown volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteVolume {
    /// Id of the volume.
    pub id: HostVolumeId,
}

/// The volume is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMade {
    /// Its path on the node.
    pub host_path: Text,
    /// Its capacity in bytes; 0 if the plugin does not say.
    #[serde(default)]
    pub capacity_bytes: i64,
}

/// The volume is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeGone {}

kinds! {
    CreateVolume => "volumes.create",
    RegisterVolume => "volumes.register",
    DeleteVolume => "volumes.delete",
    VolumeMade => "volumes.made",
    VolumeGone => "volumes.gone",
}
