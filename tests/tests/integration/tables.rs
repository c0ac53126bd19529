//! The database shows the same as the API.

use std::collections::BTreeMap;

use tests::harness::api::{array, text};
use tests::harness::{Cluster, invariants, jobs};

use crate::BINARY;

#[tokio::test(flavor = "multi_thread")]
async fn sql_and_the_api_agree() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    for job in [
        jobs::mock_service("running", 5),
        jobs::mock_service("stopped", 3),
        jobs::batch("complete", "true"),
        jobs::batch("failed", "exit 1"),
    ] {
        cluster.api.put("/v1/jobs", &job).await;
    }
    cluster
        .wait_until("the service to be stopped runs", async |cluster| {
            (statuses(cluster.api.try_get("/v1/job/stopped/allocations").await.ok()?)
                == counts(&[("running", 3)]))
            .then_some(())
        })
        .await;
    cluster.api.delete("/v1/job/stopped").await;

    let expected = counts(&[("complete", 4), ("failed", 1), ("running", 5)]);
    cluster
        .wait_until("the API shows the expected statuses", async |cluster| {
            (statuses(cluster.api.try_get("/v1/allocations").await.ok()?) == expected).then_some(())
        })
        .await;
    // The projection follows shortly after the log.
    let query = "select client_status, count(*) from allocs group by 1 order by 1";
    let rows: Vec<String> = expected.iter().map(|(status, count)| format!("{status}|{count}")).collect();
    cluster
        .wait_until("the table shows the same", async |cluster| (cluster.sql(query) == rows).then_some(()))
        .await;
    assert_eq!(statuses(cluster.api.get("/v1/allocations").await), expected);
    cluster.assert_alive();
}

/// Commits to the log are durable, but those to the tables are not: a crash of the database may lose the last of them.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_a_crash_threw_back_follow_again() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    cluster.api.put("/v1/jobs", &jobs::mock_service("before", 1)).await;
    cluster.wait_for_alloc("before", "running").await;
    cluster.wait_until_projected().await;
    cluster.alter(&for_each_table("create table past.%1$I as table public.%1$I")).await;

    cluster.api.put("/v1/jobs", &jobs::mock_service("lost", 1)).await;
    cluster.wait_for_alloc("lost", "running").await;
    cluster.wait_until_projected().await;
    let restore = "truncate public.%1$I; insert into public.%1$I select * from past.%1$I";
    cluster.alter(&for_each_table(restore)).await;

    cluster.api.put("/v1/jobs", &jobs::mock_service("after", 1)).await;
    cluster.wait_until_projected().await;
    cluster.alter("drop schema past cascade").await;
    invariants::assert_rebuild_agrees(&cluster).await;
    assert_eq!(cluster.sql("select count(*) from jobs where job_id in ('before', 'lost', 'after')"), ["3"]);
    cluster.assert_alive();
}

/// Runs a statement for each object table, and for the row with the projected index, in one transaction.
fn for_each_table(what: &str) -> String {
    format!(
        "do $$ declare name text; begin
            create schema if not exists past;
            lock table projection in access exclusive mode;
            for name in select tablename from pg_tables where schemaname = 'public'
                and tablename not like 'changes%' and tablename not in ('head', '_sqlx_migrations')
            loop execute format('{what}', name); end loop;
        end $$"
    )
}

fn statuses(allocs: serde_json::Value) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for alloc in array(&allocs) {
        *counts.entry(text(alloc, "ClientStatus").to_owned()).or_default() += 1;
    }
    counts
}

fn counts(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect()
}
