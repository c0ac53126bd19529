//! Tests of scaling: requests, the status of a job's groups, and policies.

use std::sync::Arc;

use model::alloc::{AllocCommon, AllocatedResources, PackedAssigned, PackedMetric};
use model::change::{Change, JobSummary};
use model::job::{ScalingEvent, ScalingEvents, ScalingMeta};
use model::node::{Node, NodeServerSide, NodeSpec};
use model::plan::{Placement, Placements};
use model::{AllocId, Index, JobKey, NodeId, Timestamp};
use serde_json::{Value, json};
use wire::command::{Command, ScaleJob};
use wire::{Refusal, RefusalKind};

use super::harness::Harness;

const JOB: &str = r#"{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 1,
    "Scaling": {"Min": 0, "Max": 4, "Policy": {"a": 1}},
    "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]}}"#;
const NODE: NodeId = NodeId::from_bytes([3; 16]);
const SCALE: &str = "/v1/job/web/scale";

fn web() -> JobKey {
    JobKey::new("default", "web")
}

/// With a job that has one group.
async fn with_job() -> Harness {
    let harness = Harness::with(Vec::new()).await;
    harness.put("/v1/jobs", JOB).await.json();
    harness.applier.commands.lock().unwrap().clear();
    harness
}

fn last(harness: &Harness) -> Option<Command> {
    harness.applier.commands.lock().unwrap().pop()
}

#[actix_web::test]
async fn a_request_to_scale_is_a_command() {
    // http-api §11.3.
    let harness = with_job().await;
    let body = r#"{"Target": {"Group": "g", "Job": "web"}, "Count": 2, "Message": "more", "Meta": {"a": 1},
        "PolicyOverride": true, "JobModifyIndex": 7}"#;
    let got = harness.put(SCALE, body).await;
    let answer = got.json();
    assert_eq!((answer["EvalID"].as_str().unwrap().len(), &answer["KnownLeader"]), (36, &json!(true)));
    assert_eq!(got.header("x-nomad-index"), answer["Index"].to_string());
    let expected = ScaleJob {
        job: web(),
        group: "g".into(),
        count: Some(2),
        count_max: 50_000,
        message: "more".into(),
        error: false,
        meta: Some(ScalingMeta::from([("a".to_owned(), json!(1))])),
        enforce_index: Some(Index(7)),
    };
    assert_eq!(last(&harness), Some(Command::ScaleJob(expected)));
    harness.put(SCALE, r#"{"Target": {"Group": "g"}, "Error": true, "JobModifyIndex": 0}"#).await.json();
    let Some(Command::ScaleJob(found)) = last(&harness) else { panic!("the request is a command") };
    assert_eq!((found.count, found.error, found.enforce_index), (None, true, None));
}

