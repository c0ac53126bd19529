//! Tests of resource usage of nodes and tasks, with a fake agent.

use bus::Bus;
use serde_json::json;
use wire::Subject;
use wire::checks::{AllocChecks, CheckState, GetAllocChecks};
use wire::stats::*;

use super::files::{ALLOC, NODE, cluster};
use super::harness::{Harness, Response};
use crate::Colocated;

const USAGE: Usage =
    Usage { rss_bytes: 1_000, swap_bytes: 10, user_percent: 1.5, system_percent: 0.5, used_mhz: 40.0 };
const COUNTED: Counted = Counted {
    cache_bytes: None,
    usage_bytes: Some(1_500),
    usage_max_bytes: Some(2_500),
    kernel_bytes: None,
    throttled_periods: Some(3),
    throttled_ns: None,
};

/// A fake agent with one processor, one disk, and a task `t` with one process.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentStats(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    let at = model::Timestamp::from_secs(1_767_225_600);
    let disk = DiskStats {
        device: "/dev/vda1".into(),
        mountpoint: "/".into(),
        size_bytes: 9,
        ..DiskStats::default()
    };
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            if request.is::<GetHostStats>() {
                let cpu = CpuStats {
                    name: "cpu0".into(),
                    busy_percent: 2.0,
                    used_mhz: 40.0,
                    ..CpuStats::default()
                };
                let stats = HostStats { at, uptime_secs: 60, cpus: vec![cpu], ..HostStats::default() };
                request.answer(&HostStats { disks: vec![disk.clone()], ..stats }).await;
            } else if request.is::<GetAgentStats>() {
                request.answer(&AgentStats { allocs: 1, heard_ago_ms: Some(1_500), ttl_ms: 10_000 }).await;
            } else if request.is::<GetHostFacts>() {
                let facts =
                    HostFacts { os: "os".into(), hosts: "127.0.0.1 x".into(), ..HostFacts::default() };
                request.answer(&HostFacts { disks: vec![disk.clone()], ..facts }).await;
            } else if request.is::<GetAllocChecks>() {
                // Each response has one of the checks.
                let asked: GetAllocChecks = request.body().unwrap();
                let all = [check("0a", "healthiness", 503), check("0b", "readiness", 0)];
                let mut left = all.into_iter().filter(|check| check.id > asked.after);
                let checks = left.next().into_iter().collect();
                request.answer(&AllocChecks { checks, more: left.next().is_some() }).await;
            } else {
                let asked: GetAllocStats = request.body().unwrap();
                let task = TaskStats {
                    task: "t".into(),
                    at,
                    sum: USAGE,
                    counted: COUNTED,
                    processes: vec![(7, USAGE)],
                    devices: Vec::new(),
                };
                let is_meant = asked.task.is_none_or(|task| &*task == "t");
                request.answer(&AllocStats { tasks: is_meant.then_some(task).into_iter().collect() }).await;
            }
        }
    });
}

fn check(id: &str, mode: &str, status_code: u16) -> CheckState {
    CheckState {
        id: id.into(),
        mode: mode.into(),
        status: "failure".into(),
        status_code,
        output: "down".into(),
        at: model::Timestamp::from_secs(1_767_225_600),
        group: "a.g[0]".into(),
        task: "".into(),
        service: "web".into(),
        check: "alive".into(),
    }
}

async fn harness() -> Harness {
    let harness = Harness::colocated(cluster(), Colocated { node: Some(NODE), ..Colocated::default() }).await;
    serve(harness.bus.clone()).await;
    harness
}

#[actix_web::test]
async fn a_machine_is_asked_how_it_fares() {
    let harness = harness().await;
    for path in ["/v1/client/stats".to_owned(), format!("/v1/client/stats?node_id={NODE}")] {
        let stats = harness.get(&path).await.json();
        assert_eq!((&stats["CPU"][0]["CPU"], &stats["CPUTicksConsumed"]), (&json!("cpu0"), &json!(40.0)));
        assert_eq!((&stats["DiskStats"][0]["Size"], &stats["Uptime"]), (&json!(9), &json!(60)));
        assert_eq!(stats["Timestamp"], json!(1_767_225_600_000_000_000_i64));
    }
    assert_eq!(Response::new(harness.builder("PUT", "/v1/client/stats")).await.status, 200);
    let client = &harness.get("/v1/agent/self").await.json()["stats"]["client"];
    assert_eq!((&client["node_id"], &client["last_heartbeat"]), (&json!(NODE.to_string()), &json!("1.5s")));
    let host = harness.get("/v1/agent/host").await.json();
    assert_eq!((&host["OS"], &host["Disk"]["/"]["Size"]), (&json!("os"), &json!(9)));
}

