//! Volumes that a group requests: which nodes have them, and whether they can be claimed (`docs/rules/scheduling.md` §§5.7,
//! 5.8). Never cached by class, because claims and other allocations matter, too.

use std::collections::BTreeSet;

use model::AllocId;
use model::Text;
use model::job::{AccessMode, AttachmentMode, JobSpec, TaskGroup, VolumeKind, VolumeRequest};
use model::node::NodeHostVolume;
use model::volume::{CsiVolume, CsiVolumeKey, HostVolume, HostVolumeState};
use model::{HostVolumeId, JobKey};
use state::{NodeRef, State};

use crate::room::{NodeAlloc, Room};

const NO_HOST_VOLUMES: &str = "missing compatible host volumes";

/// The volume requests of one group.
#[derive(Debug)]
pub(crate) struct Volumes<'a> {
    state: &'a State,
    job: JobKey,
    group: &'a TaskGroup,
    host: Vec<&'a VolumeRequest>,
    csi: Vec<&'a VolumeRequest>,
}

/// The volume requests of one placement. Its index may select its own volumes, and the open sticky claims depend on
/// earlier placements.
#[derive(Debug)]
pub(crate) struct PlacementVolumes<'v, 'a> {
    volumes: &'v Volumes<'a>,
    name_index: u32,
    /// Sticky claims of the group that no allocation meets.
    open_claims: BTreeSet<HostVolumeId>,
    /// The CSI volumes with their requests; or, if some volumes are missing, the reason that names them.
    csi: Result<Vec<(&'a VolumeRequest, &'a CsiVolume)>, Text>,
}

impl<'a> Volumes<'a> {
    /// `None` if the group requests no volumes.
    pub(crate) fn of(state: &'a State, spec: &'a JobSpec, group: &'a TaskGroup) -> Option<Self> {
        let of_kind =
            |kind| group.volumes.values().filter(|request| request.kind == kind).collect::<Vec<_>>();
        let (host, csi) = (of_kind(VolumeKind::Host), of_kind(VolumeKind::Csi));
        let any = !host.is_empty() || !csi.is_empty();
        any.then(|| Self { state, job: spec.key(), group, host, csi })
    }

    /// Whether requests differ between placements: each allocation has its own volume, or earlier placements meet
    /// sticky claims.
    pub(crate) fn differ_by_placement(&self) -> bool {
        self.host.iter().chain(&self.csi).any(|request| request.per_alloc || request.sticky)
    }

    /// Keys of missing CSI volumes, in the form that blocked evaluations store them.
    pub(crate) fn missing(&self, name_index: u32) -> Vec<Text> {
        let missing = self.csi.iter().map(|request| self.csi_key(request, name_index));
        let missing = missing.filter(|key| self.state.csi_volume(key).is_none());
        missing.map(|key| format!("csi-volume:{}:{}", key.namespace, key.id).into()).collect()
    }

    /// The requests of the placement with an index in its name.
    pub(crate) fn for_placement<'v>(&'v self, room: &Room<'a>, name_index: u32) -> PlacementVolumes<'v, 'a> {
        let is_sticky = self.host.iter().any(|request| request.sticky);
        let found = |request: &&'a VolumeRequest| {
            let key = self.csi_key(request, name_index);
            let volume = self.state.csi_volume(&key).ok_or_else(|| Text::clone(&key.id))?;
            Ok::<_, Text>((*request, &**volume))
        };
        let (found, missing): (Vec<_>, Vec<_>) = self.csi.iter().map(found).partition(Result::is_ok);
        let missing: Vec<Text> = missing.into_iter().filter_map(Result::err).collect();
        let csi = match missing.is_empty() {
            true => Ok(found.into_iter().filter_map(Result::ok).collect()),
            false => Err(format!("missing CSI volume(s) {}", missing.join(", ")).into()),
        };
        let open_claims = if is_sticky { self.open_claims(room) } else { BTreeSet::new() };
        PlacementVolumes { volumes: self, name_index, open_claims, csi }
    }

    fn csi_key(&self, request: &VolumeRequest, name_index: u32) -> CsiVolumeKey {
        let id = source(request, name_index);
        CsiVolumeKey { namespace: Text::clone(&self.job.namespace), id }
    }

    /// Sticky claims of the group that no allocation meets.
    fn open_claims(&self, room: &Room<'a>) -> BTreeSet<HostVolumeId> {
        let own = self.state.volume_claims().filter(|claim| {
            claim.job == self.job
                && claim.task_group == self.group.name
                && self.state.host_volume(&claim.volume_id).is_some()
        });
        let is_open = |claim: &&std::sync::Arc<model::volume::VolumeClaim>| {
            let Some(holder) = self.state.alloc(claim.alloc_id) else { return false };
            let holds = |node_alloc: NodeAlloc<'_>| {
                node_alloc.alloc.is_none_or(|alloc| !alloc.is_terminal())
                    && (node_alloc.alloc.is_some_and(|alloc| alloc.id() == claim.alloc_id)
                        || node_alloc.is_of(&self.job, &self.group.name))
            };
            !room.node_allocs(holder.node_slot()).any(holds)
        };
        own.filter(is_open).map(|claim| claim.volume_id).collect()
    }
}

