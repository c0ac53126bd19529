//! In which order allocations are placed, and what allocations that stay or stop mean for those that are placed.

use insta::assert_snapshot;
use model::alloc::{AllocExtra, AllocState, ClientStatus};
use model::job::{JobType, NetworkResource, Port};
use model::node::Eligibility;
use model::{AllocId, Nanos};

use super::two_nodes;
use crate::testing::{NOW, Scene};

#[test]
fn new_allocations_are_placed_before_those_that_migrate() {
    // Node 2 has room for one allocation (R-7.35).
    let scene = Scene::default()
        .node(1, 4_000, 8_000)
        .node(2, 600, 8_000)
        .count(2)
        .alloc_with(0, 1, |alloc| alloc.desired_transition.migrate = Some(true))
        .server_side(1, |server| server.eligibility = Eligibility::Ineligible);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[1] on node-2
    stop job.web[0] on node-1: alloc is being migrated
    evaluation: complete
      web: 1 queued
      web: of 1 nodes 0 filtered {}, 1 exhausted {"cpu": 1}, 0 more not tried
    create: blocked, queued-allocs, created to place remaining allocations, classes {"v1:1": true}, escaped false
    "#);
}

#[test]
fn a_node_gets_what_it_lacks_before_what_it_has_is_updated() {
    // The node has room for one allocation once the old one has stopped (R-8.17, R-8.21).
    let scene = Scene::default()
        .node(1, 600, 8_000)
        .job_with(|spec| spec.kind = JobType::System)
        .eval_with(|eval| eval.kind = JobType::System)
        .running(0, 1)
        .updated(|spec| {
            spec.task_groups[0].tasks[0].env.insert("a".into(), "b".into());
            let mut other = spec.task_groups[0].clone();
            other.name = "other".into();
            spec.task_groups = spec.task_groups.iter().cloned().chain([other]).collect::<Vec<_>>().into();
        });
    let text = scene.describe();
    assert!(text.contains("place job.other[0] on node-1"), "{text}");
    assert!(!text.contains("place job.web[0]"), "{text}");
    assert!(text.contains("stop job.web[0] on node-1: alloc is being updated due to job update"), "{text}");
}

#[test]
fn ended_allocations_of_a_sysbatch_job_count_as_updated_in_place() {
    // Nothing is written for them (R-8.14, R-8.39).
    let scene = Scene::default()
        .node(1, 4_000, 8_000)
        .job_with(|spec| spec.kind = JobType::SysBatch)
        .eval_with(|eval| eval.kind = JobType::SysBatch)
        .alloc_with(0, 1, |alloc| alloc.client_status = ClientStatus::Complete)
        .updated(|spec| spec.priority = 60);
    let (_, proposal) = scene.propose();
    let annotations = proposal.outcome.eval.annotations.unwrap();
    assert_eq!(annotations.desired_updates["web"].in_place_update, 1);
    assert!(proposal.plan.is_noop());
}

#[test]
fn an_allocation_that_waits_for_its_reschedule_keeps_others_away() {
    // Node 2, which would be filled first, has a failed allocation of the group (R-5.3, R-6.22).
    let scene = two_nodes()
        .count(2)
        .rescheduling(Nanos::from_secs(30))
        .alloc_with(0, 2, |alloc| alloc.client_status = ClientStatus::Failed);
    assert_snapshot!(scene.describe(), @r#"
    job.web[0] on node-2 is rescheduled later
    place job.web[1] on node-1
    evaluation: complete
    create: pending, alloc-reschedule, created for delayed rescheduling, in 30s
    "#);
}

#[test]
fn a_stop_for_migration_does_not_name_the_follow_up() {
    // The allocation is not looked at again: its replacement is a missing name (R-7.59, R-7.77).
    let scene = two_nodes().batch().rescheduling(Nanos::from_secs(30)).alloc_with(0, 1, |alloc| {
        (alloc.desired_transition.migrate, alloc.desired_transition.reschedule) = (Some(true), Some(true));
    });
    assert_snapshot!(scene.describe(), @r#"
    stop job.web[0] on node-1: alloc is being migrated
    evaluation: complete
    create: pending, alloc-reschedule, created for delayed rescheduling, in 30s
    "#);
}

#[test]
fn a_replacement_that_reconnects_and_stops_is_not_recorded_as_reconnected() {
    // Both nodes are back (R-7.49). Without scores the original is kept (R-7.50).
    let mut second = [0xa; 16];
    (second[14], second[15]) = (1, 0);
    let unknown = || vec![AllocState { client_status: Some(ClientStatus::Unknown), time: NOW }];
    let scene = two_nodes()
        .alloc_with(0, 2, |alloc| {
            let next = Some(AllocId::from_bytes(second));
            alloc.extra = AllocExtra { states: unknown(), next, ..AllocExtra::default() };
        })
        .alloc_with(0, 1, |alloc| {
            alloc.extra = AllocExtra { states: unknown(), ..AllocExtra::default() };
        });
    assert_snapshot!(scene.describe(), @r#"
    job.web[0] on node-2 reconnects
    stop job.web[0] on node-1: alloc not needed due to disconnected client reconnect
    evaluation: complete
    "#);
}

#[test]
fn a_template_of_a_host_network_shows_the_nodes_value() {
    // R-5.22, R-6.9.
    let scene = Scene::default()
        .node_with(1, |spec| {
            spec.meta.insert("network".into(), "public".into());
            spec.resources.node_networks[0].addresses[0].alias = "public".into();
        })
        .job_with(|spec| {
            let host_network = "${meta.network}".into();
            let port = Port { label: "http".into(), host_network, ..Port::default() };
            spec.task_groups[0].networks =
                vec![NetworkResource { dynamic_ports: vec![port], ..NetworkResource::default() }];
        });
    let (_, proposal) = scene.propose();
    let resources = &proposal.plan.placements[0].common.resources;
    assert_eq!(&*resources.networks[0].dynamic_ports[0].host_network, "public");
}
