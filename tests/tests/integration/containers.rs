//! Tasks in containers of a private engine: they run with the limits of their job, outlive the agent, and their output is
//! complete. Where no engine can run, the tests are skipped (`DROVER_REQUIRE=docker` turns that into a failure).

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::containers::engine::{Engine, Network};
use tests::containers::{images, unavailable};
use tests::harness::api::{array, text};
use tests::harness::{AGENT, Cluster, jobs};
use tests::skips::skip;

use crate::BINARY;

/// Writes numbered lines without an end.
const COUNTING: &str = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.02; done";
/// How many lines are waited for.
const LINES: usize = 30;

/// An engine with an image, or nothing if the test cannot run.
fn engine(test: &str) -> Option<Engine> {
    if let Some(cause) = unavailable() {
        skip(test, "docker", &cause);
        return None;
    }
    let engine = Engine::start(Network::Own);
    images::debian(&engine);
    Some(engine)
}

async fn cluster(engine: &Engine) -> Cluster {
    let endpoint = format!("unix://{}", engine.socket().display());
    // The engine has a network of its own, in which only the loopback address is the same.
    let interface = "lo".to_owned();
    Cluster::start(BINARY, &[("DROVER_DOCKER_ENDPOINT", endpoint), ("DROVER_NETWORK_INTERFACE", interface)])
        .await
}

/// Kills the log collectors of a cluster. Returns how many there were.
fn kill_collectors(dir: &Path) -> usize {
    let dir = dir.display().to_string();
    let entries = fs::read_dir("/proc").expect("processes can be listed").flatten();
    let collectors = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).into_owned();
        (command.contains("executor") && command.contains(&dir)).then_some(Pid::from_raw(pid))
    });
    collectors.filter(|pid| kill(*pid, Signal::SIGKILL).is_ok()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_outlives_its_agent_and_no_line_is_lost_or_doubled() {
    let Some(engine) = engine("a_container_outlives_its_agent_and_no_line_is_lost_or_doubled") else {
        return;
    };
    let mut cluster = cluster(&engine).await;
    cluster.api.put("/v1/jobs", &jobs::container("count", "service", images::DEBIAN, COUNTING)).await;
    let before = cluster.wait_for_alloc("count", "running").await;
    let container = engine.run(&["ps", "--quiet", "--no-trunc"]);
    assert_eq!(engine.inspect(&container, "{{.HostConfig.Memory}}"), (32_u64 << 20).to_string());
    assert_eq!(engine.inspect(&container, "{{.HostConfig.Privileged}}"), "false");
    assert!(engine.inspect(&container, "{{.NetworkSettings.Ports}}").contains("80/tcp"));
    let logs = format!("alloc/{}/alloc/logs/task.stdout.0", text(&before, "ID"));
    let file = cluster.path(AGENT).join(logs);
    let lines =
        || fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    cluster.wait_until("there is some output", async |_| (lines().len() > LINES).then_some(())).await;

    cluster.kill9(AGENT);
    assert_eq!(kill_collectors(&cluster.path(AGENT)), 1);
    let collected = lines().len();
    let written = || engine.run(&["logs", &container]).lines().count();
    cluster.wait_until("more was written", async |_| (written() > collected + LINES).then_some(())).await;
    assert_eq!(lines().len(), collected, "nobody collects");
    cluster.spawn(AGENT);
    let target = collected + 3 * LINES;
    cluster.wait_until("it is collected", async |_| (lines().len() > target).then_some(())).await;
    let found = lines();
    let complete = &found[..found.len() - 1];
    let expected: Vec<String> = (1..=complete.len()).map(|number| format!("line {number}")).collect();
    assert_eq!(complete, expected);

    let after = cluster.wait_for_alloc("count", "running").await;
    assert_eq!(after["TaskStates"]["task"]["StartedAt"], before["TaskStates"]["task"]["StartedAt"]);
    assert_eq!(engine.run(&["ps", "--quiet", "--no-trunc"]), container);
    cluster.api.delete("/v1/job/count").await;
    cluster.wait_for_alloc("count", "complete").await;
    let is_gone = async |_: &Cluster| engine.run(&["ps", "--all", "--quiet"]).is_empty().then_some(());
    cluster.wait_until("the container is removed", is_gone).await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_ends_with_its_exit_code_or_for_lack_of_memory() {
    let Some(engine) = engine("a_container_ends_with_its_exit_code_or_for_lack_of_memory") else { return };
    let cluster = cluster(&engine).await;
    for (job, script, code, oom_killed) in
        [("exit", "echo bye; exit 3", "3", "false"), ("oom", "tail /dev/zero", "137", "true")]
    {
        cluster.api.put("/v1/jobs", &jobs::container(job, "batch", images::DEBIAN, script)).await;
        let alloc = cluster.wait_for_alloc(job, "failed").await;
        let events = array(&alloc["TaskStates"]["task"]["Events"]);
        let ended =
            events.iter().find(|event| text(event, "Type") == "Terminated").expect("the task has ended");
        assert_eq!(text(&ended["Details"], "exit_code"), code, "{ended}");
        let is_killed =
            ended["Details"].get("oom_killed").and_then(|killed| killed.as_str()).unwrap_or("false");
        assert_eq!(is_killed, oom_killed, "{ended}");
    }
}
