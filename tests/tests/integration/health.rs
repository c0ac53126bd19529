//! Every service process reports whether it is live and ready, and why not. `drover health` reports the same by its
//! exit code.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::Value;
use tests::harness::api::{array, text};
use tests::harness::{AGENT, Cluster, SERVICES, free_address};
use wire::Role;

use crate::BINARY;

/// A cluster in which every process has a health address.
pub(crate) struct HealthCluster {
    pub(crate) cluster: Cluster,
    addresses: BTreeMap<&'static str, String>,
}

impl HealthCluster {
    pub(crate) async fn start(names: &[&'static str]) -> Self {
        let cluster = Cluster::start_processes(BINARY, &[], &[]).await;
        let mut health_cluster = Self { cluster, addresses: BTreeMap::new() };
        names.iter().for_each(|name| health_cluster.spawn(name));
        health_cluster
    }

    pub(crate) fn spawn(&mut self, name: &'static str) {
        self.spawn_with(name, &[]);
    }

    /// The same with further environment variables.
    pub(crate) fn spawn_with(&mut self, name: &'static str, environment: &[(&str, String)]) {
        let address = self.addresses.entry(name).or_insert_with(free_address);
        let address = ("DROVER_HEALTH_ADDR", address.clone());
        self.cluster.spawn_with(name, &[&[address], environment].concat());
    }

    /// Returns the status and the body for a path, or `None` if the process cannot be reached.
    async fn get(&self, name: &str, path: &str) -> Option<(u16, String)> {
        let response = reqwest::get(format!("http://{}{path}", self.addresses[name])).await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Returns whether a process is ready, and its report.
    pub(crate) async fn ready(&self, name: &str) -> Option<(bool, Value)> {
        let (status, body) = self.get(name, "/ready").await?;
        let report: Value = serde_json::from_str(&body).expect("the report is JSON");
        assert_eq!(text(&report, "status") == "ready", status == 200, "{status}: {body}");
        Some((status == 200, report))
    }

    pub(crate) async fn wait_until_ready(&self, name: &str) -> Value {
        let poll = async |_: &Cluster| match self.ready(name).await {
            Some((true, report)) => Some(report),
            Some((false, _)) | None => None,
        };
        self.cluster.wait_until(&format!("{name} is ready"), poll).await
    }

    /// Waits until a process is not ready because of a check. Returns the check's message.
    pub(crate) async fn wait_until_not_ready(&self, name: &str, check: &str) -> String {
        let poll = async |_: &Cluster| {
            let (_, report) = self.ready(name).await?;
            let is_failed_check = |one: &&Value| text(one, "name") == check && one["ok"] == false;
            array(&report["checks"])
                .iter()
                .find(is_failed_check)
                .map(|failed| text(failed, "message").to_owned())
        };
        self.cluster.wait_until(&format!("{name} is not ready because of {check}"), poll).await
    }
}

fn health(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("health").args(arguments).env_remove("DROVER_HEALTH_ADDR");
    command.output().expect("the binary can be started")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_process_says_whether_it_is_ready_and_which_one_works() {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut health_cluster = HealthCluster::start(&names).await;
    for name in names {
        let report = health_cluster.wait_until_ready(name).await;
        let role = if ["api", "scheduler", AGENT].contains(&name) { "" } else { "active" };
        let poll =
            async |_: &Cluster| (text(&health_cluster.ready(name).await?.1, "role") == role).then_some(());
        health_cluster.cluster.wait_until(&format!("{name} is {role:?}"), poll).await;
        assert_eq!(text(&report, "service"), name);
        assert_eq!(health_cluster.get(name, "/live").await.expect("the health endpoint answers").0, 200);
        let (status, metrics) =
            health_cluster.get(name, "/metrics").await.expect("the health endpoint answers");
        assert_eq!(status, 200);
        let is_named = |line: &str| ["# ", "drover_", "nomad_"].iter().any(|start| line.starts_with(start));
        let are_named = metrics.lines().all(is_named);
        assert!(are_named, "{name}: {metrics}");
        let output = health(&["-addr", &health_cluster.addresses[name]]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let first_line =
            if role.is_empty() { format!("{name}: ready") } else { format!("{name} (active): ready") };
        assert_eq!(stdout(&output).lines().next(), Some(&*first_line));
    }

    for standby in ["plan-applier@2", "node-tracker@2"] {
        health_cluster.spawn(standby);
        let report = health_cluster.wait_until_ready(standby).await;
        assert_eq!(text(&report, "role"), "standby", "{report}");
    }
    let metrics = health_cluster.get("eval-broker", "/metrics").await.expect("the health endpoint answers").1;
    assert!(
        !metrics.contains("drover_applier"),
        "the endpoint has only metrics of its own process: {metrics}"
    );
    health_cluster.cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_names_missing_parts_and_notices_their_return() {
    let mut health_cluster =
        HealthCluster::start(&["plan-applier", "node-tracker", "scheduler", AGENT]).await;
    for name in ["plan-applier", "scheduler", AGENT] {
        health_cluster.wait_until_ready(name).await;
    }
    let paused = health_cluster.cluster.postgres.pause();
    let why = health_cluster.wait_until_not_ready("plan-applier", "database").await;
    assert!(why.starts_with("has not answered for "), "{why}");
    drop(paused);
    health_cluster.wait_until_ready("plan-applier").await;

    health_cluster.cluster.nats.kill9().await.expect("nats-server can be killed");
    let why = health_cluster.wait_until_not_ready("scheduler", "nats").await;
    assert!(why.starts_with("the connection was lost "), "{why}");
    let scheduler = health_cluster.addresses["scheduler"].clone();
    let output = health(&["-addr", &scheduler]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("the connection was lost"), "{output:?}");
    let output = health(&["-live", "-addr", &scheduler, "-json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    assert_eq!((text(&report, "status"), text(&report, "service")), ("live", "scheduler"));
    health_cluster.wait_until_not_ready(AGENT, "nats").await;
    health_cluster.cluster.nats.restart().await.expect("nats-server starts again");
    for name in ["plan-applier", "scheduler", AGENT] {
        health_cluster.wait_until_ready(name).await;
    }
    health_cluster.cluster.kill9("node-tracker");
    let why = health_cluster.wait_until_not_ready(AGENT, "node").await;
    assert!(why.starts_with("no heartbeat was answered for "), "{why}");
    health_cluster.spawn("node-tracker");
    health_cluster.wait_until_ready(AGENT).await;
    health_cluster.cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_another_roles_credentials_is_not_ready_and_its_metrics_say_why() {
    let mut health_cluster = HealthCluster::start(&["plan-applier"]).await;
    let credentials = health_cluster.cluster.nats.credentials(Role::Scheduler);
    let credentials = credentials.expect("the credentials can be written").expect("NATS uses credentials");
    let address = free_address();
    health_cluster.addresses.insert("api", address.clone());
    let credentials = credentials.display().to_string();
    let environment = [("DROVER_HEALTH_ADDR", address), ("DROVER_NATS_CREDENTIALS", credentials)];
    health_cluster.cluster.spawn_with("api", &environment);
    let is_refused = async |_: &Cluster| {
        let (is_ready, report) = health_cluster.ready("api").await?;
        let checks = array(&report["checks"]);
        let nats = checks.iter().find(|check| text(check, "name") == "nats")?;
        (!is_ready && text(nats, "message").contains("to subscribe to inbox.api.")).then_some(())
    };
    health_cluster.cluster.wait_until("the api is not ready because NATS refuses it", is_refused).await;

    let is_counted = async |cluster: &Cluster| {
        let request = cluster.api.request(Method::GET, "/v1/metrics?format=prometheus");
        let metrics = request.send().await.ok()?.text().await.ok()?;
        let counter = "drover_bus_permission_violations_total{action=\"subscribe\",service=\"api\"";
        metrics.lines().any(|line| line.starts_with(counter)).then_some(())
    };
    health_cluster.cluster.wait_until("the metrics count the refusals", is_counted).await;
    health_cluster.cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_lost_is_not_called_active() {
    let mut health_cluster = HealthCluster::start(&["plan-applier", "node-tracker"]).await;
    let message = async |health_cluster: &HealthCluster, words: &str| {
        let poll = async |_: &Cluster| {
            let (_, report) = health_cluster.ready("node-tracker").await?;
            let mut checks = array(&report["checks"]).iter();
            let lease = checks.find(|check| text(check, "name") == "node-tracker-lease")?;
            let message = text(lease, "message");
            message.starts_with(words).then(|| (text(&report, "role").to_owned(), message.to_owned()))
        };
        health_cluster.cluster.wait_until(&format!("the lease is {words:?}"), poll).await
    };
    let (role, _) = message(&health_cluster, "active, ").await;
    assert_eq!(role, "active");
    health_cluster.cluster.kill9("plan-applier");
    let (role, lost) = message(&health_cluster, "standing by, lost epoch ").await;
    assert_eq!(role, "standby");
    assert!(lost.ends_with("; no other process is known to be active"), "{lost}");
    health_cluster.spawn("plan-applier");
    message(&health_cluster, "active, ").await;
}

#[test]
fn exit_codes_tell_apart_what_is_wrong() {
    let unused = free_address();
    let unreachable = health(&["-addr", &unused]);
    assert_eq!(unreachable.status.code(), Some(3), "{unreachable:?}");
    let error = String::from_utf8_lossy(&unreachable.stderr).into_owned();
    assert!(error.starts_with(&format!("cannot reach the health endpoint at http://{unused}: ")), "{error}");
    let json = health(&["-json", "-addr", &unused]);
    assert_eq!(json.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&json.stdout).expect("the report is JSON");
    assert_eq!(text(&report, "status"), "unreachable");
    for wrong in [&["-addr", "4650"][..], &["-nonsense"], &["argument"]] {
        let output = health(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
    let help = health(&["-help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("3  the process is not live, or does not answer"), "{help:?}");
}
