//! Registrations of services: which are accepted, and when they end.

use model::alloc::ClientStatus;
use model::change::{Cause, Change};
use model::service::{ServiceKey, ServiceRegistration, registration_id};
use model::{AllocId, Epoch, Index, JobKey, NodeId};
use wire::RefusalKind;
use wire::command::{
    Command, DeleteService, DeregisterJob, DeregisterNodes, Done, NodeServices, UpdateServices,
};
use wire::services::{AllocServices, ServiceInstance};

use super::scene::{BOOT, EPOCH, Scene, service};

/// A node with two running allocations of a job.
fn running(scene: &mut Scene) -> (NodeId, JobKey, [AllocId; 2]) {
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node, node]);
    scene.report(node, &allocs, ClientStatus::Running);
    (node, job, [allocs[0], allocs[1]])
}

pub(super) fn instance(alloc: AllocId, name: &str, port: u16) -> ServiceInstance {
    ServiceInstance {
        id: registration_id(alloc, "group-app", name, "http").into(),
        name: name.into(),
        tags: vec!["b".into(), "a".into()],
        address: "10.0.0.1".into(),
        port,
    }
}

/// A node's set of services of one allocation.
pub(super) fn set(node: NodeId, alloc: AllocId, services: Vec<ServiceInstance>) -> Command {
    let allocs = vec![AllocServices { alloc, services }];
    Command::UpdateServices(UpdateServices {
        epoch: EPOCH,
        nodes: vec![NodeServices { node, boot: BOOT, allocs }],
    })
}

fn register(scene: &mut Scene, node: NodeId, alloc: AllocId, names: &[&str]) -> Done {
    scene.done(set(node, alloc, names.iter().map(|name| instance(alloc, name, 80)).collect()))
}

/// The names and allocations of all registrations, by namespace, name and id.
fn registered(scene: &Scene) -> Vec<(String, AllocId)> {
    let all = scene.state.service_registrations();
    all.map(|one| (one.key.name.to_string(), one.alloc_id)).collect()
}

fn found(scene: &Scene, alloc: AllocId, name: &str) -> ServiceRegistration {
    let mut all = scene.state.small_objects_of::<ServiceRegistration>(alloc);
    let one = all.find(|one| one.key.name == name).expect("the service is registered");
    ServiceRegistration::clone(one)
}

#[test]
fn services_are_registered_with_what_follows_from_the_allocation() {
    //
    let mut scene = Scene::new();
    let (node, job, [alloc, _]) = running(&mut scene);
    let done = register(&mut scene, node, alloc, &["web"]);
    assert_eq!((done.refused_nodes, done.refused_allocs), (vec![], vec![]));
    assert_eq!(scene.cause(), Some(Cause::ServiceRegistration));
    let id = registration_id(alloc, "group-app", "web", "http");
    let expected = ServiceRegistration {
        key: ServiceKey { namespace: job.namespace.clone(), name: "web".into(), id: id.into() },
        node_id: node,
        datacenter: scene.whole_node(node).spec.datacenter.clone(),
        job_id: job.id.clone(),
        alloc_id: alloc,
        tags: vec!["b".into(), "a".into()],
        address: "10.0.0.1".into(),
        port: 80,
        create_index: done.index,
        modify_index: done.index,
    };
    assert_eq!(found(&scene, alloc, "web"), expected);
}

#[test]
fn a_set_replaces_what_was_registered_of_its_allocation() {
    // an update registers the difference.
    let mut scene = Scene::new();
    let (node, _, [alloc, other]) = running(&mut scene);
    register(&mut scene, node, other, &["web"]);
    let first = register(&mut scene, node, alloc, &["web", "api"]).index;
    assert!(!register(&mut scene, node, alloc, &["api", "web"]).written, "a repeat changes nothing");
    let changed = vec![instance(alloc, "web", 81), instance(alloc, "admin", 80)];
    let second = scene.done(set(node, alloc, changed)).index;
    assert_eq!(scene.last().len(), 3, "one changed, one new, one withdrawn");
    let indexes = |one: ServiceRegistration| (one.create_index, one.modify_index);
    assert_eq!(indexes(found(&scene, alloc, "web")), (first, second));
    assert_eq!(indexes(found(&scene, alloc, "admin")), (second, second));
    let mut expected =
        vec![("admin".to_owned(), alloc), ("web".to_owned(), alloc), ("web".to_owned(), other)];
    expected.sort();
    let mut all = registered(&scene);
    all.sort();
    assert_eq!(all, expected);
    register(&mut scene, node, alloc, &[]);
    assert_eq!(registered(&scene), [("web".to_owned(), other)]);
}

