//! `drover cluster status` lists every process with what it does, and a process that was killed as silent; processes log who
//! they are and why they end.

use std::process::{Command, Output};

use serde_json::Value;
use tests::harness::api::{array, text};
use tests::harness::{Cluster, SERVICES};

use crate::BINARY;

/// A second broker, which stands by.
const STANDBY: &str = "eval-broker@2";

fn status(cluster: &Cluster) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["cluster", "status"]).env("NOMAD_ADDR", format!("http://{}", cluster.api.host()));
    command.output().expect("the binary can be started")
}

/// Waits until the list of processes is as wanted. Returns its processes.
async fn wait_for(cluster: &Cluster, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    cluster
        .wait_until(what, async |cluster| {
            let found = cluster.api.try_get("/v1/cluster").await.ok()?;
            is_wanted(&found).then(|| array(&found["Processes"]).to_vec())
        })
        .await
}

/// The states of a service, sorted.
fn states<'a>(processes: &'a [Value], service: &str) -> Vec<&'a str> {
    let services = processes.iter().flat_map(|process| array(&process["Services"]));
    let mut states: Vec<&str> =
        services.filter(|one| text(one, "Name") == service).map(|one| text(one, "State")).collect();
    states.sort_unstable();
    states
}

/// A line of the log of a process that contains all these words.
fn has_line(cluster: &Cluster, name: &str, words: &[&str]) -> bool {
    cluster.log_text(name).lines().any(|line| words.iter().all(|word| line.contains(word)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_processes_tells_who_is_active_and_who_went_silent() {
    let names = [&SERVICES[..], &[STANDBY]].concat();
    let mut cluster = Cluster::start_processes(BINARY, &[], &names).await;
    let is_whole = |found: &Value| {
        // What a process says at its start does not tell everything yet.
        let is_known =
            |process: &Value| process["Index"].is_u64() && text(&process["NATS"], "Status") == "ok";
        let are_known = array(&found["Processes"]).iter().all(is_known);
        array(&found["Processes"]).len() == names.len()
            && array(&found["WithoutActive"]).is_empty()
            && are_known
    };
    let processes = wait_for(&cluster, "all processes are listed", is_whole).await;
    assert_eq!(states(&processes, "eval-broker"), ["active", "standby"]);
    for service in ["plan-applier", "node-tracker", "deployment-watcher"] {
        assert_eq!(states(&processes, service), ["active"], "{service}");
    }
    for service in ["scheduler", "api"] {
        assert_eq!(states(&processes, service), ["running"], "{service}");
    }
    for process in &processes {
        let pid = process["PID"].as_u64().expect("a process has an id").to_string();
        let name = text(process, "Name");
        let is_it = |one: &&&str| one.split('@').next() == Some(name) && cluster.pid(one).to_string() == pid;
        assert_eq!(names.iter().filter(is_it).count(), 1, "{process}");
        assert!(!text(process, "Host").is_empty() && !text(process, "Version").is_empty(), "{process}");
    }
    for name in &names {
        let pid = format!("pid={}", cluster.pid(name));
        assert!(has_line(&cluster, name, &["process started", &pid]), "{name}: {}", cluster.log_text(name));
    }

    let scheduler = cluster.pid("scheduler").to_string();
    cluster.kill9("scheduler");
    // Another process may be silent for a moment, on a machine that is busy.
    let is_silent = |found: &Value| {
        let silent = array(&found["Processes"]).iter().filter(|process| text(process, "Status") == "silent");
        silent.map(|process| process["PID"].to_string()).eq([scheduler.clone()])
    };
    wait_for(&cluster, "only the killed process is listed as silent", is_silent).await;
    let output = status(&cluster);
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(page.contains("nothing heard for"), "{page}");
    let first = page.lines().nth(1).unwrap_or_default();
    assert!(first.split_whitespace().nth(1) == Some("active"), "{page}");

    // A process that is told to end says why, and leaves the list at once.
    let (ended, _) = cluster.terminate(STANDBY).await;
    assert!(ended.success(), "{ended:?}");
    assert!(has_line(&cluster, STANDBY, &["process ended", "SIGTERM"]), "{}", cluster.log_text(STANDBY));
    let is_left = |found: &Value| states(array(&found["Processes"]), "eval-broker") == ["active"];
    wait_for(&cluster, "the ended process is not listed", is_left).await;
}
