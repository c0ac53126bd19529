//! Rules of blocked evaluations (R-1.49 to R-1.67), as scenes.

use model::Nanos;
use model::alloc::{AllocMetric, TaskShortage};
use model::change::Unblocked;
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::JobType;

use crate::testing::{NONE, Scene, blocked, eval, id, node};

/// Creates a blocked evaluation with the newest snapshot and this class eligibility.
fn waits(scene: &mut Scene, eval: Evaluation, classes: &[(&str, bool)]) {
    let class_eligibility = classes.iter().map(|(class, eligible)| ((*class).into(), *eligible)).collect();
    let snapshot_index = scene.state.index();
    scene.create([Evaluation { class_eligibility, snapshot_index, ..eval }]);
}

fn waiting(scene: &Scene) -> Vec<u8> {
    scene.broker.blocked().ids().into_iter().map(crate::testing::number).collect()
}

#[test]
fn a_class_wakes_all_but_those_that_it_cannot_serve() {
    let mut scene = Scene::new();
    waits(&mut scene, blocked(1, 1), &[("a", true)]);
    waits(&mut scene, blocked(2, 2), &[("a", false)]);
    waits(&mut scene, blocked(3, 3), &[("b", true)]);
    waits(&mut scene, Evaluation { escaped_class: true, ..blocked(4, 4) }, &[]);
    scene.unblock("a");
    assert_eq!(scene.dequeue_all(), [1, 3, 4]); // R-1.55
    assert_eq!(waiting(&scene), [2]);
}

#[test]
fn an_unblocked_evaluation_needs_a_snapshot_with_the_new_capacity() {
    let mut scene = Scene::new();
    waits(&mut scene, blocked(1, 1), &[]);
    scene.unblock("a");
    assert_eq!(scene.dequeue_one().map(|delivery| delivery.wait_index), Some(scene.state.index()));
}

#[test]
fn capacity_gained_after_the_snapshot_unblocks_at_once() {
    let mut scene = Scene::new();
    scene.unblock("a");
    let seen = scene.state.index();
    scene.unblock("b");
    let mut blocks = |number, classes: &[(&str, bool)], escaped_class| {
        scene.create([eval(number, number)]);
        let class_eligibility = classes.iter().map(|(class, serves)| ((*class).into(), *serves)).collect();
        let made = Evaluation { class_eligibility, escaped_class, ..blocked(number + 10, number) };
        scene.finish_from(number, EvalStatus::Complete, seen, vec![made]);
    };
    blocks(1, &[("a", true), ("b", true)], false); // R-1.53 point 4
    blocks(2, &[("a", true), ("b", false)], false);
    blocks(3, &[("a", true)], false); // R-1.53 point 3
    blocks(4, &[], true); // escaped
    assert_eq!(scene.dequeue_all(), [11, 13, 14]);
    assert_eq!(waiting(&scene), [12]);
}

#[test]
fn a_broker_that_takes_over_misses_nothing() {
    let mut scene = Scene::new();
    waits(&mut scene, blocked(1, 1), &[("a", true)]);
    waits(&mut scene, blocked(2, 2), &[("a", false)]);
    scene.unblock("a");
    scene.take_over();
    assert_eq!(scene.dequeue_all(), [1]);
    assert_eq!(waiting(&scene), [2]);
}

#[test]
fn an_evaluation_at_its_quota_waits_for_the_quota() {
    let mut scene = Scene::new();
    let limited = |number, quota: &str| Evaluation { quota_limit: quota.into(), ..blocked(number, number) };
    waits(&mut scene, limited(1, "small"), &[]);
    waits(&mut scene, limited(2, "other"), &[]);
    waits(&mut scene, blocked(3, 3), &[]);
    waits(&mut scene, Evaluation { escaped_class: true, ..blocked(4, 4) }, &[]);
    assert_eq!(scene.broker.blocked().stats().quota_limited, 2);
    scene.unblock_all(Unblocked { quotas: vec!["small".into(), "".into()], ..Unblocked::default() });
    assert_eq!(scene.dequeue_all(), [1, 3]); // R-1.56
    assert_eq!(waiting(&scene), [2, 4]);
}

#[test]
fn an_evaluation_at_its_quota_missed_only_gains_of_the_quota() {
    let mut scene = Scene::new();
    let seen = scene.state.index();
    scene.unblock_all(Unblocked {
        classes: vec!["a".into()],
        quotas: vec!["small".into()],
        ..Unblocked::default()
    });
    for (number, quota) in [(1, "small"), (2, "other")] {
        scene.create([eval(number, number)]);
        let made = Evaluation { quota_limit: quota.into(), ..blocked(number + 10, number) };
        scene.finish_from(number, EvalStatus::Complete, seen, vec![made]);
    }
    assert_eq!(scene.dequeue_all(), [11]); // R-1.53 point 1, R-1.54
    assert_eq!(waiting(&scene), [12]);
}

#[test]
fn a_new_volume_unblocks_the_evaluations_that_miss_it() {
    let mut scene = Scene::new();
    let misses = |number, what: &str| Evaluation {
        missing_resources: vec![what.into()],
        escaped_class: true,
        ..blocked(number, number)
    };
    waits(&mut scene, misses(1, "csi-volume:default:a"), &[]);
    waits(&mut scene, misses(2, "csi-volume:default:b"), &[]);
    let resources = vec!["csi-volume:default:a".into()];
    scene.unblock_all(Unblocked { resources, ..Unblocked::default() });
    assert_eq!(scene.dequeue_all(), [1]); // R-1.59
}

