//! Claims of task groups on sticky host volumes: a placement leaves one, so that later placements of the group get the same
//! volume.

use model::change::Change;
use model::job::{TaskGroup, VolumeKind};
use model::plan::Placements;
use model::volume::VolumeClaim;
use model::{AllocId, HostVolumeId, JobKey, Text, VolumeClaimId};
use state::State;
use wire::command::{DeleteVolumeClaim, Done, Handler};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

impl Handler<DeleteVolumeClaim> for Work<'_> {
    fn handle(&mut self, command: DeleteVolumeClaim) -> Result<Done, Refusal> {
        if !self.state().volume_claims().any(|claim| claim.id == command.id) {
            return Err(refusal(RefusalKind::NotFound, "task group volume claim does not exist"));
        }
        self.apply(Change::VolumeClaimDeleted(command.id))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}

/// A volume that a new allocation claims.
pub(super) struct Wanted {
    job: JobKey,
    group: Text,
    alloc: AllocId,
    volume: HostVolumeId,
    volume_name: Text,
}

/// The sticky volumes of new allocations.
pub(super) fn wanted(state: &State, placements: &Placements) -> Vec<Wanted> {
    let common = &placements.common;
    let Some(job) = state.job_version(&common.job) else { return Vec::new() };
    let Some((_, group)) = job.spec.group(&common.task_group) else { return Vec::new() };
    if sticky(group).next().is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for row in 0..placements.len() {
        let Some(node) = state.node(placements.node_of(row)) else { continue };
        for source in sticky(group) {
            let shown = node.spec().host_volumes.get(source);
            let Some(volume) = shown.and_then(|shown| shown.id.parse().ok()) else { continue };
            all.push(Wanted {
                job: common.job.job.clone(),
                group: Text::clone(&common.task_group),
                alloc: placements.ids.0[row],
                volume,
                volume_name: Text::clone(source),
            });
        }
    }
    all
}

/// The sources of a group's sticky host volumes. A sticky volume is not one for each allocation (N-19.17).
fn sticky(group: &TaskGroup) -> impl Iterator<Item = &Text> {
    let requests = group.volumes.values();
    requests
        .filter(|request| request.kind == VolumeKind::Host && request.sticky)
        .map(|request| &request.source)
}

/// Writes the claims: a claim of the group on the volume whose allocation has ended is taken over, one that names the
/// allocation stays.
pub(super) fn write(work: &mut Work<'_>, wanted: Vec<Wanted>) -> Result<(), Refusal> {
    let mut number = 0;
    for Wanted { job, group, alloc, volume, volume_name } in wanted {
        let is_own =
            |claim: &VolumeClaim| claim.job == job && claim.task_group == group && claim.volume_id == volume;
        let state = work.state();
        if state.volume_claims().any(|claim| is_own(claim) && claim.alloc_id == alloc) {
            continue;
        }
        let is_free =
            |claim: &VolumeClaim| state.alloc(claim.alloc_id).is_none_or(|alloc| alloc.is_terminal());
        let free = state.volume_claims().find(|claim| is_own(claim) && is_free(claim));
        let (id, create_index) = match free {
            Some(claim) => (claim.id, claim.create_index),
            None => (unused_id(work, &mut number), work.index()),
        };
        let modify_index = work.index();
        let claim = VolumeClaim {
            id,
            job,
            task_group: group,
            alloc_id: alloc,
            volume_id: volume,
            volume_name,
            create_index,
            modify_index,
        };
        work.apply(Change::VolumeClaim(Box::new(claim)))?;
    }
    Ok(())
}

/// An id that no claim has: the first one that is derived from the request, from `number` on.
fn unused_id(work: &Work<'_>, number: &mut u32) -> VolumeClaimId {
    let request = work.inputs().request_id;
    while work.state().volume_claim(&VolumeClaimId::derived(request, *number)).is_some() {
        *number += 1;
    }
    VolumeClaimId::derived(request, *number)
}
