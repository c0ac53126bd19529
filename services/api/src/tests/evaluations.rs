//! Tests of deleting evaluations over HTTP, and of why they could not place everything.

use std::sync::Arc;

use model::alloc::{AllocMetric, Reason, Shortfall};
use model::change::Change;
use model::cluster::SchedulerConfig;
use model::eval::{EvalTrigger, Evaluation};
use model::job::JobType;
use model::{EvalId, JobKey};
use serde_json::json;
use wire::command::Command;

use super::harness::{Harness, Response};

const ENABLED: &str = "eval broker is enabled; eval broker must be paused to delete evals";

fn eval(number: u8, namespace: &str, priority: u16) -> Change {
    let (id, job) = (EvalId::from_bytes([number; 16]), JobKey::new(namespace, "web"));
    Change::Eval(Arc::new(Evaluation::new(id, job, JobType::Service, priority, EvalTrigger::JobRegister)))
}

fn paused() -> Change {
    Change::SchedulerConfig(SchedulerConfig { pause_eval_broker: true, ..SchedulerConfig::default() })
}

async fn delete(harness: &Harness, query: &str, body: &serde_json::Value) -> Response {
    let request = harness.builder("DELETE", &format!("/v1/evaluations{query}"));
    Response::new(request.body(body.to_string())).await
}

/// First bytes of the ids in the received commands.
fn forgotten(harness: &Harness) -> Vec<Vec<u8>> {
    let mut commands = harness.applier.commands.lock().unwrap();
    let forgotten = commands.drain(..).map(|command| {
        let Command::DeleteEvals(delete) = command else { panic!("{command:?}") };
        delete.ids.iter().map(|id| id.as_bytes()[0]).collect()
    });
    forgotten.collect()
}

#[actix_web::test]
async fn evaluations_are_forgotten_by_id_while_they_rest() {
    let harness = Harness::with(vec![eval(1, "default", 50), eval(2, "default", 50)]).await;
    let [one, gone] = [1, 9].map(|number| EvalId::from_bytes([number; 16]).to_string());
    let by_id = json!({ "EvalIDs": [one, one] });
    assert_eq!(delete(&harness, "", &by_id).await.error(), (500, ENABLED));
    harness.change(vec![paused()]);
    let got = delete(&harness, "", &by_id).await;
    assert_eq!((got.json(), got.header("x-nomad-index")), (json!({ "Count": 1, "Index": 4 }), "4"));
    assert_eq!(forgotten(&harness), [[1]]);
    // http-api §15: an unknown id fails the whole request.
    let some = delete(&harness, "", &json!({ "EvalIDs": [one, gone] })).await;
    assert_eq!(some.error(), (500, "eval not found"));
    assert!(forgotten(&harness).is_empty());

    let many = json!({ "EvalIDs": vec!["x"; 7_282] });
    let text = "7282 evaluation IDs in one request; at most 7281 are allowed";
    assert_eq!(delete(&harness, "", &many).await.error(), (400, text));
    let text = "eval lookup failed: index error: UUID must be 36 characters";
    assert_eq!(delete(&harness, "", &json!({ "EvalIDs": ["x"] })).await.error(), (500, text));
    let both = delete(&harness, "", &json!({ "EvalIDs": ["x"], "Filter": "x" })).await;
    assert_eq!(both.error(), (400, "evals cannot be deleted by both ID and filter"));
    let neither = delete(&harness, "", &json!({})).await;
    assert_eq!(neither.error(), (400, "evals must be deleted by either ID or filter"));
}

#[actix_web::test]
async fn evaluations_are_forgotten_by_filter_in_their_namespace() {
    let evals = vec![eval(1, "default", 50), eval(2, "default", 60), eval(3, "other", 60), paused()];
    let harness = Harness::with(evals).await;
    let by_filter = json!({ "Filter": "Priority == 60" });
    assert_eq!(delete(&harness, "", &by_filter).await.json()["Count"], 1);
    assert_eq!(delete(&harness, "?namespace=*", &by_filter).await.json()["Count"], 2);
    assert_eq!(forgotten(&harness), [vec![2], vec![2, 3]]);
    // http-api §7.4: filters that fail are a 500 here, without an introduction.
    let got = delete(&harness, "", &json!({ "Filter": "bad" })).await;
    let (status, text) = got.error();
    assert!(status == 500 && text.starts_with("1:4 (3): "), "{text}");
    let got = delete(&harness, "", &json!({ "Filter": "Colour == 60" })).await;
    let (status, text) = got.error();
    assert!(status == 500 && text.starts_with("error finding value in datum: /Colour"), "{text}");
    assert!(forgotten(&harness).is_empty());
}

