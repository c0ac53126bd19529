//! The schema: appliers migrate it, other services wait for it.

use model::Index;
use private_servers::Postgres;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use state::Scope;
use store::{Args, Database, Error, Tail, Writer};
use wire::LogRow;

use crate::history::empty_sets;
use crate::scene::{FIRST, args, taken};

async fn fresh() -> Args {
    args(Postgres::shared().await.unwrap().new_database().await.unwrap())
}

#[tokio::test]
async fn waiting_for_the_schema_times_out_with_a_reason() {
    let args = Args { database_wait_secs: 1, ..fresh().await };
    let error = Database::connect(&args).await.unwrap_err();
    let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
    assert!(matches!(*source, Error::Schema { needed: 1.., found: 0 }), "{source}");
}

#[tokio::test]
async fn waiting_for_the_server_times_out_with_a_reason() {
    let nobody = "postgres://nobody@127.0.0.1:1/nothing".to_owned();
    let args = Args { database_wait_secs: 1, ..args(nobody) };
    for error in [Database::connect(&args).await.unwrap_err(), Writer::connect(&args).await.unwrap_err()] {
        let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
        assert_eq!(source.to_string(), "cannot connect to the database");
    }
}

#[tokio::test]
async fn waiting_ends_when_an_applier_creates_the_schema() {
    let args = fresh().await;
    let waits = tokio::spawn({
        let args = args.clone();
        async move { Database::connect(&args).await }
    });
    let writer = Writer::connect(&args).await.unwrap();
    writer.migrate().await.unwrap();
    let database = waits.await.unwrap().unwrap();
    let loaded = database.load(Scope::ALL).await.unwrap();
    assert_eq!((loaded.state.index().0, loaded.projected.0), (0, 0));
}

#[tokio::test]
async fn appliers_that_migrate_at_once_do_not_disturb_each_other() {
    let args = fresh().await;
    let appliers: Vec<_> = (0..4)
        .map(|_| {
            let args = args.clone();
            tokio::spawn(async move { Writer::connect(&args).await.unwrap().migrate().await })
        })
        .collect();
    for applier in appliers {
        applier.await.unwrap().unwrap();
    }
    Database::connect(&args).await.unwrap();
}

/// Before the third migration, partitions of the log were ranges of indexes.
#[tokio::test]
async fn a_log_in_ranges_of_indexes_becomes_one_of_numbered_parts() {
    let args = fresh().await;
    let mut connection = PgConnection::connect(&args.database_url).await.unwrap();
    let mut migrator = sqlx::migrate!();
    migrator.set_locking(false).run_to(2, &mut connection).await.unwrap();
    for statement in [
        "create table changes_1_65537 partition of changes for values from (1) to (65537)",
        "create table changes_65537_131073 partition of changes for values from (65537) to (131073)",
    ] {
        connection.execute(statement).await.unwrap();
    }
    let sets = empty_sets(1..=3);
    for row in sets.iter().map(|set| LogRow::new(set)) {
        sqlx::query(
            "insert into changes (index, applier_epoch, at_ns, request_id, bytes) values ($1, 1, $2, $3, $4)",
        )
        .bind(row.index.0.cast_signed())
        .bind(row.at.0)
        .bind(row.request_id.0)
        .bind(&row.bytes[..])
        .execute(&mut connection)
        .await
        .unwrap();
    }
    connection.execute("update head set index = 3").await.unwrap();

    let writer = Writer::connect(&args).await.unwrap();
    writer.migrate().await.unwrap();
    taken(writer.take_lease(FIRST, false).await.unwrap());
    let more = empty_sets(4..=5);
    writer.commit(Index(3), more.iter().map(|set| LogRow::new(set)).collect()).await.unwrap();
    let database = Database::connect(&args).await.unwrap();
    let Tail::Page { rows, .. } = database.changes_after(Index::ZERO, usize::MAX).await.unwrap() else {
        panic!("nothing was trimmed");
    };
    let expected: Vec<LogRow> = sets.iter().chain(&more).map(|set| LogRow::new(set)).collect();
    assert_eq!(rows, expected);
    assert_eq!(database.load(Scope::ALL).await.unwrap().state.index(), Index(5));
}
