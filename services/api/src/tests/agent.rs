//! Tests of the routes about the process and its servers.

use std::sync::OnceLock;

use model::job::JobType;
use serde_json::{Value, json};

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
    // http-api §27
    for body in [
        r#"{"num_schedulers": -1, "enabled_schedulers": ["service"]}"#,
        r#"{"num_schedulers": 1, "enabled_schedulers": ["nonsense"]}"#,
        r#"{"num_schedulers": 1, "enabled_schedulers": null}"#,
    ] {
        assert_eq!(harness.put("/v1/agent/schedulers/config", body).await.error(), (400, "Invalid request"));
    }
    let same = r#"{"num_schedulers": 3, "enabled_schedulers": ["batch", "service"]}"#;
    assert_eq!(harness.put("/v1/agent/schedulers/config", same).await.json(), config);
    let other = r#"{"num_schedulers": 4, "enabled_schedulers": ["batch", "service"]}"#;
    assert_eq!(harness.put("/v1/agent/schedulers/config", other).await.error().0, 400);
    assert_eq!(harness.put("/v1/agent/join", "").await.error(), (400, "missing address to join"));
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
