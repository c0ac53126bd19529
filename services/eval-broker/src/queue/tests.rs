//! Rules of the queue, as scenes.

use std::sync::Arc;

use model::change::{Change, EvalsChanged};
use model::eval::{EvalStatus, Evaluation};
use model::job::JobType;
use model::{Epoch, Nanos};
use wire::broker::{Delivery, EvalLeaseAction};

use crate::testing::{NONE, SETTINGS, Scene, blocked, eval, id, job, number};

#[test]
fn the_most_urgent_comes_first_then_the_oldest() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1), Evaluation { priority: 70, ..eval(2, 2) }]);
    scene.create([Evaluation { priority: 70, ..eval(3, 3) }, Evaluation { priority: 90, ..eval(4, 4) }]);
    assert_eq!(scene.dequeue_all(), [4, 2, 3, 1]);
}

#[test]
fn types_are_compared_by_their_most_urgent() {
    let mut scene = Scene::new();
    let batch = |n, priority| Evaluation { kind: JobType::Batch, priority, ..eval(n, n) };
    scene.create([eval(1, 1), batch(2, 60), batch(3, 10)]);
    scene.create([eval(4, 4)]);
    let two = |scene: &mut Scene, kinds: &[JobType]| -> Vec<u8> {
        scene.dequeue(kinds, 2).iter().map(|delivery| number(delivery.eval_id)).collect()
    };
    assert_eq!(two(&mut scene, &[JobType::System]), NONE);
    assert_eq!(two(&mut scene, &[JobType::Batch, JobType::Service]), [2, 1]);
    assert_eq!(two(&mut scene, &[JobType::Batch]), [3]);
    assert_eq!(two(&mut scene, JobType::ALL), [4]);
}

#[test]
fn one_evaluation_of_a_job_is_leased_at_a_time_and_the_best_pending_one_follows() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([eval(2, 1)]);
    scene.create([eval(3, 1), Evaluation { priority: 40, ..eval(4, 1) }]);
    assert_eq!(scene.dequeue_all(), [1]);
    scene.finish(1, EvalStatus::Complete, Vec::new());
    assert_eq!(scene.dequeue_all(), [3]); // the newest of the most urgent

    let written = scene.write();
    assert_eq!(written.len(), 1);
    for superseded in [2, 4] {
        assert_eq!(scene.stored(superseded).status, EvalStatus::Canceled);
        assert_eq!(
            &*scene.stored(superseded).status_description,
            "canceled after more recent eval was processed"
        );
    }
    assert_eq!(scene.broker.queue().stats().superseded, 0);
    scene.finish(3, EvalStatus::Complete, Vec::new());
    assert_eq!(scene.dequeue_all(), NONE);
}

#[test]
fn a_superseded_evaluation_is_needed_again_after_a_change() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([eval(2, 1)]);
    scene.create([eval(3, 1)]);
    assert_eq!(scene.dequeue_all(), [1]);
    scene.finish(1, EvalStatus::Complete, Vec::new());
    let write = scene.broker.next_write(Epoch(1), scene.now).expect("2 is to be canceled");
    scene.change(&[2], None); // a node failed, and 2 covers that, too
    scene.commit(&write);
    scene.broker.written(scene.state.index());
    assert_eq!(scene.stored(2).status, EvalStatus::Pending);
    assert_eq!(scene.dequeue_all(), [3]);
    scene.finish(3, EvalStatus::Complete, Vec::new());
    assert_eq!(scene.dequeue_all(), [2]);
}

#[test]
fn a_superseded_evaluation_is_needed_again_if_the_newer_one_ends_elsewhere() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([Evaluation { priority: 60, ..eval(2, 1) }, eval(3, 1), eval(4, 1)]);
    assert_eq!(scene.dequeue_all(), [1]);
    let outcome = Evaluation {
        status: EvalStatus::Complete,
        snapshot_index: scene.state.index(),
        ..scene.stored(1).clone()
    };
    let canceled = EvalsChanged {
        ids: vec![id(2)],
        status: Some((EvalStatus::Canceled, "".into())),
        ..EvalsChanged::default()
    };
    scene.apply(vec![Change::EvalOutcome(Arc::new(outcome)), Change::EvalsChanged(canceled)]);
    assert_eq!(scene.write(), []);
    assert_eq!(scene.dequeue_all(), [3]);
    scene.finish(3, EvalStatus::Complete, Vec::new());
    assert_eq!(scene.dequeue_all(), [4]);
}

#[test]
fn a_snapshot_must_have_what_is_known_of_the_job() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([eval(2, 1)]);
    let newest = scene.state.index();
    scene.create([eval(3, 3)]);
    assert_eq!(scene.dequeue_one().map(|delivery| delivery.wait_index), Some(newest));
}

