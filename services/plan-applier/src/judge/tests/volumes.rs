//! Dynamic host volumes, whose states follow their nodes, and the claims of sticky volumes.

use model::alloc::ClientStatus;
use model::change::Cause;
use model::job::{VolumeKind, VolumeRequest};
use model::node::{NodeHostVolume, NodeSpec};
use model::volume::{HostVolume, HostVolumeState, VolumeClaim};
use model::{AllocId, HostVolumeId, Index, JobKey, NodeId, Timestamp};
use wire::RefusalKind;
use wire::command::{
    Command, DeleteHostVolume, DeleteVolumeClaim, DeregisterJob, DeregisterNodes, SetHostVolume,
};

use super::scene::{Scene, node_spec, service};

const VOLUME: HostVolumeId = HostVolumeId::from_bytes([7; 16]);

fn volume(id: HostVolumeId, node: NodeId, name: &str) -> HostVolume {
    HostVolume {
        id,
        namespace: "default".into(),
        name: name.into(),
        plugin_id: "mkdir".into(),
        node_id: Some(node),
        node_pool: "default".into(),
        constraints: Vec::new(),
        requested_bytes_min: 0,
        requested_bytes_max: 0,
        capacity_bytes: 0,
        capabilities: Vec::new(),
        parameters: [].into(),
        host_path: "/srv/data".into(),
        state: HostVolumeState::Pending,
        create_index: Index::ZERO,
        modify_index: Index::ZERO,
        create_time: Timestamp::UNSET,
        modify_time: Timestamp::UNSET,
    }
}

fn set(volume: HostVolume) -> Command {
    Command::SetHostVolume(Box::new(SetHostVolume { volume }))
}

/// A node that shows a volume.
fn showing(id: HostVolumeId, name: &str) -> NodeSpec {
    let shown = NodeHostVolume {
        name: name.into(),
        path: "/srv/data".into(),
        read_only: false,
        id: id.to_string().into(),
    };
    NodeSpec { host_volumes: [(name.into(), shown)].into(), ..node_spec() }
}

fn stored(scene: &Scene, id: HostVolumeId) -> HostVolume {
    HostVolume::clone(scene.state.host_volume(&id).expect("the volume is stored"))
}

#[test]
fn the_state_of_a_volume_follows_its_node() {
    // http-api §22: pending until the node reports it, then ready; unavailable when the node has lost it.
    let mut scene = Scene::new();
    let node = scene.node();
    let created = scene.done(set(volume(VOLUME, node, "data"))).index;
    assert_eq!(scene.cause(), Some(Cause::HostVolumeRegistered));
    let found = stored(&scene, VOLUME);
    assert_eq!(
        (found.state, found.create_index, found.modify_index),
        (HostVolumeState::Pending, created, created)
    );
    scene.register_node(node, node_spec());
    assert_eq!(stored(&scene, VOLUME).state, HostVolumeState::Pending);
    let shown = scene.register_node(node, showing(VOLUME, "data")).index;
    let found = stored(&scene, VOLUME);
    assert_eq!(
        (found.state, found.create_index, found.modify_index),
        (HostVolumeState::Ready, created, shown)
    );
    scene.register_node(node, node_spec());
    assert_eq!(stored(&scene, VOLUME).state, HostVolumeState::Unavailable);
    scene.register_node(node, showing(VOLUME, "data"));
    assert_eq!(stored(&scene, VOLUME).state, HostVolumeState::Ready);
}

#[test]
fn a_volume_that_its_node_shows_already_is_ready_at_once() {
    let mut scene = Scene::new();
    let node = scene.node();
    scene.register_node(node, showing(VOLUME, "data"));
    scene.done(set(volume(VOLUME, node, "data")));
    assert_eq!(stored(&scene, VOLUME).state, HostVolumeState::Ready);
}

#[test]
fn a_volume_needs_a_node_a_namespace_and_a_name_of_its_own() {
    // http-api §22
    let mut scene = Scene::new();
    let node = scene.node();
    let (kind, text) = scene.refused(set(volume(VOLUME, NodeId::from_bytes([9; 16]), "data")));
    assert_eq!(kind, RefusalKind::NotFound);
    assert_eq!(text, "node \"09090909-0909-0909-0909-090909090909\" does not exist");
    let foreign = HostVolume { namespace: "nowhere".into(), ..volume(VOLUME, node, "data") };
    assert_eq!(
        scene.refused(set(foreign)),
        (RefusalKind::NotFound, "namespace \"nowhere\" does not exist".to_owned())
    );
    scene.done(set(volume(VOLUME, node, "data")));
    let other = HostVolumeId::from_bytes([8; 16]);
    assert_eq!(scene.refused(set(volume(other, node, "data"))).0, RefusalKind::Conflict);
    let elsewhere = scene.node();
    scene.done(set(volume(other, elsewhere, "data")));
}

