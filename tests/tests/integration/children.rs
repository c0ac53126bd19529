//! Children of jobs: dispatches reach their tasks with their payload and in their order, and periodic jobs are launched once
//! for each moment, also when the launcher is killed.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tests::harness::api::{array, text};
use tests::harness::{Cluster, jobs};

use crate::BINARY;

/// How many launches are awaited before and after the launcher is killed.
const LAUNCHES: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn dispatches_reach_their_tasks_one_after_the_other() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut parent = jobs::batch("call", "cat \"$NOMAD_TASK_DIR/in/put\"");
    parent["Job"]["ParameterizedJob"] = json!({ "Payload": "required", "MaxChildrenRunning": 1 });
    parent["Job"]["TaskGroups"][0]["Tasks"][0]["DispatchPayload"] = json!({ "File": "in/put" });
    cluster.api.put("/v1/jobs", &parent).await;
    let mut children = Vec::new();
    // "one", "two" and "six".
    for payload in ["b25l", "dHdv", "c2l4"] {
        let made = cluster.api.put("/v1/job/call/dispatch", &json!({ "Payload": payload })).await;
        children.push(text(&made, "DispatchedJobID").to_owned());
    }
    for (child, payload) in children.iter().zip(["one", "two", "six"]) {
        let alloc = cluster.wait_for_alloc(child, "complete").await;
        let path = format!("/v1/client/fs/logs/{}?task=task&type=stdout&plain=true", text(&alloc, "ID"));
        let expected = (200, payload.to_owned());
        let is_written = async |cluster: &Cluster| {
            (cluster.api.send(Method::GET, &path, "").await == expected).then_some(())
        };
        cluster.wait_until(&format!("{child} has written its payload"), is_written).await;
    }
    let all_are_dead = async |cluster: &Cluster| {
        let summary = cluster.api.try_get("/v1/job/call/summary").await.ok()?;
        (summary["Children"] == json!({ "Pending": 0, "Running": 0, "Dead": 3 })).then_some(())
    };
    cluster.wait_until("all children are dead", all_are_dead).await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launcher_that_is_killed_launches_no_moment_twice() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut parent = jobs::batch("cron", "exit 0");
    parent["Job"]["Periodic"] = json!({ "Specs": ["* * * * * * *"], "SpecType": "cron", "Enabled": true });
    cluster.api.put("/v1/jobs", &parent).await;
    let before = wait_for_children(&cluster, LAUNCHES).await;

    cluster.kill9("deployment-watcher");
    cluster.spawn("deployment-watcher");
    let after = wait_for_children(&cluster, before.len() + LAUNCHES).await;
    assert!(after.is_superset(&before));

    cluster.api.delete("/v1/job/cron").await;
    let children = wait_for_children(&cluster, 0).await;
    for child in children {
        let evals = cluster.api.get(&format!("/v1/job/{child}/evaluations")).await;
        // A job that finds no room at first has an evaluation more, which is not a launch.
        let launches = array(&evals).iter().filter(|eval| text(eval, "TriggeredBy") == "periodic-job");
        assert_eq!(launches.count(), 1, "{child}: {evals}");
    }
    cluster.assert_alive();
}

/// Waits until the job has launched at least `count` children, and returns their ids.
async fn wait_for_children(cluster: &Cluster, count: usize) -> BTreeSet<String> {
    let launched = async |cluster: &Cluster| {
        let listed = cluster.api.try_get("/v1/jobs?prefix=cron/periodic-").await.ok()?;
        let id = |job: &Value| text(job, "ID").to_owned();
        let ids: BTreeSet<String> = listed.as_array()?.iter().map(id).collect();
        (ids.len() >= count).then_some(ids)
    };
    cluster.wait_until(&format!("{count} jobs are launched"), launched).await
}
