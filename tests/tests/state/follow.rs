//! Followers receive every change in order, with the states before and after each batch, or start again from the newest
//! state.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use model::change::ChangeSet;
use model::{HistoryId, Index};
use state::{FollowEvent, Follower, Replica, Scope, State};
use tests::build;

/// More change sets than a follower may be behind.
const TOO_MANY: u64 = 10_000;

fn sets(indexes: impl IntoIterator<Item = u64>) -> Vec<Arc<ChangeSet>> {
    build::shared(indexes.into_iter().map(|index| build::change_set(Index(index), Vec::new())))
}

fn loaded(index: u64) -> State {
    let mut state = State::default();
    state.load(&build::change_set(Index(index), Vec::new())).expect("an empty change set always fits");
    state
}

/// The changes that the follower receives until it has to wait, in the form `reset 1` or `1 to 2`.
fn received(follower: &mut Follower) -> Vec<String> {
    received_by(follower, async |follower| follower.next().await)
}

/// The same with `next_merged`, which joins everything that has arrived.
fn received_together(follower: &mut Follower) -> Vec<String> {
    received_by(follower, async |follower| follower.next_merged().await)
}

fn received_by(follower: &mut Follower, next: impl AsyncFn(&mut Follower) -> FollowEvent) -> Vec<String> {
    let mut context = Context::from_waker(Waker::noop());
    let mut received = Vec::new();
    while let Poll::Ready(followed) = Box::pin(next(follower)).as_mut().poll(&mut context) {
        received.push(match followed {
            FollowEvent::Reset(state) => format!("reset {}", state.index()),
            FollowEvent::Step(step) => {
                let one_by_one = step.one_by_one();
                assert_eq!(one_by_one.len(), step.sets.len());
                for one in one_by_one {
                    assert_eq!(one.set.index, one.after.index());
                    assert_eq!(one.set.index, one.before.index().next());
                }
                assert_eq!(one_by_one[0].before.index(), step.before.index());
                assert_eq!(one_by_one[one_by_one.len() - 1].after.index(), step.after.index());
                format!("{} to {}", step.before.index(), step.after.index())
            }
        });
    }
    received
}

#[test]
fn steps_are_in_order_from_any_source() {
    let replica = Replica::new(State::default());
    replica.apply(sets([1])).unwrap();
    let mut follower = replica.follow();
    assert_eq!(received(&mut follower), ["reset 1"]);
    replica.apply(sets([1, 2, 3])).unwrap();
    assert_eq!(received(&mut follower), ["1 to 3"]);
    assert_eq!(received(&mut follower), [""; 0]);

    let mut overlay = State::clone(&replica.snapshot());
    sets([4, 5]).iter().for_each(|set| overlay.apply(set).unwrap());
    replica.adopt(sets([3, 4, 5]), overlay.into(), 0).unwrap();
    replica.apply(sets([4, 5, 6])).unwrap();
    assert_eq!(received(&mut follower), ["3 to 5", "5 to 6"]);
}

#[test]
fn following_begins_at_the_first_call() {
    let replica = Replica::new(State::default());
    let mut follower = replica.follow();
    replica.apply(sets([1, 2])).unwrap();
    assert_eq!(received(&mut follower), ["reset 2"]);
}

#[test]
fn refused_and_repeated_change_sets_are_not_reported() {
    let replica = Replica::new(State::default());
    let mut follower = replica.follow();
    assert_eq!(received(&mut follower), ["reset 0"]);
    replica.apply(sets([1, 2, 2])).unwrap_err();
    replica.apply(sets([2])).unwrap_err();
    replica.apply(Vec::new()).unwrap();
    assert_eq!(received(&mut follower), [""; 0]);
}