/// Whether a group requests CSI volumes, so that feasibility is not determined by class.
pub(super) fn asks_for_csi(group: &TaskGroup) -> bool {
    group.volumes.values().any(|request| request.kind == VolumeKind::Csi)
}

/// The name or id of the requested volume.
fn source(request: &VolumeRequest, name_index: u32) -> Text {
    match request.per_alloc {
        true => format!("{}[{name_index}]", request.source).into(),
        false => Text::clone(&request.source),
    }
}

impl PlacementVolumes<'_, '_> {
    /// Why the volumes are not available on a node; `None` if they are.
    pub(crate) fn failure(&self, room: &Room<'_>, node: NodeRef<'_>) -> Option<Text> {
        if !self.volumes.host.iter().all(|request| self.has_host_volume(request, room, node)) {
            return Some(NO_HOST_VOLUMES.into());
        }
        match &self.csi {
            Err(missing) => Some(Text::clone(missing)),
            Ok(requests) => {
                requests.iter().find_map(|(request, volume)| self.csi_failure(request, volume, node))
            }
        }
    }

    /// Whether a host volume request can be met on a node.
    fn has_host_volume(&self, request: &VolumeRequest, room: &Room<'_>, node: NodeRef<'_>) -> bool {
        let name = source(request, self.name_index);
        match node.spec().host_volumes.get(&name) {
            None => false,
            Some(volume) if volume.id.is_empty() => {
                !request.sticky && (request.read_only || !volume.read_only)
            }
            Some(volume) => self.has_dynamic_volume(request, &name, volume, room, node),
        }
    }

    fn has_dynamic_volume(
        &self,
        request: &VolumeRequest,
        name: &str,
        volume: &NodeHostVolume,
        room: &Room<'_>,
        node: NodeRef<'_>,
    ) -> bool {
        let Ok(id) = volume.id.parse::<HostVolumeId>() else { return false };
        let Some(known) = self.volumes.state.host_volume(&id) else { return false };
        known.namespace == self.volumes.job.namespace
            && known.state == HostVolumeState::Ready
            && may_access(known, request)
            && (effective_access(request) != AccessMode::SingleNodeSingleWriter
                || room.node_allocs(node.slot()).all(|node_alloc| !writes(node_alloc, name)))
            && (!request.sticky || self.open_claims.is_empty() || self.open_claims.contains(&known.id))
    }

    /// Why a CSI volume is not available on a node; `None` if it is.
    fn csi_failure(&self, request: &VolumeRequest, volume: &CsiVolume, node: NodeRef<'_>) -> Option<Text> {
        let wanted = &volume.volume;
        let plugin_id = wanted.plugin_id.as_deref().unwrap_or_default();
        let because = |what: &str| Some(format!("CSI plugin {plugin_id} {what} client {}", node.id()).into());
        let Some(plugin) = node.spec().csi_nodes.get(plugin_id) else {
            return because("is missing from");
        };
        if plugin.healthy != Some(true) {
            return because("is unhealthy on");
        }
        let info = plugin.node_info.as_deref();
        let most = info.and_then(|info| info.max_volumes).unwrap_or(0);
        if self.attached(plugin_id, node) as i64 >= most {
            return because("has the maximum number of volumes on");
        }
        let topologies = wanted.topologies.as_deref().unwrap_or_default();
        let here = info.and_then(|info| info.accessible_topology.as_ref()?.segments.as_ref());
        let is_here = |segments: Option<&_>| segments.is_some() && segments == here;
        if !topologies.is_empty() && !topologies.iter().any(|topology| is_here(topology.segments.as_ref())) {
            return Some("did not meet topology requirement".into());
        }
        self.claim_failure(request, volume)
    }