#[test]
fn an_evaluation_waits_for_its_time_and_holds_nothing_up() {
    let mut scene = Scene::new();
    let later = scene.now + Nanos::from_secs(60);
    scene.create([
        Evaluation { wait_until: later, ..eval(1, 1) },
        Evaluation { wait: Nanos::from_secs(30), ..eval(2, 2) },
        Evaluation { wait_until: scene.now + Nanos(-1), ..eval(3, 3) },
        eval(4, 1),
    ]);
    assert_eq!(scene.dequeue_all(), [3, 4]);
    scene.take_over();
    assert_eq!(scene.dequeue_all(), [3, 4], "leases are lost in a takeover, delays are not");
    assert_eq!(scene.broker.queue().stats().delayed, 2);
    scene.pass(Nanos::from_secs(30));
    assert_eq!(scene.dequeue_all(), [2]);
    scene.pass(Nanos::from_secs(30));
    assert_eq!(scene.dequeue_all(), [3, 4], "the leases expired; and 1 is pending behind 4");
    scene.finish(4, EvalStatus::Complete, Vec::new());
    assert_eq!(scene.dequeue_all(), [1]);
}

#[test]
fn one_that_is_canceled_while_it_waits_never_comes() {
    let mut scene = Scene::new();
    scene.create([Evaluation { wait_until: scene.now + Nanos::SECOND, ..eval(1, 1) }]);
    scene.change(&[1], Some(EvalStatus::Canceled));
    scene.pass(Nanos::from_secs(2));
    assert_eq!(scene.dequeue_all(), NONE);
    assert_eq!(scene.broker.queue().stats().delayed, 0);
}

#[test]
fn one_that_is_canceled_while_a_worker_has_it_frees_its_job() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([eval(2, 1)]);
    let delivery = scene.dequeue_one().expect("1 is ready");
    scene.change(&[1], Some(EvalStatus::Canceled));
    assert!(!scene.lease_action(delivery, EvalLeaseAction::Renew));
    assert_eq!(scene.dequeue_all(), [2]);
}

#[test]
fn a_failed_delivery_is_repeated_after_a_while_and_then_given_up() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([eval(2, 1)]);
    for delay in [1, 20] {
        let delivery = scene.dequeue_one().expect("1 is ready");
        assert!(scene.lease_action(delivery, EvalLeaseAction::Fail));
        assert_eq!(scene.dequeue_all(), NONE, "it keeps its job's slot");
        assert_eq!(scene.broker.queue().stats().delayed, 1);
        assert_eq!(scene.pass_to_timeout(), Nanos::from_secs(delay));
    }
    let delivery = scene.dequeue_one().expect("1 is ready");
    assert!(scene.lease_action(delivery, EvalLeaseAction::Fail));
    assert_eq!(scene.broker.queue().stats().failed, 1);

    let write = scene.write().remove(0);
    let [follow_up] = &write.creates[..] else { panic!("one evaluation follows") };
    let failed = scene.stored(1);
    assert_eq!(failed.status, EvalStatus::Failed);
    assert_eq!(&*failed.status_description, "evaluation reached delivery limit (3)");
    assert_eq!(failed.next_eval, Some(follow_up.id));
    assert_eq!(follow_up.previous_eval, Some(id(1)));
    assert_eq!(follow_up.trigger.as_str(), "failed-follow-up");
    assert!((Nanos::from_mins(1)..Nanos::from_mins(6)).contains(&follow_up.wait));
    assert_eq!(scene.dequeue_all(), [2], "the slot is free");
    assert_eq!(scene.broker.queue().stats().delayed, 1);
}

#[test]
fn nothing_follows_when_the_job_is_gone() {
    let mut scene = Scene::new();
    scene.create([eval(1, 99)]);
    for _ in 0..SETTINGS.delivery_limit {
        let delivery = scene.dequeue_one().expect("1 is ready");
        scene.lease_action(delivery, EvalLeaseAction::Fail);
        scene.pass(Nanos::from_mins(1));
    }
    let write = scene.write().remove(0);
    assert_eq!((write.updates.len(), write.creates.len()), (1, 0));
}

#[test]
fn an_expired_lease_counts_as_failed_and_a_renewal_prevents_it() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    let first = scene.dequeue_one().expect("1 is ready");
    scene.pass(Nanos::from_secs(9));
    assert!(scene.lease_action(first, EvalLeaseAction::Renew));
    scene.pass(Nanos::from_secs(9));
    assert!(scene.lease_action(first, EvalLeaseAction::Renew));
    assert_eq!(scene.pass_to_timeout(), SETTINGS.lease);
    assert!(!scene.lease_action(first, EvalLeaseAction::Renew), "the lease has expired");
    assert_eq!(scene.dequeue_one(), None);
    assert_eq!(scene.pass_to_timeout(), Nanos::SECOND);
    let second = scene.dequeue_one().expect("1 is ready again");
    assert_ne!(first.token, second.token);
    assert!(!scene.lease_action(first, EvalLeaseAction::Fail), "the token is stale");
    assert!(scene.lease_action(second, EvalLeaseAction::Fail));
    assert_eq!(scene.pass_to_timeout(), Nanos::from_secs(20), "it was the second failure");
}

