//! Failures of the server: statements that it refused are distinguished from those of unknown outcome, and the next call
//! succeeds.

use std::time::Duration;

use model::Index;
use store::{Error, Outcome, Writer};
use wire::LogRow;

use crate::history::empty_sets;
use crate::proxy::Proxy;
use crate::scene::{FIRST, SECOND, Scene, Superuser, args, taken};

/// Far less than the time after which the server would end an idle transaction.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

fn rows(indexes: std::ops::RangeInclusive<u64>) -> Vec<LogRow> {
    empty_sets(indexes).iter().map(|set| LogRow::new(set)).collect()
}

/// Makes every write to a table fail with this SQLSTATE.
async fn break_table(superuser: &mut Superuser, table: &str, code: &str) {
    superuser
        .run(&format!(
            "create or replace function broken() returns trigger language plpgsql as
                $$ begin raise exception 'broken' using errcode = '{code}'; end $$;
            create or replace trigger broken before insert or update on {table}
                for each row execute function broken()"
        ))
        .await;
}

async fn repair_table(superuser: &mut Superuser, table: &str) {
    superuser.run(&format!("drop trigger broken on {table}")).await;
}

/// The server may take a moment to notice that a connection was closed.
async fn nothing_is_left_open(superuser: &mut Superuser) {
    let open = "select count(*) from pg_stat_activity
        where datname = current_database() and state like 'idle in transaction%'";
    let closed = async { while superuser.query(open).await > 0 {} };
    tokio::time::timeout(CLOSED_WITHIN, closed).await.expect("no transaction is left open");
}

#[tokio::test]
async fn refused_commits_write_nothing() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    // Disk full, out of memory, statement timeout, lock timeout, deadlock, input/output error.
    for (code, before) in ["53100", "53200", "57014", "55P03", "40P01", "58030"].iter().zip(0..) {
        break_table(&mut superuser, "changes", code).await;
        let error = scene.writer.commit(Index(before), rows(before + 1..=before + 2)).await.unwrap_err();
        assert!(matches!(error, Error::Database { .. }), "{code}: {error:?}");
        assert_eq!(error.is_busy(), *code == "55P03");
        nothing_is_left_open(&mut superuser).await;
        assert_eq!(scene.writer.confirm().await.unwrap().head.index, Index(before));
        repair_table(&mut superuser, "changes").await;
        scene.writer.commit(Index(before), rows(before + 1..=before + 1)).await.unwrap();
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_looked_up_later() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    scene.writer.commit(Index::ZERO, rows(1..=2)).await.unwrap();
    break_table(&mut superuser, "head", "53100").await;
    let error = scene.writer.resolve_commit(Index::ZERO, rows(1..=2)).await.unwrap_err();
    assert!(matches!(error, Error::Database { .. }), "{error:?}");
    scene.writer.renew().await.unwrap_err();
    scene.another().await.take_lease(SECOND, true).await.unwrap_err();
    nothing_is_left_open(&mut superuser).await;
    repair_table(&mut superuser, "head").await;
    assert_eq!(scene.writer.resolve_commit(Index::ZERO, rows(1..=2)).await.unwrap(), Outcome::Committed);
    scene.writer.commit(Index(2), rows(3..=3)).await.unwrap();
}

#[tokio::test]
async fn failed_projections_are_repeated() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    let sets = crate::history::history();
    let state = crate::scene::applied(&sets);
    break_table(&mut superuser, "allocs", "53100").await;
    let error = scene.projector.project(&sets, &state, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Database { .. }), "{error:?}");
    nothing_is_left_open(&mut superuser).await;
    assert_eq!(superuser.query("select count(*) from jobs").await, 0, "all or nothing");
    repair_table(&mut superuser, "allocs").await;
    scene.projector.project(&sets, &state, Duration::ZERO).await.unwrap();
    assert_eq!(scene.projector.projected().await.unwrap(), state.index());
}

/// The commit was sent, but the server reads it only after the applier has resolved it.
#[tokio::test]
async fn a_commit_that_arrives_after_it_was_given_up_does_nothing() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    let mut proxy = Proxy::before(&scene.args.database_url).await;
    let writer = Writer::connect(&args(proxy.url.clone())).await.unwrap();
    taken(writer.take_lease(FIRST, false).await.unwrap());
    // The statement is prepared by now, so all of the next one is sent at once.
    writer.commit(Index::ZERO, rows(1..=1)).await.unwrap();

    proxy.hold();
    let straggler = tokio::spawn({
        let writer = writer.clone();
        async move { writer.commit(Index(1), rows(2..=2)).await }
    });
    proxy.holds().await;
    proxy.cut();
    let error = straggler.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    let sessions = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'drover applier'";
    let before = superuser.query(sessions).await;
    assert_eq!(writer.resolve_commit(Index(1), rows(2..=2)).await.unwrap(), Outcome::NotCommitted);

    proxy.deliver();
    superuser.wait_for(&format!("{sessions} having count(*) = {before}")).await;
    assert_eq!(superuser.query("select index from head").await, 1);
    // The index is still free.
    writer.commit(Index(1), rows(2..=3)).await.unwrap();
}

/// The applier is stopped in the middle of a transaction that locks the head. The server ends the transaction after half a
/// lease.
#[tokio::test]
async fn a_stopped_applier_holds_up_nobody() {
    let scene = Scene::new().await;
    let (mut other, mut superuser) = (scene.superuser().await, scene.superuser().await);
    let mut proxy = Proxy::before(&scene.args.database_url).await;
    let short = store::Args { applier_lease_ms: 300, ..args(proxy.url.clone()) };
    let writer = Writer::connect(&short).await.unwrap();
    taken(writer.take_lease(FIRST, false).await.unwrap());

    other.run("begin; select from head for update").await;
    let stopped = tokio::spawn({
        let writer = writer.clone();
        async move { writer.resolve_commit(Index::ZERO, rows(1..=1)).await }
    });
    superuser.wait_for_session("drover applier", "transactionid").await;
    proxy.hold();
    other.run("commit").await;
    proxy.holds().await;
    assert_eq!(taken(scene.writer.take_lease(SECOND, true).await.unwrap()).epoch.0, 3);
    proxy.deliver();
    let error = stopped.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Database { .. } | Error::Unknown { .. }), "{error:?}");
    assert!(matches!(writer.renew().await.unwrap_err(), Error::Deposed { .. }));
    scene.writer.commit(Index::ZERO, rows(1..=1)).await.unwrap();
    nothing_is_left_open(&mut superuser).await;
}
