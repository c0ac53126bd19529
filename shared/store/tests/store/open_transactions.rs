//! Open transactions, forgotten ones and those of long dumps: they delay trimming, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use model::{Index, Nanos};
use state::{Scope, State};
use wire::LogRow;

use crate::history::{empty, empty_sets, history, placements_of};
use crate::scene::{Scene, Superuser};
use crate::state_dump::StateDump;

/// Opens a transaction that has locked and read every table, as a dump does.
async fn open_transaction(superuser: &mut Superuser, isolation: &str) {
    superuser.run(&format!("begin isolation level {isolation}")).await;
    superuser
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

/// Does an applier's work: commits and projects a change set, and maintains the log when it is an hour old.
async fn do_applier_work(scene: &Scene, state: &mut State) {
    let set = placements_of(state.index().0 + 1);
    state.apply(&set).unwrap();
    scene.writer.commit(Index(set.index.0 - 1), vec![LogRow::new(&set)]).await.unwrap();
    scene.projector.project(&[Arc::clone(&set)], state, Duration::ZERO).await.unwrap();
    if let Err(error) = scene.writer.maintain_log(set.at + Nanos::from_hours(1)).await {
        assert!(error.is_busy(), "{error}");
    }
    scene.writer.renew().await.unwrap();
    let loaded = scene.database.load(Scope::ALL).await.unwrap();
    assert_eq!((loaded.state.index(), loaded.projected), (set.index, set.index));
}

#[tokio::test]
async fn forgotten_transactions_hold_up_no_commit() {
    let scene = Scene::new().await;
    let mut state = scene.commit_and_project(&history()).await;
    let (mut dump, mut forgotten, mut superuser) =
        (scene.superuser().await, scene.superuser().await, scene.superuser().await);
    open_transaction(&mut dump, "repeatable read").await;
    open_transaction(&mut forgotten, "read committed").await;

    // The transactions stay open meanwhile, so that anything that waited for them would never finish.
    for _ in 0..8 {
        do_applier_work(&scene, &mut state).await;
    }
    assert!(superuser.query("select part from head").await >= 8, "partitions were created");
    let kept = scene.writer.maintain_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    assert!(kept.held_up >= 7 && !kept.is_full, "{kept:?}");
    assert_eq!(dump.query("select count(*) from changes").await, history().len() as i64);

    dump.run("commit").await;
    forgotten.run("commit").await;
    scene.writer.maintain_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    let kept = scene.writer.maintain_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    assert_eq!(kept.held_up, 0);
    assert_eq!(StateDump::of(&scene.database.load(Scope::ALL).await.unwrap().state), StateDump::of(&state));
}

/// The statements of trimming, each waiting without a timeout instead of for 50 ms.
#[tokio::test]
async fn statements_that_wait_for_forgotten_transactions_hold_up_no_commit() {
    let scene = Scene::new().await;
    let mut state = scene.commit_and_project(&history()).await;
    do_applier_work(&scene, &mut state).await;
    let mut superuser = scene.superuser().await;
    for statement in [
        "alter table changes detach partition changes_0 concurrently",
        "alter table changes detach partition changes_0 finalize",
    ] {
        let (mut dump, mut waiting) = (scene.superuser().await, scene.superuser().await);
        open_transaction(&mut dump, "repeatable read").await;
        waiting.run("set application_name = 'waiting'").await;
        let waiting = tokio::spawn(async move { waiting.try_run(statement).await });
        let waits = "select pid::bigint from pg_stat_activity where datname = current_database()
            and application_name = 'waiting' and wait_event_type = 'Lock'";
        let pid = superuser.wait_for(waits).await;
        for _ in 0..3 {
            do_applier_work(&scene, &mut state).await;
        }
        // The next statement completes an interrupted one.
        superuser.end_session(pid).await;
        waiting.await.unwrap().unwrap_err();
        dump.run("commit").await;
    }
    let kept = scene.writer.maintain_log(empty(1).at + Nanos::from_hours(2)).await.unwrap();
    assert_eq!(kept.held_up, 0);
    assert_eq!(superuser.query("select count(*) from pg_class where relname = 'changes_0'").await, 0);
}

#[tokio::test]
async fn a_load_whose_log_is_trimmed_meanwhile_begins_again() {
    let scene = Scene::new().await;
    let sets = empty_sets(1..=2);
    let state = crate::scene::applied(&sets);
    let rows = sets.iter().map(|set| LogRow::new(set)).collect();
    scene.writer.commit(Index::ZERO, rows).await.unwrap();
    scene.writer.maintain_log(sets[0].at + Nanos::from_mins(4)).await.unwrap();

    // The load has read the projection's index, but not the log yet.
    let (mut other, mut superuser) = (scene.superuser().await, scene.superuser().await);
    other.run("begin; lock table unblocked in access exclusive mode").await;
    let database = scene.database.clone();
    let load = tokio::spawn(async move { database.load(Scope::ALL).await });
    superuser.wait_for_session("drover load", "relation").await;
    scene.projector.project(&sets, &state, Duration::ZERO).await.unwrap();
    scene.writer.maintain_log(sets[1].at + Nanos::from_hours(1)).await.unwrap();
    assert_eq!(superuser.query("select count(*) from changes").await, 0);
    other.run("commit").await;
    let loaded = load.await.unwrap().unwrap();
    assert_eq!((loaded.state.index(), loaded.projected), (Index(2), Index(2)));
}
