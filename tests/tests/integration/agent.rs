//! Tasks outlive their agent, and the next agent recovers them. Two agents at once do not use one data directory.

use std::fs;
use std::process::{Command, Stdio};

use tests::harness::api::text;
use tests::harness::{AGENT, Cluster, identity, jobs, processes};

use crate::BINARY;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_the_tasks_of_the_one_before() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let [pids, ticks] = ["pids", "ticks"].map(|name| cluster.path(name));
    cluster.api.put("/v1/jobs", &jobs::service("long", &jobs::ticking_script(&pids, &ticks))).await;
    let before = cluster.wait_for_alloc("long", "running").await;
    let pid = cluster
        .wait_until("the task has written its process id", async |_| {
            fs::read_to_string(&pids).ok()?.trim().parse().ok()
        })
        .await;

    cluster.kill9(AGENT);
    assert!(processes::runs(pid));
    cluster.spawn(AGENT);
    // Only a running agent answers this request.
    let files = format!("/v1/client/fs/ls/{}", text(&before, "ID"));
    cluster.wait_until("the agent answers", async |cluster| cluster.api.try_get(&files).await.ok()).await;
    let after = cluster.wait_for_alloc("long", "running").await;
    assert_eq!(text(&after, "ID"), text(&before, "ID"));
    assert_eq!(after["TaskStates"]["task"]["Restarts"], 0);
    assert_eq!(after["TaskStates"]["task"]["StartedAt"], before["TaskStates"]["task"]["StartedAt"]);
    assert_eq!(
        fs::read_to_string(&pids).expect("the task has written its process id").trim(),
        pid.to_string()
    );
    assert!(processes::runs(pid));

    cluster.api.delete("/v1/job/long").await;
    cluster.wait_for_alloc("long", "complete").await;
    cluster.wait_until("the task has exited", async |_| (!processes::runs(pid)).then_some(())).await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_on_the_same_data_directory_is_refused() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut second = Command::new(BINARY);
    second.arg("agent").arg("--agent-data-dir").arg(cluster.path(AGENT)).arg("--raw-exec");
    second.env("DROVER_NATS_URL", cluster.nats.url()).envs(identity(&cluster.nats, AGENT));
    second.envs(cluster.nats.ca().map(|ca| ("DROVER_NATS_CA", ca)));
    let second = second.stdin(Stdio::null()).output().expect("the binary can be started");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success(), "{said}");
    let expected = format!("process {} uses {}", cluster.pid(AGENT), cluster.path(AGENT).display());
    assert!(said.contains(&expected), "{said}");
    cluster.assert_alive();

    // A killed agent leaves no lock behind.
    cluster.kill9(AGENT);
    cluster.spawn(AGENT);
    cluster.api.put("/v1/jobs", &jobs::batch("after", "true")).await;
    cluster.wait_for_alloc("after", "complete").await;
}