/// http-api §15: the broker is looked at before ids and filters are.
#[actix_web::test]
async fn a_broker_that_is_not_paused_comes_before_what_is_asked() {
    let harness = Harness::with(vec![eval(1, "default", 50)]).await;
    for body in [json!({ "EvalIDs": ["x"] }), json!({ "Filter": "bad" })] {
        assert_eq!(delete(&harness, "", &body).await.error(), (500, ENABLED), "{body}");
    }
    let nothing = Response::new(harness.builder("DELETE", "/v1/evaluations").body("null")).await;
    assert_eq!(nothing.error(), (400, "evals must be deleted by either ID or filter"));
    assert_eq!(
        delete(&harness, "?region=x", &json!({ "Filter": "bad" })).await.error(),
        (500, "No path to region")
    );
}

/// http-api §9.4, §15.
#[actix_web::test]
async fn ids_of_evaluations_are_judged_by_their_route() {
    let harness = Harness::with(vec![eval(1, "default", 50)]).await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    let malformed = "index error: UUID must be 36 characters";
    for (path, status, text) in [
        (
            "/v1/evaluation/x".to_owned(),
            500,
            format!("failed to lookup eval: eval lookup failed: {malformed}"),
        ),
        (
            "/v1/evaluation/".to_owned(),
            500,
            format!("failed to lookup eval: eval lookup failed: {malformed}"),
        ),
        ("/v1/evaluation/x/allocations".to_owned(), 500, malformed.to_owned()),
        (format!("/v1/evaluation/{unknown}?related=x"), 404, "eval not found".to_owned()),
        (format!("/v1/evaluation/{unknown}?region=x"), 500, "No path to region".to_owned()),
        (
            "/v1/evaluations/count?per_page=x".to_owned(),
            400,
            "Expect a number for `per_page` query string parameter".to_owned(),
        ),
    ] {
        assert_eq!(harness.get(&path).await.error(), (status, text.as_str()), "{path}");
    }
    let got = harness.get("/v1/evaluations/count?filter=Nope%20==%201").await;
    let (status, text) = got.error();
    assert!(status == 500 && text.starts_with("error finding value in datum: /Nope"), "{text}");
    let none = harness.get("/v1/evaluations?namespace=none&filter=Nope%20==%201").await;
    assert_eq!(none.json(), json!([]), "nothing is compared");
}

/// http-api §A.6: the metrics are those of the reference unless a request asks for reasons.
#[actix_web::test]
async fn reasons_of_failed_placements_are_shown_on_request() {
    let shortfall = Some(Shortfall { amount: 100, nodes: 1 });
    let reason = Reason { name: "memory".into(), nodes: 3, alone: 2, shortfall };
    let metric = AllocMetric { nodes_evaluated: 3, reasons: vec![reason], ..AllocMetric::default() };
    let (id, job) = (EvalId::from_bytes([1; 16]), JobKey::new("default", "web"));
    let eval = Evaluation::new(id, job, JobType::Service, 50, EvalTrigger::JobRegister);
    let eval = Evaluation { failed_groups: [("g".into(), metric)].into(), ..eval };
    let harness = Harness::with(vec![Change::Eval(Arc::new(eval))]).await;
    let plain = harness.get(&format!("/v1/evaluation/{id}")).await.json();
    assert_eq!(plain["FailedTGAllocs"]["g"]["NodesEvaluated"], 3, "{plain}");
    assert!(plain["FailedTGAllocs"]["g"].get("Reasons").is_none(), "{plain}");
    let explained = harness.get(&format!("/v1/evaluation/{id}?reasons=true")).await.json();
    let expected = json!([{ "Name": "memory", "Nodes": 3, "Alone": 2, "Missing": 100, "MissingNodes": 1 }]);
    assert_eq!(explained["FailedTGAllocs"]["g"]["Reasons"], expected, "{explained}");
}
