//! Volume requests of task groups, and the mounts of volumes in tasks.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::mirror::{mirror, passthrough, text_members};
use crate::text::string_enum;

string_enum! {
    /// Type of a volume.
    VolumeKind, "volume type" {
        /// A host volume, provided by the node.
        Host => "host",
        /// A CSI volume, provided by a CSI plugin.
        Csi => "csi",
    }
}

string_enum! {
    /// How many nodes and allocations may use a volume at the same time.
    AccessMode, "access mode" {
        /// One node may read.
        SingleNodeReader => "single-node-reader-only",
        /// One node may write.
        SingleNodeWriter => "single-node-writer",
        /// One allocation may write; host volumes only.
        SingleNodeSingleWriter => "single-node-single-writer",
        /// Several allocations on one node may write; host volumes only.
        SingleNodeMultiWriter => "single-node-multi-writer",
        /// Several nodes may read.
        MultiNodeReader => "multi-node-reader-only",
        /// Several nodes may read and one of them may write.
        MultiNodeSingleWriter => "multi-node-single-writer",
        /// Several nodes may write.
        MultiNodeMultiWriter => "multi-node-multi-writer",
    }
}

string_enum! {
    /// How a volume is attached to the node.
    AttachmentMode, "attachment mode" {
        /// As a directory.
        FileSystem => "file-system",
        /// As a device.
        BlockDevice => "block-device",
    }
}

string_enum! {
    /// How mounts below a volume propagate between the host and the task.
    PropagationMode, "propagation mode" {
        /// They do not propagate.
        Private => "private",
        /// They propagate from the host to the task.
        HostToTask => "host-to-task",
        /// They propagate in both directions.
        Bidirectional => "bidirectional",
    }
}

text_members!(VolumeKind, AccessMode, AttachmentMode, PropagationMode);

passthrough!(api_types::CsiMountOptions);

/// A volume that a group requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRequest {
    /// The name by which the group's tasks refer to it.
    pub name: Text,
    /// Its type.
    pub kind: VolumeKind,
    /// Name of the host volume, or id of the CSI volume.
    pub source: Text,
    /// Whether it is only read.
    pub read_only: bool,
    /// Whether replacements must get the same volume; dynamic host volumes only.
    pub sticky: bool,
    /// How many nodes and allocations may use it; `None` if the volume type does not require it.
    pub access_mode: Option<AccessMode>,
    /// How it is attached to the node; `None` if the volume type does not require it.
    pub attachment_mode: Option<AttachmentMode>,
    /// Mount options for the plugin.
    pub mount_options: Option<api_types::CsiMountOptions>,
    /// Whether each allocation has a volume of its own, `<source>[<name index>]`.
    pub per_alloc: bool,
}

mirror! {
    VolumeRequest = VolumeRequest {
        name: "Name",
        source: "Source",
        read_only: "ReadOnly",
        sticky: "Sticky",
        access_mode: "AccessMode",
        attachment_mode: "AttachmentMode",
        mount_options: "MountOptions",
        per_alloc: "PerAlloc",
    }
    renamed { kind = r#type: "Type" }
}

/// The mount of one of the group's volumes in a task.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// Name of the volume in the group.
    pub volume: Text,
    /// Path in the task.
    pub destination: Text,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// How mounts below it propagate.
    pub propagation_mode: Option<PropagationMode>,
    /// SELinux label of the mount.
    pub selinux_label: Text,
}

mirror! {
    VolumeMount = VolumeMount {
        volume: "Volume",
        destination: "Destination",
        read_only: "ReadOnly",
        propagation_mode: "PropagationMode",
        selinux_label: "SELinuxLabel",
    }
}
