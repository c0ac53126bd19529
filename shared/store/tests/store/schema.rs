//! The schema: appliers bring it, others wait for it.

use private_servers::Postgres;
use store::{Args, Database, Error, Writer};

use crate::scene::args;

async fn fresh() -> Args {
    args(Postgres::shared().await.unwrap().new_database().await.unwrap())
}

#[tokio::test]
async fn who_waits_in_vain_for_the_schema_is_told_so() {
    let args = Args { database_wait_secs: 1, ..fresh().await };
    let error = Database::connect(&args).await.unwrap_err();
    let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
    assert!(matches!(*source, Error::Schema { needed: 1.., found: 0 }), "{source}");
}

#[tokio::test]
async fn who_waits_in_vain_for_the_server_is_told_so() {
    let args = Args {
        database_url: "postgres://nobody@127.0.0.1:1/nothing".to_owned(),
        database_wait_secs: 1,
        applier_lease_ms: 1,
    };
    for error in [Database::connect(&args).await.unwrap_err(), Writer::connect(&args).await.unwrap_err()] {
        let Error::NotReady { source: Some(source), .. } = error else { panic!("{error}") };
        assert_eq!(source.to_string(), "cannot connect to the database");
    }
}

#[tokio::test]
async fn who_waits_for_the_schema_goes_on_when_an_applier_brings_it() {
    let args = fresh().await;
    let waits = tokio::spawn({
        let args = args.clone();
        async move { Database::connect(&args).await }
    });
    let writer = Writer::connect(&args).await.unwrap();
    writer.migrate().await.unwrap();
    let database = waits.await.unwrap().unwrap();
    let loaded = database.load().await.unwrap();
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
