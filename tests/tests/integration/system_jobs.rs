//! System jobs run on every node, and `distinct_hosts` keeps allocations of other jobs apart.

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
    wait_until_on_nodes(&cluster, "always", "running", 2).await;
    wait_until_on_nodes(&cluster, "once", "complete", 2).await;

    cluster.spawn("agent@3");
    wait_until_on_nodes(&cluster, "always", "running", 3).await;
    // A sysbatch job that has completed on all nodes does not run on a new one (N-25.2).
    wait_until_on_nodes(&cluster, "once", "complete", 2).await;

    cluster.api.delete("/v1/job/always").await;
    wait_until_on_nodes(&cluster, "always", "complete", 3).await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn allocations_that_are_to_be_apart_wait_for_another_node() {
    let names = [&SERVICES[..], &["agent@1"]].concat();
    let mut cluster = Cluster::start_processes(BINARY, &[], &names).await;
    let mut apart = jobs::mock_service("apart", 2);
    apart["Job"]["Constraints"] = json!([{ "Operand": "distinct_hosts", "RTarget": "true" }]);
    cluster.api.put("/v1/jobs", &apart).await;
    wait_until_on_nodes(&cluster, "apart", "running", 1).await;
    let is_blocked = async |cluster: &Cluster| {
        let evals = cluster.api.try_get("/v1/job/apart/evaluations").await.ok()?;
        evals.as_array()?.iter().any(|eval| eval["Status"] == "blocked").then_some(())
    };
    cluster.wait_until("the other allocation is blocked", is_blocked).await;

    cluster.spawn("agent@2");
    wait_until_on_nodes(&cluster, "apart", "running", 2).await;
    cluster.assert_alive();
}

/// Waits until a job has `nodes` allocations, all with this status, each on another node.
async fn wait_until_on_nodes(cluster: &Cluster, job: &str, status: &str, nodes: usize) {
    let what = format!("{job} is {status} on {nodes} nodes");
    let have_status = async |cluster: &Cluster| {
        let allocs = cluster.allocs(job).await;
        let on: BTreeSet<&str> = allocs.iter().map(|alloc| text(alloc, "NodeID")).collect();
        let all_are = allocs.iter().all(|alloc| alloc["ClientStatus"] == status);
        (all_are && allocs.len() == nodes && on.len() == nodes).then_some(())
    };
    cluster.wait_until(&what, have_status).await;
}
