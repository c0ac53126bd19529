//! Tests of the routes that make children of jobs.

use std::sync::Arc;

use model::JobKey;
use model::change::Change;
use model::job::{Base64, Job, JobSpec, JobType, ParameterizedJobConfig, PayloadRule, PeriodicConfig};
use serde_json::json;
use wire::command::{Command, DispatchJob, ForceLaunch};

use super::harness::Harness;

const DISPATCH: &str = "/v1/job/call/dispatch";
const PAYLOAD: &str = "/v1/job/call/dispatch/payload";
const FORCE: &str = "/v1/job/cron/periodic/force";

fn job(spec: JobSpec) -> Change {
    let spec = Arc::new(JobSpec { namespace: "default".into(), kind: JobType::Batch, priority: 50, ..spec });
    Change::Job(Arc::new(Job { spec, create_index: model::Index(1), ..Job::default() }))
}

fn call(payload: PayloadRule) -> JobSpec {
    let config = ParameterizedJobConfig {
        payload: Some(payload),
        meta_optional: vec!["key".into()],
        ..ParameterizedJobConfig::default()
    };
    JobSpec { id: "call".into(), parameterized_job: Some(config), ..JobSpec::default() }
}

fn dispatched(harness: &Harness) -> DispatchJob {
    match harness.applier.commands.lock().unwrap().pop() {
        Some(Command::DispatchJob(command)) => *command,
        other => panic!("{other:?}"),
    }
}

