//! A drain moves a service to another node, step by step, and stops system jobs last; an agent that ends drains its own node.

use serde_json::{Value, json};
use tests::harness::api::{array, text};
use tests::harness::{Cluster, SERVICES, jobs};

use crate::BINARY;

const SECOND: i64 = 1_000_000_000;

/// A service of the mock driver whose allocations migrate one at a time, and are healthy after a moment.
fn gentle(id: &str, count: usize) -> Value {
    let mut job = jobs::mock_service(id, count);
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Update"] = json!({
        "MaxParallel": count,
        "HealthCheck": "task_states",
        "MinHealthyTime": SECOND / 5,
        "HealthyDeadline": 120 * SECOND,
        "ProgressDeadline": 240 * SECOND,
    });
    group["Migrate"] = json!({
        "MaxParallel": 1,
        "HealthCheck": "task_states",
        "MinHealthyTime": SECOND / 5,
        "HealthyDeadline": 120 * SECOND,
    });
    job
}

/// Waits until a service has so many allocations that should run, all healthy. Returns their nodes.
async fn wait_until_healthy(cluster: &Cluster, job: &str, count: usize) -> Vec<String> {
    cluster
        .wait_until(&format!("{job} has {count} healthy allocations"), async |cluster| {
            let allocs = cluster.api.try_get(&format!("/v1/job/{job}/allocations")).await.ok()?;
            let live = array(&allocs).iter().filter(|alloc| text(alloc, "DesiredStatus") == "run");
            let live: Vec<&Value> = live.collect();
            let are_healthy = live.iter().all(|alloc| alloc["DeploymentStatus"]["Healthy"] == true);
            let nodes = live.iter().map(|alloc| text(alloc, "NodeID").to_owned());
            (are_healthy && live.len() == count).then(|| nodes.collect())
        })
        .await
}

/// Waits until the last drain of a node is complete. Returns the node.
async fn wait_until_drained(cluster: &Cluster, node: &str) -> Value {
    cluster
        .wait_until("the node is drained", async |cluster| {
            let node = cluster.api.try_get(&format!("/v1/node/{node}")).await.ok()?;
            (node["LastDrain"]["Status"] == "complete").then_some(node)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_moves_services_and_stops_system_jobs_last() {
    // N-31a: the next allocation goes when the replacement has a verdict; the record is complete, the node ineligible.
    let names = [&SERVICES[..], &["agent@1", "agent@2"]].concat();
    let mut cluster = Cluster::start_processes(BINARY, &[], &names).await;
    cluster.api.put("/v1/jobs", &jobs::mock_on_every_node("always", "system", "1h")).await;
    cluster.api.put("/v1/jobs", &gentle("web", 3)).await;
    let node = wait_until_healthy(&cluster, "web", 3).await[0].clone();
    cluster
        .wait_until("the system job runs on both nodes", async |cluster| {
            let allocs = cluster.api.try_get("/v1/job/always/allocations").await.ok()?;
            let running = array(&allocs).iter().filter(|alloc| text(alloc, "ClientStatus") == "running");
            (running.count() == 2).then_some(())
        })
        .await;
    let drain = json!({ "DrainSpec": { "Deadline": 0 }, "Meta": { "message": "repairs" } });
    cluster.api.put(&format!("/v1/node/{node}/drain"), &drain).await;

    let drained = wait_until_drained(&cluster, &node).await;
    assert_eq!((&drained["DrainStrategy"], &drained["Drain"]), (&json!(null), &json!(false)));
    assert_eq!(text(&drained, "SchedulingEligibility"), "ineligible");
    assert_eq!(drained["LastDrain"]["Meta"], json!({ "message": "repairs" }));
    let messages: Vec<&str> = array(&drained["Events"]).iter().map(|event| text(event, "Message")).collect();
    for message in ["Node drain strategy set", "Node drain complete"] {
        assert!(messages.contains(&message), "{messages:?}");
    }
    let nodes = wait_until_healthy(&cluster, "web", 3).await;
    assert!(!nodes.contains(&node), "{nodes:?}");
    cluster
        .wait_until("the system job has left the node", async |cluster| {
            let allocs = cluster.api.try_get("/v1/job/always/allocations").await.ok()?;
            let there = array(&allocs).iter().filter(|alloc| text(alloc, "NodeID") == node);
            let there: Vec<&str> = there.map(|alloc| text(alloc, "ClientStatus")).collect();
            (there == ["complete"]).then_some(())
        })
        .await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_drains_its_node_first() {
    // N-10.13.
    let mut cluster = Cluster::start_processes(BINARY, &[], &SERVICES).await;
    let on = |name| (name, "true".to_owned());
    let leave = [on("DROVER_LEAVE_ON_TERMINATE"), on("DROVER_DRAIN_ON_SHUTDOWN")];
    cluster.spawn_with("agent@1", &leave);
    cluster.api.put("/v1/jobs", &gentle("web", 1)).await;
    let first = wait_until_healthy(&cluster, "web", 1).await[0].clone();
    cluster.spawn("agent@2");
    cluster
        .wait_until("both nodes are ready", async |cluster| {
            let nodes = cluster.api.try_get("/v1/nodes").await.ok()?;
            let ready = array(&nodes).iter().filter(|node| text(node, "Status") == "ready");
            (ready.count() == 2).then_some(())
        })
        .await;
    let (status, _) = cluster.terminate("agent@1").await;
    assert!(status.success(), "{status}");
    assert!(cluster.log_text("agent@1").contains("the node is drained"));
    let drained = wait_until_drained(&cluster, &first).await;
    assert_eq!(drained["LastDrain"]["Meta"], json!({ "message": "shutting down" }));
    let second = wait_until_healthy(&cluster, "web", 1).await;
    assert_ne!(second, [first]);
    cluster.assert_alive();
}
