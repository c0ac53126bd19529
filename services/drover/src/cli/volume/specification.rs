//! Specifications of host volumes: their files, and their types.

use anyhow::{Context as _, bail};
use api_types::HostVolume;
use model::features::Feature;
use serde_json::Value;

use super::{CSI, HOST};
use crate::cli::spec::{self, Form, Key};

const KEYS: &[Key] = &[
    Key { name: "type", api: "Type", form: Form::Text },
    Key { name: "id", api: "ID", form: Form::Text },
    Key { name: "name", api: "Name", form: Form::Text },
    Key { name: "namespace", api: "Namespace", form: Form::Text },
    Key { name: "plugin_id", api: "PluginID", form: Form::Text },
    Key { name: "node_id", api: "NodeID", form: Form::Text },
    Key { name: "node_pool", api: "NodePool", form: Form::Text },
    Key { name: "host_path", api: "HostPath", form: Form::Text },
    Key { name: "capacity", api: "CapacityBytes", form: Form::Bytes },
    Key { name: "capacity_min", api: "RequestedCapacityMinBytes", form: Form::Bytes },
    Key { name: "capacity_max", api: "RequestedCapacityMaxBytes", form: Form::Bytes },
    Key { name: "constraint", api: "Constraints", form: Form::Blocks(CONSTRAINT) },
    Key { name: "capability", api: "RequestedCapabilities", form: Form::Blocks(CAPABILITY) },
    Key { name: "parameters", api: "Parameters", form: Form::Map },
];
const CONSTRAINT: &[Key] = &[
    Key { name: "attribute", api: "LTarget", form: Form::Text },
    Key { name: "operator", api: "Operand", form: Form::Text },
    Key { name: "value", api: "RTarget", form: Form::Text },
];
const CAPABILITY: &[Key] = &[
    Key { name: "access_mode", api: "AccessMode", form: Form::Text },
    Key { name: "attachment_mode", api: "AttachmentMode", form: Form::Text },
];
/// The operator of a constraint that names none.
const EQUAL: &str = "=";

/// Reads the specification of a host volume; `-` is standard input.
pub(super) fn read(file: &str) -> anyhow::Result<HostVolume> {
    parse(file, &spec::read(file)?).context("Error parsing volume specification")
}

fn parse(file: &str, text: &[u8]) -> anyhow::Result<HostVolume> {
    let body = spec::parse(file, text)?;
    let kind = body.items.iter().find(|item| item.key == "type").map(|item| &item.value.kind);
    match kind {
        Some(hcl1::Kind::Text(kind)) if kind == HOST => {}
        Some(hcl1::Kind::Text(kind)) if kind == CSI => {
            bail!(Feature::CsiPlugins.refusal_of("volume type csi"))
        }
        Some(_) => bail!("unknown volume type"),
        None => bail!("type is required: \"{HOST}\""),
    }
    let mut members: Value = spec::object(&body, KEYS)?;
    if let Some(members) = members.as_object_mut() {
        members.remove("Type");
    }
    let mut volume: HostVolume = serde_json::from_value(members)?;
    for constraint in volume.constraints.iter_mut().flatten() {
        constraint.operand.get_or_insert_with(|| EQUAL.to_owned());
    }
    Ok(volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::volume::init;

    #[test]
    fn a_specification_becomes_a_volume_of_the_api() {
        let text = br#"type = "host"
            name = "data"
            plugin_id = "mkdir"
            capacity_min = "10GiB"
            capability { access_mode = "single-node-writer" attachment_mode = "file-system" }
            capability { access_mode = "single-node-reader-only" attachment_mode = "file-system" }
            constraint { attribute = "${attr.kernel.name}" value = "linux" }
            parameters { mode = "0700" }"#;
        let volume = parse("v.hcl", text).unwrap();
        assert_eq!((volume.name.as_deref(), volume.plugin_id.as_deref()), (Some("data"), Some("mkdir")));
        assert_eq!(volume.requested_capacity_min_bytes, Some(10 << 30));
        assert_eq!(volume.requested_capabilities.unwrap().len(), 2);
        let constraints = volume.constraints.unwrap();
        assert_eq!(constraints.len(), 1);
        assert_eq!(constraints[0].operand.as_deref(), Some("="));
        assert_eq!(volume.parameters.unwrap()["mode"], "0700");
    }

    #[test]
    fn other_types_are_refused() {
        let refused = |text: &str| parse("v.hcl", text.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused("type = \"csi\""), "volume type csi is not built yet");
        assert_eq!(refused("type = \"zz\""), "unknown volume type");
        assert_eq!(refused("name = \"a\""), "type is required: \"host\"");
        assert_eq!(refused("type = \"host\"\nsize = 1"), "unexpected keys size");
    }

    #[test]
    fn the_examples_are_specifications() {
        for text in [init::HCL, init::JSON] {
            let file = if text == init::JSON { "volume.json" } else { "volume.hcl" };
            let volume = parse(file, text.as_bytes()).unwrap();
            assert_eq!(volume.name.as_deref(), Some("data"), "{file}");
            assert_eq!(volume.requested_capabilities.map(|all| all.len()), Some(1), "{file}");
        }
    }
}