#[actix_web::test]
async fn a_dispatch_is_a_command_with_the_id_of_the_child() {
    // http-api §11.3: the response, and `<parent>/dispatch-[<prefix>-]<unix seconds>-<8 hex>`.
    let harness = Harness::with(vec![job(call(PayloadRule::Optional))]).await;
    let body = json!({
        "JobID": "call", "Payload": "aW5wdXQ=", "Meta": { "key": "value" },
        "IdPrefixTemplate": "pre", "Priority": 70,
    });
    let got = harness.put(&format!("{DISPATCH}?idempotency_token=t"), &body.to_string()).await;
    let answer = got.json();
    let command = dispatched(&harness);
    assert_eq!(command.parent, JobKey::new("default", "call"));
    assert_eq!((command.payload, command.priority), (Some(Base64(b"input".to_vec())), Some(70)));
    assert_eq!(command.meta, [("key".into(), "value".into())].into());
    assert_eq!(&*command.idempotency_token, "t");
    let id = command.id.as_str();
    let rest: Vec<&str> = id.strip_prefix("call/dispatch-pre-").unwrap().split('-').collect();
    assert_eq!((rest.len(), rest[1].len()), (2, 8), "{id}");
    assert!(rest[0].parse::<i64>().unwrap() > 1_700_000_000);
    assert!(rest[1].chars().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    let index = &answer["Index"];
    let expected = json!({
        "DispatchedJobID": id, "EvalID": answer["EvalID"], "EvalCreateIndex": index,
        "JobCreateIndex": index, "Index": index,
    });
    assert_eq!(answer, expected);
    assert_eq!(answer["EvalID"].as_str().unwrap().len(), 36);
    assert_eq!(got.header("x-nomad-index"), index.to_string());

    // An empty payload is no payload, and priority 0 is the parent's.
    harness.put(DISPATCH, r#"{"Payload": "", "Priority": 0}"#).await.json();
    let command = dispatched(&harness);
    assert_eq!((command.payload, command.priority, &*command.idempotency_token), (None, None, ""));
    assert!(command.id.starts_with("call/dispatch-1"), "{}", command.id);
}

#[actix_web::test]
async fn a_dispatch_that_does_not_fit_is_refused() {
    let harness = Harness::with(vec![job(call(PayloadRule::Required))]).await;
    let payload = "\"Payload\": \"eA==\"";
    for (path, body, expected) in [
        (DISPATCH, "".to_owned(), (400, "Request body is empty")),
        (DISPATCH, r#"{"JobID": "other"}"#.to_owned(), (400, "Job ID does not match")),
        ("/v1/job/other/dispatch", "{}".to_owned(), (500, "parameterized job not found")),
        (
            DISPATCH,
            r#"{"JobID": "call"}"#.to_owned(),
            (500, "Payload is not provided but required by parameterized job"),
        ),
        (
            DISPATCH,
            format!(r#"{{{payload}, "Meta": {{"x": "", "b": ""}}}}"#),
            (500, "Dispatch request included unpermitted metadata keys: [b x]"),
        ),
        (
            DISPATCH,
            format!(r#"{{{payload}, "Priority": 101}}"#),
            (500, "dispatch job priority must be between [1, 100]"),
        ),
        (
            DISPATCH,
            format!(r#"{{{payload}, "Priority": -1}}"#),
            (500, "dispatch job priority must be between [1, 100]"),
        ),
        (
            DISPATCH,
            format!(r#"{{{payload}, "IdPrefixTemplate": "{}"}}"#, "x".repeat(513)),
            (400, "ID prefix has 513 bytes; at most 512 are allowed"),
        ),
        (
            DISPATCH,
            format!(r#"{{{payload}, "IdPrefixTemplate": "a\u0000b"}}"#),
            (400, "ID prefix contains a null character"),
        ),
    ] {
        assert_eq!(harness.put(path, &body).await.error(), expected, "{path} {body}");
    }
    assert_eq!(harness.put(DISPATCH, r#"{"Payload": "?"}"#).await.error().0, 400, "no Base64");
    assert_eq!(harness.get(DISPATCH).await.error(), (405, "Invalid method"));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn the_body_of_a_request_may_be_the_payload() {
    // The raw request body is the payload, and may be empty (http-api §11.3).
    let harness = Harness::with(vec![job(call(PayloadRule::Optional))]).await;
    harness.put(PAYLOAD, "raw").await.json();
    assert_eq!(dispatched(&harness).payload, Some(Base64(b"raw".to_vec())));
    harness.put(PAYLOAD, "").await.json();
    assert_eq!(dispatched(&harness).payload, None);
    let long = "x".repeat(16_385);
    let expected = (500, "Payload exceeds maximum size; 16385 > 16384");
    assert_eq!(harness.put(PAYLOAD, &long).await.error(), expected);
}

#[actix_web::test]
async fn a_repeated_dispatch_returns_the_first_child() {
    // A repeated token on the same parent returns the existing child, with EvalID "" and EvalCreateIndex 0 (http-api §11.3).
    let child = JobSpec {
        id: "call/dispatch-1-00000000".into(),
        parent_id: "call".into(),
        dispatched: true,
        dispatch_idempotency_token: "t".into(),
        ..call(PayloadRule::Optional)
    };
    let harness = Harness::with(vec![job(call(PayloadRule::Optional)), job(child)]).await;
    let answer = harness.put(&format!("{DISPATCH}?idempotency_token=t"), "{}").await.json();
    assert_eq!(answer["DispatchedJobID"], "call/dispatch-1-00000000");
    assert_eq!((&answer["EvalID"], &answer["EvalCreateIndex"]), (&json!(""), &json!(0)));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
    // In lists, only the parent counts as parameterized.
    let listed = harness.get("/v1/jobs").await.json();
    let parents = listed.as_array().unwrap().iter().filter(|job| job["ParameterizedJob"] == true);
    assert_eq!(parents.map(|job| job["ID"].clone()).collect::<Vec<_>>(), ["call"]);
}

#[actix_web::test]
async fn a_launch_by_a_user_is_a_command() {
    let periodic = Some(PeriodicConfig { enabled: true, ..PeriodicConfig::default() });
    let cron = JobSpec { id: "cron".into(), periodic, ..JobSpec::default() };
    let harness = Harness::with(vec![job(cron)]).await;
    let answer = harness.put(FORCE, "").await.json();
    let index = &answer["Index"];
    let expected = json!({ "EvalID": answer["EvalID"], "EvalCreateIndex": index, "Index": index });
    assert_eq!((&answer, answer["EvalID"].as_str().unwrap().len()), (&expected, 36));
    let command = harness.applier.commands.lock().unwrap().pop();
    let expected = ForceLaunch { job: JobKey::new("default", "cron") };
    assert_eq!(command, Some(Command::ForceLaunch(expected)));
}

#[actix_web::test]
async fn a_plan_says_when_a_periodic_job_is_launched() {
    // `NextPeriodicLaunch` is null unless the job is periodic, enabled and has a next time (http-api §11.3).
    let harness = Harness::with(Vec::new()).await;
    let plan = |periodic: serde_json::Value| {
        let tasks = json!([{ "Name": "t", "Driver": "raw_exec" }]);
        let groups = json!([{ "Name": "g", "Tasks": tasks }]);
        let job = json!({ "ID": "cron", "Type": "batch", "Periodic": periodic, "TaskGroups": groups });
        json!({ "Job": job }).to_string()
    };
    let next = async |periodic| {
        let got = harness.put("/v1/job/cron/plan", &plan(periodic)).await;
        got.json()["NextPeriodicLaunch"].clone()
    };
    let spec = "0 0 1 1 * 2090";
    assert_eq!(next(json!({ "Spec": spec })).await, "2090-01-01T00:00:00Z");
    assert_eq!(next(json!({ "Spec": spec, "Enabled": false })).await, json!(null));
    assert_eq!(next(json!({ "Spec": "0 0 30 2 *" })).await, json!(null));
}
