//! Commits: all or nothing, only by the active applier, and the outcome of one whose answer was lost.

use std::sync::Arc;

use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index};
use private_servers::Postgres;
use state::Scope;
use store::{Args, Confirmed, Database, Error, Outcome, Tail, TakeOutcome, Writer};
use wire::LogRow;

use crate::history::{empty, empty_sets};
use crate::scene::{SECOND, Scene, taken};

fn rows(sets: &[Arc<ChangeSet>]) -> Vec<LogRow> {
    sets.iter().map(|set| LogRow::new(set)).collect()
}

const ALL: usize = usize::MAX;

async fn logged(scene: &Scene) -> Vec<LogRow> {
    match scene.database.changes_after(Index::ZERO, ALL).await.unwrap() {
        Tail::Page { rows, .. } => rows,
        Tail::Trimmed => panic!("nothing was trimmed"),
    }
}

#[tokio::test]
async fn a_commit_moves_the_head_and_the_log_in_one_go() {
    let scene = Scene::new().await;
    let sets = empty_sets(1..=3);
    scene.writer.commit(Index::ZERO, rows(&sets)).await.unwrap();
    let head = scene.database.head().await.unwrap();
    assert_eq!((head.index, head.at), (Index(3), sets[2].at));
    assert_eq!(scene.writer.confirm().await.unwrap().head, head);
    assert_eq!(logged(&scene).await, rows(&sets));
    assert_eq!(*sets[1], logged(&scene).await[1].change_set().unwrap());
}

#[tokio::test]
async fn a_commit_that_does_not_follow_the_head_writes_nothing() {
    let scene = Scene::new().await;
    scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await.unwrap();
    for from in [1, 3] {
        let late = rows(&empty_sets(from + 1..=from + 1));
        let error = scene.writer.commit(Index(from), late).await.unwrap_err();
        assert!(
            matches!(error, Error::Moved { expected: Index(n), found: Index(2) } if n == from),
            "{error}"
        );
    }
    assert_eq!(logged(&scene).await.len(), 2);
}

#[tokio::test]
async fn a_deposed_applier_writes_nothing() {
    let scene = Scene::new().await;
    let second = scene.another().await;
    assert_eq!(taken(second.take_lease(SECOND, true).await.unwrap()).epoch, Epoch(2));

    let deposed = |error: Error| assert!(matches!(error, Error::Deposed { epoch: Epoch(1) }), "{error}");
    deposed(scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=1))).await.unwrap_err());
    deposed(scene.writer.renew().await.unwrap_err());
    deposed(scene.writer.confirm().await.unwrap_err());
    deposed(scene.writer.resolve_commit(Index::ZERO, rows(&empty_sets(1..=1))).await.unwrap_err());
    assert_eq!(logged(&scene).await, []);

    // The new applier claims the object tables separately, when it begins to project.
    assert_eq!(second.projector().projected().await.unwrap(), Index::ZERO);
    deposed(scene.projector.projected().await.unwrap_err());
    second.commit(Index::ZERO, rows(&empty_sets(1..=1))).await.unwrap();
}

#[tokio::test]
async fn only_the_applier_writes() {
    let scene = Scene::new().await;
    let error = scene.another().await.commit(Index::ZERO, rows(&empty_sets(1..=1))).await.unwrap_err();
    assert!(matches!(error, Error::Deposed { epoch: Epoch(0) }), "{error}");
}

/// The case that `docs/decisions/0004-epoch-in-the-head-row.md` measured: the update waits, and evaluates its conditions again on the row that the other
/// transaction left.
#[tokio::test]
async fn a_commit_that_waits_while_its_applier_is_deposed_does_not_get_through() {
    let scene = Scene::new().await;
    let (mut other, mut superuser) = (scene.superuser().await, scene.superuser().await);
    other.run("begin; update head set applier_epoch = 2").await;
    let writer = scene.writer.clone();
    let commit = tokio::spawn(async move { writer.commit(Index::ZERO, rows(&empty_sets(1..=1))).await });
    superuser.wait_for_session("drover applier", "transactionid").await;
    other.run("commit").await;
    let error = commit.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Deposed { .. }), "{error}");
    assert_eq!(logged(&scene).await, []);
}

#[tokio::test]
async fn a_commit_goes_on_without_its_caller() {
    let scene = Scene::new().await;
    let (mut other, mut superuser) = (scene.superuser().await, scene.superuser().await);
    other.run("begin; select from head for update").await;
    let writer = scene.writer.clone();
    let commit = tokio::spawn(async move { writer.commit(Index::ZERO, rows(&empty_sets(1..=1))).await });
    superuser.wait_for_session("drover applier", "transactionid").await;
    commit.abort();
    assert!(commit.await.unwrap_err().is_cancelled());
    other.run("commit").await;
    superuser.wait_for("select 1::bigint from head where index = 1").await;
    assert_eq!(logged(&scene).await.len(), 1);
}

