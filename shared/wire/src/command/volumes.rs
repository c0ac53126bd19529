//! Commands about dynamic host volumes and the claims of sticky volumes.

use model::change::Cause;
use model::volume::HostVolume;
use model::{HostVolumeId, VolumeClaimId};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! volume_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Creates or updates a dynamic host volume.
            SetHostVolume(Box<SetHostVolume>),
            /// Deletes a dynamic host volume.
            DeleteHostVolume(DeleteHostVolume),
            /// Deletes the claim of a task group on a sticky volume.
            DeleteVolumeClaim(DeleteVolumeClaim),
        }
    };
}

/// Creates or updates a dynamic host volume (http-api §22). The volume is on its node already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetHostVolume {
    /// The volume. The applier sets its state, its times and its indexes.
    pub volume: HostVolume,
}

impl CommandBody for SetHostVolume {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::HostVolumeRegistered,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Deletes a dynamic host volume, with the claims on it (http-api §22). The node has deleted it already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteHostVolume {
    /// Id of the volume.
    pub id: HostVolumeId,
}

impl CommandBody for DeleteHostVolume {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::HostVolumeDeleted,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Deletes the claim of a task group on a sticky volume, so that its next allocation may get another one (http-api §22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteVolumeClaim {
    /// Id of the claim.
    pub id: VolumeClaimId,
}

impl CommandBody for DeleteVolumeClaim {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::Settings,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use model::volume::{HostVolumeState, VolumeCapability};

    use super::*;
    use crate::command::Sample;
    use crate::samples::{INDEX, NODE, NOW};

    const VOLUME: HostVolumeId = HostVolumeId::from_bytes([21; 16]);

    impl Sample for SetHostVolume {
        fn samples() -> Vec<Self> {
            let capability = VolumeCapability {
                attachment_mode: "file-system".into(),
                access_mode: "single-node-writer".into(),
            };
            let volume = HostVolume {
                id: VOLUME,
                namespace: "default".into(),
                name: "data".into(),
                plugin_id: "mkdir".into(),
                node_id: Some(NODE),
                node_pool: "default".into(),
                constraints: Vec::new(),
                requested_bytes_min: 1,
                requested_bytes_max: 2,
                capacity_bytes: 2,
                capabilities: vec![capability],
                parameters: [("mode".into(), "0700".into())].into(),
                host_path: "/srv/data".into(),
                state: HostVolumeState::Pending,
                create_index: INDEX,
                modify_index: INDEX,
                create_time: NOW,
                modify_time: NOW,
            };
            vec![Self { volume }]
        }
    }

    impl Sample for DeleteHostVolume {
        fn samples() -> Vec<Self> {
            vec![Self { id: VOLUME }]
        }
    }

    impl Sample for DeleteVolumeClaim {
        fn samples() -> Vec<Self> {
            vec![Self { id: VolumeClaimId::from_bytes([22; 16]) }]
        }
    }
}
