//! Tests of what the watcher finds, and when.

use model::alloc::ClientStatus;
use model::deployment::DeploymentStatus;
use model::eval::EvalStatus;
use model::{Index, Nanos};
use wire::command::DeploymentStep;

use crate::core::{Settings, Watcher};
use crate::testing::{BATCH_DELAY, Scene, alloc, never, unlimited};

#[test]
fn healthy_allocations_move_a_deployment_on_once() {
    // Healthy allocations that no evaluation has seen need an evaluation (N-14.6), batched for a delay (N-14.8).
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    assert_eq!(scene.check(), None, "no health verdict yet");
    scene.verdict(&[1], true);
    assert_eq!(scene.pass_to_timeout(), (BATCH_DELAY, Some(DeploymentStep::Advance)));
    scene.evaluate();
    assert_eq!(scene.check(), None, "a pending evaluation will see it");
}

#[test]
fn a_deployment_that_waits_for_health_needs_no_evaluation() {
    let mut scene = Scene::new(never());
    scene.place(&[1, 2, 3, 4, 5]);
    scene.verdict(&[1, 2], true);
    assert_eq!(
        scene.check(),
        Some(DeploymentStep::Advance),
        "the node is not ready, so a scheduler must decide"
    );
    scene.node_is_ready();
    scene.verdict(&[3], true);
    assert_eq!(scene.check(), None, "all is placed, on a ready node");
    scene.verdict(&[4, 5], true);
    scene.count_healthy(5);
    assert_eq!(scene.check(), Some(DeploymentStep::Advance), "the deployment is done");
}

#[test]
fn running_allocations_need_no_evaluation_and_ended_ones_do() {
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    assert_eq!(scene.check(), None);
    scene.report(1, ClientStatus::Running);
    assert_eq!(scene.watcher.poll_timeout(), None, "no health verdict yet");
    scene.report(1, ClientStatus::Complete);
    assert_eq!(scene.watcher.poll_timeout(), Some(scene.now + BATCH_DELAY));
}

#[test]
fn changes_within_the_batch_delay_are_handled_together() {
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    scene.verdict(&[1], true);
    scene.now = scene.now + Nanos(BATCH_DELAY.0 / 2);
    scene.verdict(&[2], true);
    let (delay, step) = scene.pass_to_timeout();
    assert_eq!((delay, step), (Nanos(BATCH_DELAY.0 / 2), Some(DeploymentStep::Advance)));
}

#[test]
fn changes_after_a_schedulers_snapshot_are_evaluated_again() {
    // The snapshot's index counts, not the index at which the evaluation ended (N-14.6).
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    let eval = scene.evaluate();
    let seen = scene.state.index();
    scene.verdict(&[1], true);
    let unseen = scene.check();
    assert_eq!(unseen, Some(DeploymentStep::Advance));
    scene.finish(eval.clone(), EvalStatus::Complete, seen);
    assert_eq!(scene.check(), Some(DeploymentStep::Advance));
    let at = scene.state.index();
    scene.finish(eval, EvalStatus::Complete, at);
    assert_eq!(scene.check(), None);
}

#[test]
fn evaluations_that_were_cancelled_have_seen_nothing() {
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.verdict(&[1], true);
    let eval = scene.evaluate();
    assert_eq!(scene.check(), None);
    scene.finish(eval, EvalStatus::Canceled, Index::ZERO);
    assert_eq!(scene.check(), Some(DeploymentStep::Advance));
}

#[test]
fn an_unhealthy_allocation_that_nothing_may_replace_ends_it() {
    // An unhealthy allocation that may not be replaced fails the deployment (N-14.6).
    let mut scene = Scene::new(never());
    scene.place(&[1, 2, 3]);
    scene.verdict(&[3], true);
    scene.verdict(&[2, 1], false);
    let allocs = vec![alloc(1), alloc(2)];
    assert_eq!(scene.check(), Some(DeploymentStep::FailUnhealthy { allocs }));
    scene.set_status(DeploymentStatus::Failed);
    assert_eq!(scene.watcher.poll_timeout(), None, "a failed deployment is not watched");
}

#[test]
fn without_a_deadline_the_first_unhealthy_allocation_ends_it() {
    // Otherwise the allocation would be retried forever (N-14.6).
    let mut scene = Scene::with_deadline(unlimited(), Nanos::ZERO);
    scene.place(&[1]);
    scene.verdict(&[1], false);
    assert_eq!(scene.check(), Some(DeploymentStep::FailUnhealthy { allocs: vec![alloc(1)] }));
}