#[tokio::test]
async fn a_commit_whose_session_was_ended_before_it_did_not_happen() {
    let scene = Scene::new().await;
    let (mut other, mut superuser) = (scene.superuser().await, scene.superuser().await);
    other.run("begin; select from head for update").await;
    let writer = scene.writer.clone();
    let commit = tokio::spawn(async move { writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await });
    let pid = superuser.wait_for_session("drover applier", "transactionid").await;
    superuser.end_session(pid).await;
    let error = commit.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    other.run("commit").await;
    let outcome = scene.writer.resolve_commit(Index::ZERO, rows(&empty_sets(1..=2))).await.unwrap();
    assert_eq!(outcome, Outcome::NotCommitted);
    scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await.unwrap();
}

/// A commit that waits for a synchronous standby has been written, but must not be reported before the standby has it.
#[tokio::test]
async fn a_commit_whose_session_was_ended_after_it_is_found_once_it_is_safe() {
    let mut server = Postgres::temporary().await.unwrap();
    let scene = Scene::at(server.new_database().await.unwrap()).await;
    scene.superuser().await.run("alter system set synchronous_standby_names = 'far'").await;
    server.restart().await.unwrap();
    let mut superuser = scene.superuser().await;
    // The idle connection was closed by the restart.
    scene.writer.confirm().await.unwrap_err();

    let writer = scene.writer.clone();
    let commit = tokio::spawn(async move { writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await });
    let pid = superuser.wait_for_session("drover applier", "SyncRep").await;
    superuser.end_session(pid).await;
    let error = commit.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");

    let writer = scene.writer.clone();
    let found =
        tokio::spawn(async move { writer.resolve_commit(Index::ZERO, rows(&empty_sets(1..=2))).await });
    superuser.wait_for_session("drover applier", "SyncRep").await;
    assert!(!found.is_finished());
    superuser.run("alter system reset synchronous_standby_names").await;
    superuser.run("select pg_reload_conf()").await;
    assert_eq!(found.await.unwrap().unwrap(), Outcome::Committed);
    assert_eq!(logged(&scene).await.len(), 2);
    server.stop().await.unwrap();
}

/// An administrator who cancels the wait for a standby makes the server report a success, with a warning. A setting of the
/// database does not keep commits from waiting.
#[tokio::test]
async fn a_commit_whose_wait_was_cancelled_is_found_once_it_is_safe() {
    let mut server = Postgres::temporary().await.unwrap();
    let scene = Scene::at(server.new_database().await.unwrap()).await;
    let mut superuser = scene.superuser().await;
    let set = "execute format('alter database %I set synchronous_commit = off', current_database())";
    superuser.run(&format!("do $$ begin {set}; end $$")).await;
    superuser.run("alter system set synchronous_standby_names = 'far'").await;
    server.restart().await.unwrap();
    let mut superuser = scene.superuser().await;
    // The idle connection was closed by the restart.
    scene.writer.confirm().await.unwrap_err();

    let writer = scene.writer.clone();
    let commit = tokio::spawn(async move { writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await });
    let pid = superuser.wait_for_session("drover applier", "SyncRep").await;
    superuser.run(&format!("select pg_cancel_backend({pid})")).await;
    let error = commit.await.unwrap().unwrap_err();
    assert!(error.is_unknown() && error.to_string().contains("synchronous replication"), "{error}");

    let resolve = || {
        let writer = scene.writer.clone();
        tokio::spawn(async move { writer.resolve_commit(Index::ZERO, rows(&empty_sets(1..=2))).await })
    };
    let cancelled = resolve();
    let pid = superuser.wait_for_session("drover applier", "SyncRep").await;
    superuser.run(&format!("select pg_cancel_backend({pid})")).await;
    let error = cancelled.await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error}");

    let found = resolve();
    superuser.wait_for_session("drover applier", "SyncRep").await;
    superuser.run("alter system reset synchronous_standby_names").await;
    superuser.run("select pg_reload_conf()").await;
    assert_eq!(found.await.unwrap().unwrap(), Outcome::Committed);
    assert_eq!(logged(&scene).await.len(), 2);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_may_lose_commits_is_refused_unless_that_is_accepted() {
    let scene = Scene::new().await;
    let careful = Args { allow_unsafe_database: false, database_wait_secs: 1, ..scene.args.clone() };
    let error = Writer::connect(&careful).await.unwrap_err();
    let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
    assert!(
        matches!(*source, Error::Unsafe { .. }) && source.to_string().contains("set fsync to on"),
        "{source}"
    );
    Database::connect(&careful).await.unwrap();
}

#[tokio::test]
async fn every_write_tells_the_time_of_the_database() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    let clock = "select (extract(epoch from clock_timestamp()) * 1000000000)::bigint";
    let mut before = superuser.query(clock).await;
    let mut is_between = async |now: model::Timestamp| {
        let after = superuser.query(clock).await;
        let before = std::mem::replace(&mut before, after);
        assert!((before..=after).contains(&now.0), "{before} {now:?} {after}");
    };
    is_between(scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await.unwrap()).await;
    is_between(scene.writer.renew().await.unwrap().now).await;
    is_between(scene.writer.confirm().await.unwrap().now).await;
    match scene.another().await.take_lease(SECOND, true).await.unwrap() {
        TakeOutcome::Active(Confirmed { now, .. }) => is_between(now).await,
        held @ TakeOutcome::Held { .. } => panic!("{held:?}"),
    }
}

