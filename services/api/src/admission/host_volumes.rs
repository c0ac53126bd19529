//! Requests for dynamic host volumes (http-api §22): what is wrong with one, and the node that gets it. Pure.

use model::job::{AccessMode, AttachmentMode};
use model::node::NodeStatus;
use model::text::quoted;
use model::volume::{HostVolume, VolumeCapability};
use model::{HostVolumeId, NodeId, Text};
use state::{AllocRef, NodeRef, State};

/// The access modes of host volumes (http-api B).
const ACCESS_MODES: [AccessMode; 4] = [
    AccessMode::SingleNodeReader,
    AccessMode::SingleNodeWriter,
    AccessMode::SingleNodeSingleWriter,
    AccessMode::SingleNodeMultiWriter,
];
/// The attachment modes of host volumes.
const ATTACHMENT_MODES: [AttachmentMode; 2] = [AttachmentMode::FileSystem, AttachmentMode::BlockDevice];

/// The capability of a volume whose request names none.
pub(crate) fn default_capability() -> VolumeCapability {
    VolumeCapability {
        attachment_mode: AttachmentMode::FileSystem.as_str().into(),
        access_mode: AccessMode::SingleNodeWriter.as_str().into(),
    }
}

/// What is wrong with a requested volume by itself, in the order of http-api §22.
pub(crate) fn problems(volume: &api_types::HostVolume) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut problems = Vec::new();
    if text(&volume.name).is_empty() {
        problems.push("missing name".to_owned());
    }
    let id = text(&volume.id);
    if !id.is_empty() && id.parse::<HostVolumeId>().is_err() {
        problems.push(format!("invalid ID {}", quoted(&id)));
    }
    let min = volume.requested_capacity_min_bytes.unwrap_or(0);
    let max = volume.requested_capacity_max_bytes.unwrap_or(0);
    if max != 0 && max < min {
        problems.push(format!("capacity_max ({max}) must be larger than capacity_min ({min})"));
    }
    for capability in volume.requested_capabilities.iter().flatten() {
        let (attachment, access) = (text(&capability.attachment_mode), text(&capability.access_mode));
        if ATTACHMENT_MODES.iter().all(|mode| mode.as_str() != attachment) {
            problems.push(format!("invalid attachment mode: {}", quoted(&attachment)));
        } else if ACCESS_MODES.iter().all(|mode| mode.as_str() != access) {
            problems.push(format!("invalid access mode: {}", quoted(&access)));
        }
    }
    problems
}

/// The problems as one text: a single one as it is, several as a list.
pub(crate) fn joined(problems: &[String]) -> String {
    match problems {
        [only] => only.clone(),
        several => {
            let mut text = format!("{} errors occurred:", several.len());
            several.iter().for_each(|problem| text.push_str(&format!("\n\t* {problem}")));
            text + "\n\n"
        }
    }
}

/// Why no node can get a volume.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NoNode {
    has_volume: usize,
    infeasible: usize,
}

impl std::fmt::Display for NoNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { has_volume, infeasible } = self;
        write!(
            f,
            "no node meets constraints: {has_volume} nodes had existing volume, 0 nodes filtered by node pool \
             governance, {infeasible} nodes were infeasible"
        )
    }
}

/// The node that gets a volume: of the ready nodes of the volume's pool that have its plugin, meet its constraints and have
/// no volume of its name, the one with the fewest volumes; of those the first by a hash of the volume's id.
pub(crate) fn place(state: &State, volume: &HostVolume) -> Result<NodeId, NoNode> {
    let mut refused = NoNode::default();
    let mut best: Option<(usize, u128, NodeId)> = None;
    for node in state.nodes() {
        let is_candidate = node.server().status == NodeStatus::Ready
            && (volume.node_pool.is_empty() || node.spec().node_pool == volume.node_pool);
        if !is_candidate {
            continue;
        }
        let id = node.id();
        let own = || state.host_volumes().filter(move |other| other.node_id == Some(id));
        if node.spec().host_volumes.contains_key(&volume.name) || own().any(|other| other.name == volume.name)
        {
            refused.has_volume += 1;
        } else if !is_feasible(volume, node) {
            refused.infeasible += 1;
        } else {
            let mixed =
                u128::from_be_bytes(*node.id().as_bytes()) ^ u128::from_be_bytes(*volume.id.as_bytes());
            let candidate = (own().count(), mixed, node.id());
            if best.is_none_or(|best| candidate < best) {
                best = Some(candidate);
            }
        }
    }
    best.map(|(_, _, node)| node).ok_or(refused)
}