#[test]
fn a_deleted_node_takes_its_volumes_with_it_only_if_it_says_so() {
    // N-11.3
    let mut scene = Scene::new();
    let (keeping, removing) = (scene.node(), scene.node());
    let other = HostVolumeId::from_bytes([8; 16]);
    scene.done(set(volume(VOLUME, keeping, "data")));
    scene.done(set(volume(other, removing, "data")));
    scene.register_node(removing, NodeSpec { gc_volumes: true, ..node_spec() });
    scene.done(Command::DeregisterNodes(DeregisterNodes { nodes: vec![keeping, removing] }));
    assert_eq!(stored(&scene, VOLUME).state, HostVolumeState::Unavailable);
    assert!(scene.state.host_volume(&other).is_none());
}

/// A job with a sticky volume.
fn sticky(scene: &mut Scene) -> JobKey {
    let mut spec = service("db");
    let request = VolumeRequest {
        name: "data".into(),
        kind: VolumeKind::Host,
        source: "data".into(),
        read_only: false,
        sticky: true,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
        per_alloc: false,
    };
    spec.task_groups[0].volumes = [("data".into(), request)].into();
    scene.register(spec)
}

fn claims(scene: &Scene) -> Vec<VolumeClaim> {
    scene.state.volume_claims().map(|claim| VolumeClaim::clone(claim)).collect()
}

/// A node with the volume and an allocation of a job that has claimed it.
fn claimed(scene: &mut Scene) -> (NodeId, JobKey, AllocId) {
    let node = scene.node();
    scene.register_node(node, showing(VOLUME, "data"));
    scene.done(set(volume(VOLUME, node, "data")));
    let job = sticky(scene);
    let allocs = scene.place(&job, &[node]);
    (node, job, allocs[0])
}

#[test]
fn a_placement_claims_its_sticky_volume() {
    //
    let mut scene = Scene::new();
    let (_, job, alloc) = claimed(&mut scene);
    let found = claims(&scene);
    assert_eq!(found.len(), 1);
    let claim = &found[0];
    assert_eq!((&claim.job, &*claim.task_group, claim.alloc_id), (&job, "app", alloc));
    assert_eq!((claim.volume_id, &*claim.volume_name), (VOLUME, "data"));
    assert_eq!(claim.create_index, scene.state.index());
}

#[test]
fn the_claim_of_an_ended_allocation_is_taken_over() {
    //
    let mut scene = Scene::new();
    let (node, job, first) = claimed(&mut scene);
    let before = claims(&scene)[0].clone();
    scene.report(node, &[first], ClientStatus::Failed);
    let second = scene.place(&job, &[node])[0];
    let found = claims(&scene);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].create_index), (before.id, before.create_index));
    assert_eq!(found[0].alloc_id, second);
}

#[test]
fn claims_go_with_their_volume_their_job_or_on_request() {
    // http-api §22, N-21.4
    for case in 0..3 {
        let mut scene = Scene::new();
        let (_, job, _) = claimed(&mut scene);
        let claim = claims(&scene)[0].id;
        let command = match case {
            0 => Command::DeleteHostVolume(DeleteHostVolume { id: VOLUME }),
            1 => Command::DeregisterJob(DeregisterJob {
                job,
                purge: true,
                eval_priority: None,
                no_shutdown_delay: false,
            }),
            _ => Command::DeleteVolumeClaim(DeleteVolumeClaim { id: claim }),
        };
        scene.done(command);
        assert_eq!(claims(&scene), [], "case {case}");
        let gone = scene.refused(Command::DeleteVolumeClaim(DeleteVolumeClaim { id: claim }));
        assert_eq!(gone, (RefusalKind::NotFound, "task group volume claim does not exist".to_owned()));
    }
    let mut scene = Scene::new();
    let gone = scene.refused(Command::DeleteHostVolume(DeleteHostVolume { id: VOLUME }));
    assert_eq!(gone, (RefusalKind::NotFound, format!("no such volume: {VOLUME}")));
}