#[tokio::test]
async fn only_own_change_sets_count_as_committed() {
    let scene = Scene::new().await;
    scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=2))).await.unwrap();
    let outcome = async |from, rows| scene.writer.resolve_commit(Index(from), rows).await.unwrap();
    assert_eq!(outcome(0, rows(&empty_sets(1..=2))).await, Outcome::Committed);
    assert_eq!(outcome(1, rows(&empty_sets(2..=2))).await, Outcome::Committed);
    assert_eq!(outcome(1, rows(&empty_sets(2..=3))).await, Outcome::NotCommitted);
    // The same index, but another command.
    let other = LogRow { index: Index(2), ..LogRow::new(&empty(9)) };
    assert_eq!(outcome(1, vec![other]).await, Outcome::NotCommitted);
}

#[tokio::test]
async fn a_database_that_went_back_is_refused_until_an_operator_accepts_it() {
    let scene = Scene::new().await;
    scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=3))).await.unwrap();
    scene.database.head().await.unwrap();
    let mut superuser = scene.superuser().await;
    superuser.run("delete from changes where index > 1; update head set index = 1").await;
    superuser.end_all_sessions().await;

    // The idle connection fails first, and the next connection checks the database.
    scene.writer.confirm().await.unwrap_err();
    let refused = |error: Error| {
        assert!(matches!(error, Error::WentBack { seen: Index(3), found: Index(1) }), "{error}");
    };
    refused(scene.writer.commit(Index(3), rows(&empty_sets(4..=4))).await.unwrap_err());
    refused(scene.writer.take_lease(SECOND, true).await.unwrap_err());
    scene.database.head().await.unwrap_err();
    refused(scene.database.load(Scope::ALL).await.unwrap_err());

    let history = HistoryId::from_bytes([7; 16]);
    scene.writer.accept(history).await.unwrap();
    let error = scene.writer.commit(Index(1), rows(&empty_sets(2..=2))).await.unwrap_err();
    assert!(matches!(error, Error::Deposed { .. }), "{error}");
    let head = taken(scene.writer.take_lease(SECOND, false).await.unwrap());
    assert_eq!((head.index, head.history), (Index(1), history));
    scene.writer.commit(Index(1), rows(&empty_sets(2..=2))).await.unwrap();
    assert_eq!(scene.database.head().await.unwrap().history, history);
}

#[tokio::test]
async fn a_database_that_was_accepted_meanwhile_is_not_marked() {
    let scene = Scene::new().await;
    scene.writer.commit(Index::ZERO, rows(&empty_sets(1..=1))).await.unwrap();
    let another = scene.another().await;
    scene.writer.mark_refused("it went back").await.unwrap();
    assert_eq!(another.inspect().await.unwrap().1.as_deref(), Some("it went back"));
    another.accept(HistoryId::from_bytes([7; 16])).await.unwrap();
    // This writer has not learned of the new history.
    scene.writer.mark_refused("it went back").await.unwrap();
    assert_eq!(another.inspect().await.unwrap().1, None);
}

#[tokio::test]
async fn a_database_that_was_moved_is_refused_until_an_operator_accepts_it() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    superuser.run("update head set system_identifier = 5").await;
    superuser.end_all_sessions().await;
    scene.writer.renew().await.unwrap_err();
    let error = scene.writer.renew().await.unwrap_err();
    assert!(matches!(error, Error::OtherSystem { remembered: 5, .. }), "{error}");
    scene.writer.accept(HistoryId::from_bytes([7; 16])).await.unwrap();
    taken(scene.writer.take_lease(SECOND, false).await.unwrap());
}

/// The head's row is looked for at its last position first, and then everywhere.
#[tokio::test]
async fn the_head_is_found_wherever_it_is() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    let mut dump = scene.superuser().await;
    dump.run("begin isolation level repeatable read; select count(*) from head").await;
    let pages = "select pg_relation_size('head') / current_setting('block_size')::int";
    for index in 1.. {
        scene.writer.commit(Index(index - 1), rows(&empty_sets(index..=index))).await.unwrap();
        assert_eq!(scene.writer.confirm().await.unwrap().head.index, Index(index));
        // Another session moves the row.
        superuser.run("update head set lease_until = lease_until").await;
        assert_eq!(scene.writer.confirm().await.unwrap().head.index, Index(index));
        if superuser.query(pages).await > 2 {
            break;
        }
    }
}

/// The head that a new connection finds was correct a moment ago, and the log may have grown since.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_made_during_commits_do_not_find_a_database_that_went_back() {
    let scene = Scene::new().await;
    let writer = scene.writer.clone();
    let commits = tokio::spawn(async move {
        for index in 1..=1_000 {
            writer.commit(Index(index - 1), rows(&empty_sets(index..=index))).await.unwrap();
        }
    });
    while !commits.is_finished() {
        // Each projector begins with a connection of its own.
        scene.writer.projector().projected().await.unwrap();
    }
    commits.await.unwrap();
}
