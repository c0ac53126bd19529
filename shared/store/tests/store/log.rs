//! The log: reading after an index, trimming, and its partitions.

use std::sync::Arc;
use std::time::Duration;

use model::change::ChangeSet;
use model::{Index, Nanos, Timestamp};
use state::{Scope, State};
use store::{Args, LogSize, Tail};
use wire::LogRow;

use crate::history::{empty, empty_sets};
use crate::scene::Scene;

/// The numbers of the log's partitions, concatenated as digits.
const PARTS: &str = "select string_agg(substring(relname from '\\d+$'), '' order by relname)::bigint
    from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'changes'::regclass";
/// The same for detached partitions.
const DETACHED: &str =
    "select coalesce(string_agg(substring(relname from '\\d+$'), '' order by relname), '0')::bigint
    from pg_class where relkind = 'r' and relname ~ '^changes_\\d+$'
    and not exists (select from pg_inherits where inhrelid = pg_class.oid)";

async fn commit(scene: &Scene, sets: &[Arc<ChangeSet>]) {
    let from = Index(sets[0].index.0 - 1);
    scene.writer.commit(from, sets.iter().map(|set| LogRow::new(set)).collect()).await.unwrap();
}

async fn page(scene: &Scene, after: u64, bytes_max: usize) -> Vec<u64> {
    match scene.database.changes_after(Index(after), bytes_max).await.unwrap() {
        Tail::Page { rows, .. } => rows.iter().map(|row| row.index.0).collect(),
        Tail::Trimmed => panic!("nothing was trimmed"),
    }
}

async fn is_trimmed(scene: &Scene, after: u64) -> bool {
    matches!(scene.database.changes_after(Index(after), usize::MAX).await.unwrap(), Tail::Trimmed)
}

#[tokio::test]
async fn rows_name_the_change_set_before_them() {
    let scene = Scene::new().await;
    let sets = empty_sets(1..=3);
    commit(&scene, &sets).await;
    for after in 0..=3 {
        let read = scene.database.changes_after(Index(after), usize::MAX).await.unwrap();
        let Tail::Page { previous, .. } = read else { panic!("nothing was trimmed") };
        let before = after.checked_sub(1).map(|at| sets[at as usize].request_id);
        assert_eq!(previous, before, "after index {after}");
    }
    let loaded = scene.database.load(Scope::ALL).await.unwrap();
    assert_eq!(loaded.state.last_request(), Some(sets[2].request_id));
}

/// A time that many minutes after the change set at an index.
fn after(index: u64, minutes: i64) -> Timestamp {
    empty(index).at + Nanos::from_mins(minutes)
}

/// Maintains the log at a time that many minutes after the change set at an index.
async fn maintain(scene: &Scene, index: u64, minutes: i64) -> LogSize {
    scene.writer.maintain_log(after(index, minutes)).await.unwrap()
}

/// Partitions 0 and 1 with two change sets each, partition 2 with one; all are projected.
async fn three_parts() -> Scene {
    let scene = Scene::new().await;
    for (sets, part) in [(1..=2, 0), (3..=4, 1), (5..=5, 2)] {
        let last = *sets.end();
        let sets = empty_sets(sets);
        commit(&scene, &sets).await;
        scene
            .projector
            .project(&sets, &crate::scene::applied(&empty_sets(1..=last)), Duration::ZERO)
            .await
            .unwrap();
        let mut superuser = scene.superuser().await;
        assert_eq!(superuser.query(&format!("select count(*) from changes_{part}")).await, sets.len() as i64);
        if part < 2 {
            maintain(&scene, last, 4).await;
        }
    }
    scene
}