#[test]
fn an_unhealthy_allocation_is_replaced_once_within_its_deployment() {
    // An unhealthy allocation that may be replaced is marked for rescheduling (N-14.6).
    let mut scene = Scene::new(unlimited());
    scene.place(&[1]);
    scene.verdict(&[1], false);
    assert_eq!(scene.check(), Some(DeploymentStep::Replace { allocs: vec![alloc(1)] }));
    scene.marked(1);
    assert_eq!(scene.check(), None);
}

#[test]
fn a_group_that_makes_no_progress_ends_it() {
    // A group that misses its progress deadline (N-14.3) fails the deployment (N-14.4).
    let mut scene = Scene::new(unlimited());
    scene.place(&[1, 2, 3, 4, 5]);
    scene.must_progress_in(Nanos::from_secs(60));
    assert_eq!(scene.check(), None);
    let deadline = scene.now + Nanos::from_secs(59);
    assert_eq!(
        scene.pass_to_timeout(),
        (Nanos::from_secs(59), Some(DeploymentStep::FailLate { progress_by: deadline }))
    );
}

#[test]
fn progress_moves_the_deadline_and_the_goal_ends_it() {
    // A healthy verdict extends the deadline (N-12.10); healthy allocations that have ended do not count (N-14.3).
    let mut scene = Scene::new(never());
    scene.place(&[1, 2, 3, 4, 5]);
    scene.must_progress_in(Nanos::from_secs(60));
    scene.verdict(&[1, 2, 3, 4], true);
    scene.must_progress_in(Nanos::from_secs(90));
    scene.evaluate();
    assert_eq!(scene.check(), None);
    assert_eq!(scene.watcher.poll_timeout().map(|due| due - scene.now), Some(Nanos::from_secs(89)));
    scene.verdict(&[5], true);
    scene.evaluate();
    assert_eq!(scene.check(), None);
    assert_eq!(scene.watcher.poll_timeout(), None, "all are healthy");
    scene.end(5);
    assert_eq!(scene.check(), None);
    assert!(scene.watcher.poll_timeout().is_some(), "one healthy allocation is missing again");
}

#[test]
fn a_deployment_that_rests_is_not_late() {
    // A paused deployment does not miss its deadline (N-14.4).
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.must_progress_in(Nanos::from_secs(60));
    scene.set_status(DeploymentStatus::Paused);
    assert_eq!(scene.check(), None);
    assert_eq!(scene.watcher.poll_timeout(), None);
    scene.set_status(DeploymentStatus::Running);
    scene.check();
    assert!(scene.watcher.poll_timeout().is_some());
}

#[test]
fn a_takeover_finds_the_same_steps() {
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.verdict(&[1], false);
    let settings = Settings { batch_delay: BATCH_DELAY };
    scene.watcher = Watcher::restore(settings, scene.state.clone(), scene.now);
    let (delay, step) = scene.pass_to_timeout();
    let allocs = vec![alloc(1)];
    assert_eq!((delay, step), (Nanos::ZERO, Some(DeploymentStep::FailUnhealthy { allocs })));
}

#[test]
fn nothing_is_written_twice_and_what_was_passed_over_is_said_again() {
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.verdict(&[1], false);
    scene.now = scene.now + BATCH_DELAY;
    let epoch = model::Epoch(1);
    assert!(scene.watcher.next_write(epoch, scene.now).is_some());
    assert!(
        scene.watcher.next_write(epoch, scene.now + Nanos::from_mins(1)).is_none(),
        "a command is in flight"
    );
    scene.watcher.written(scene.state.index().next());
    assert_eq!(scene.watcher.poll_timeout(), None, "the state has not reached the command's index");
    scene.evaluate();
    let (_, step) = scene.pass_to_timeout();
    assert!(step.is_some());
}

#[test]
fn healthy_canaries_are_promoted_if_their_group_asks_for_it() {
    // All canaries must be healthy (N-14.7).
    let mut scene = Scene::new(never());
    scene.place_canaries(true, &[1, 2]);
    scene.verdict(&[1], true);
    assert_eq!(scene.check(), Some(DeploymentStep::Advance));
    scene.verdict(&[2], true);
    assert_eq!(scene.check(), Some(DeploymentStep::Promote));
    scene.set_status(DeploymentStatus::Paused);
    assert_ne!(scene.check(), Some(DeploymentStep::Promote), "a paused deployment goes no further");
}

#[test]
fn canaries_that_wait_for_a_user_have_no_deadline() {
    // Waiting for a user is no failure (N-14.4).
    let mut scene = Scene::new(never());
    scene.place_canaries(false, &[1]);
    scene.must_progress_in(Nanos::from_secs(30));
    scene.verdict(&[1], true);
    scene.evaluate();
    assert_eq!(scene.check(), None);
    assert_eq!(scene.watcher.poll_timeout(), None);
}