#[test]
fn a_node_registers_services_of_its_own_live_allocations_only() {
    let mut scene = Scene::new();
    let (node, _, [alloc, ended]) = running(&mut scene);
    let other = scene.node();
    scene.report(node, &[ended], ClientStatus::Failed);
    let unknown = AllocId::from_bytes([77; 16]);
    for (from, alloc) in [(other, alloc), (node, ended), (node, unknown)] {
        let done = register(&mut scene, from, alloc, &["web"]);
        assert_eq!((done.written, done.refused_allocs), (false, vec![alloc]));
    }
    assert_eq!(register(&mut scene, node, ended, &[]).refused_allocs, [], "there is nothing to withdraw");
    assert_eq!(registered(&scene), []);
}

#[test]
fn only_this_boot_of_a_node_that_sends_heartbeats_registers_services() {
    // As for reports (N-7.3).
    let mut scene = Scene::new();
    let (node, _, [alloc, _]) = running(&mut scene);
    let Command::UpdateServices(mut other_boot) = set(node, alloc, vec![instance(alloc, "web", 80)]) else {
        panic!("the command updates services")
    };
    other_boot.nodes[0].boot = BOOT + 1;
    assert_eq!(scene.done(Command::UpdateServices(other_boot.clone())).refused_nodes, [node]);
    let deposed = UpdateServices { epoch: Epoch(EPOCH.0 + 1), ..other_boot };
    assert_eq!(scene.refused(Command::UpdateServices(deposed)).0, RefusalKind::Deposed);
    scene.missed(&[node]);
    assert_eq!(register(&mut scene, node, alloc, &["web"]).refused_nodes, [node]);
    scene.heard(&[node]);
    assert_eq!(register(&mut scene, node, alloc, &["web"]).refused_nodes, []);
    assert_eq!(registered(&scene), [("web".to_owned(), alloc)]);
}

/// Two registrations, and whether these are left after a command: none, or that of the second allocation.
fn left_after(end: impl FnOnce(&mut Scene, NodeId, JobKey, [AllocId; 2])) -> (usize, bool) {
    let mut scene = Scene::new();
    let (node, job, allocs) = running(&mut scene);
    for alloc in allocs {
        register(&mut scene, node, alloc, &["web"]);
    }
    let before = scene.log.len();
    end(&mut scene, node, job, allocs);
    assert_eq!(scene.log.len(), before + 1, "the registrations end with the same change set");
    let left: Vec<AllocId> = scene.state.service_registrations().map(|one| one.alloc_id).collect();
    (left.len(), left == [allocs[1]])
}

#[test]
fn no_registration_outlives_its_allocation() {
    // N-7.10
    for status in [ClientStatus::Complete, ClientStatus::Failed] {
        let left = left_after(|scene, node, _, [alloc, _]| {
            scene.report(node, &[alloc], status);
        });
        assert_eq!(left, (1, true), "{status:?}");
    }
    let left = left_after(|scene, node, _, _| {
        scene.missed(&[node]);
    });
    assert_eq!(left, (0, false), "the node is down");
    let left = left_after(|scene, node, _, _| {
        scene.done(Command::DeregisterNodes(DeregisterNodes { nodes: vec![node] }));
    });
    assert_eq!(left, (0, false), "the node is deleted");
    let left = left_after(|scene, _, job, _| {
        let purge = DeregisterJob { job, purge: true, eval_priority: None, no_shutdown_delay: false };
        scene.done(Command::DeregisterJob(purge));
    });
    assert_eq!(left, (0, false), "the job is purged");
}

#[test]
fn a_stopped_job_keeps_its_registrations_until_its_agents_withdraw_them() {
    let left = left_after(|scene, _, job, _| {
        let stop = DeregisterJob { job, purge: false, eval_priority: None, no_shutdown_delay: false };
        scene.done(Command::DeregisterJob(stop));
    });
    assert_eq!(left.0, 2);
}

#[test]
fn a_registration_is_deleted_by_namespace_and_id() {
    // http-api §21
    let mut scene = Scene::new();
    let (node, job, [alloc, other]) = running(&mut scene);
    register(&mut scene, node, alloc, &["web", "api"]);
    register(&mut scene, node, other, &["web"]);
    let id = registration_id(alloc, "group-app", "web", "http");
    let delete = |namespace: &str, id: &str| {
        Command::DeleteService(DeleteService { namespace: namespace.into(), id: id.into() })
    };
    let missing = (RefusalKind::NotFound, "service registration not found".to_owned());
    assert_eq!(scene.refused(delete("elsewhere", &id)), missing);
    assert_eq!(scene.refused(delete(&job.namespace, "_nomad-task-nope")), missing);
    let done = scene.done(delete(&job.namespace, &id));
    assert_eq!(done.object_index, done.index);
    assert!(matches!(scene.last(), [Change::ServiceRegistrationDeleted(key)] if key.id == *id));
    assert_eq!(scene.cause(), Some(Cause::ServiceDeregistration));
    assert_eq!(scene.refused(delete(&job.namespace, &id)), missing);
    assert_eq!(scene.state.service_registrations().count(), 2);
    assert!(scene.state.table_index(state::Table::ServiceRegistrations) > Index(0));
}