#[tokio::test]
async fn a_part_ends_after_a_while_and_two_are_always_ahead() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    assert_eq!(superuser.query(PARTS).await, 12, "the numbers 0, 1 and 2");
    maintain(&scene, 1, 60).await;
    assert_eq!(superuser.query(PARTS).await, 12, "the log is empty");

    commit(&scene, &empty_sets(1..=2)).await;
    maintain(&scene, 1, 3).await;
    assert_eq!(superuser.query(PARTS).await, 12, "too early");
    maintain(&scene, 1, 4).await;
    assert_eq!(superuser.query(PARTS).await, 123);
    commit(&scene, &empty_sets(3..=3)).await;
    assert_eq!(superuser.query("select count(*) from changes_0").await, 2);
    assert_eq!(superuser.query("select count(*) from changes_1").await, 1);
    assert_eq!(page(&scene, 0, usize::MAX).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_part_ends_when_it_is_big() {
    let scene = Scene::with(|args| Args { log_max_mb: 1, ..args }).await;
    let big = LogRow { bytes: vec![7; 100_000].into(), ..LogRow::new(&empty(1)) };
    scene.writer.commit(Index::ZERO, vec![big]).await.unwrap();
    maintain(&scene, 1, 0).await;
    assert_eq!(scene.superuser().await.query(PARTS).await, 123);
}

#[tokio::test]
async fn old_parts_go_and_the_log_begins_later() {
    let scene = three_parts().await;
    let mut superuser = scene.superuser().await;
    assert_eq!(page(&scene, 0, usize::MAX).await, [1, 2, 3, 4, 5]);
    let kept = maintain(&scene, 2, 59).await;
    assert_eq!((kept.oldest, kept.held_up), (empty(1).at, 0));

    maintain(&scene, 2, 60).await;
    assert_eq!((superuser.query(PARTS).await, superuser.query(DETACHED).await), (12345, 0));
    let kept = maintain(&scene, 2, 60).await;
    assert_eq!((kept.oldest, kept.parts, kept.is_full), (empty(3).at, 5, false));
    assert!(is_trimmed(&scene, 0).await && is_trimmed(&scene, 1).await);
    assert_eq!(page(&scene, 2, usize::MAX).await, [3, 4, 5]);
    commit(&scene, &empty_sets(6..=6)).await;
    assert_eq!(page(&scene, 2, usize::MAX).await, [3, 4, 5, 6]);
}

#[tokio::test]
async fn a_log_that_is_too_large_goes_back_ten_minutes_and_then_is_full() {
    let scene = Scene::with(|args| Args { log_max_mb: 1, ..args }).await;
    for index in 1..=3 {
        let big = LogRow { bytes: vec![7; 600_000].into(), ..LogRow::new(&empty(index)) };
        scene.writer.commit(Index(index - 1), vec![big]).await.unwrap();
        let full = maintain(&scene, index, 0).await;
        assert_eq!(full.is_full, index > 1, "{full:?}");
    }
    // The object tables do not contain them yet.
    assert!(maintain(&scene, 3, 10).await.is_full);
    let sets = empty_sets(1..=3);
    scene.projector.project(&sets, &crate::scene::applied(&sets), Duration::ZERO).await.unwrap();
    assert!(maintain(&scene, 1, 9).await.is_full);
    assert!(!maintain(&scene, 3, 10).await.is_full);
    assert!(is_trimmed(&scene, 0).await && is_trimmed(&scene, 1).await && !is_trimmed(&scene, 3).await);
}

#[tokio::test]
async fn trimming_waits_for_nobody_and_goes_on_where_it_was_interrupted() {
    let scene = three_parts().await;
    let (mut reader, mut superuser) = (scene.superuser().await, scene.superuser().await);
    reader.run("begin isolation level repeatable read; select count(*) from changes").await;

    // Detaching waits for transactions that have read the log, and gives up.
    let held = maintain(&scene, 4, 60).await;
    assert_eq!((held.held_up, held.is_full), (2, false));
    let detaching = "select count(*) from pg_inherits where inhdetachpending";
    assert_eq!(superuser.query(detaching).await, 1);
    assert_eq!(maintain(&scene, 4, 60).await.held_up, 2);
    assert_eq!(reader.query("select count(*) from changes").await, 5, "the reader keeps its snapshot");
    assert!(is_trimmed(&scene, 0).await, "other sessions do not see it");
    commit(&scene, &empty_sets(6..=6)).await;

    reader.run("commit").await;
    assert_eq!(maintain(&scene, 4, 60).await.held_up, 0);
    assert_eq!(
        (superuser.query(PARTS).await, superuser.query(detaching).await, superuser.query(DETACHED).await),
        (23456, 0, 0)
    );

    // A reader of a table that is already detached only delays dropping it.
    superuser.run("create table changes_1 (like changes including all)").await;
    reader.run("begin; select count(*) from changes_1").await;
    assert_eq!(maintain(&scene, 4, 60).await.held_up, 1);
    reader.run("commit").await;
    assert_eq!(maintain(&scene, 4, 60).await.held_up, 0);
    assert_eq!(superuser.query(DETACHED).await, 0);
}

/// Detaching waits for transactions that use the log at the moment: there is always one, but none lasts long.
#[tokio::test(flavor = "multi_thread")]
async fn parts_go_while_commits_and_reads_go_on() {
    let scene = Scene::new().await;
    let (writer, projector) = (scene.writer.clone(), scene.projector.clone());
    let commits = tokio::spawn(async move {
        let mut state = State::default();
        for index in 1.. {
            let set = empty(index);
            state.apply(&set).unwrap();
            writer.commit(Index(index - 1), vec![LogRow::new(&set)]).await.unwrap();
            projector.project(&[set], &state, Duration::ZERO).await.unwrap();
        }
    });
    let database = scene.database.clone();
    let reads = tokio::spawn(async move {
        loop {
            let head = database.head().await.unwrap().index;
            database.changes_after(Index(head.0.saturating_sub(100)), usize::MAX).await.unwrap();
        }
    });
    let mut superuser = scene.superuser().await;
    let oldest = "select min(substring(relname from '\\d+$')::bigint)
        from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'changes'::regclass";
    while superuser.query(oldest).await < 8 {
        if let Err(error) = scene.writer.maintain_log(after(1_000_000, 60)).await {
            assert!(error.is_busy(), "{error}");
        }
    }
    for task in [commits, reads] {
        assert!(!task.is_finished(), "the task still runs");
        task.abort();
    }
}

#[tokio::test]
async fn making_parts_waits_for_nobody_and_nobody_for_it() {
    let scene = Scene::new().await;
    let (mut forgotten, mut vacuum) = (scene.superuser().await, scene.superuser().await);
    forgotten.run("begin isolation level repeatable read; select count(*) from changes").await;
    let mut superuser = scene.superuser().await;
    commit(&scene, &empty_sets(1..=1)).await;
    maintain(&scene, 1, 4).await;
    assert_eq!(superuser.query(PARTS).await, 123);

    vacuum.run("begin; lock table changes in share update exclusive mode").await;
    commit(&scene, &empty_sets(2..=2)).await;
    maintain(&scene, 2, 4).await;
    assert_eq!(superuser.query(PARTS).await, 123);
    commit(&scene, &empty_sets(3..=3)).await;
    maintain(&scene, 3, 4).await;
    assert_eq!(superuser.query("select part from head").await, 2, "no part ends while too few are ahead");
    vacuum.run("commit").await;
    maintain(&scene, 3, 4).await;
    assert_eq!(superuser.query(PARTS).await, 1234);
}

#[tokio::test]
async fn a_deposed_applier_ends_no_part() {
    let scene = Scene::new().await;
    commit(&scene, &empty_sets(1..=1)).await;
    scene.another().await.take_lease(crate::scene::SECOND, true).await.unwrap();
    let error = scene.writer.maintain_log(after(1, 4)).await.unwrap_err();
    assert!(matches!(error, store::Error::Deposed { .. }), "{error}");
    assert_eq!(scene.superuser().await.query("select part from head").await, 0);
}

#[tokio::test]
async fn the_log_is_read_in_pages() {
    let scene = Scene::new().await;
    assert_eq!(page(&scene, 0, usize::MAX).await, [0; 0]);
    let sets = empty_sets(1..=20);
    commit(&scene, &sets).await;
    let bytes = LogRow::new(&sets[0]).bytes.len();
    assert_eq!(page(&scene, 0, 3 * bytes).await, [1, 2, 3]);
    assert_eq!(page(&scene, 3, 1).await, [4]);
    assert_eq!(page(&scene, 17, usize::MAX).await, [18, 19, 20]);
    assert_eq!(page(&scene, 20, usize::MAX).await, [0; 0]);
}

#[tokio::test]
async fn trimmed_and_absent_rows_are_reported() {
    let scene = Scene::new().await;
    commit(&scene, &empty_sets(1..=3)).await;
    assert!(is_trimmed(&scene, 4).await, "ahead of the head");
    scene.superuser().await.run("delete from changes where index <= 2").await;
    assert!(is_trimmed(&scene, 0).await && is_trimmed(&scene, 1).await && !is_trimmed(&scene, 2).await);
    scene.superuser().await.run("delete from changes").await;
    assert!(is_trimmed(&scene, 2).await && !is_trimmed(&scene, 3).await);
}

#[tokio::test]
async fn the_requests_since_a_moment_are_remembered() {
    let scene = Scene::new().await;
    let sets = empty_sets(1..=5);
    commit(&scene, &sets[..2]).await;
    maintain(&scene, 1, 4).await;
    commit(&scene, &sets[2..]).await;
    let found = scene.database.requests_since(sets[1].at, usize::MAX).await.unwrap();
    let expected: Vec<_> = sets[1..].iter().map(|set| (set.request_id, set.index, set.at)).collect();
    assert_eq!(found, expected);
    assert_eq!(scene.database.requests_since(Timestamp::UNSET, usize::MAX).await.unwrap().len(), 5);
    let newest = scene.database.requests_since(Timestamp::UNSET, 2).await.unwrap();
    assert_eq!(newest.iter().map(|(_, index, _)| index.0).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(scene.database.requests_since(empty(6).at, usize::MAX).await.unwrap(), []);
}
