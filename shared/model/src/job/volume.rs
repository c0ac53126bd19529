//! Volumes: what a group asks for, and where its tasks see it.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::mirror::{mirror, passthrough, text_members};
use crate::text::string_enum;

string_enum! {
    /// Who provides a volume.
    VolumeKind, "volume type" {
        /// The node.
        Host => "host",
        /// A CSI plugin.
        Csi => "csi",
    }
}

string_enum! {
    /// Who may use a volume at the same time, and how.
    AccessMode, "access mode" {
        /// One node reads.
        SingleNodeReader => "single-node-reader-only",
        /// One node writes.
        SingleNodeWriter => "single-node-writer",
        /// One allocation writes; host volumes only.
        SingleNodeSingleWriter => "single-node-single-writer",
        /// Several allocations of one node write; host volumes only.
        SingleNodeMultiWriter => "single-node-multi-writer",
        /// Several nodes read.
        MultiNodeReader => "multi-node-reader-only",
        /// Several nodes read, one of them writes.
        MultiNodeSingleWriter => "multi-node-single-writer",
        /// Several nodes write.
        MultiNodeMultiWriter => "multi-node-multi-writer",
    }
}

string_enum! {
    /// How a volume appears on the node.
    AttachmentMode, "attachment mode" {
        /// As a directory.
        FileSystem => "file-system",
        /// As a device.
        BlockDevice => "block-device",
    }
}

string_enum! {
    /// Whether mounts made below a volume are seen on its other side.
    PropagationMode, "propagation mode" {
        /// On neither.
        Private => "private",
        /// The task sees the host's.
        HostToTask => "host-to-task",
        /// Each sees the other's.
        Bidirectional => "bidirectional",
    }
}

text_members!(VolumeKind, AccessMode, AttachmentMode, PropagationMode);

passthrough!(api_types::CsiMountOptions);

/// A volume that a group asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRequest {
    /// The name that the group's tasks know it by.
    pub name: Text,
    /// Who provides it.
    pub kind: VolumeKind,
    /// The volume, by the node's name for it or by its id.
    pub source: Text,
    /// Whether it is only read.
    pub read_only: bool,
    /// Whether replacements must get the very same volume; dynamic host volumes only.
    pub sticky: bool,
    /// Who may use it at the same time; `None` where the kind of volume leaves it open.
    pub access_mode: Option<AccessMode>,
    /// How it appears on the node; `None` where the kind of volume leaves it open.
    pub attachment_mode: Option<AttachmentMode>,
    /// How the plugin shall mount it.
    pub mount_options: Option<api_types::CsiMountOptions>,
    /// Whether each allocation has its own, `<source>[<number>]`.
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

/// Where a task sees one of its group's volumes.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// The volume, by its name in the group.
    pub volume: Text,
    /// The path in the task.
    pub destination: Text,
    /// Whether the task may only read it.
    pub read_only: bool,
    /// Whether mounts below it are seen on the other side.
    pub propagation_mode: Option<PropagationMode>,
    /// The label that the mount gets for SELinux.
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