#[actix_web::test]
async fn a_request_to_scale_has_a_form() {
    // N-26.2.
    let harness = with_job().await;
    let no_group = "missing task group name for scaling action";
    for (body, text) in [
        ("", "Request body is empty"),
        ("null", no_group),
        (r#"{"Count": 1}"#, no_group),
        (r#"{"Target": {}, "Count": 1}"#, no_group),
        (r#"{"Target": {"Group": ""}, "Count": 1}"#, no_group),
        (r#"{"Target": {"Group": "g", "Job": "other"}, "Count": 1}"#, "job ID in payload did not match URL"),
        (
            r#"{"Target": {"Group": "g"}, "Count": 1, "Error": true}"#,
            "scaling action should not contain count if error is true",
        ),
        (r#"{"Target": {"Group": "g"}, "Count": -1}"#, "scaling action count can't be negative"),
    ] {
        assert_eq!(harness.put(SCALE, body).await.error(), (400, text), "{body}");
    }
    assert_eq!(last(&harness), None);
    let body = r#"{"Target": {"Group": "g"}, "Count": 1}"#;
    let region = harness.put("/v1/job/web/scale?region=x", body).await;
    assert_eq!(region.error(), (500, "No path to region"));
    for (kind, status) in
        [(RefusalKind::NotFound, 404), (RefusalKind::Invalid, 400), (RefusalKind::Conflict, 500)]
    {
        *harness.applier.refusal.lock().unwrap() = Some(Refusal { kind, message: "no".into() });
        assert_eq!(harness.put(SCALE, body).await.error(), (status, "no"));
    }
}

#[actix_web::test]
async fn the_status_counts_allocations_and_shows_events() {
    // N-26.5.
    let harness = with_job().await;
    let counts = |events: Value| {
        let mut counts = json!({ "Desired": 1, "Placed": 0, "Running": 0, "Healthy": 0, "Unhealthy": 0 });
        counts["Events"] = events;
        counts
    };
    let status = harness.get(SCALE).await.json();
    assert_eq!((&status["JobID"], &status["JobStopped"]), (&json!("web"), &json!(false)));
    assert_eq!(status["TaskGroups"], json!({ "g": counts(Value::Null) }));

    let job = harness.replica.snapshot().job(&web()).unwrap().version_key();
    let common = AllocCommon {
        job: job.clone(),
        task_group: "g".into(),
        name_stem: "web.g".into(),
        eval_id: model::EvalId::from_bytes([5; 16]),
        deployment_id: None,
        resources: AllocatedResources::default(),
        metrics: PackedMetric::default(),
        trace: None,
    };
    let mut placements = Placements::new(Arc::new(common));
    let node = placements.add_node(NODE);
    placements.push(Placement {
        id: AllocId::from_bytes([1; 16]),
        node,
        name_index: 0,
        assigned: PackedAssigned::default(),
        previous: None,
        preempted: Vec::new(),
        reschedule: None,
    });
    let event = ScalingEvent {
        at: Timestamp(7),
        previous_count: 1,
        message: "note".into(),
        create_index: Index(9),
        ..ScalingEvent::default()
    };
    let events = ScalingEvents::from([("g".into(), vec![event])]);
    let summary = JobSummary {
        job: web(),
        groups: Default::default(),
        children: None,
        scaling_events: Some(Arc::new(events)),
        create_index: Index(2),
        modify_index: Index(9),
    };
    let node = Node { id: NODE, spec: Arc::new(NodeSpec::default()), server: NodeServerSide::default() };
    harness.change(vec![
        Change::Node(Box::new(node)),
        Change::AllocsPlaced(Box::new(placements)),
        Change::JobSummary(Arc::new(summary)),
    ]);
    let event = json!({
        "Time": 7, "Count": null, "PreviousCount": 1, "Message": "note", "Error": false, "Meta": null,
        "EvalID": null, "CreateIndex": 9,
    });
    let mut expected = counts(json!([event]));
    expected["Placed"] = json!(1);
    assert_eq!(harness.get(SCALE).await.json()["TaskGroups"], json!({ "g": expected }));
    assert_eq!(harness.get("/v1/job/none/scale").await.error(), (404, "job not found"));
}

#[actix_web::test]
async fn policies_are_found_by_their_ids() {
    // http-api §24.
    let harness = with_job().await;
    let list = harness.get("/v1/scaling/policies?job=web&type=horizontal").await.json();
    let target = json!({ "Namespace": "default", "Job": "web", "Group": "g" });
    assert_eq!((list.as_array().unwrap().len(), &list[0]["Target"]), (1, &target));
    let id = list[0]["ID"].as_str().unwrap();
    let got = harness.get(&format!("/v1/scaling/policy/{id}")).await;
    let policy = got.json();
    let expected = json!({
        "ID": id, "Type": "horizontal", "Target": target, "Policy": { "a": 1.0 }, "Min": 0, "Max": 4,
        "Enabled": true, "CreateIndex": list[0]["CreateIndex"], "ModifyIndex": list[0]["ModifyIndex"],
    });
    assert_eq!(policy, expected);
    assert_eq!(got.header("x-nomad-index"), policy["ModifyIndex"].to_string());

    let body = json!({ "Prefix": id, "Context": "scaling_policy" }).to_string();
    let found = harness.put("/v1/search", &body).await.json();
    assert_eq!(found["Matches"], json!({ "scaling_policy": [id] }));

    let job = harness.get("/v1/job/web").await.json();
    assert_eq!(job["TaskGroups"][0]["Scaling"]["ID"], id);
    harness.put("/v1/jobs", &json!({ "Job": job }).to_string()).await.json();
    let Some(Command::RegisterJob(again)) = last(&harness) else { panic!("the request is a command") };
    let scaling = again.spec.task_groups[0].scaling.as_deref().unwrap();
    assert_eq!(scaling.id.as_deref(), Some(""), "ids are not part of what users register");

    for query in ["job=none", "type=odd", "type=vertical_cpu", "namespace=nope", "job=we"] {
        assert_eq!(harness.get(&format!("/v1/scaling/policies?{query}")).await.json(), json!([]), "{query}");
    }
    for id in ["00000000-0000-4000-8000-000000000000", "x", ""] {
        let got = harness.get(&format!("/v1/scaling/policy/{id}")).await;
        assert_eq!(got.error(), (404, "policy not found"), "{id}");
    }
}
