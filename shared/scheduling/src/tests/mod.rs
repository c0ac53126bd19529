//! Proposals of the scheduler for small clusters, as text.

use insta::assert_snapshot;
use model::alloc::{AllocExtra, AllocState, ClientStatus, DesiredStatus, DesiredTransition};
use model::cluster::{SchedulerAlgorithm, SchedulerConfig};
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{Constraint, DisconnectStrategy, JobType, NetworkResource, Port};
use model::node::{Eligibility, NodeSpec, NodeStatus};
use model::{AllocId, Nanos};

use crate::testing::{NOW, Scene};

mod order;
mod rollouts;

/// Node 2 is smaller, so packing fills it first.
fn two_nodes() -> Scene {
    Scene::default().node(1, 4_000, 8_000).node(2, 2_000, 8_000)
}

fn constraint(left: &str, right: &str) -> Constraint {
    Constraint { l_target: left.into(), r_target: right.into(), ..Constraint::default() }
}

#[test]
fn a_new_job_is_placed_where_it_packs_best() {
    let scene = two_nodes().count(2);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2
    place job.web[1] on node-1
    evaluation: complete
    "#);
}

#[test]
fn allocations_without_room_are_queued_and_blocked() {
    let scene = two_nodes().count(9).job_with(|spec| spec.task_groups[0].tasks[0].resources.cpu_mhz = 1_500);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2
    place job.web[1] on node-1
    place job.web[2] on node-1
    evaluation: complete
      web: 6 queued
      web: of 2 nodes 0 filtered {}, 2 exhausted {"cpu": 2}, 5 more not tried
    create: blocked, queued-allocs, created to place remaining allocations, classes {"v1:1": true}, escaped false
    "#);
}

