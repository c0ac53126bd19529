//! The applier's lease: one holder at a time, by PostgreSQL's clock.

use std::time::Duration;

use model::{Epoch, Index};
use store::{TakeOutcome, Writer};

use crate::scene::{FIRST, SECOND, Scene, taken};

#[tokio::test]
async fn a_lease_that_lives_is_refused_to_others_and_not_to_its_holder() {
    let scene = Scene::new().await;
    let second = scene.another().await;
    match second.take_lease(SECOND, false).await.unwrap() {
        TakeOutcome::Held { by, remaining } => {
            assert_eq!(by, FIRST);
            assert!(
                remaining <= Duration::from_mins(1) && remaining > Duration::from_secs(50),
                "{remaining:?}"
            );
        }
        TakeOutcome::Active(head) => panic!("taken: {head:?}"),
    }
    assert_eq!(taken(scene.writer.take_lease(FIRST, false).await.unwrap()).epoch, Epoch(2));
    scene.writer.renew().await.unwrap();
}

#[tokio::test]
async fn force_takes_a_lease_that_lives() {
    let scene = Scene::new().await;
    let head = taken(scene.another().await.take_lease(SECOND, true).await.unwrap());
    assert_eq!((head.epoch, head.applier, head.index), (Epoch(2), SECOND, Index::ZERO));
}

#[tokio::test]
async fn of_many_who_want_a_lease_that_ended_one_gets_it() {
    let scene = Scene::new().await;
    scene.superuser().await.run("update head set lease_until = clock_timestamp()").await;
    let mut tries = Vec::new();
    for process in 10..18 {
        let writer = scene.another().await;
        let process = model::ProcessId::from_bytes([process; 16]);
        tries.push(tokio::spawn(async move { writer.take_lease(process, false).await.unwrap() }));
    }
    let mut active = 0;
    for attempt in tries {
        active += u32::from(matches!(attempt.await.unwrap(), TakeOutcome::Active(_)));
    }
    assert_eq!(active, 1);
    assert_eq!(scene.database.head().await.unwrap().epoch, Epoch(2));
}

#[tokio::test]
async fn a_lease_lives_as_long_as_the_settings_say() {
    let mut scene = Scene::new().await;
    scene.args.applier_lease_ms = 300;
    let mut superuser = scene.superuser().await;
    let writer: Writer = scene.another().await;
    taken(writer.take_lease(SECOND, true).await.unwrap());
    let left = "select (extract(epoch from lease_until - clock_timestamp()) * 1000)::bigint from head";
    assert!(superuser.query(left).await <= 300);
    superuser.wait_for("select 1::bigint from head where lease_until < clock_timestamp()").await;
    // Nobody took it meanwhile, so confirming the epoch renews the lease.
    writer.confirm().await.unwrap();
    assert!(superuser.query(left).await > -300);
    superuser.wait_for("select 1::bigint from head where lease_until < clock_timestamp()").await;
    taken(scene.writer.take_lease(FIRST, false).await.unwrap());
    writer.confirm().await.unwrap_err();
}
