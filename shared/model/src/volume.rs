//! Dynamic host volumes, CSI volumes, and the claims of sticky volumes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::uuid_ids;
use crate::small_object::{Column, SmallObject};
use crate::table::Table;
use crate::text::string_enum;
use crate::{AllocId, EvalId, Index, JobKey, NodeId, RequestId, Text, Timestamp};

uuid_ids! {
    /// Id of a dynamic host volume.
    HostVolumeId, "host volume";
    /// Id of a claim of a sticky volume.
    VolumeClaimId, "volume claim";
}

string_enum! {
    /// State of a dynamic host volume.
    HostVolumeState, "host volume state" {
        /// The volume is being created.
        Pending => "pending",
        /// The volume is ready.
        Ready => "ready",
        /// The volume is currently unavailable on its node.
        Unavailable => "unavailable",
    }
}

/// An attachment and access mode of a volume, as strings of the API.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeCapability {
    /// `file-system` or `block-device`.
    pub attachment_mode: Text,
    /// For instance `single-node-writer`.
    pub access_mode: Text,
}

/// A dynamic host volume: a directory on one node, created on request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostVolume {
    /// Its id.
    pub id: HostVolumeId,
    /// Its namespace.
    pub namespace: Text,
    /// The name that jobs refer to.
    pub name: Text,
    /// The plugin that created it.
    pub plugin_id: Text,
    /// The node that it is on.
    pub node_id: Option<NodeId>,
    /// That node's pool.
    pub node_pool: Text,
    /// Constraints that the node must satisfy.
    #[serde(default)]
    pub constraints: Vec<crate::job::Constraint>,
    /// Smallest requested capacity in bytes.
    #[serde(default)]
    pub requested_bytes_min: i64,
    /// Largest requested capacity in bytes.
    #[serde(default)]
    pub requested_bytes_max: i64,
    /// Capacity in bytes.
    #[serde(default)]
    pub capacity_bytes: i64,
    /// Attachment and access modes in which it may be claimed.
    #[serde(default)]
    pub capabilities: Vec<VolumeCapability>,
    /// Parameters of the plugin.
    #[serde(default)]
    pub parameters: BTreeMap<Text, Text>,
    /// Path on the node.
    #[serde(default)]
    pub host_path: Text,
    /// Its state.
    pub state: HostVolumeState,
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
    /// When it was created.
    #[serde(default)]
    pub create_time: Timestamp,
    /// When it last changed.
    #[serde(default)]
    pub modify_time: Timestamp,
}

impl SmallObject for HostVolume {
    type Key = HostVolumeId;
    type Api = api_types::HostVolume;

    const TABLE: Table = Table::HostVolumes;
    const NAME: &'static str = "host volume";
    const TOPIC: Option<&'static str> = Some("HostVolume");
    const EVENT_TYPES: Option<[&'static str; 2]> = Some(["HostVolumeRegistered", "HostVolumeDeleted"]);
    const EVENT_MEMBER: Option<&'static str> = Some("Volume");
    const KEY_COLUMNS: &'static [Column<HostVolumeId>] = &[Column::id("id", |id| Some(id.0))];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text("namespace", |volume| &volume.namespace),
        Column::text("name", |volume| &volume.name),
        Column::text("plugin_id", |volume| &volume.plugin_id),
        Column::id("node_id", |volume| volume.node_id.map(|id| id.0)),
        Column::text("node_pool", |volume| &volume.node_pool),
        Column::text("state", |volume| volume.state.as_str()),
        Column::number("capacity_bytes", |volume| volume.capacity_bytes),
        Column::time("create_time", |volume| volume.create_time),
        Column::time("modify_time", |volume| volume.modify_time),
    ];

    fn key(&self) -> &HostVolumeId {
        &self.id
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &HostVolumeId) -> Cow<'_, str> {
        Cow::Owned(key.to_string())
    }

    fn event_namespace(&self) -> &str {
        &self.namespace
    }

    fn filter_keys(&self) -> Option<Vec<String>> {
        Some(vec![self.name.to_string(), self.plugin_id.to_string()])
    }

    fn shape(&self) -> api_types::HostVolume {
        self.to_api()
    }
}

impl VolumeClaimId {
    /// The id of a claim that a command creates. A command that is executed twice creates the same ids.
    pub fn derived(request: RequestId, number: u32) -> Self {
        Self(EvalId::derived(request, number).0)
    }
}

/// A claim of a task group on a sticky volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeClaim {
    /// Its id.
    pub id: VolumeClaimId,
    /// The job of the task group.
    pub job: JobKey,
    /// The task group.
    pub task_group: Text,
    /// The allocation that holds the claim.
    pub alloc_id: AllocId,
    /// The volume.
    pub volume_id: HostVolumeId,
    /// The volume's name.
    pub volume_name: Text,
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
}

impl SmallObject for VolumeClaim {
    type Key = VolumeClaimId;
    type Api = api_types::TaskGroupHostVolumeClaim;

    const TABLE: Table = Table::VolumeClaims;
    const NAME: &'static str = "volume claim";
    const KEY_COLUMNS: &'static [Column<VolumeClaimId>] = &[Column::id("id", |id| Some(id.0))];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text("namespace", |claim| &claim.job.namespace),
        Column::text("job_id", |claim| &claim.job.id),
        Column::text("task_group", |claim| &claim.task_group),
        Column::id("alloc_id", |claim| Some(claim.alloc_id.0)),
        Column::id("volume_id", |claim| Some(claim.volume_id.0)),
        Column::text("volume_name", |claim| &claim.volume_name),
    ];

    fn key(&self) -> &VolumeClaimId {
        &self.id
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &VolumeClaimId) -> Cow<'_, str> {
        Cow::Owned(key.to_string())
    }

    fn shape(&self) -> api_types::TaskGroupHostVolumeClaim {
        self.to_api()
    }
}

/// Identifies a CSI volume. Its id is unique within a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CsiVolumeKey {
    /// The volume's namespace.
    pub namespace: Text,
    /// The volume's id within the namespace.
    pub id: Text,
}

/// A volume of a CSI plugin with its claims.
///
/// Only a few of its fields are needed for feasibility. It is stored in the form of the API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CsiVolume {
    /// Its namespace and id.
    pub key: CsiVolumeKey,
    /// The volume in the form of the API, including its claims.
    pub volume: Box<api_types::CsiVolume>,
    /// Index of the change set that created it.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
}

impl SmallObject for CsiVolume {
    type Key = CsiVolumeKey;
    type Api = api_types::CsiVolume;

    const TABLE: Table = Table::CsiVolumes;
    const NAME: &'static str = "CSI volume";
    const KEY_COLUMNS: &'static [Column<CsiVolumeKey>] =
        &[Column::text("namespace", |key| &key.namespace), Column::text("volume_id", |key| &key.id)];
    const COLUMNS: &'static [Column<Self>] = &[];

    fn key(&self) -> &CsiVolumeKey {
        &self.key
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &CsiVolumeKey) -> Cow<'_, str> {
        Cow::Borrowed(&key.id)
    }

    fn shape(&self) -> api_types::CsiVolume {
        self.to_api()
    }
}
