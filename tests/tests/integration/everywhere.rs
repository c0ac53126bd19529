//! Do system jobs run on every node, and do constraints keep others apart?

use std::collections::BTreeSet;

use serde_json::json;
use tests::harness::api::text;
use tests::harness::{Cluster, SERVICES, jobs};

use crate::BINARY;

#[tokio::test(flavor = "multi_thread")]
async fn system_jobs_run_on_every_node_also_on_those_that_come_later() {
    let names = [&SERVICES[..], &["agent@1", "agent@2"]].concat();
    let mut cluster = Cluster::start_processes(BINARY, &[], &names).await;
    cluster.api.put("/v1/jobs", &jobs::mock_on_every_node("always", "system", "1h")).await;
    cluster.api.put("/v1/jobs", &jobs::mock_on_every_node("once", "sysbatch", "10ms")).await;
    until_on(&cluster, "always", "running", 2).await;
    until_on(&cluster, "once", "complete", 2).await;

    cluster.spawn("agent@3");
    until_on(&cluster, "always", "running", 3).await;
    // What has run on every node that there was is over (N-25.2).
    until_on(&cluster, "once", "complete", 2).await;

    cluster.api.delete("/v1/job/always").await;
    until_on(&cluster, "always", "complete", 3).await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn allocations_that_are_to_be_apart_wait_for_another_node() {
    let names = [&SERVICES[..], &["agent@1"]].concat();
    let mut cluster = Cluster::start_processes(BINARY, &[], &names).await;
    let mut apart = jobs::mock_service("apart", 2);
    apart["Job"]["Constraints"] = json!([{ "Operand": "distinct_hosts", "RTarget": "true" }]);
    cluster.api.put("/v1/jobs", &apart).await;
    until_on(&cluster, "apart", "running", 1).await;
    let waits = async |cluster: &Cluster| {
        let evals = cluster.api.try_get("/v1/job/apart/evaluations").await.ok()?;
        evals.as_array()?.iter().any(|eval| eval["Status"] == "blocked").then_some(())
    };
    cluster.wait_until("the other one waits", waits).await;

    cluster.spawn("agent@2");
    until_on(&cluster, "apart", "running", 2).await;
    cluster.assert_alive();
}

/// Waits until a job has so many allocations, all with this status, each on a node of its own.
async fn until_on(cluster: &Cluster, job: &str, status: &str, nodes: usize) {
    let what = format!("{job} is {status} on {nodes} nodes");
    let are_there = async |cluster: &Cluster| {
        let allocs = cluster.allocs(job).await;
        let on: BTreeSet<&str> = allocs.iter().map(|alloc| text(alloc, "NodeID")).collect();
        let all_are = allocs.iter().all(|alloc| alloc["ClientStatus"] == status);
        (all_are && allocs.len() == nodes && on.len() == nodes).then_some(())
    };
    cluster.wait_until(&what, are_there).await;
}
