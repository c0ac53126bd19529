//! The projection: the object tables equal the log, whenever it runs and however often.

use std::sync::Arc;
use std::time::Duration;

use model::Index;
use model::change::ChangeSet;
use state::Scope;
use store::Error;
use wire::LogRow;

use crate::history::history;
use crate::scene::{SECOND, Scene, applied, taken};
use crate::state_dump::StateDump;

/// Commits one change set after the other, projects at some of them, and compares after each.
async fn compare_all_along(projects_at: impl Fn(usize) -> bool) {
    let scene = Scene::new().await;
    let sets = history();
    let mut pending: Vec<Arc<ChangeSet>> = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        scene.writer.commit(Index(set.index.0 - 1), vec![LogRow::new(set)]).await.unwrap();
        pending.push(Arc::clone(set));
        let state = applied(&sets[..=place]);
        if projects_at(place) {
            scene.projector.project(&pending, &state, Duration::ZERO).await.unwrap();
            pending.clear();
        }
        let loaded = scene.database.load(Scope::ALL).await.unwrap();
        assert_eq!(loaded.projected.0 as usize, place + 1 - pending.len());
        assert_eq!(StateDump::of(&loaded.state), StateDump::of(&state), "after {:?}", set.changes);
    }
}

#[tokio::test]
async fn loaded_state_equals_applied_state_after_each_change_set() {
    compare_all_along(|_| true).await;
}

#[tokio::test]
async fn loaded_state_equals_applied_state_wherever_the_tables_are() {
    compare_all_along(|place| place % 3 == 1).await;
    compare_all_along(|place| place % 7 == 5).await;
    compare_all_along(|_| false).await;
}

#[tokio::test]
async fn everything_at_once_is_projected_as_everything_in_turn() {
    let scene = Scene::new().await;
    let sets = history();
    let state = scene.commit_and_project(&sets).await;
    assert_eq!(StateDump::of(&scene.database.load(Scope::ALL).await.unwrap().state), StateDump::of(&state));
}

#[tokio::test]
async fn projected_rows_are_skipped_and_gaps_are_noticed() {
    let scene = Scene::new().await;
    let sets = history();
    let (some, all) = (applied(&sets[..5]), applied(&sets));
    scene.projector.project(&sets[..5], &some, Duration::ZERO).await.unwrap();
    let error = scene.projector.project(&sets[6..], &all, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Gap { after: Index(5) }), "{error}");
    scene.projector.project(&sets[..5], &some, Duration::ZERO).await.unwrap();
    scene.projector.project(&sets, &all, Duration::ZERO).await.unwrap();
    assert_eq!(scene.projector.projected().await.unwrap(), all.index());
}

#[tokio::test]
async fn a_projection_that_was_ended_is_done_again_by_the_next_applier() {
    let scene = Scene::new().await;
    let sets = history();
    let state = applied(&sets);
    for set in &sets {
        scene.writer.commit(Index(set.index.0 - 1), vec![LogRow::new(set)]).await.unwrap();
    }
    scene.projector.project(&sets[..9], &applied(&sets[..9]), Duration::ZERO).await.unwrap();

    // The projection is interrupted: some rows are written already, but not the allocations.
    let (mut other, mut superuser) = (scene.superuser().await, scene.superuser().await);
    other.run("begin; lock table allocs in exclusive mode").await;
    let projection = tokio::spawn({
        let (projector, sets, state) = (scene.projector.clone(), sets.clone(), state.clone());
        async move { projector.project(&sets, &state, Duration::ZERO).await }
    });
    let pid = superuser.wait_for_session("drover projection", "relation").await;
    superuser.end_session(pid).await;
    projection.await.unwrap().unwrap_err();
    other.run("commit").await;
    assert_eq!(StateDump::of(&scene.database.load(Scope::ALL).await.unwrap().state), StateDump::of(&state));

    let next = scene.another().await;
    taken(next.take_lease(SECOND, true).await.unwrap());
    let projector = next.projector();
    assert_eq!(projector.projected().await.unwrap(), Index(9));
    projector.project(&sets[9..], &state, Duration::ZERO).await.unwrap();
    let error = scene.projector.project(&sets[9..], &state, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Deposed { .. }), "{error}");
    let loaded = scene.database.load(Scope::ALL).await.unwrap();
    assert_eq!((loaded.projected, loaded.head.index), (state.index(), state.index()));
    assert_eq!(StateDump::of(&loaded.state), StateDump::of(&state));
}

/// The projection is stopped between two statements and never continues.
#[tokio::test]
async fn a_projection_that_stands_still_does_not_hold_up_the_next_applier() {
    let scene = Scene::new().await;
    let sets = history();
    let state = scene.commit_and_project(&sets[..9]).await;
    let mut stopped = scene.superuser().await;
    stopped.run("set application_name = 'drover projection'; begin; update projection set at_ns = 0").await;
    stopped.run("update jobs set priority = 1").await;

    let next = scene.another().await;
    taken(next.take_lease(SECOND, true).await.unwrap());
    // Unless its session is terminated, the row stays locked until the idle timeout, which this session does not have.
    assert_eq!(next.projector().projected().await.unwrap(), state.index());
    stopped.try_run("commit").await.unwrap_err();
    assert_eq!(StateDump::of(&scene.database.load(Scope::ALL).await.unwrap().state), StateDump::of(&state));

    let mut newer = scene.superuser().await;
    newer.run("set application_name = 'drover projection'").await;
    scene.projector.projected().await.unwrap_err();
    assert_eq!(newer.query("select 1::bigint").await, 1, "a deposed applier terminates no sessions");
}

#[tokio::test]
async fn people_can_ask_without_a_decoder() {
    let scene = Scene::new().await;
    let state = scene.commit_and_project(&history()).await;
    let mut superuser = scene.superuser().await;
    let running = state.allocs().filter(|alloc| alloc.client_status().as_str() == "running").count() as i64;
    assert!(running > 0);
    let counted = "select count(*) from allocs where client_status = 'running' group by client_status";
    assert_eq!(superuser.query(counted).await, running);
    let named = "select count(*) from allocs join nodes on nodes.id = node_id where nodes.name <> node_name";
    assert_eq!(superuser.query(named).await, 0);
    let first = state.allocs().map(|alloc| alloc.create_time()).min().unwrap();
    let since = format!(
        "select count(*) from allocs where create_time >= to_timestamp({}) and name like 'web.app[%'",
        first.as_secs()
    );
    assert!(superuser.query(&since).await > 0);
    assert_eq!(superuser.query("select count(*) from jobs where submit_time is null").await, 0);
}

#[tokio::test]
async fn a_share_goes_with_its_last_allocation() {
    let scene = Scene::new().await;
    let sets = history();
    let mut superuser = scene.superuser().await;
    let miscounted = "select count(*) from alloc_shares
        where allocs = 0 or allocs <> (select count(*) from allocs where share_id = alloc_shares.id)";
    scene.projector.project(&sets[..10], &applied(&sets[..10]), Duration::ZERO).await.unwrap();
    assert_eq!(superuser.query(miscounted).await, 0);
    superuser.run("create table before as select id from alloc_shares").await;
    scene.projector.project(&sets[10..], &applied(&sets), Duration::ZERO).await.unwrap();
    assert_eq!(superuser.query(miscounted).await, 0);
    let gone = "select count(*) from before where id not in (select id from alloc_shares)";
    assert!(superuser.query(gone).await > 0, "some shares lose their allocations in this history");
}
