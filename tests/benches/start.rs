//! The start of tasks on one node: how long after the registration of a job its process runs, with each driver that the
//! node has; a job of many tasks at once; and what an agent costs whose tasks only run.
//!
//! All services and the agent are processes of their own, PostgreSQL and NATS are private and on the same machine, and
//! commits are flushed to the disk. The time of a start is that of a file that the task creates first, as the kernel
//! records it, so its resolution is a few milliseconds. A driver that the node does not have is left out by its name.
//! `ROUNDS`, `BURST`, `REST` and `REST_SECS` change the sizes; `IMAGE` is the image of Docker's tasks, which must be there.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant, SystemTime};

use private_servers::{NatsOptions, PostgresOptions};
use serde_json::{Value, json};
use tests::bench::costs::{processor_time, processor_time_of_tree};
use tests::bench::table::{Line, percentile, progress, remark, section};
use tests::bench::{TIMEOUT, run, size};
use tests::harness::api::{array, text};
use tests::harness::{AGENT, Cluster, SERVICES};

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// The file that a task creates first, in the directory that the tasks of its allocation share.
const STARTED: &str = "data/started";
/// How often that file is looked for. The time of the file counts.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The default image of Docker's tasks.
const IMAGE: &str = "busybox:1.36";

/// A driver, with what must hold for the median of its starts, in milliseconds.
struct Driver {
    name: &'static str,
    limit: f64,
}

const DRIVERS: [Driver; 3] = [
    Driver { name: "raw_exec", limit: 50.0 },
    Driver { name: "exec", limit: 100.0 },
    Driver { name: "docker", limit: 400.0 },
];

fn main() {
    run(measure());
}

async fn measure() {
    let rounds = size("ROUNDS", 100);
    let mut cluster = Cluster::without_processes(
        BINARY,
        &environment(),
        PostgresOptions::default(),
        NatsOptions::default(),
    )
    .await;
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    cluster.start_all(&names).await;
    section("start of a task, from the registration of its job until its process runs, one node");
    for driver in &DRIVERS {
        if let Err(reason) = one_by_one(&cluster, driver, rounds).await {
            remark(&format!("{}: left out: {reason}", driver.name));
        }
    }
    many_at_once(&cluster, size("BURST", 200)).await;
    at_rest(&cluster, size("REST", 100), Duration::from_secs(size("REST_SECS", 30))).await;
}

