//! A job reaches its desired state, whatever happened to it before. Random histories of versions, nodes, allocations
//! and time: after every step the plan is valid in itself, and solving again changes nothing. In the end every
//! allocation runs.

#![allow(clippy::unwrap_used, reason = "a history that cannot be played fails the test")]

mod world;

use model::job::JobType;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use world::{Event, Shape, World};

fn shapes() -> impl Strategy<Value = Shape> {
    let kinds =
        prop_oneof![3 => Just(JobType::Service), 1 => Just(JobType::Batch), 1 => Just(JobType::System)];
    let update = prop::option::weighted(0.7, (1u32..4, 0u32..3));
    let disconnect = prop::option::of((0i64..120, any::<bool>()));
    (kinds, 1u32..5, update, disconnect, any::<bool>()).prop_map(
        |(kind, count, update, disconnect, reschedules)| Shape {
            kind,
            count,
            update,
            disconnect,
            reschedules,
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0u32..6).prop_map(Event::Count),
        Just(Event::Restart),
        Just(Event::InPlace),
        any::<u8>().prop_map(Event::Down),
        any::<u8>().prop_map(Event::Disconnect),
        any::<u8>().prop_map(Event::Recover),
        any::<u8>().prop_map(Event::Drain),
        any::<u8>().prop_map(Event::Fail),
        Just(Event::Run),
        any::<u8>().prop_map(Event::Healthy),
        any::<u8>().prop_map(Event::Unhealthy),
        Just(Event::Promote),
        (1i64..90).prop_map(Event::AdvanceTime),
        Just(Event::Nothing),
    ]
}

proptest! {
    // The same histories in each run. Cases that were found otherwise are tested below.
    #![proptest_config(ProptestConfig { cases: 1_000, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn histories_converge(shape in shapes(), history in prop::collection::vec(events(), 0..14)) {
        let mut world = World::new(shape);
        world.solve()?;
        for event in history {
            world.apply_event(event);
            world.solve()?;
        }
        world.settle()?;
    }
}

/// Plays one history.
fn play(shape: Shape, history: Vec<Event>) -> World {
    let mut world = World::new(shape);
    world.solve().unwrap();
    for event in history {
        world.apply_event(event);
        world.solve().unwrap();
    }
    world.settle().unwrap();
    world
}

#[test]
fn the_fast_check_recognises_waiting_and_complete_deployments() {
    let shape =
        Shape { kind: JobType::Service, count: 3, update: Some((1, 0)), disconnect: None, reschedules: true };
    // The last two allocations become healthy together.
    let healthy = [Event::Run, Event::Healthy(0), Event::Nothing];
    let [waiting, done] = play(shape, healthy.into()).rollout_checks;
    assert!(waiting >= 3 && done >= 1, "{waiting} {done}");
}

#[test]
fn an_allocation_is_not_stopped_and_updated_by_one_plan() {
    let shape = Shape {
        kind: JobType::Service,
        count: 4,
        update: Some((1, 2)),
        disconnect: Some((1, false)),
        reschedules: false,
    };
    let history = [Event::Run, Event::InPlace, Event::Restart, Event::Run, Event::Drain(69), Event::Run];
    play(shape, history.into_iter().chain([Event::Disconnect(46)]).collect());
}

#[test]
fn names_are_not_given_twice_where_canaries_fail() {
    let shape =
        Shape { kind: JobType::Service, count: 3, update: Some((1, 2)), disconnect: None, reschedules: true };
    play(shape, vec![Event::Run, Event::Fail(0), Event::Fail(127)]);
}

#[test]
fn unknown_allocations_are_not_stopped_in_place_of_running_ones() {
    let shape = Shape {
        kind: JobType::Service,
        count: 3,
        update: Some((1, 0)),
        disconnect: Some((1, false)),
        reschedules: false,
    };
    let unknown = [Event::Run, Event::Down(24), Event::Restart];
    let fewer = |events: [Event; 2]| play(shape.clone(), [&unknown[..], &events].concat());
    fewer([Event::Count(1), Event::Count(0)]);
    // It is not updated either if there are enough others.
    fewer([Event::Count(2), Event::InPlace]);
    fewer([Event::Count(2), Event::Restart]);
}