fn is_feasible(volume: &HostVolume, node: NodeRef<'_>) -> bool {
    let attribute = Text::from(format!("plugins.host_volume.{}.version", volume.plugin_id));
    node.spec().attributes.contains_key(&attribute) && scheduling::meets(&volume.constraints, node)
}

/// The allocations that use a volume and have not ended on its node (http-api §22).
pub(crate) fn users<'a>(state: &'a State, volume: &'a HostVolume) -> impl Iterator<Item = AllocRef<'a>> {
    let allocs = volume.node_id.into_iter().flat_map(move |node| state.allocs_of_node(node));
    allocs.filter(move |alloc| !alloc.client_status().is_terminal() && uses(*alloc, volume))
}

fn uses(alloc: AllocRef<'_>, volume: &HostVolume) -> bool {
    let Some(group) = alloc.group() else { return false };
    alloc.job_key().namespace == volume.namespace
        && group.volumes.values().any(|request| {
            let index = alloc.name_index().unwrap_or(0);
            request.kind == model::job::VolumeKind::Host
                && match request.per_alloc {
                    true => format!("{}[{index}]", request.source) == *volume.name,
                    false => request.source == volume.name,
                }
        })
}

#[cfg(test)]
mod tests {
    use api_types::HostVolumeCapability;

    use super::*;

    fn of(volume: api_types::HostVolume) -> String {
        let found = problems(&volume);
        if found.is_empty() { String::new() } else { joined(&found) }
    }

    fn named(name: &str) -> api_types::HostVolume {
        api_types::HostVolume { name: Some(name.to_owned()), ..Default::default() }
    }

    fn capable(attachment: &str, access: &str) -> api_types::HostVolume {
        let capability = HostVolumeCapability {
            attachment_mode: Some(attachment.to_owned()),
            access_mode: Some(access.to_owned()),
        };
        api_types::HostVolume { requested_capabilities: Some(vec![capability]), ..named("v") }
    }

    #[test]
    fn requests_are_checked_by_themselves() {
        // http-api §22
        assert_eq!(of(named("v")), "");
        assert_eq!(of(api_types::HostVolume::default()), "missing name");
        let with_id = api_types::HostVolume { id: Some("x".to_owned()), ..named("v") };
        assert_eq!(of(with_id), "invalid ID \"x\"");
        let small = api_types::HostVolume {
            requested_capacity_min_bytes: Some(10),
            requested_capacity_max_bytes: Some(5),
            ..named("v")
        };
        assert_eq!(of(small.clone()), "capacity_max (5) must be larger than capacity_min (10)");
        assert_eq!(of(capable("odd", "odd")), "invalid attachment mode: \"odd\"");
        assert_eq!(of(capable("file-system", "odd")), "invalid access mode: \"odd\"");
        assert_eq!(of(capable("file-system", "single-node-multi-writer")), "");
        let both = api_types::HostVolume { name: None, ..small };
        assert_eq!(
            of(both),
            "2 errors occurred:\n\t* missing name\n\t* capacity_max (5) must be larger than capacity_min (10)\n\n"
        );
    }

    #[test]
    fn the_reasons_are_counted() {
        let text = "no node meets constraints: 1 nodes had existing volume, 0 nodes filtered by node pool governance, 2 \
                    nodes were infeasible";
        assert_eq!(NoNode { has_volume: 1, infeasible: 2 }.to_string(), text);
    }
}