#[test]
fn a_blocked_evaluation_without_room_is_blocked_again() {
    let scene = Scene::default().node(1, 100, 100).eval_with(|eval| eval.status = EvalStatus::Blocked);
    assert_snapshot!(scene.describe(), @r#"
    evaluation: blocked, classes {"v1:1": true}, escaped false
      web: 1 queued
      web: of 1 nodes 0 filtered {}, 1 exhausted {"cpu": 1}, 0 more not tried
    "#);
}

#[test]
fn an_infeasible_constraint_is_reported_once_for_each_class() {
    // Preemption is off: its second pass would report the class as known to be ineligible (R-6.41).
    let scene = two_nodes().config(SchedulerConfig::default());
    let scene = scene.job_with(|spec| spec.constraints = vec![constraint("${node.class}", "big")]);
    assert_snapshot!(scene.describe(), @r#"
    evaluation: complete
      web: 1 queued
      web: of 2 nodes 2 filtered {"${node.class} = big": 1, "computed class ineligible": 1}, 0 exhausted {}, 0 more not tried
    create: blocked, queued-allocs, created to place remaining allocations, classes {"v1:1": false}, escaped false
    "#);
}

#[test]
fn a_constraint_on_unique_attributes_checks_each_node() {
    let scene =
        two_nodes().job_with(|spec| spec.constraints = vec![constraint("${node.unique.name}", "node-2")]);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2
    evaluation: complete
    "#);
}

#[test]
fn an_unhealthy_driver_excludes_its_node_and_not_its_class() {
    let scene = two_nodes().node_with(3, |spec| {
        spec.drivers.values_mut().for_each(|driver| driver.healthy = false);
        spec.resources.cpu.cpu_mhz = 600;
    });
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2
    evaluation: complete
    "#);
}

#[test]
fn nodes_of_other_datacenters_and_pools_are_not_considered() {
    let scene = two_nodes()
        .node_with(3, |spec| spec.datacenter = "eu".into())
        .node_with(4, |spec| spec.node_pool = "gpu".into())
        .job_with(|spec| spec.datacenters = vec!["e*".into()]);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-3
    evaluation: complete
    "#);
}

#[test]
fn the_spread_algorithm_chooses_the_emptier_node() {
    let scene = two_nodes().config(SchedulerConfig {
        algorithm: Some(SchedulerAlgorithm::Spread),
        ..SchedulerConfig::default()
    });
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-1
    evaluation: complete
    "#);
}

/// Two nodes with the same bin-packing score, and one that makes memory plentiful.
fn two_shapes() -> Scene {
    Scene::default().node(1, 4_000, 8_000).node(2, 8_000, 4_000).node(3, 100, 40_000).job_with(|spec| {
        let resources = &mut spec.task_groups[0].tasks[0].resources;
        (resources.cpu_mhz, resources.memory_mb) = (500, 500);
    })
}

#[test]
fn equal_packing_scores_are_decided_by_the_shape_of_the_free_resources() {
    assert_snapshot!(two_shapes().describe(), @r#"
    place job.web[0] on node-2
    evaluation: complete
    "#);
}

#[test]
fn align_chooses_the_node_of_matching_shape_and_binpack_the_fuller_one() {
    let scene = Scene::default().node(1, 2_000, 8_000).node(2, 8_000, 4_000);
    let align = SchedulerConfig { algorithm: Some(SchedulerAlgorithm::Align), ..SchedulerConfig::default() };
    for aligned in [scene.clone().config(align), scene.clone().batch().config(align)] {
        assert!(aligned.describe().contains("place job.web[0] on node-2"));
    }
    // A pool's algorithm takes precedence over the cluster's.
    for (cluster, pool, node) in
        [(SchedulerConfig::default(), SchedulerAlgorithm::Align, 2), (align, SchedulerAlgorithm::Binpack, 1)]
    {
        let scene = scene.clone().config(cluster).algorithm_of_pool(pool);
        assert!(scene.describe().contains(&format!("place job.web[0] on node-{node}")));
    }
}

#[test]
fn a_static_port_can_be_used_once_on_each_node() {
    let scene = two_nodes().count(3).job_with(|spec| {
        let port = Port { label: "http".into(), value: 80, ..Port::default() };
        spec.task_groups[0].networks =
            vec![NetworkResource { reserved_ports: vec![port], ..NetworkResource::default() }];
    });
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2
    place job.web[1] on node-1
    evaluation: complete
      web: 1 queued
      web: of 2 nodes 0 filtered {}, 2 exhausted {"network: reserved port collision http=80": 2}, 0 more not tried
    create: blocked, queued-allocs, created to place remaining allocations, classes {"v1:1": true}, escaped false
    "#);
}

#[test]
fn a_node_with_an_invalid_list_of_reserved_ports_takes_no_allocation() {
    // A node whose own network data is unusable takes no allocation (R-6.12).
    let scene = two_nodes().node_with(3, |spec| spec.reserved.ports = "22,x".into()).count(40);
    let addresses = |spec: &mut NodeSpec| {
        spec.resources.node_networks[0].addresses[0].reserved_ports = "80-".into();
    };
    let scene = scene.node_with(4, addresses).describe();
    assert!(scene.contains("on node-1") && scene.contains(r#""network: invalid node": 2"#), "{scene}");
    assert!(!scene.contains("on node-3") && !scene.contains("on node-4"), "{scene}");
}

#[test]
fn scaling_up_uses_the_free_names() {
    let scene = two_nodes().running(0, 1).running(2, 1).count(4);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[1] on node-2
    place job.web[3] on node-2
    evaluation: complete
    "#);
}

#[test]
fn scaling_down_stops_the_highest_names() {
    let scene = two_nodes().running(0, 1).running(1, 2).running(2, 1).count(1);
    assert_snapshot!(scene.describe(), @r#"
    stop job.web[1] on node-2: alloc not needed due to job update
    stop job.web[2] on node-1: alloc not needed due to job update
    evaluation: complete
    "#);
}

#[test]
fn an_evaluation_without_changes_is_complete() {
    let scene = two_nodes().running(0, 1);
    assert_snapshot!(scene.describe(), @r#"
    evaluation: complete
    "#);
}

#[test]
fn a_destructive_update_without_an_update_block_replaces_all_at_once() {
    let scene = two_nodes().count(2).running(0, 1).running(1, 2).updated(|spec| {
        spec.task_groups[0].tasks[0].driver = "exec".into();
        spec.task_groups[0].tasks[0].env.insert("a".into(), "b".into());
    });
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-1 for job.web[0] on node-1
    place job.web[1] on node-2 for job.web[1] on node-2
    stop job.web[0] on node-1: alloc is being updated due to job update
    stop job.web[1] on node-2: alloc is being updated due to job update
    evaluation: complete
    "#);
}

/// Node 2 is disconnected, and its allocation was replaced on node 1. `last_status` is the last reported status of the
/// original.
fn replaced_while_unknown(last_status: ClientStatus) -> Scene {
    one_replaced_while_unknown(0, last_status)
}

/// The same, with the index in the allocation's name.
fn one_replaced_while_unknown(name: u32, last_status: ClientStatus) -> Scene {
    let mut second = [0xa; 16];
    (second[14], second[15]) = (1, name as u8);
    let scene =
        two_nodes().server_side(2, |server| server.status = NodeStatus::Disconnected).job_with(|spec| {
            let lost_after = Nanos::from_mins(10);
            let disconnect = DisconnectStrategy { lost_after, ..DisconnectStrategy::default() };
            spec.task_groups[0].disconnect = Some(disconnect);
        });
    let scene = scene.alloc_with(name, 2, |alloc| {
        alloc.client_status = last_status;
        let unknown = AllocState { client_status: Some(ClientStatus::Unknown), time: NOW };
        let next = Some(AllocId::from_bytes(second));
        alloc.extra = AllocExtra { states: vec![unknown], next, ..AllocExtra::default() };
    });
    scene.running(name, 1)
}

#[test]
fn an_unknown_allocation_that_was_replaced_is_not_replaced_again() {
    let text = replaced_while_unknown(ClientStatus::Unknown).describe();
    assert!(!text.contains("place"), "{text}");
    let updated = replaced_while_unknown(ClientStatus::Unknown).updated(|spec| {
        spec.task_groups[0].tasks[0].env.insert("a".into(), "b".into());
    });
    let text = updated.describe();
    assert_eq!(text.matches("place ").count(), 1, "{text}");
    assert!(text.contains("stop job.web[0] on node-2: alloc not needed due to job update"), "{text}");
    assert!(text.contains("place job.web[0]"), "it keeps the name that both had: {text}");
}

#[test]
fn an_unknown_allocation_is_lost_when_its_timeout_evaluation_comes() {
    // The time of the evaluation is over, and the time that the applier recorded, after a slow commit, is not (R-7.46).
    let text_for = |trigger| {
        let mut followup_eval = None;
        let scene = two_nodes().server_side(2, |server| server.status = NodeStatus::Down);
        let scene = scene.eval_with(|eval| {
            eval.trigger = trigger;
            followup_eval = Some(eval.id);
        });
        let scene = scene.job_with(|spec| {
            let disconnect = DisconnectStrategy {
                lost_after: Nanos::from_secs(4),
                replace: Some(false),
                ..DisconnectStrategy::default()
            };
            spec.task_groups[0].disconnect = Some(disconnect);
        });
        let scene = scene.alloc_with(0, 2, |alloc| {
            alloc.client_status = ClientStatus::Unknown;
            let unknown = AllocState { client_status: Some(ClientStatus::Unknown), time: NOW };
            alloc.extra = AllocExtra { states: vec![unknown], followup_eval, ..AllocExtra::default() };
        });
        scene.describe()
    };
    let text = text_for(EvalTrigger::MaxDisconnectTimeout);
    assert!(text.contains("stop job.web[0] on node-2: alloc is lost since its node is down, lost"), "{text}");
    assert!(text.contains("place job.web[0] on node-1 for job.web[0] on node-2"), "{text}");
    let text = text_for(EvalTrigger::NodeUpdate);
    assert!(!text.contains("place") && !text.contains("stop"), "{text}");
}

#[test]
fn an_allocation_that_reconnected_briefly_is_not_replaced_again() {
    // Departs from R-7.52, by which the allocation would be rescheduled a second time.
    let rescheduling = replaced_while_unknown(ClientStatus::Running).rescheduling(Nanos::ZERO);
    let text = rescheduling.describe();
    assert!(!text.contains("place") && !text.contains("stop"), "{text}");
    assert!(text.contains("unknown"), "{text}");
}

#[test]
fn a_replacement_of_a_replacement_keeps_the_name() {
    // Departs from R-7.66, by which a duplicate name is replaced: the first allocation is still unknown, and has the
    // same name.
    let scene = one_replaced_while_unknown(1, ClientStatus::Unknown).rescheduling(Nanos::ZERO).count(2);
    let scene = scene.node(3, 4_000, 8_192).running(0, 3);
    let both_unknown = scene.server_side(1, |server| server.status = NodeStatus::Disconnected);
    let text = both_unknown.describe();
    assert!(text.contains("place job.web[1] on node-3 for job.web[1] on node-1"), "{text}");
}

#[test]
fn an_update_in_place_keeps_allocations_on_their_nodes() {
    let scene = two_nodes().count(2).running(0, 1).running(1, 2).updated(|spec| spec.priority = 60);
    assert_snapshot!(scene.describe(), @r#"
    job.web[0] on node-1 runs version 1
    job.web[1] on node-2 runs version 1
    evaluation: complete
    "#);
}

#[test]
fn an_allocation_whose_node_is_no_longer_feasible_is_replaced() {
    let scene = two_nodes()
        .running(0, 1)
        .updated(|spec| spec.constraints = vec![constraint("${node.unique.name}", "node-2")]);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2 for job.web[0] on node-1
    stop job.web[0] on node-1: alloc is being updated due to job update
    evaluation: complete
    "#);
}

#[test]
fn an_update_without_room_keeps_the_old_allocation_running() {
    let scene = Scene::default()
        .node(1, 600, 600)
        .running(0, 1)
        .updated(|spec| spec.task_groups[0].tasks[0].resources.cpu_mhz = 700);
    assert_snapshot!(scene.describe(), @r#"
    evaluation: complete
      web: 1 queued
      web: of 1 nodes 0 filtered {}, 1 exhausted {"cpu": 1}, 0 more not tried
    create: blocked, queued-allocs, created to place remaining allocations, classes {"v1:1": true}, escaped false
    "#);
}

#[test]
fn a_removed_group_stops() {
    let scene = two_nodes().running(0, 1).updated(|spec| spec.task_groups[0].name = "other".into());
    assert_snapshot!(scene.describe(), @r#"
    place job.other[0] on node-2
    stop job.web[0] on node-1: alloc not needed due to job update
    evaluation: complete
    "#);
}

#[test]
fn a_stopped_job_stops() {
    let scene = two_nodes()
        .running(0, 1)
        .alloc_with(1, 2, |alloc| alloc.client_status = ClientStatus::Failed)
        .updated(|spec| spec.stop = true);
    assert_snapshot!(scene.describe(), @r#"
    stop job.web[0] on node-1: alloc not needed due to job update
    evaluation: complete
    "#);
}

#[test]
fn a_purged_job_stops() {
    let scene = two_nodes().running(0, 1).purged();
    assert_snapshot!(scene.describe(), @r#"
    stop job.web[0] on node-1: alloc not needed due to job update
    evaluation: complete
    "#);
}

#[test]
fn a_lost_allocation_is_replaced() {
    let scene = two_nodes()
        .count(2)
        .running(0, 1)
        .running(1, 2)
        .server_side(2, |server| server.status = NodeStatus::Down);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[1] on node-1 for job.web[1] on node-2
    stop job.web[1] on node-2: alloc is lost since its node is down, lost
    evaluation: complete
    "#);
}

#[test]
fn a_stopped_allocation_on_a_deleted_node_is_lost() {
    let scene =
        two_nodes().running(0, 1).alloc_with(1, 7, |alloc| alloc.desired_status = DesiredStatus::Stop);
    assert_snapshot!(scene.describe(), @r#"
    stop job.web[1] on node-7: alloc is lost since its node is down, lost
    evaluation: complete
    "#);
}

#[test]
fn an_allocation_that_has_to_migrate_is_moved() {
    let scene = two_nodes()
        .alloc_with(0, 2, |alloc| alloc.desired_transition.migrate = Some(true))
        .server_side(2, |server| server.eligibility = Eligibility::Ineligible);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-1 for job.web[0] on node-2
    stop job.web[0] on node-2: alloc is being migrated
    evaluation: complete
    "#);
}

#[test]
fn a_drained_batch_allocation_is_not_run_elsewhere() {
    let scene = two_nodes().batch().alloc_with(0, 2, |alloc| {
        alloc.desired_transition = DesiredTransition {
            migrate: Some(true),
            migrate_disable_placement: Some(true),
            ..DesiredTransition::default()
        };
    });
    assert_snapshot!(scene.describe(), @r#"
    stop job.web[0] on node-2: alloc is being migrated
    evaluation: complete
    "#);
}

#[test]
fn a_failed_allocation_is_rescheduled_when_its_delay_is_over() {
    let scene = two_nodes()
        .rescheduling(Nanos::ZERO)
        .alloc_with(0, 1, |alloc| alloc.client_status = ClientStatus::Failed);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2 for job.web[0] on node-1, rescheduled 1 times
    stop job.web[0] on node-1: alloc was rescheduled because it failed
    evaluation: complete
    "#);
}

#[test]
fn a_failed_allocation_waits_for_its_reschedule_delay() {
    let scene = two_nodes()
        .count(3)
        .rescheduling(Nanos::from_secs(30))
        .running(0, 1)
        .alloc_with(1, 1, |alloc| alloc.client_status = ClientStatus::Failed)
        .alloc_with(2, 1, |alloc| {
            alloc.client_status = ClientStatus::Failed;
            alloc.modify_time = NOW + Nanos::from_secs(5);
        });
    assert_snapshot!(scene.describe(), @r#"
    job.web[1] on node-1 is rescheduled later
    job.web[2] on node-1 is rescheduled later
    evaluation: complete
    create: pending, alloc-reschedule, created for delayed rescheduling, in 30s
    create: pending, alloc-failure, in 35s
    "#);
}

#[test]
fn a_reschedule_without_room_is_remembered() {
    let scene = Scene::default()
        .node(1, 400, 400)
        .rescheduling(Nanos::ZERO)
        .alloc_with(0, 1, |alloc| alloc.client_status = ClientStatus::Failed);
    assert_snapshot!(scene.describe(), @r#"
    job.web[0] on node-1 cannot be rescheduled
    evaluation: complete
      web: 1 queued
      web: of 1 nodes 0 filtered {}, 1 exhausted {"cpu": 1}, 0 more not tried
    create: blocked, queued-allocs, created to place remaining allocations, classes {"v1:1": true}, escaped false
    "#);
}

#[test]
fn a_batch_job_does_not_run_complete_allocations_again() {
    let scene =
        two_nodes().batch().count(2).alloc_with(0, 1, |alloc| alloc.client_status = ClientStatus::Complete);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[1] on node-2
    evaluation: complete
    "#);
}

#[test]
fn a_newer_version_of_a_batch_job_runs_again() {
    let scene = two_nodes()
        .batch()
        .alloc_with(0, 1, |alloc| alloc.client_status = ClientStatus::Complete)
        .updated(|spec| spec.priority = 60);
    assert_snapshot!(scene.describe(), @r#"
    place job.web[0] on node-2
    evaluation: complete
    "#);
}

#[test]
fn too_many_attempts_without_progress_fail_the_evaluation() {
    let scene = two_nodes().count(2).attempts_without_progress(5);
    assert_snapshot!(scene.describe(), @r#"
    evaluation: failed, maximum attempts reached (5)
      web: 2 queued
    create: blocked, max-plan-attempts, created due to placement conflicts, classes {"v1:1": true}, escaped false
    "#);
}

/// The job's current type counts, not its type when the evaluation was created (R-1.7).
#[test]
fn the_limit_of_attempts_depends_on_the_jobs_type() {
    let scene = two_nodes().job_with(|spec| spec.kind = JobType::Batch).attempts_without_progress(2);
    assert_snapshot!(scene.describe(), @r#"
    evaluation: failed, maximum attempts reached (2)
      web: 1 queued
    create: blocked, max-plan-attempts, created due to placement conflicts, classes {"v1:1": true}, escaped false
    "#);
}

#[test]
fn an_unknown_trigger_fails() {
    let scene = two_nodes().eval_with(|eval| eval.trigger = "made-up".into());
    assert_snapshot!(scene.describe(), @r#"
    evaluation: failed, scheduler cannot handle 'made-up' evaluation reason
    "#);
}
