//! Creates, changes and deletes dynamic host volumes (http-api §22). Their states follow what their nodes show.

use model::change::Change;
use model::node::NodeSpec;
use model::text::quoted;
use model::volume::{HostVolume, HostVolumeState};
use model::{HostVolumeId, NodeId};
use wire::command::{DeleteHostVolume, Done, Handler, SetHostVolume};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// The volume is refused if its node or its namespace is gone, or another volume of the node has its name.
impl Handler<SetHostVolume> for Work<'_> {
    fn handle(&mut self, command: SetHostVolume) -> Result<Done, Refusal> {
        let (state, index, at) = (self.state(), self.index(), self.at());
        let volume = command.volume;
        let node = volume.node_id.and_then(|id| state.node(id));
        let Some(node) = node else {
            let id = volume.node_id.map(|id| id.to_string()).unwrap_or_default();
            return Err(refusal(RefusalKind::NotFound, format!("node {} does not exist", quoted(&id))));
        };
        if state.namespace(&volume.namespace).is_none() {
            let message = format!("namespace {} does not exist", quoted(&volume.namespace));
            return Err(refusal(RefusalKind::NotFound, message));
        }
        let has_its_name = |other: &HostVolume| {
            other.id != volume.id && other.node_id == volume.node_id && other.name == volume.name
        };
        if state.host_volumes().any(|other| has_its_name(other)) {
            let message = format!("node {} has another volume {}", node.id(), quoted(&volume.name));
            return Err(refusal(RefusalKind::Conflict, message));
        }
        let stored = state.host_volume(&volume.id);
        let (create_index, create_time) =
            stored.map_or((index, at), |stored| (stored.create_index, stored.create_time));
        let before = stored.map_or(HostVolumeState::Pending, |stored| stored.state);
        let is_shown = is_shown(&volume, node.spec());
        let volume = HostVolume {
            state: if is_shown { HostVolumeState::Ready } else { before },
            create_index,
            create_time,
            modify_index: index,
            modify_time: at,
            ..volume
        };
        let node = node.id();
        self.apply(Change::HostVolume(Box::new(volume)))?;
        if is_shown {
            self.unblock_node(node);
        }
        Ok(Done { object_index: index, ..Done::default() })
    }
}

impl Handler<DeleteHostVolume> for Work<'_> {
    fn handle(&mut self, command: DeleteHostVolume) -> Result<Done, Refusal> {
        if self.state().host_volume(&command.id).is_none() {
            return Err(refusal(RefusalKind::NotFound, format!("no such volume: {}", command.id)));
        }
        delete(self, command.id)?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}

/// Deletes a volume with the claims on it.
fn delete(work: &mut Work<'_>, id: HostVolumeId) -> Result<(), Refusal> {
    let claims = work.state().volume_claims().filter(|claim| claim.volume_id == id);
    let claims: Vec<_> = claims.map(|claim| claim.id).collect();
    claims.into_iter().try_for_each(|claim| work.apply(Change::VolumeClaimDeleted(claim)))?;
    work.apply(Change::HostVolumeDeleted(id))
}

/// Whether a node shows a volume.
fn is_shown(volume: &HostVolume, spec: &NodeSpec) -> bool {
    let shown = spec.host_volumes.get(&volume.name);
    shown.is_some_and(|shown| shown.id.parse::<HostVolumeId>().is_ok_and(|id| id == volume.id))
}

/// Sets the states of the volumes of a node that has registered: `ready` if the node shows the volume, `unavailable` if it
/// no longer does (http-api §22).
pub(super) fn follow_node(work: &mut Work<'_>, node: NodeId) -> Result<(), Refusal> {
    let Some(spec) = work.state().node(node).map(|node| node.spec()) else { return Ok(()) };
    let state_of = |volume: &HostVolume| match (is_shown(volume, spec), volume.state) {
        (true, _) => HostVolumeState::Ready,
        (false, HostVolumeState::Pending) => HostVolumeState::Pending,
        (false, HostVolumeState::Ready | HostVolumeState::Unavailable) => HostVolumeState::Unavailable,
    };
    let own = work.state().host_volumes().filter(|volume| volume.node_id == Some(node));
    let changed = own.map(|volume| (volume, state_of(volume)));
    let changed: Vec<HostVolume> = changed
        .filter(|(volume, state)| volume.state != *state)
        .map(|(volume, state)| in_state(work, volume, state))
        .collect();
    let has_ready = changed.iter().any(|volume| volume.state == HostVolumeState::Ready);
    changed.into_iter().try_for_each(|volume| work.apply(Change::HostVolume(Box::new(volume))))?;
    if has_ready {
        work.unblock_node(node);
    }
    Ok(())
}

/// Precedes the deletion of nodes: their volumes are deleted, too, if the agent wanted that (N-11.3); the others become
/// unavailable.
pub(super) fn lose_nodes(work: &mut Work<'_>, nodes: &[NodeId]) -> Result<(), Refusal> {
    let lost =
        work.state().host_volumes().filter(|volume| volume.node_id.is_some_and(|id| nodes.contains(&id)));
    let lost: Vec<HostVolume> = lost.map(|volume| HostVolume::clone(volume)).collect();
    for volume in lost {
        let node = volume.node_id.and_then(|id| work.state().node(id));
        if node.is_some_and(|node| node.spec().gc_volumes) {
            delete(work, volume.id)?;
        } else if volume.state != HostVolumeState::Unavailable {
            let volume = in_state(work, &volume, HostVolumeState::Unavailable);
            work.apply(Change::HostVolume(Box::new(volume)))?;
        }
    }
    Ok(())
}

fn in_state(work: &Work<'_>, volume: &HostVolume, state: HostVolumeState) -> HostVolume {
    HostVolume { state, modify_index: work.index(), modify_time: work.at(), ..volume.clone() }
}
