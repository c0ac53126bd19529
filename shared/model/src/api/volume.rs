//! Conversion of host volumes, CSI volumes, and the claims of sticky volumes.

use super::public;
use crate::JobKey;
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, text_members};
use crate::volume::{CsiVolume, CsiVolumeKey, HostVolume, HostVolumeState, VolumeCapability, VolumeClaim};

text_members!(HostVolumeState);
public!(HostVolume = HostVolume, VolumeClaim = TaskGroupHostVolumeClaim, CsiVolume = CsiVolume);

mirror! {
    HostVolume = HostVolume {
        id: "ID",
        namespace: "Namespace",
        name: "Name",
        plugin_id: "PluginID",
        node_id: "NodeID",
        node_pool: "NodePool",
        constraints: "Constraints",
        capacity_bytes: "CapacityBytes",
        parameters: "Parameters",
        host_path: "HostPath",
        state: "State",
        create_index: "CreateIndex",
        modify_index: "ModifyIndex",
        create_time: "CreateTime",
        modify_time: "ModifyTime",
    }
    renamed {
        requested_bytes_min = requested_capacity_min_bytes: "RequestedCapacityMinBytes",
        requested_bytes_max = requested_capacity_max_bytes: "RequestedCapacityMaxBytes",
        capabilities = requested_capabilities: "RequestedCapabilities",
    }
    ignored { allocations = None }
}

mirror! {
    VolumeCapability = HostVolumeCapability { attachment_mode: "AttachmentMode", access_mode: "AccessMode" }
}

impl Mirror for VolumeClaim {
    type Api = api_types::TaskGroupHostVolumeClaim;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        Ok(Self {
            id: Member::read(api.id).at("ID")?,
            job: JobKey::new(api.namespace.unwrap_or_default(), api.job_id.unwrap_or_default()),
            task_group: Member::read(api.task_group_name).at("TaskGroupName")?,
            alloc_id: Member::read(api.alloc_id).at("AllocID")?,
            volume_id: Member::read(api.volume_id).at("VolumeID")?,
            volume_name: Member::read(api.volume_name).at("VolumeName")?,
            create_index: Member::read(api.create_index).at("CreateIndex")?,
            modify_index: Member::read(api.modify_index).at("ModifyIndex")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        Self::Api {
            id: self.id.write(),
            namespace: self.job.namespace.write(),
            job_id: self.job.id.write(),
            task_group_name: self.task_group.write(),
            alloc_id: self.alloc_id.write(),
            volume_id: self.volume_id.write(),
            volume_name: self.volume_name.write(),
            create_index: self.create_index.write(),
            modify_index: self.modify_index.write(),
        }
    }
}

/// The text that replaces a secret in responses.
const REDACTED: &str = "[REDACTED]";

/// The object of the API is stored without the allocations, which the API service adds to responses. Responses contain
/// redacted secrets.
impl Mirror for CsiVolume {
    type Api = api_types::CsiVolume;

    fn from_api(mut api: Self::Api) -> Result<Self, Invalid> {
        let key = CsiVolumeKey {
            namespace: Member::read(api.namespace.clone()).at("Namespace")?,
            id: Member::read(api.id.clone()).at("ID")?,
        };
        api.allocations = None;
        Ok(Self {
            key,
            create_index: Member::read(api.create_index).at("CreateIndex")?,
            modify_index: Member::read(api.modify_index).at("ModifyIndex")?,
            volume: Box::new(api),
        })
    }

    fn to_api(&self) -> Self::Api {
        let mut volume = Self::Api::clone(&self.volume);
        volume.namespace = self.key.namespace.write();
        volume.id = self.key.id.write();
        volume.create_index = self.create_index.write();
        volume.modify_index = self.modify_index.write();
        for secret in volume.secrets.iter_mut().flat_map(|secrets| secrets.values_mut()) {
            REDACTED.clone_into(secret);
        }
        volume
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_claim_only_the_id_is_kept() {
        let text = br#"{ "ReadAllocs": { "a1": { "Name": "web" }, "a2": null }, "Allocations": [] }"#;
        let shown = CsiVolume::from_api(api_types::decode::from_slice(text).unwrap()).unwrap().to_api();
        assert_eq!(shown.allocations, None);
        let claims = serde_json::to_value(shown.read_allocs).unwrap();
        assert_eq!(claims, serde_json::json!({ "a1": null, "a2": null }));
    }

    #[test]
    fn secrets_of_a_csi_volume_are_kept_but_not_shown() {
        let secrets = |secret: &str| Some([("password".to_owned(), secret.to_owned())].into());
        let api = api_types::CsiVolume { secrets: secrets("hunter2"), ..Default::default() };
        let volume = CsiVolume::from_api(api).unwrap();
        assert_eq!(volume.volume.secrets, secrets("hunter2"));
        assert_eq!(volume.to_api().secrets, secrets(REDACTED));
    }
}