    fn claim_failure(&self, request: &VolumeRequest, volume: &CsiVolume) -> Option<Text> {
        let (wanted, id) = (&volume.volume, &volume.key.id);
        let because = |what: &str| Some(format!("CSI volume {id} {what}").into());
        let is_exhausted = wanted.resource_exhausted.is_some_and(|since| since.unix_nanos() > 0);
        let is_schedulable = wanted.schedulable == Some(true) && !is_exhausted;
        if request.read_only {
            return match is_schedulable {
                true => None,
                false => because("is unschedulable or has exhausted its available reader claims"),
            };
        }
        let mode = wanted.access_mode.as_deref().unwrap_or_default();
        let capabilities = wanted.requested_capabilities.as_deref().unwrap_or_default();
        let may_write = match mode {
            "" => capabilities.iter().any(|capability| is_writer(capability.access_mode.as_deref())),
            mode => is_writer(Some(mode)),
        };
        if !is_schedulable || !may_write {
            return because("is unschedulable or is read-only");
        }
        let writers = wanted.write_allocs.as_ref();
        let takes_one = matches!(mode, "single-node-writer" | "multi-node-single-writer");
        if !takes_one || writers.is_none_or(|writers| writers.is_empty()) {
            return None;
        }
        for holder in writers.into_iter().flat_map(|writers| writers.keys()) {
            let known = holder.parse::<AllocId>().ok().and_then(|id| self.volumes.state.alloc(id));
            match known {
                None => {
                    let text = "has exhausted its available writer claims and is claimed by a garbage collected allocation";
                    return because(&format!("{text} {holder}; waiting for claim to be released"));
                }
                Some(holder) if *holder.job_key() != self.volumes.job => {
                    return because("has exhausted its available writer claims");
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Number of volumes of a plugin that the allocations on a node request.
    fn attached(&self, plugin_id: &str, node: NodeRef<'_>) -> usize {
        use model::alloc::{ClientStatus, DesiredStatus};
        let stored_allocs = node.allocs().filter(|alloc| {
            alloc.desired_status() == DesiredStatus::Run || alloc.client_status() == ClientStatus::Running
        });
        let mut attached = BTreeSet::new();
        for alloc in stored_allocs {
            let Some(group) = alloc.group() else { continue };
            for request in group.volumes.values().filter(|request| request.kind == VolumeKind::Csi) {
                let id = source(request, alloc.name_index().unwrap_or(0));
                let key = CsiVolumeKey { namespace: Text::clone(&alloc.job_key().namespace), id };
                let volume = self.volumes.state.csi_volume(&key);
                if volume.is_some_and(|volume| volume.volume.plugin_id.as_deref() == Some(plugin_id)) {
                    attached.insert(key);
                }
            }
        }
        attached.len()
    }
}

fn is_writer(mode: Option<&str>) -> bool {
    matches!(mode, Some("single-node-writer" | "multi-node-single-writer" | "multi-node-multi-writer"))
}

/// The access mode of a request for a dynamic host volume, with the default if the request does not set it.
fn effective_access(request: &VolumeRequest) -> AccessMode {
    request.access_mode.unwrap_or(match request.read_only {
        true => AccessMode::SingleNodeReader,
        false => AccessMode::SingleNodeWriter,
    })
}

/// Whether a request's access and attachment modes suit a dynamic host volume.
fn may_access(volume: &HostVolume, request: &VolumeRequest) -> bool {
    let access = effective_access(request);
    let attachment = request.attachment_mode.unwrap_or(AttachmentMode::FileSystem);
    let suits = match access {
        AccessMode::SingleNodeReader => request.read_only,
        AccessMode::SingleNodeWriter => !request.read_only,
        AccessMode::SingleNodeSingleWriter
        | AccessMode::SingleNodeMultiWriter
        | AccessMode::MultiNodeReader
        | AccessMode::MultiNodeSingleWriter
        | AccessMode::MultiNodeMultiWriter => true,
    };
    suits
        && volume.capabilities.iter().any(|capability| {
            *capability.access_mode == *access.as_str() && *capability.attachment_mode == *attachment.as_str()
        })
}

/// Whether an allocation may write to a host volume of that name. Assumed if its group is unknown.
fn writes(node_alloc: NodeAlloc<'_>, name: &str) -> bool {
    let Some(group) = node_alloc.group else { return true };
    group.volumes.values().any(|request| {
        request.kind == VolumeKind::Host
            && !request.read_only
            && *source(request, node_alloc.name_index) == *name
    })
}
