//! What the watcher finds, and when.

use model::alloc::ClientStatus;
use model::deployment::DeploymentStatus;
use model::eval::EvalStatus;
use model::{Index, Nanos};
use wire::command::DeploymentStep;

use crate::scene::{GATHER, Scene, alloc, never, unlimited};
use crate::watcher::{Settings, Watcher};

#[test]
fn healthy_allocations_move_a_deployment_on_once() {
    // N-14.6, N-14.8
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    assert_eq!(scene.look(), None, "nobody has said how they fare");
    scene.verdict(&[1], true);
    assert_eq!(scene.pass_to_timeout(), (GATHER, Some(DeploymentStep::Advance)));
    scene.evaluate();
    assert_eq!(scene.look(), None, "an evaluation waits that will see it");
}

#[test]
fn while_it_only_waits_for_the_rest_to_be_healthy_nobody_has_to_look() {
    let mut scene = Scene::new(never());
    scene.place(&[1, 2, 3, 4, 5]);
    scene.verdict(&[1, 2], true);
    assert_eq!(scene.look(), Some(DeploymentStep::Advance), "who knows whether its node will do");
    scene.node_is_ready();
    scene.verdict(&[3], true);
    assert_eq!(scene.look(), None, "all is placed, and nothing in its way");
    scene.verdict(&[4, 5], true);
    scene.count_healthy(5);
    assert_eq!(scene.look(), Some(DeploymentStep::Advance), "it is done");
}

#[test]
fn that_allocations_run_is_no_reason_to_look_and_that_one_ended_is() {
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    assert_eq!(scene.look(), None);
    scene.report(1, ClientStatus::Running);
    assert_eq!(scene.watcher.poll_timeout(), None, "its health is still to be told");
    scene.report(1, ClientStatus::Complete);
    assert_eq!(scene.watcher.poll_timeout(), Some(scene.now + GATHER));
}

#[test]
fn what_happens_together_is_looked_at_once() {
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    scene.verdict(&[1], true);
    scene.now = scene.now + Nanos(GATHER.0 / 2);
    scene.verdict(&[2], true);
    let (length, found) = scene.pass_to_timeout();
    assert_eq!((length, found), (Nanos(GATHER.0 / 2), Some(DeploymentStep::Advance)));
}

#[test]
fn what_a_scheduler_could_not_see_is_evaluated_again() {
    // N-14.6: the snapshot's index counts, not that of the evaluation's end.
    let mut scene = Scene::new(never());
    scene.place(&[1, 2]);
    let eval = scene.evaluate();
    let seen = scene.state.index();
    scene.verdict(&[1], true);
    let unseen = scene.look();
    assert_eq!(unseen, Some(DeploymentStep::Advance));
    scene.finish(eval.clone(), EvalStatus::Complete, seen);
    assert_eq!(scene.look(), Some(DeploymentStep::Advance));
    let at = scene.state.index();
    scene.finish(eval, EvalStatus::Complete, at);
    assert_eq!(scene.look(), None);
}

#[test]
fn evaluations_that_were_cancelled_have_seen_nothing() {
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.verdict(&[1], true);
    let eval = scene.evaluate();
    assert_eq!(scene.look(), None);
    scene.finish(eval, EvalStatus::Canceled, Index::ZERO);
    assert_eq!(scene.look(), Some(DeploymentStep::Advance));
}

#[test]
fn an_unhealthy_allocation_that_nothing_may_replace_ends_it() {
    // N-14.6
    let mut scene = Scene::new(never());
    scene.place(&[1, 2, 3]);
    scene.verdict(&[3], true);
    scene.verdict(&[2, 1], false);
    let allocs = vec![alloc(1), alloc(2)];
    assert_eq!(scene.look(), Some(DeploymentStep::FailUnhealthy { allocs }));
    scene.set_status(DeploymentStatus::Failed);
    assert_eq!(scene.watcher.poll_timeout(), None, "there is nothing left to watch");
}