#[test]
fn a_loaded_state_is_a_new_beginning() {
    let replica = Replica::new(State::default());
    let mut follower = replica.follow();
    replica.apply(sets([1])).unwrap();
    assert_eq!(received(&mut follower), ["reset 1"]);
    replica.apply(sets([2])).unwrap();
    assert!(replica.catch_up(loaded(7)));
    replica.apply(sets([8])).unwrap();
    assert_eq!(received(&mut follower), ["1 to 2", "reset 7", "7 to 8"]);
    assert!(!replica.catch_up(loaded(8)), "the replica is not behind");
    replica.reset(loaded(3));
    assert_eq!(received(&mut follower), ["reset 3"]);
}

#[test]
fn a_replica_without_anything_takes_the_empty_state_of_a_history() {
    let replica = Replica::new(State::default());
    let history = HistoryId::from_bytes([7; 16]);
    assert!(replica.catch_up(State::new(history, Scope::ALL)));
    assert_eq!(replica.snapshot().history(), history);
    assert!(!replica.catch_up(State::new(history, Scope::ALL)), "the replica is not behind");
    replica.apply(sets([1])).unwrap();
    assert!(
        !replica.catch_up(State::new(HistoryId::from_bytes([8; 16]), Scope::ALL)),
        "only a replica without a state is replaced"
    );
    assert_eq!(replica.snapshot().history(), history);
}

#[test]
fn a_slow_follower_is_reset_and_a_quick_one_is_not() {
    let replica = Replica::new(State::default());
    let (mut quick, mut slow) = (replica.follow(), replica.follow());
    assert_eq!(
        (received(&mut quick), received(&mut slow)),
        (vec!["reset 0".to_owned()], vec!["reset 0".to_owned()])
    );
    for index in 1..=TOO_MANY {
        replica.apply(sets([index])).unwrap();
        assert_eq!(received(&mut quick).len(), 1);
    }
    assert_eq!(received(&mut slow), [format!("reset {TOO_MANY}")]);
    replica.apply(sets([TOO_MANY + 1])).unwrap();
    let last = [format!("{TOO_MANY} to {}", TOO_MANY + 1)];
    assert_eq!(received(&mut slow), last);
    assert_eq!(received(&mut quick), last);
}

#[test]
fn a_follower_that_is_behind_by_too_many_bytes_begins_anew() {
    const HUGE: usize = 1 << 30;
    let replica = Replica::new(State::default());
    let mut follower = replica.follow();
    assert_eq!(received(&mut follower), ["reset 0"]);
    replica.apply_sized(sets([1]), HUGE).unwrap();
    assert_eq!(received(&mut follower), ["0 to 1"], "a step may have any size");
    replica.apply_sized(sets([2]), HUGE).unwrap();
    replica.apply(sets([3])).unwrap();
    assert_eq!(received(&mut follower), ["reset 3"]);
}

#[test]
fn received_change_sets_can_be_read_together() {
    let replica = Replica::new(State::default());
    let mut follower = replica.follow();
    assert_eq!(received_together(&mut follower), ["reset 0"]);
    for index in 1..=5 {
        replica.apply(sets([index])).unwrap();
    }
    assert_eq!(received_together(&mut follower), ["0 to 5"]);
    replica.apply(sets([6])).unwrap();
    assert_eq!(received_together(&mut follower), ["5 to 6"]);
    replica.apply(sets([7])).unwrap();
    assert!(replica.catch_up(loaded(9)));
    replica.apply(sets([10])).unwrap();
    assert_eq!(received_together(&mut follower), ["reset 10"], "steps before a reset are skipped");
    for index in 11..=TOO_MANY {
        replica.apply(sets([index])).unwrap();
    }
    assert_eq!(received_together(&mut follower), [format!("reset {TOO_MANY}")]);
    replica.apply(sets([TOO_MANY + 1])).unwrap();
    assert_eq!(received_together(&mut follower), [format!("{TOO_MANY} to {}", TOO_MANY + 1)]);
}

#[test]
fn a_follower_may_outlive_its_replica() {
    let mut follower = Replica::new(State::default()).follow();
    assert_eq!(received(&mut follower), ["reset 0"]);
}