#[actix_web::test]
async fn unreachable_agents_are_named() {
    let harness = Harness::with(cluster()).await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (path, status, text) in [
        ("/v1/client/stats".to_owned(), 400, "No local Node and node_id not provided"),
        (format!("/v1/client/stats?node_id={unknown}"), 404, &*format!("Unknown node {unknown}")),
        (
            "/v1/client/stats?node_id=abc".to_owned(),
            500,
            "node lookup failed: index error: UUID must be 36 characters",
        ),
        (format!("/v1/client/stats?node_id={NODE}"), 404, &*format!("No path to node \"{NODE}\"")),
        (
            format!("/v1/client/allocation/{unknown}/stats"),
            404,
            &*format!("Unknown allocation \"{unknown}\""),
        ),
        ("/v1/agent/host?server_id=none".to_owned(), 500, "unknown Nomad server none"),
        (
            "/v1/agent/host?server_id=none&node_id=none".to_owned(),
            400,
            "Can only forward to either client node or server",
        ),
    ] {
        assert_eq!(harness.get(&path).await.error(), (status, text), "{path}");
    }
}

#[actix_web::test]
async fn tasks_are_added_up_or_looked_at_alone() {
    let harness = harness().await;
    let path = format!("/v1/client/allocation/{ALLOC}/stats");
    let all = harness.get(&path).await.json();
    assert_eq!(all["ResourceUsage"]["MemoryStats"]["RSS"], json!(1_000));
    assert_eq!(all["ResourceUsage"]["MemoryStats"]["Usage"], json!(1_500));
    assert_eq!(all["ResourceUsage"]["CpuStats"]["Percent"], json!(2.0));
    assert_eq!(all["ResourceUsage"]["CpuStats"]["ThrottledPeriods"], json!(3));
    assert_eq!(all["Tasks"]["t"]["Pids"]["7"]["CpuStats"]["TotalTicks"], json!(40.0));
    let one = harness.get(&format!("{path}?task=t")).await.json();
    // http-api §18: the usage of a single task is the sum; an unknown task has a sum of zeros.
    assert_eq!(one["ResourceUsage"], one["Tasks"]["t"]["ResourceUsage"]);
    let memory = &one["Tasks"]["t"]["ResourceUsage"]["MemoryStats"];
    assert_eq!((&memory["Swap"], &memory["MaxUsage"]), (&json!(10), &json!(2_500)));
    let unknown = harness.get(&format!("{path}?task=x")).await.json();
    assert_eq!((&unknown["Tasks"], &unknown["Timestamp"]), (&json!({}), &json!(0)));
    let sum = &unknown["ResourceUsage"];
    assert_eq!((&sum["MemoryStats"]["Measured"], &sum["CpuStats"]["Measured"]), (&json!(null), &json!(null)));
    assert_eq!((&sum["MemoryStats"]["RSS"], &sum["DeviceStats"]), (&json!(0), &json!([])));
}

// http-api §18.
#[actix_web::test]
async fn all_checks_of_an_allocation_are_read() {
    let harness = harness().await;
    let path = format!("/v1/client/allocation/{ALLOC}/checks");
    let checks = harness.get(&path).await.json();
    assert_eq!(checks.as_object().unwrap().keys().collect::<Vec<_>>(), ["0a", "0b"]);
    assert_eq!(
        checks["0a"],
        json!({
            "ID": "0a", "Mode": "healthiness", "Status": "failure", "StatusCode": 503, "Output": "down",
            "Timestamp": 1_767_225_600, "Group": "a.g[0]", "Task": "", "Service": "web", "Check": "alive",
        })
    );
    let unknown = "00000000-0000-4000-8000-000000000000";
    let refused = harness.get(&format!("/v1/client/allocation/{unknown}/checks")).await;
    assert_eq!(refused.error(), (404, &*format!("Unknown allocation \"{unknown}\"")));
}
