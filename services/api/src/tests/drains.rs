//! Tests of drains of nodes over HTTP.

use std::collections::BTreeMap;

use model::node::DrainSpec;
use model::{Nanos, NodeId};
use serde_json::json;
use wire::command::{Command, UpdateDrain};

use super::harness::Harness;

const ID: &str = "05050505-0505-0505-0505-050505050505";

/// A cancelled drain.
fn cancelled() -> UpdateDrain {
    UpdateDrain {
        node: NodeId::from_bytes([5; 16]),
        drain: None,
        mark_eligible: false,
        meta: BTreeMap::new(),
        accessor_id: "token:acls-disabled".into(),
    }
}

#[actix_web::test]
async fn a_drain_is_a_command_about_the_node_of_the_path() {
    // The node of the body and unknown fields are not looked at; without a specification, the drain is cancelled (http-api
    // §17, N-9.2).
    let harness = Harness::with(Vec::new()).await;
    let path = format!("/v1/node/{ID}/drain");
    let body = json!({
        "NodeID": "06060606-0606-0606-0606-060606060606",
        "DrainSpec": { "Deadline": 90_000_000_000_i64, "IgnoreSystemJobs": true },
        "Duration": 7,
        "Meta": { "message": "repairs" },
    });
    let answer = harness.put(&path, &body.to_string()).await.json();
    let mut members: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["EvalCreateIndex", "EvalIDs", "Index", "NodeModifyIndex"]);
    for body in ["{}", "null", r#"{"DrainSpec": null, "MarkEligible": false}"#] {
        assert_eq!(harness.put(&path, body).await.status, 200, "{body}");
    }
    assert_eq!(harness.put(&path, r#"{"MarkEligible": true}"#).await.status, 200);
    assert_eq!(harness.put(&path, r#"{"DrainSpec": {"Deadline": -1}}"#).await.status, 200);

    let drain = Some(DrainSpec { deadline: Nanos::from_secs(90), ignore_system_jobs: true });
    let meta = BTreeMap::from([("message".into(), "repairs".into())]);
    let forced = Some(DrainSpec { deadline: Nanos(-1), ignore_system_jobs: false });
    let expected = [
        UpdateDrain { drain, meta, ..cancelled() },
        cancelled(),
        cancelled(),
        cancelled(),
        UpdateDrain { mark_eligible: true, ..cancelled() },
        UpdateDrain { drain: forced, ..cancelled() },
    ]
    .map(Command::UpdateDrain);
    assert_eq!(*harness.applier.commands.lock().unwrap(), expected);
}

#[actix_web::test]
async fn a_drain_that_cannot_be_read_is_no_command() {
    // A deadline is a number of nanoseconds (http-api §8).
    let harness = Harness::with(Vec::new()).await;
    let path = format!("/v1/node/{ID}/drain");
    for body in ["", r#"{"DrainSpec": {"Deadline": "1h"}}"#, r#"{"DrainSpec": 7}"#, r#"{"Meta": []}"#] {
        assert_eq!(harness.put(&path, body).await.error().0, 400, "{body}");
    }
    assert_eq!(harness.get(&path).await.error().0, 405);
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}
