//! Tests of what the drainer marks, when a drain is over, and that nothing is lost in between.

use model::alloc::ClientStatus;
use model::job::JobType;
use model::{Epoch, Nanos};

use super::core::Drainer;
use super::testing::{DELAY, Scene, alloc, ended, marked, node};

const HOUR: Nanos = Nanos::from_hours(1);
const MINUTE: Nanos = Nanos::from_mins(1);
const NO_DEADLINE: Nanos = Nanos::ZERO;
const AT_ONCE: Nanos = Nanos(-1);

/// Four healthy allocations of the service: 1 and 2 on node 1, 3 and 4 on node 2.
fn healthy(max_parallel: u32) -> Scene {
    let mut scene = Scene::new(max_parallel);
    scene.place("web", &[(1, 1), (2, 1), (3, 2), (4, 2)]);
    scene.verdict(&[1, 2, 3, 4], true);
    scene
}

#[test]
fn a_service_leaves_a_node_as_its_replacements_become_healthy() {
    // At most `max_parallel` allocations of a group are without a verdict (N-10.6); when all have left, the drain is over
    // (N-10.3).
    let mut scene = healthy(1);
    scene.drain(1, HOUR);
    assert_eq!(scene.run(MINUTE), [marked(&[1])]);
    scene.place("web", &[(5, 3)]);
    scene.report(&[1], ClientStatus::Complete);
    assert_eq!(scene.run(MINUTE), [], "the replacement has no verdict yet");
    scene.verdict(&[5], true);
    assert_eq!(scene.run(MINUTE), [marked(&[2])]);
    scene.place("web", &[(6, 3)]);
    scene.verdict(&[6], true);
    assert_eq!(scene.run(MINUTE), [], "the second one has not ended yet");
    scene.report(&[2], ClientStatus::Complete);
    assert_eq!(scene.run(MINUTE), [ended(1, false)]);
    assert_eq!((scene.drainer.node_count(), scene.drainer.poll_timeout()), (0, None));
}

#[test]
fn allocations_of_a_group_count_over_all_draining_nodes() {
    // Two draining nodes do not make two migrations at a time (N-10.6).
    let mut scene = healthy(1);
    scene.drain(1, HOUR);
    scene.drain(2, HOUR);
    assert_eq!(scene.run(MINUTE), [marked(&[1])]);
    let mut scene = healthy(3);
    scene.drain(1, HOUR);
    scene.drain(2, HOUR);
    assert_eq!(scene.run(MINUTE), [marked(&[1, 2, 3])]);
}

#[test]
fn any_verdict_lets_a_drain_move_on() {
    // A replacement that is unhealthy counts like a healthy one (N-10.7).
    let mut scene = healthy(1);
    scene.drain(1, HOUR);
    assert_eq!(scene.run(MINUTE), [marked(&[1])]);
    scene.place("web", &[(5, 3)]);
    scene.verdict(&[5], false);
    assert_eq!(scene.run(MINUTE), [marked(&[2])]);
}

#[test]
fn allocations_without_a_verdict_leave_at_the_deadline() {
    // At the deadline, everything is marked, and the drain is over (N-10.11).
    let mut scene = Scene::new(1);
    scene.place("web", &[(1, 1), (2, 1)]);
    scene.drain(1, MINUTE);
    assert_eq!(scene.run(Nanos::from_secs(59)), []);
    assert_eq!(scene.run(Nanos::SECOND), [ended(1, true)]);
    assert!(scene.migrates(1) && scene.migrates(2));
    assert_eq!(scene.run(HOUR), []);
}

#[test]
fn no_migrations_in_parallel_wait_for_the_deadline() {
    // With `max_parallel` 0, a service stays until the deadline (N-10.7).
    let mut scene = healthy(0);
    scene.drain(1, MINUTE);
    assert_eq!(scene.run(MINUTE), [ended(1, true)]);
}

#[test]
fn a_drain_by_force_is_over_at_once() {
    // A negative deadline has passed from the start (N-9.2).
    let mut scene = healthy(1);
    scene.drain(1, AT_ONCE);
    assert_eq!(scene.run(Nanos::ZERO), [ended(1, true)]);
    assert!(scene.migrates(1) && scene.migrates(2) && !scene.migrates(3));
}

#[test]
fn a_node_with_nothing_to_migrate_is_done_at_once() {
    // http-api §17: it does not wait for a deadline, and does not count as late.
    let mut scene = Scene::new(1);
    scene.drain(1, HOUR);
    scene.drain(2, AT_ONCE);
    assert_eq!(scene.run(Nanos::ZERO).len(), 1, "one command completes both");
    assert_eq!(scene.drainer.node_count(), 0);
}