#[test]
fn a_returned_evaluation_does_not_count_as_failed() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    for _ in 0..10 {
        let delivery = scene.dequeue_one().expect("1 is ready at once");
        assert!(scene.lease_action(delivery, EvalLeaseAction::GiveBack));
    }
    assert_eq!(scene.broker.queue().stats().failed, 0);
}

#[test]
fn a_lease_ends_only_with_the_outcome() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    let delivery = scene.dequeue_one().expect("1 is ready");
    scene.change(&[1], None); // its modify index rises
    scene.apply(vec![Change::PlanApplied { job: job(1), eval_id: id(1) }]);
    assert!(scene.lease_action(delivery, EvalLeaseAction::Renew));
    assert_eq!(scene.dequeue_all(), NONE);
    scene.finish(1, EvalStatus::Complete, Vec::new());
    assert!(!scene.lease_action(delivery, EvalLeaseAction::Renew));
}

#[test]
fn an_outcome_of_an_older_snapshot_does_not_end_the_lease() {
    let mut scene = Scene::new();
    scene.create([blocked(1, 1)]);
    scene.unblock("a");
    let first = scene.dequeue_one().expect("1 was woken");
    let seen = scene.state.index();
    scene.lease_action(first, EvalLeaseAction::GiveBack);
    scene.finish_from(1, EvalStatus::Blocked, seen, Vec::new()); // the outcome of the first worker was committed after all
    scene.unblock("a");
    let second = scene.dequeue_one().expect("1 was woken again");
    assert!(second.wait_index > seen);
    scene.finish_from(1, EvalStatus::Blocked, seen, Vec::new()); // another outcome from a snapshot as old
    assert!(scene.lease_action(second, EvalLeaseAction::Renew));
    scene.finish(1, EvalStatus::Blocked, Vec::new());
    assert!(!scene.lease_action(second, EvalLeaseAction::Renew));
    assert_eq!(scene.broker.blocked().stats().total, 1);
}

#[test]
fn evaluations_are_counted_by_their_state() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1), eval(2, 2), eval(3, 2), Evaluation { kind: JobType::Batch, ..eval(4, 4) }]);
    let [_]: [Delivery; 1] = scene.dequeue(&[JobType::Batch], 5).try_into().expect("one is of that type");
    let stats = scene.broker.queue().stats();
    assert_eq!(stats.ready[&JobType::Service], 2);
    assert_eq!(stats.unacked[&JobType::Batch], 1);
    assert_eq!((stats.pending, stats.delayed, stats.failed), (1, 0, 0));
}

#[test]
fn pausing_empties_the_queue_and_what_is_in_the_state_comes_back() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1), eval(2, 2), blocked(3, 3)]);
    let delivery = scene.dequeue_one().expect("1 is ready");
    scene.pause(true);
    assert!(!scene.lease_action(delivery, EvalLeaseAction::Renew));
    scene.create([eval(4, 4)]);
    assert_eq!(scene.dequeue_all(), NONE);
    assert_eq!(scene.broker.blocked().stats().total, 0);
    scene.pause(false);
    assert_eq!(scene.dequeue_all(), [1, 2, 4]);
    assert_eq!(scene.broker.blocked().stats().total, 1);
}

#[test]
fn a_failed_write_is_collected_again() {
    let mut scene = Scene::new();
    scene.create([eval(1, 1)]);
    scene.create([eval(2, 1)]);
    scene.create([eval(3, 1)]);
    scene.dequeue_all();
    scene.finish(1, EvalStatus::Complete, Vec::new());
    let epoch = Epoch(1);
    let first = scene.broker.next_write(epoch, scene.now).expect("2 is superseded");
    assert_eq!(scene.broker.next_write(epoch, scene.now), None, "one command at a time");
    scene.broker.not_written(scene.now);
    assert_eq!(scene.broker.next_write(epoch, scene.now), None, "not at once");
    assert_eq!(scene.pass_to_timeout(), Nanos::SECOND);
    assert_eq!(scene.broker.next_write(epoch, scene.now), Some(first));
    scene.broker.written(scene.state.index().next());
    assert_eq!(scene.broker.next_write(epoch, scene.now), None, "the feed does not contain the write yet");
    scene.change(&[2], Some(EvalStatus::Canceled));
    assert_eq!(scene.broker.next_write(epoch, scene.now), None);
}
