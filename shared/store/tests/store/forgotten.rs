//! Transactions that somebody forgot, or that a long dump needs: they delay trimming, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use model::{Index, Nanos};
use state::{Scope, State};
use store::LogRow;

use crate::history::{empty, empty_sets, history, placements_of};
use crate::picture::Picture;
use crate::scene::{Hands, Scene};

/// Opens a transaction that has locked every table as a dump does, and read it.
async fn forget(hands: &mut Hands, isolation: &str) {
    hands.run(&format!("begin isolation level {isolation}")).await;
    hands
        .run(
            "do $$ declare read regclass; begin
                for read in select oid from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
                loop
                    execute format('lock table %s in access share mode', read);
                    execute format('select count(*) from %s', read);
                end loop;
            end $$",
        )
        .await;
}

/// An applier's work: commits and projects a change set, and looks after the log when it is an hour old.
async fn goes_on(scene: &Scene, state: &mut State) {
    let set = placements_of(state.index().0 + 1);
    state.apply(&set).unwrap();
    scene.writer.commit(Index(set.index.0 - 1), vec![LogRow::new(&set)]).await.unwrap();
    scene.projector.project(&[Arc::clone(&set)], state, Duration::ZERO).await.unwrap();
    if let Err(error) = scene.writer.look_after_log(set.at + Nanos::from_hours(1)).await {
        assert!(error.is_busy(), "{error}");
    }
    scene.writer.renew().await.unwrap();
    let loaded = scene.database.load(Scope::ALL).await.unwrap();
    assert_eq!((loaded.state.index(), loaded.projected), (set.index, set.index));
}

#[tokio::test]
async fn forgotten_transactions_hold_up_no_commit() {
    let scene = Scene::new().await;
    let mut state = scene.has(&history()).await;
    let (mut dump, mut forgotten, mut hands) =
        (scene.hands().await, scene.hands().await, scene.hands().await);
    forget(&mut dump, "repeatable read").await;
    forget(&mut forgotten, "read committed").await;

    // They never end meanwhile: whatever waited for them would never be done.
    for _ in 0..8 {
        goes_on(&scene, &mut state).await;
    }
    assert!(hands.ask("select part from head").await >= 8, "parts were made");
    let kept = scene.writer.look_after_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    assert!(kept.held_up >= 7 && !kept.is_full, "{kept:?}");
    assert_eq!(dump.ask("select count(*) from changes").await, history().len() as i64);

    dump.run("commit").await;
    forgotten.run("commit").await;
    scene.writer.look_after_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    let kept = scene.writer.look_after_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    assert_eq!(kept.held_up, 0);
    assert_eq!(Picture::of(&scene.database.load(Scope::ALL).await.unwrap().state), Picture::of(&state));
}

/// The statements that trimming uses, each waiting for as long as it takes, and not only for a moment.
#[tokio::test]
async fn statements_that_wait_for_forgotten_transactions_hold_up_no_commit() {
    let scene = Scene::new().await;
    let mut state = scene.has(&history()).await;
    goes_on(&scene, &mut state).await;
    let mut hands = scene.hands().await;
    for statement in [
        "alter table changes detach partition changes_0 concurrently",
        "alter table changes detach partition changes_0 finalize",
    ] {
        let (mut dump, mut waiting) = (scene.hands().await, scene.hands().await);
        forget(&mut dump, "repeatable read").await;
        waiting.run("set application_name = 'waiting'").await;
        let waiting = tokio::spawn(async move { waiting.try_run(statement).await });
        let waits = "select pid::bigint from pg_stat_activity where datname = current_database()
            and application_name = 'waiting' and wait_event_type = 'Lock'";
        let pid = hands.wait_for(waits).await;
        for _ in 0..3 {
            goes_on(&scene, &mut state).await;
        }
        // What was interrupted is the next one's to finish.
        hands.end_session(pid).await;
        waiting.await.unwrap().unwrap_err();
        dump.run("commit").await;
    }
    let kept = scene.writer.look_after_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    assert_eq!(kept.held_up, 0);
    assert_eq!(hands.ask("select count(*) from pg_class where relname = 'changes_0'").await, 0);
}

#[tokio::test]
async fn a_load_whose_log_is_trimmed_meanwhile_begins_again() {
    let scene = Scene::new().await;
    let sets = empty_sets(1..=2);
    let state = crate::scene::applied(&sets);
    let rows = sets.iter().map(|set| LogRow::new(set)).collect();
    scene.writer.commit(Index::ZERO, rows).await.unwrap();
    scene.writer.look_after_log(sets[0].at + Nanos::from_mins(4)).await.unwrap();

    // It has seen how far the tables are, but has not come to the log.
    let (mut other, mut hands) = (scene.hands().await, scene.hands().await);
    other.run("begin; lock table unblocked in access exclusive mode").await;
    let database = scene.database.clone();
    let load = tokio::spawn(async move { database.load(Scope::ALL).await });
    hands.waiting("drover load", "relation").await;
    scene.projector.project(&sets, &state, Duration::ZERO).await.unwrap();
    scene.writer.look_after_log(sets[1].at + Nanos::from_hours(1)).await.unwrap();
    assert_eq!(hands.ask("select count(*) from changes").await, 0);
    other.run("commit").await;
    let loaded = load.await.unwrap().unwrap();
    assert_eq!((loaded.state.index(), loaded.projected), (Index(2), Index(2)));
}
