//! Tests of the metadata of nodes, with a fake agent, and of the summaries that are computed again.

use std::collections::BTreeMap;

use bus::Bus;
use model::Text;
use serde_json::json;
use wire::Subject;
use wire::command::{Command, ReconcileSummaries};
use wire::meta::{ChangeNodeMeta, GetNodeMeta, NodeMeta};

use super::files::{NODE, cluster};
use super::harness::{Harness, Response};
use crate::Colocated;

const META: &str = "/v1/client/metadata";

/// A fake agent, whose metadata are what the last change says.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentStats(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        let statics: BTreeMap<Text, Text> = BTreeMap::from([("rack".into(), "r7".into())]);
        let mut shown = NodeMeta { meta: statics.clone(), dynamic: None, statics };
        while let Some(request) = requests.next().await {
            if !request.is::<GetNodeMeta>() {
                let asked: ChangeNodeMeta = request.body().unwrap();
                shown.dynamic = Some(asked.changes);
            }
            request.answer(&shown).await;
        }
    });
}

async fn harness() -> Harness {
    let harness = Harness::colocated(cluster(), Colocated { node: Some(NODE), ..Colocated::default() }).await;
    serve(harness.bus.clone()).await;
    harness
}

async fn post(harness: &Harness, body: &str) -> Response {
    Response::new(harness.builder("POST", META).body(body.to_owned())).await
}

#[actix_web::test]
async fn an_agent_is_asked_about_its_metadata() {
    // http-api §18.
    let harness = harness().await;
    let expected = json!({ "Meta": { "rack": "r7" }, "Dynamic": null, "Static": { "rack": "r7" } });
    assert_eq!(harness.get(META).await.json(), expected);
    let body = json!({ "NodeID": NODE.to_string(), "Meta": { "dyn.key": "v1", "gone": null, "empty": "" } });
    let got = post(&harness, &body.to_string()).await.json();
    assert_eq!(got["Dynamic"], json!({ "dyn.key": "v1", "gone": null, "empty": "" }));
    let got = harness.get(&format!("{META}?node_id={NODE}")).await.json();
    assert_eq!(got["Dynamic"]["dyn.key"], "v1");
}

#[actix_web::test]
async fn changes_of_metadata_have_a_form() {
    // http-api §18.
    let harness = harness().await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    let lookup = "node lookup failed: index error: UUID must be 36 characters";
    let invalid = "\"a b\" is invalid; metadata keys must be valid dotted hcl identifiers";
    for (body, status, text) in [
        (String::new(), 400, "Request body is empty".to_owned()),
        ("null".to_owned(), 400, "missing required Meta object".to_owned()),
        (r#"{"Meta": {}}"#.to_owned(), 400, "missing required Meta object".to_owned()),
        (r#"{"Meta": {"": "x"}}"#.to_owned(), 400, "metadata keys must not be empty".to_owned()),
        (r#"{"Meta": {"a b": "x"}}"#.to_owned(), 400, invalid.to_owned()),
        (r#"{"NodeID": "x"}"#.to_owned(), 500, lookup.to_owned()),
        (format!(r#"{{"NodeID": "{unknown}"}}"#), 500, format!("Unknown node {unknown}")),
    ] {
        assert_eq!(post(&harness, &body).await.error(), (status, text.as_str()), "{body}");
    }
    assert_eq!(post(&harness, r#"{"Meta": {"a": 1}}"#).await.error().0, 400);
    let got = harness.get(&format!("{META}?node_id={unknown}")).await;
    assert_eq!(got.error(), (500, format!("Unknown node {unknown}").as_str()));
    assert_eq!(harness.put(META, r#"{"Meta": {"a": "b"}}"#).await.error(), (405, "Invalid method"));
}

#[actix_web::test]
async fn summaries_are_computed_again_by_commands() {
    // N-25.8.
    let harness = Harness::with(cluster()).await;
    let got = harness.put("/v1/system/reconcile/summaries", "").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, ""));
    let jobs = vec![model::JobKey::new("default", "fs")];
    let expected = Command::ReconcileSummaries(ReconcileSummaries { jobs });
    assert_eq!(harness.applier.commands.lock().unwrap().pop(), Some(expected));
    assert_eq!(harness.get("/v1/system/reconcile/summaries").await.error(), (405, "Invalid method"));
}