#[test]
fn batch_work_gets_until_the_deadline() {
    // Batch allocations are not marked before (N-10.8). Without a deadline, the drain waits until they end (N-9.2).
    let mut scene = Scene::new(1);
    scene.register("sort", JobType::Batch, 1);
    scene.place("sort", &[(1, 1)]);
    scene.drain(1, NO_DEADLINE);
    assert_eq!(scene.run(Nanos::from_hours(100)), []);
    scene.report(&[1], ClientStatus::Complete);
    assert_eq!(scene.run(DELAY), [ended(1, false)]);
}

#[test]
fn system_jobs_are_the_last_to_leave() {
    // A drain does not wait for allocations of system jobs; its end marks them (N-10.4).
    let mut scene = Scene::new(1);
    scene.register("logs", JobType::System, 0);
    scene.place("logs", &[(9, 1)]);
    scene.register("all", JobType::SysBatch, 0);
    scene.place("all", &[(8, 1)]);
    scene.drain(1, HOUR);
    assert_eq!(scene.run(MINUTE), [], "a sysbatch allocation still runs (N-10.8)");
    assert!(!scene.migrates(9));
    scene.report(&[8], ClientStatus::Complete);
    assert_eq!(scene.run(DELAY), [ended(1, false)]);
    assert!(scene.migrates(9));
}

#[test]
fn a_drain_that_is_cancelled_goes_no_further() {
    // Allocations that are marked already still migrate (N-10.12).
    let mut scene = healthy(1);
    scene.drain(1, MINUTE);
    assert_eq!(scene.run(DELAY), [marked(&[1])]);
    scene.cancel(1);
    scene.place("web", &[(5, 3)]);
    scene.verdict(&[5], true);
    assert_eq!(scene.run(HOUR), []);
    assert!(scene.migrates(1) && !scene.migrates(2));
    assert_eq!((scene.drainer.node_count(), scene.drainer.poll_timeout()), (0, None));
}

#[test]
fn a_deadline_that_changes_counts_from_the_change() {
    // N-9.3, N-10.1.
    let mut scene = Scene::new(1);
    scene.place("web", &[(1, 1)]);
    scene.drain(1, MINUTE);
    assert_eq!(scene.run(Nanos::from_secs(30)), []);
    scene.drain(1, MINUTE);
    assert_eq!(scene.run(Nanos::from_secs(59)), []);
    assert_eq!(scene.run(Nanos::SECOND), [ended(1, true)]);
    scene.drain(1, HOUR);
    assert_eq!(scene.run(MINUTE), [], "the allocation still runs");
    scene.drain(1, AT_ONCE);
    assert_eq!(scene.run(Nanos::ZERO), [ended(1, true)]);
}

#[test]
fn allocations_that_are_lost_with_their_node_end_its_drain() {
    // A draining node that goes down loses its allocations, and nothing is left to wait for (N-10.3).
    let mut scene = healthy(1);
    scene.drain(1, HOUR);
    assert_eq!(scene.run(DELAY), [marked(&[1])]);
    scene.report(&[1, 2], ClientStatus::Unknown);
    assert_eq!(scene.run(MINUTE), [], "a disconnected node may come back");
    scene.report(&[1, 2], ClientStatus::Lost);
    assert_eq!(scene.run(DELAY), [ended(1, false)]);
}

#[test]
fn a_takeover_continues_where_the_last_process_stopped() {
    let mut scene = healthy(1);
    scene.drain(1, MINUTE);
    scene.drainer = Drainer::restore(DELAY, scene.state.clone(), scene.now);
    assert_eq!(scene.run(Nanos::from_secs(30)), [marked(&[1])]);
    scene.drainer = Drainer::restore(DELAY, scene.state.clone(), scene.now);
    assert_eq!(scene.run(Nanos::from_secs(29)), []);
    assert_eq!(scene.run(Nanos::SECOND), [ended(1, true)], "the deadline is that of the state");
}

#[test]
fn nothing_is_sent_while_a_command_is_outstanding_and_failures_are_repeated() {
    let mut scene = healthy(1);
    scene.drain(1, HOUR);
    assert!(scene.drainer.next_write(Epoch(1), scene.now).is_some());
    assert!(scene.drainer.next_write(Epoch(1), scene.now + MINUTE).is_none(), "a command is in flight");
    scene.drainer.not_written(scene.now);
    assert_eq!(scene.drainer.poll_timeout(), Some(scene.now + Nanos::SECOND));
    assert_eq!(scene.run(MINUTE), [marked(&[1])]);
    assert_eq!(scene.state.node(node(1)).map(|node| node.is_drained()), Some(false));
    assert!(scene.state.alloc(alloc(2)).is_some_and(|alloc| alloc.may_migrate()));
}
