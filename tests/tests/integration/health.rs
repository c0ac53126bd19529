//! Does every service process tell whether it lives and is ready, and why not, and does `drover health` say the same by
//! its exit code?

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;
use tests::harness::api::{array, text};
use tests::harness::{AGENT, Cluster, SERVICES, free_address};

use crate::BINARY;

/// A cluster of which every process has a health address.
struct Healths {
    cluster: Cluster,
    addresses: BTreeMap<&'static str, String>,
}

impl Healths {
    async fn start(names: &[&'static str]) -> Self {
        let cluster = Cluster::start_processes(BINARY, &[], &[]).await;
        let mut healths = Self { cluster, addresses: BTreeMap::new() };
        names.iter().for_each(|name| healths.spawn(name));
        healths
    }

    fn spawn(&mut self, name: &'static str) {
        let address = self.addresses.entry(name).or_insert_with(free_address);
        self.cluster.spawn_with(name, &[("DROVER_HEALTH_ADDR", address.clone())]);
    }

    /// What a process answers to a path, with the status; `None` if it cannot be reached.
    async fn ask(&self, name: &str, path: &str) -> Option<(u16, String)> {
        let response = reqwest::get(format!("http://{}{path}", self.addresses[name])).await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Whether a process is ready, and what it says of that.
    async fn ready(&self, name: &str) -> Option<(bool, Value)> {
        let (status, body) = self.ask(name, "/ready").await?;
        let report: Value = serde_json::from_str(&body).expect("it is JSON");
        assert_eq!(text(&report, "status") == "ready", status == 200, "{status}: {body}");
        Some((status == 200, report))
    }

    async fn until_ready(&self, name: &str) -> Value {
        let look = async |_: &Cluster| match self.ready(name).await {
            Some((true, report)) => Some(report),
            Some((false, _)) | None => None,
        };
        self.cluster.wait_until(&format!("{name} is ready"), look).await
    }

    /// Waits until a process is not ready because of this check, and answers what it says of that.
    async fn until_unready(&self, name: &str, check: &str) -> String {
        let look = async |_: &Cluster| {
            let (_, report) = self.ready(name).await?;
            let is_it = |one: &&Value| text(one, "name") == check && one["ok"] == false;
            array(&report["checks"]).iter().find(is_it).map(|bad| text(bad, "message").to_owned())
        };
        self.cluster.wait_until(&format!("{name} is not ready because of {check}"), look).await
    }
}

fn health(arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("health").args(arguments).env_remove("DROVER_HEALTH_ADDR");
    command.output().expect("the binary is there")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_process_says_whether_it_is_ready_and_which_one_works() {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut healths = Healths::start(&names).await;
    for name in names {
        let report = healths.until_ready(name).await;
        let role = if ["api", "scheduler", AGENT].contains(&name) { "" } else { "active" };
        let look = async |_: &Cluster| (text(&healths.ready(name).await?.1, "role") == role).then_some(());
        healths.cluster.wait_until(&format!("{name} is {role:?}"), look).await;
        assert_eq!(text(&report, "service"), name);
        assert_eq!(healths.ask(name, "/live").await.expect("it answers").0, 200);
        let (status, metrics) = healths.ask(name, "/metrics").await.expect("it answers");
        assert_eq!(status, 200);
        let is_named = |line: &str| ["# ", "drover_", "nomad_"].iter().any(|start| line.starts_with(start));
        let are_named = metrics.lines().all(is_named);
        assert!(are_named, "{name}: {metrics}");
        let output = health(&["-addr", &healths.addresses[name]]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let first_line =
            if role.is_empty() { format!("{name}: ready") } else { format!("{name} (active): ready") };
        assert_eq!(told(&output).lines().next(), Some(&*first_line));
    }

    for standby in ["plan-applier@2", "node-tracker@2"] {
        healths.spawn(standby);
        let report = healths.until_ready(standby).await;
        assert_eq!(text(&report, "role"), "standby", "{report}");
    }
    let metrics = healths.ask("eval-broker", "/metrics").await.expect("it answers").1;
    assert!(!metrics.contains("drover_applier"), "of this process alone: {metrics}");
    healths.cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_and_its_return_is_noticed() {
    let mut healths = Healths::start(&["plan-applier", "node-tracker", "scheduler", AGENT]).await;
    for name in ["plan-applier", "scheduler", AGENT] {
        healths.until_ready(name).await;
    }
    let paused = healths.cluster.postgres.pause();
    let why = healths.until_unready("plan-applier", "database").await;
    assert!(why.starts_with("has not answered for "), "{why}");
    drop(paused);
    healths.until_ready("plan-applier").await;

    healths.cluster.nats.kill9().await.expect("it runs");
    let why = healths.until_unready("scheduler", "nats").await;
    assert!(why.starts_with("the connection was lost "), "{why}");
    let scheduler = healths.addresses["scheduler"].clone();
    let output = health(&["-addr", &scheduler]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(told(&output).contains("the connection was lost"), "{output:?}");
    let output = health(&["-live", "-addr", &scheduler, "-json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!((text(&report, "status"), text(&report, "service")), ("live", "scheduler"));
    healths.until_unready(AGENT, "nats").await;
    healths.cluster.nats.restart().await.expect("it starts again");
    for name in ["plan-applier", "scheduler", AGENT] {
        healths.until_ready(name).await;
    }
    healths.cluster.kill9("node-tracker");
    let why = healths.until_unready(AGENT, "node").await;
    assert!(why.starts_with("no heartbeat was answered for "), "{why}");
    healths.spawn("node-tracker");
    healths.until_ready(AGENT).await;
    healths.cluster.assert_alive();
}

#[test]
fn exit_codes_tell_apart_what_is_wrong() {
    let nobody = free_address();
    let unreachable = health(&["-addr", &nobody]);
    assert_eq!(unreachable.status.code(), Some(3), "{unreachable:?}");
    let error = String::from_utf8_lossy(&unreachable.stderr).into_owned();
    assert!(error.starts_with(&format!("cannot reach the health endpoint at http://{nobody}: ")), "{error}");
    let json = health(&["-json", "-addr", &nobody]);
    assert_eq!(json.status.code(), Some(3));
    let answer: Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(text(&answer, "status"), "unreachable");
    for wrong in [&["-addr", "4650"][..], &["-nonsense"], &["argument"]] {
        let output = health(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
    let help = health(&["-help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(told(&help).contains("3  it is not live, or does not answer"), "{help:?}");
}