/// A node that has room for everything, and keeps what has ended.
fn environment() -> [(&'static str, String); 5] {
    [
        ("DROVER_CPU_TOTAL_COMPUTE", "1000000"),
        ("DROVER_MEMORY_TOTAL_MB", "1000000"),
        ("DROVER_DISK_FREE_MB", "1000000"),
        ("DROVER_GC_MAX_ALLOCS", "100000"),
        ("DROVER_GC_DISK_PERCENT_MAX", "100"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

/// Starts one task after the other on an idle cluster.
async fn one_by_one(cluster: &Cluster, driver: &Driver, rounds: u64) -> Result<(), String> {
    let name = driver.name;
    if !is_healthy(cluster, name).await {
        return Err("the node does not have this driver".to_owned());
    }
    // One-time initialization happens during this start.
    start(cluster, &format!("{name}-warm-up"), name, 1, "").await?;
    let mut times = Vec::new();
    for round in 0..rounds {
        progress(name, round, rounds);
        times.extend(start(cluster, &format!("{name}-{round}"), name, 1, "").await?);
    }
    progress(name, rounds, rounds);
    let p50 = Line::millis(format!("{name}: process runs, p50 (ms)"), &percentile(times.clone(), 50));
    p50.at_most(driver.limit, None).print();
    Line::millis("  p99", &percentile(times, 99)).print();
    Ok(())
}

/// Starts many tasks of one job at once.
async fn many_at_once(cluster: &Cluster, count: u64) {
    let id = "burst";
    match start(cluster, id, "raw_exec", count, "exec sleep 3600").await {
        Ok(times) => {
            let [p50, p99, last] = [50, 99, 100].map(|percent| percentile(times.clone(), percent));
            Line::millis(format!("raw_exec, {count} tasks at once: p50 (ms)"), &p50).print();
            Line::millis("  p99", &p99).print();
            Line::millis("  all of them", &last).print();
        }
        Err(reason) => remark(&format!("{count} tasks at once: {reason}")),
    }
    cluster.api.delete(&format!("/v1/job/{id}")).await;
    until_all_are(cluster, id, "complete").await;
}

/// The cost of an agent whose tasks only run.
async fn at_rest(cluster: &Cluster, count: u64, time: Duration) {
    let id = "rest";
    if let Err(reason) = start(cluster, id, "raw_exec", count, "exec sleep 3600").await {
        return remark(&format!("an agent with {count} allocations: {reason}"));
    }
    until_all_are(cluster, id, "running").await;
    let agent = u32::try_from(cluster.pid(AGENT).as_raw()).expect("the agent runs");
    let began = Instant::now();
    let before = (processor_time(agent), processor_time_of_tree(agent));
    tokio::time::sleep(time).await;
    let after = (processor_time(agent), processor_time_of_tree(agent));
    let elapsed = began.elapsed().as_secs_f64();
    let percent = |after: Duration, before: Duration| 100.0 * (after - before).as_secs_f64() / elapsed;
    let own = vec![percent(after.0, before.0)];
    Line::of(format!("agent at rest with {count} allocations (% of a core)"), own).at_most(1.0, None).print();
    Line::of("  with executors and tasks", vec![percent(after.1, before.1)]).print();
    cluster.api.delete(&format!("/v1/job/{id}")).await;
}

/// Whether the node has a driver that works.
async fn is_healthy(cluster: &Cluster, driver: &str) -> bool {
    let nodes = cluster.api.get("/v1/nodes").await;
    let Some(node) = array(&nodes).first() else { return false };
    let node = cluster.api.get(&format!("/v1/node/{}", text(node, "ID"))).await;
    node["Drivers"][driver]["Healthy"] == json!(true)
}

/// Registers a job, waits until all of its tasks have begun, and returns how long after the registration each did. `then` is
/// what a task does next.
async fn start(
    cluster: &Cluster,
    id: &str,
    driver: &str,
    count: u64,
    then: &str,
) -> Result<Vec<Duration>, String> {
    let job = job(id, driver, count, then);
    let (registered, began) = (SystemTime::now(), Instant::now());
    cluster.api.put("/v1/jobs", &job).await;
    while began.elapsed() < TIMEOUT {
        let allocs = cluster.allocs(id).await;
        if let Some(failed) = allocs.iter().find(|alloc| text(alloc, "ClientStatus") == "failed") {
            return Err(last_event(failed));
        }
        let times: Vec<Duration> = allocs
            .iter()
            .filter_map(|alloc| started(cluster, text(alloc, "ID")))
            .map(|at| at.duration_since(registered).unwrap_or_default())
            .collect();
        if times.len() as u64 == count {
            return Ok(times);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(format!("not all tasks began within {} seconds", TIMEOUT.as_secs()))
}

/// When the task of an allocation began.
fn started(cluster: &Cluster, alloc: &str) -> Option<SystemTime> {
    let file = cluster.path(AGENT).join("alloc").join(alloc).join("alloc").join(STARTED);
    std::fs::metadata(file).ok()?.modified().ok()
}

/// The last event of the task of an allocation.
fn last_event(alloc: &Value) -> String {
    let events = alloc["TaskStates"]["task"]["Events"].as_array();
    let last = events.and_then(|events| events.last());
    last.map_or_else(|| "a task failed".to_owned(), |event| text(event, "DisplayMessage").to_owned())
}

/// Waits until all allocations of a job have a client status.
async fn until_all_are(cluster: &Cluster, job: &str, status: &str) {
    cluster
        .wait_until(&format!("all of {job} is {status}"), async |cluster| {
            let allocs = cluster.allocs(job).await;
            allocs.iter().all(|alloc| text(alloc, "ClientStatus") == status).then_some(())
        })
        .await;
}

fn job(id: &str, driver: &str, count: u64, then: &str) -> Value {
    let script = format!(": > $NOMAD_ALLOC_DIR/{STARTED}; {then}");
    let mut config = json!({ "command": "/bin/sh", "args": ["-c", script] });
    if driver == "docker" {
        config["image"] = json!(std::env::var("IMAGE").unwrap_or_else(|_| IMAGE.to_owned()));
    }
    json!({ "Job": {
        "ID": id,
        "Type": "batch",
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group",
            "Count": count,
            "EphemeralDisk": { "SizeMB": 10 },
            "RestartPolicy": { "Attempts": 0, "Mode": "fail" },
            "ReschedulePolicy": { "Attempts": 0, "Unlimited": false },
            "Tasks": [{
                "Name": "task",
                "Driver": driver,
                "Config": config,
                "Resources": { "CPU": 1, "MemoryMB": 10 },
                "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 1 },
                "KillTimeout": 1_000_000_000,
            }],
        }],
    } })
}