#[test]
fn a_job_waits_once_and_the_newest_look_counts() {
    let mut scene = Scene::new();
    waits(&mut scene, blocked(1, 1), &[]);
    waits(&mut scene, blocked(2, 1), &[]);
    assert_eq!(waiting(&scene), [2]); // R-1.50
    waits(&mut scene, blocked(3, 2), &[]);
    let written = scene.write(); // R-1.51
    assert_eq!(written.len(), 1);
    assert_eq!(scene.stored(1).status, EvalStatus::Canceled);
    assert_eq!(&*scene.stored(1).status_description, r#"existing blocked evaluation exists for job "job-1""#);
    assert_eq!(waiting(&scene), [2, 3]);
}

#[test]
fn a_system_job_waits_once_for_each_node() {
    let mut scene = Scene::new();
    let on = |number, node_number| Evaluation {
        kind: JobType::System,
        node_id: Some(node(node_number)),
        ..blocked(number, 1)
    };
    waits(&mut scene, on(1, 1), &[("a", false)]);
    waits(&mut scene, on(2, 2), &[("a", false)]);
    waits(&mut scene, on(3, 2), &[("a", false)]);
    assert_eq!(waiting(&scene), [1, 3]); // R-1.52, R-1.64
    scene.unblock_all(Unblocked { nodes: vec![node(2)], ..Unblocked::default() });
    assert_eq!(scene.dequeue_all(), [3]); // R-1.58
    assert_eq!(waiting(&scene), [1]);
}

#[test]
fn an_evaluation_refused_too_often_is_retried_every_two_seconds() {
    let mut scene = Scene::new();
    let refused = Evaluation { trigger: EvalTrigger::MaxPlanAttempts, ..blocked(1, 1) };
    waits(&mut scene, refused, &[("a", false)]);
    waits(&mut scene, blocked(2, 2), &[("a", false)]);
    for _ in 0..3 {
        assert_eq!(scene.pass_to_timeout(), Nanos::from_secs(2)); // R-1.60, sooner
        assert_eq!(scene.dequeue_all(), [1]);
        scene.finish(1, EvalStatus::Blocked, Vec::new());
    }
}

#[test]
fn a_canceled_evaluation_is_no_longer_blocked() {
    let mut scene = Scene::new();
    waits(&mut scene, blocked(1, 1), &[]);
    scene.change(&[1], Some(EvalStatus::Canceled)); // R-1.19, R-1.63
    assert_eq!(waiting(&scene), NONE);
    scene.unblock("a");
    assert_eq!(scene.dequeue_all(), NONE);
}

#[test]
fn records_stay_while_somebody_has_an_older_snapshot() {
    let mut scene = Scene::new();
    let forget_from = |scene: &mut Scene| {
        scene.pass(Nanos::from_mins(5));
        scene.write().into_iter().find_map(|write| write.forget_unblocked_before)
    };
    scene.unblock("a");
    waits(&mut scene, blocked(1, 1), &[("b", false)]);
    let looked = scene.stored(1).snapshot_index;
    scene.unblock("b");
    assert_eq!(forget_from(&mut scene), None, "the record has the index of the snapshot");

    scene.create([eval(2, 2)]);
    scene.unblock("c");
    scene.finish(1, EvalStatus::Complete, Vec::new());
    // A worker may have processed evaluation 2 with a snapshot as old as its creation, and may still block it.
    assert_eq!(forget_from(&mut scene), Some(scene.stored(2).modify_index));
    assert!(scene.state.unblocked().all(|(_, index)| index > looked));
    assert_eq!(scene.dequeue_all(), [2]);
    scene.finish_from(2, EvalStatus::Blocked, scene.stored(2).modify_index, Vec::new());
    assert_eq!(scene.dequeue_all(), [2], "c was missed");
    scene.finish(2, EvalStatus::Complete, Vec::new());
    assert!(forget_from(&mut scene).is_some());
    assert_eq!(scene.state.unblocked().count(), 0);
}

#[test]
fn missing_resources_of_blocked_evaluations_are_added_up() {
    let mut scene = Scene::new();
    let short = TaskShortage { cpu_mhz: 500, memory_mb: 256 };
    let metric = AllocMetric {
        node_pool: "default".into(),
        nodes_available: [("dc1".into(), 3), ("dc2".into(), 1)].into(),
        resources_exhausted: [("web".into(), short), ("log".into(), short)].into(),
        ..AllocMetric::default()
    };
    let failed_groups = [("app".into(), metric)].into();
    waits(&mut scene, Evaluation { failed_groups, ..blocked(1, 1) }, &[]);
    let sums = |scene: &Scene| -> Vec<(String, u64, u64)> {
        let sums = scene.broker.blocked().shortages().sums();
        sums.map(|(location, cpu, memory)| {
            (format!("{} {}", location.datacenter, location.node_class), cpu, memory)
        })
        .collect()
    };
    assert_eq!(sums(&scene), [("dc1 ".to_owned(), 1000, 512), ("dc2 ".to_owned(), 1000, 512)]); // R-1.67
    scene.unblock("a");
    assert_eq!(sums(&scene), []);
    assert_eq!(scene.dequeue_one().map(|delivery| delivery.eval_id), Some(id(1)));
}
