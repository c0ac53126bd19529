//! Do people who ask the database see the same as those who ask the API?

use std::collections::BTreeMap;

use tests::harness::api::{array, text};
use tests::harness::{Cluster, jobs};

use crate::BINARY;

#[tokio::test(flavor = "multi_thread")]
async fn sql_and_the_api_agree() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    for job in [
        jobs::pretending("running", 5),
        jobs::pretending("stopped", 3),
        jobs::batch("complete", "true"),
        jobs::batch("failed", "exit 1"),
    ] {
        cluster.api.put("/v1/jobs", &job).await;
    }
    cluster
        .until("the service that is to be stopped runs", async |cluster| {
            (statuses(cluster.api.try_get("/v1/job/stopped/allocations").await.ok()?)
                == counts(&[("running", 3)]))
            .then_some(())
        })
        .await;
    cluster.api.delete("/v1/job/stopped").await;

    let wanted = counts(&[("complete", 4), ("failed", 1), ("running", 5)]);
    cluster
        .until("the API shows what is wanted", async |cluster| {
            (statuses(cluster.api.try_get("/v1/allocations").await.ok()?) == wanted).then_some(())
        })
        .await;
    // The tables follow right behind the log.
    let query = "select client_status, count(*) from allocs group by 1 order by 1";
    let rows: Vec<String> = wanted.iter().map(|(status, count)| format!("{status}|{count}")).collect();
    cluster
        .until("the table shows the same", async |cluster| (cluster.sql(query) == rows).then_some(()))
        .await;
    assert_eq!(statuses(cluster.api.get("/v1/allocations").await), wanted);
    cluster.assert_alive();
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