#[test]
fn without_a_deadline_the_first_unhealthy_allocation_ends_it() {
    // N-14.6: otherwise it would be tried again for ever.
    let mut scene = Scene::with_deadline(unlimited(), Nanos::ZERO);
    scene.place(&[1]);
    scene.verdict(&[1], false);
    assert_eq!(scene.look(), Some(DeploymentStep::FailUnhealthy { allocs: vec![alloc(1)] }));
}

#[test]
fn an_unhealthy_allocation_is_replaced_once_within_its_deployment() {
    // N-14.6
    let mut scene = Scene::new(unlimited());
    scene.place(&[1]);
    scene.verdict(&[1], false);
    assert_eq!(scene.look(), Some(DeploymentStep::Replace { allocs: vec![alloc(1)] }));
    scene.marked(1);
    assert_eq!(scene.look(), None);
}

#[test]
fn a_group_that_makes_no_progress_ends_it() {
    // N-14.3, N-14.4
    let mut scene = Scene::new(unlimited());
    scene.place(&[1, 2, 3, 4, 5]);
    scene.must_progress_in(Nanos::from_secs(60));
    assert_eq!(scene.look(), None);
    let deadline = scene.now + Nanos::from_secs(59);
    assert_eq!(
        scene.pass_to_timeout(),
        (Nanos::from_secs(59), Some(DeploymentStep::FailLate { progress_by: deadline }))
    );
}

#[test]
fn progress_moves_the_deadline_and_the_goal_ends_it() {
    // N-12.10, N-14.3: healthy allocations that have ended do not count.
    let mut scene = Scene::new(never());
    scene.place(&[1, 2, 3, 4, 5]);
    scene.must_progress_in(Nanos::from_secs(60));
    scene.verdict(&[1, 2, 3, 4], true);
    scene.must_progress_in(Nanos::from_secs(90));
    scene.evaluate();
    assert_eq!(scene.look(), None);
    assert_eq!(scene.watcher.poll_timeout().map(|due| due - scene.now), Some(Nanos::from_secs(89)));
    scene.verdict(&[5], true);
    scene.evaluate();
    assert_eq!(scene.look(), None);
    assert_eq!(scene.watcher.poll_timeout(), None, "all are healthy");
    scene.end(5);
    assert_eq!(scene.look(), None);
    assert!(scene.watcher.poll_timeout().is_some(), "one is missing again");
}

#[test]
fn a_deployment_that_rests_is_not_late() {
    // N-14.4
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.must_progress_in(Nanos::from_secs(60));
    scene.set_status(DeploymentStatus::Paused);
    assert_eq!(scene.look(), None);
    assert_eq!(scene.watcher.poll_timeout(), None);
    scene.set_status(DeploymentStatus::Running);
    scene.look();
    assert!(scene.watcher.poll_timeout().is_some());
}

#[test]
fn one_that_takes_over_finds_what_there_is_to_find() {
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.verdict(&[1], false);
    let settings = Settings { gather: GATHER };
    scene.watcher = Watcher::restore(settings, scene.state.clone(), scene.now);
    let (length, found) = scene.pass_to_timeout();
    let allocs = vec![alloc(1)];
    assert_eq!((length, found), (Nanos::ZERO, Some(DeploymentStep::FailUnhealthy { allocs })));
}

#[test]
fn nothing_is_written_twice_and_what_was_passed_over_is_said_again() {
    let mut scene = Scene::new(never());
    scene.place(&[1]);
    scene.verdict(&[1], false);
    scene.now = scene.now + GATHER;
    let epoch = model::Epoch(1);
    assert!(scene.watcher.next_write(epoch, scene.now).is_some());
    assert!(scene.watcher.next_write(epoch, scene.now + Nanos::from_mins(1)).is_none(), "one is under way");
    scene.watcher.written(scene.state.index().next());
    assert_eq!(scene.watcher.poll_timeout(), None, "what it did is still to come");
    scene.evaluate();
    let (_, found) = scene.pass_to_timeout();
    assert!(found.is_some());
}
