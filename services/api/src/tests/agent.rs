//! Tests of the routes about the process and its servers.

use std::sync::OnceLock;
use std::time::Duration;

use actix_web::rt;
use model::job::JobType;
use model::{Index, ProcessId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Role;
use wire::metrics::{PartHealth, ProcessInfo};

use super::files::{NODE, cluster};
use super::harness::{Harness, Response};
use crate::Colocated;

#[actix_web::test]
async fn workers_are_counted_and_servers_need_not_join() {
    let colocated =
        Colocated { workers: 3, schedulers: vec![JobType::Service, JobType::Batch], ..Colocated::default() };
    let harness = Harness::colocated(Vec::new(), colocated).await;
    let config = harness.get("/v1/agent/schedulers/config").await.json();
    assert_eq!(
        config,
        json!({"server_id": "drover.global", "num_schedulers": 3, "enabled_schedulers": ["service", "batch", "_core"]})
    );
    assert_eq!(harness.get("/v1/agent/schedulers").await.json()["schedulers"], json!([]));
    let body = r#"{"num_schedulers": 0, "enabled_schedulers": []}"#;
    assert_eq!(harness.put("/v1/agent/schedulers/config", body).await.error(), (400, "Invalid request"));
    assert_eq!(harness.put("/v1/agent/schedulers/config", "{").await.error().0, 400);
    // http-api §27: an unknown type, a negative number; the present configuration is accepted.
    for body in [
        r#"{"num_schedulers": 3, "enabled_schedulers": ["nope"]}"#,
        r#"{"num_schedulers": -1, "enabled_schedulers": ["batch"]}"#,
        r#"{"num_schedulers": 3, "enabled_schedulers": null}"#,
    ] {
        let got = harness.put("/v1/agent/schedulers/config", body).await;
        assert_eq!(got.error(), (400, "Invalid request"), "{body}");
    }
    let body = r#"{"num_schedulers": 3, "enabled_schedulers": ["_core", "batch", "service"]}"#;
    assert_eq!(harness.put("/v1/agent/schedulers/config", body).await.json(), config);
    let body = r#"{"num_schedulers": 4, "enabled_schedulers": ["_core", "batch", "service"]}"#;
    assert_eq!(harness.put("/v1/agent/schedulers/config", body).await.error().0, 400);
    assert_eq!(harness.put("/v1/agent/join", "").await.error(), (400, "missing address to join"));
    assert_eq!(harness.put("/v1/agent/join?address=", "").await.json()["num_joined"], 0);
    let joined = harness.put("/v1/agent/join?address=10.0.0.1:4648", "").await.json();
    assert!(joined["num_joined"] == 0 && joined["error"].as_str().unwrap().contains("NATS"), "{joined}");
    assert_eq!(harness.put("/v1/agent/force-leave", "").await.error(), (400, "missing node to force leave"));
    assert_eq!(
        harness.put("/v1/agent/force-leave?node=x&prune=y", "").await.error(),
        (400, "invalid prune value")
    );
    let left = harness.put("/v1/agent/force-leave?node=x&prune=true", "").await;
    assert_eq!((left.status.as_u16(), left.text.as_str(), left.header("content-type")), (200, "", ""));
    assert_eq!(harness.get("/v1/agent/keyring/nonsense").await.error(), (404, "resource not found"));
    assert_eq!(harness.get("/v1/agent/keyring/list").await.error(), (500, "1/1 nodes reported failure"));
    assert_eq!(harness.put("/v1/agent/keyring/use", "").await.error(), (400, "Request body is empty"));
    for (method, path) in
        [("GET", "/v1/agent/join"), ("GET", "/v1/agent/force-leave"), ("PUT", "/v1/agent/schedulers")]
    {
        assert_eq!(
            Response::new(harness.builder(method, path)).await.error(),
            (405, "Invalid method"),
            "{path}"
        );
    }
}

/// http-api §27.
#[actix_web::test]
async fn what_is_wrong_with_an_export_of_logs_is_said() {
    let harness = Harness::without_applier(Vec::new()).await;
    for (query, status, text) in [
        ("", 400, "Either -service-name or -on-disk must be set"),
        ("service_name=ssh", 422, "service name must include 'nomad"),
        ("on_disk=true&server_id=b", 400, "unknown Nomad server b"),
        ("on_disk=true", 501, "GET /v1/agent/monitor/export is not built yet"),
    ] {
        let got = harness.get(&format!("/v1/agent/monitor/export?{query}")).await;
        assert_eq!(got.error(), (status, text), "{query}");
    }
}

/// http-api §27.
#[actix_web::test]
async fn an_agent_describes_itself() {
    let colocated = Colocated { dev: true, data_dir: "/d".to_owned(), ..Colocated::default() };
    let harness = Harness::colocated(Vec::new(), colocated).await;
    let this = harness.get("/v1/agent/self").await.json();
    let config = &this["config"];
    assert_eq!((&config["DevMode"], &config["EnableDebug"]), (&json!(true), &json!(true)));
    assert_eq!((&config["DataDir"], &config["UI"]["Enabled"]), (&json!("/d"), &json!(true)));
    assert_eq!(config["Ports"]["RPC"], 4647);
    assert_eq!(this["stats"]["raft"]["state"], "Leader");
    assert_eq!(this["stats"]["nomad"]["leader_addr"], "127.0.0.1:4647");
}

#[actix_web::test]
async fn processes_are_listed_as_they_describe_themselves() {
    let harness = Harness::with(Vec::new()).await;
    let describe = || ProcessInfo {
        host: "host1".into(),
        pid: 7,
        services: vec!["api".into()],
        index: Some(Index(5)),
        head: Some(Index(8)),
        nats: PartHealth { is_known: true, problem: None },
        database: PartHealth { is_known: true, problem: Some("refused".into()) },
        ..ProcessInfo::default()
    };
    let (process, stop) = (ProcessId::from_bytes([9; 16]), CancellationToken::new());
    let _end = stop.clone().drop_guard();
    rt::spawn(bus::metrics::publish(harness.bus.clone(), Role::Api, process, describe, stop));
    let listed = async {
        loop {
            let cluster = harness.get("/v1/cluster").await.json();
            if cluster["Processes"].as_array().is_some_and(|processes| !processes.is_empty()) {
                return cluster;
            }
        }
    };
    let cluster = tokio::time::timeout(Duration::from_secs(30), listed).await.unwrap();
    let one = &cluster["Processes"][0];
    assert_eq!((&one["ID"], &one["Name"]), (&json!(process.to_string()), &json!("api")));
    assert_eq!((&one["Host"], &one["PID"], &one["Status"]), (&json!("host1"), &json!(7), &json!("alive")));
    assert_eq!((&one["Index"], &one["Behind"]), (&json!(5), &json!(3)));
    assert_eq!(one["Services"], json!([{ "Name": "api", "State": "running", "Epoch": null }]));
    assert_eq!(one["NATS"], json!({ "Status": "ok", "Message": "" }));
    assert_eq!(one["Database"], json!({ "Status": "failing", "Message": "refused" }));
    let singletons = ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher"];
    assert_eq!(cluster["WithoutActive"], json!(singletons));
    assert_eq!(cluster["Nodes"], json!({ "Ready": 0, "Down": 0, "Disconnected": 0, "Total": 0 }));
}

#[actix_web::test]
async fn whose_logs_cannot_be_told_is_said() {
    let harness = Harness::with(cluster()).await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (query, status, text) in [
        ("log_level=nonsense".to_owned(), 400, "Unknown log level: nonsense"),
        ("node_id=a&server_id=b".to_owned(), 400, "Cannot target node and server simultaneously"),
        ("server_id=b".to_owned(), 400, "unknown Nomad server b"),
        (
            "plain=x".to_owned(),
            400,
            "Unknown option for plain: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        (
            "node_id=x".to_owned(),
            500,
            "RPC Error:: 500,node lookup failed: index error: UUID must be 36 characters",
        ),
        (format!("node_id={unknown}"), 500, &*format!("RPC Error:: 404,Unknown node \"{unknown}\"")),
        (
            format!("node_id={NODE}"),
            501,
            "reading the logs of another node is not built yet; request the logs of a server from its own API",
        ),
    ] {
        assert_eq!(
            harness.get(&format!("/v1/agent/monitor?{query}")).await.error(),
            (status, text),
            "{query}"
        );
    }
}

/// Installs the global log subscriber, once for all tests of the process.
fn set_up_logs() {
    static LOGS: OnceLock<telemetry::Guard> = OnceLock::new();
    LOGS.get_or_init(|| {
        let args = telemetry::Args { level: "off".to_owned(), format: telemetry::Format::Human };
        let identity = telemetry::Identity {
            service: "test",
            version: "0",
            instance: String::new(),
            host: String::new(),
        };
        telemetry::init(&args, &identity).unwrap()
    });
}

/// Reads from a stream until it contains `what`.
async fn until(response: &mut reqwest::Response, what: &str) -> String {
    let mut text = String::new();
    while !text.contains(what) {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    text
}

#[actix_web::test]
async fn logs_are_told_as_they_come() {
    set_up_logs();
    let harness = Harness::with(Vec::new()).await;
    let follow = async |query: &str| {
        harness.builder("GET", &format!("/v1/agent/monitor?{query}")).send().await.unwrap()
    };
    let mut plain = follow("plain=true&log_level=debug&server_id=drover").await;
    tracing::debug!(target: "api", who = "somebody", "it happened");
    let text = until(&mut plain, "somebody").await;
    assert!(text.contains("[DEBUG] api: it happened: who=somebody\n"), "{text}");

    let mut json = follow("plain=true&log_json=true").await;
    tracing::debug!(target: "api", "too fine");
    tracing::info!(target: "api", "it happened again");
    let text = until(&mut json, "again").await;
    assert!(!text.contains("too fine"));
    let line = text.lines().find(|line| line.contains("again")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["@level"], "info");

    let mut framed = follow("").await;
    tracing::warn!(target: "api", "framed");
    let text = until(&mut framed, "\"Data\"").await;
    let mut frames = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    assert!(frames.any(|frame| frame.unwrap()["Data"].is_string()));
}
