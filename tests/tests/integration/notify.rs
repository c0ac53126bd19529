//! A process notifies its service manager when it is ready, what it waits for, that it is alive, and that it shuts
//! down. The manager's socket belongs to the test.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tests::failpoints;
use tests::harness::api::text;
use tests::harness::{AGENT, Cluster, TIMEOUT, free_address};

use crate::BINARY;

/// The time after which the manager would consider a process stuck, in microseconds.
const WATCHDOG_USEC: &str = "2000000";
/// Several times that long. A stuck process sends no ping for this time.
const SILENCE: Duration = Duration::from_secs(6);

/// The manager's end of the socket.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn listen(cluster: &Cluster, name: &str) -> Self {
        let path = cluster.path(name);
        let socket = UnixDatagram::bind(&path).expect("the socket can be created");
        Self { socket, path }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = self.path.display().to_string();
        vec![("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", WATCHDOG_USEC.to_owned())]
    }

    /// Returns the next message, or `None` if none arrives within the timeout.
    fn next(&self, timeout: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(timeout)).expect("the timeout is not zero");
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..length]).into_owned())
    }

    /// Reads messages until one has a line that begins with `line`. Returns all lines up to then.
    fn until(&self, line: &str) -> Vec<String> {
        let (begun, mut lines) = (telemetry::clock::monotonic(), Vec::new());
        while begun.elapsed() < TIMEOUT {
            let message = self.next(TIMEOUT).unwrap_or_default();
            lines.extend(message.lines().map(str::to_owned));
            if lines.iter().any(|one: &String| one.starts_with(line)) {
                return lines;
            }
        }
        panic!("no message with {line:?} arrived, only {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_says_when_it_is_ready_and_what_it_waits_for() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &[]).await;
    let manager = Manager::listen(&cluster, "notify");
    cluster.spawn_with("eval-broker", &manager.environment());
    let waits = manager.until("STATUS=not ready: ");
    assert!(
        !waits.iter().any(|line| line == "READY=1"),
        "not ready while it waits for the schema: {waits:?}"
    );
    let before = manager.until("WATCHDOG=1");
    assert!(!before.iter().any(|line| line == "READY=1"), "not ready, but alive: {before:?}");
    cluster.spawn("plan-applier");
    let ready = manager.until("READY=1");
    if !ready.iter().any(|line| line == "STATUS=ready (active)") {
        manager.until("STATUS=ready (active)");
    }
    manager.until("WATCHDOG=1");
    let (status, _) = cluster.terminate("eval-broker").await;
    assert!(status.success());
    let rest = manager.until("STOPPING=1");
    assert!(!rest.iter().any(|line| line == "READY=1"), "READY=1 is sent once: {rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_started_without_servers() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &[]).await;
    let manager = Manager::listen(&cluster, "notify");
    cluster.spawn_with(AGENT, &manager.environment());
    let lines = manager.until("READY=1");
    let status = lines.iter().find(|line| line.starts_with("STATUS="));
    assert!(status.is_some_and(|status| status.contains("node: not registered")), "{lines:?}");
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_process_stops_pinging_and_is_not_live_any_more() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &["plan-applier"]).await;
    let manager = Manager::listen(&cluster, "notify");
    let health = free_address();
    let mut environment = manager.environment();
    environment.push(("DROVER_HEALTH_ADDR", health.clone()));
    environment.push((failpoints::VARIABLE, "process.beat=delay:600000@4".to_owned()));
    cluster.spawn_with("scheduler", &environment);
    manager.until("WATCHDOG=1");
    while manager.next(SILENCE).is_some() {}

    let report = cluster
        .wait_until("the endpoint reports that the process is stuck", async |_| {
            let response = reqwest::get(format!("http://{health}/live")).await.ok()?;
            let is_stuck = response.status().as_u16() == 503;
            let report: Value = response.json().await.ok()?;
            is_stuck.then_some(report)
        })
        .await;
    assert_eq!(text(&report, "status"), "not live");
    let message = text(&report["checks"][0], "message");
    assert!(message.starts_with("has not run for "), "{message}");
    let output = std::process::Command::new(BINARY).args(["health", "-addr", &health]).output();
    assert_eq!(output.expect("the binary can be started").status.code(), Some(3));
    cluster.kill9("scheduler");
}
