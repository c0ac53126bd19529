//! Tests of the list of job statuses.

use std::sync::Arc;

use model::alloc::PackedTaskStates;
use model::change::Change;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::job::{Job, JobSpec, JobType, PeriodicConfig, TaskGroup};
use model::{DeploymentId, Index};
use serde_json::{Value, json};

use super::files::{ALLOC, NODE, cluster};
use super::harness::{Harness, Response};

fn spec(id: &str) -> JobSpec {
    JobSpec {
        namespace: "default".into(),
        id: id.into(),
        name: id.into(),
        kind: JobType::Batch,
        priority: 50,
        ..JobSpec::default()
    }
}

fn job(index: u64, spec: JobSpec) -> Change {
    let index = Index(index);
    let indexes = Job { create_index: index, modify_index: index, job_modify_index: index, ..Job::default() };
    Change::Job(Arc::new(Job { spec: Arc::new(spec), ..indexes }))
}

fn ids(got: &Response) -> Vec<String> {
    let list = got.json();
    list.as_array().unwrap().iter().map(|job| job["ID"].as_str().unwrap().to_owned()).collect()
}

/// Jobs `a` to `d`, each changed after the one before, except `c` and `d` at the same index.
async fn four() -> Harness {
    let harness = Harness::with(vec![job(2, spec("a"))]).await;
    harness.change(vec![job(3, spec("b"))]);
    harness.change(vec![job(4, spec("c")), job(4, spec("d"))]);
    harness
}

#[actix_web::test]
async fn pages_are_sorted_by_the_last_change_in_both_directions() {
    let harness = four().await;
    let got = harness.get("/v1/jobs/statuses").await;
    assert_eq!(
        (ids(&got), got.header("x-nomad-index")),
        (["d", "c", "b", "a"].map(str::to_owned).to_vec(), "4")
    );
    let page = async |query: &str| {
        let got = harness.get(&format!("/v1/jobs/statuses?{query}")).await;
        (
            ids(&got).concat(),
            got.header("x-nomad-nexttoken").to_owned(),
            got.header("x-nomad-index").to_owned(),
        )
    };
    let expect = |ids: &str, token: &str, index: &str| (ids.to_owned(), token.to_owned(), index.to_owned());
    assert_eq!(page("reverse=true").await, expect("abcd", "", "4"));
    assert_eq!(page("per_page=2").await, expect("dc", "3", "4"));
    assert_eq!(page("per_page=2&next_token=3").await, expect("ba", "", "3"));
    assert_eq!(page("per_page=1").await, expect("d", "4.default.c", "4"), "both changed at one index");
    assert_eq!(page("per_page=1&next_token=4.default.c").await, expect("c", "3", "4"));
    assert_eq!(page("per_page=3&reverse=true").await, expect("abc", "4.default.d", "4"));
    assert_eq!(page("next_token=nonsense").await, expect("", "", "4"), "the table's index");
    assert_eq!(page("prefix=b").await, expect("b", "", "3"));
    assert_eq!(page("filter=ID%20!=%20d&per_page=1").await, expect("c", "3", "4"));
    assert_eq!(page("namespace=other").await.0, "");
    assert_eq!(page("per_page=-1").await, expect("", "4", "4"));
    for filter in ["Nope%20==%20x", "Type%20%3E%203"] {
        assert_eq!(harness.get(&format!("/v1/jobs/statuses?filter={filter}")).await.error().0, 500);
    }
    // http-api §11.1: it is read by GET and POST.
    for method in ["DELETE", "PUT"] {
        let got = Response::new(harness.builder(method, "/v1/jobs/statuses")).await;
        assert_eq!(got.error(), (405, "Invalid method"), "{method}");
    }
}

#[actix_web::test]
async fn a_long_list_is_sent_whole() {
    let harness = Harness::with((0..1_000).map(|n| job(2, spec(&format!("job-{n:04}")))).collect()).await;
    let found = ids(&harness.get("/v1/jobs/statuses").await);
    assert_eq!((found.len(), found[0].as_str(), found[999].as_str()), (1_000, "job-0999", "job-0000"));
}

#[actix_web::test]
async fn jobs_are_asked_for_by_name() {
    let harness = four().await;
    let body = r#"{"Jobs": [{"ID": "a", "Namespace": "default"}, {"ID": "c"}, {"ID": "a"}, {"ID": "none"}]}"#;
    let got = Response::new(harness.builder("POST", "/v1/jobs/statuses").body(body)).await;
    assert_eq!((ids(&got), got.header("x-nomad-index")), (vec!["c".to_owned(), "a".to_owned()], "4"));
    for body in ["{}", r#"{"Jobs": []}"#] {
        let got = Response::new(harness.builder("POST", "/v1/jobs/statuses").body(body)).await;
        assert_eq!(got.error(), (400, "no jobs in request"));
    }
    let got = Response::new(harness.builder("POST", "/v1/jobs/statuses")).await;
    assert_eq!(ids(&got).len(), 4, "without a body, it is the list");
    let got = Response::new(harness.builder("POST", "/v1/jobs/statuses").body("x")).await;
    assert_eq!(got.status, 400);
    assert!(got.text.starts_with("error decoding request: "), "{}", got.text);
}

#[actix_web::test]
async fn a_job_comes_with_its_allocations_and_newest_deployment() {
    let mut changes = cluster();
    let group = TaskGroup { name: "g".into(), count: 3, ..TaskGroup::default() };
    let Change::Job(fs) = &mut changes[0] else { unreachable!("it is a job") };
    let spec = Arc::make_mut(&mut Arc::make_mut(fs).spec);
    spec.task_groups = vec![group].into();
    spec.meta.insert("pack.name".into(), "x".into());
    let key = fs.version_key();
    changes.push(Change::Deployment(Arc::new(Deployment {
        id: DeploymentId::from_bytes([0x33; 16]),
        job: key,
        job_modify_index: Index(2),
        job_spec_modify_index: Index(2),
        is_multiregion: false,
        groups: [("g".into(), DeploymentGroup { desired_canaries: 1, ..DeploymentGroup::default() })].into(),
        status: DeploymentStatus::Running,
        status_description: "it goes on".into(),
        eval_priority: 0,
        create_index: Index(2),
        modify_index: Index(2),
        create_time: model::Timestamp::default(),
        modify_time: model::Timestamp::default(),
        trace: None,
    })));
    let harness = Harness::with(changes).await;
    let list = harness.get("/v1/jobs/statuses").await.json();
    let shown = &list[0];
    assert_eq!((&shown["GroupCountSum"], &shown["IsPack"]), (&json!(3), &json!(true)));
    assert_eq!((&shown["ChildStatuses"], &shown["Status"]), (&Value::Null, &json!("pending")));
    assert_eq!(
        shown["Allocs"],
        json!([{
            "ID": ALLOC.to_string(), "Group": "g", "ClientStatus": "pending", "NodeID": NODE.to_string(),
            "DeploymentStatus": {"Canary": false, "Healthy": null}, "JobVersion": 0, "FollowupEvalID": "",
            "HasPausedTask": false,
        }])
    );
    assert!(!PackedTaskStates::default().any_paused());
    assert_eq!(
        shown["LatestDeployment"],
        json!({
            "ID": DeploymentId::from_bytes([0x33; 16]).to_string(), "IsActive": true, "JobVersion": 0,
            "Status": "running", "StatusDescription": "it goes on", "AllAutoPromote": false,
            "RequiresPromotion": true,
        })
    );
}

#[actix_web::test]
async fn children_stand_with_their_parent_or_by_themselves() {
    let parent = JobSpec { periodic: Some(PeriodicConfig::default()), ..spec("p") };
    let child = JobSpec { parent_id: "p".into(), ..spec("p/periodic-1") };
    let harness = Harness::with(vec![job(2, parent), job(2, spec("p/other")), job(2, child)]).await;
    let got = harness.get("/v1/jobs/statuses?prefix=p").await;
    assert_eq!(ids(&got), ["p/other", "p"]);
    assert_eq!(got.json()[1]["ChildStatuses"], json!(["pending"]));
    let got = harness.get("/v1/jobs/statuses?include_children=true").await;
    assert_eq!(ids(&got), ["p/periodic-1", "p/other", "p"]);
    assert_eq!((&got.json()[0]["ParentID"], &got.json()[2]["ChildStatuses"]), (&json!("p"), &Value::Null));
}

#[actix_web::test]
async fn blocking_queries_wake_for_visible_changes() {
    let harness = four().await;
    let path = "/v1/jobs/statuses?filter=ID%20==%20b&index=3&wait=60s";
    let waits = harness.get(path);
    let (got, ()) = tokio::join!(waits, async {
        harness.change(vec![job(5, spec("e"))]);
        harness.change(vec![job(6, JobSpec { priority: 77, ..spec("b") })]);
    });
    assert_eq!((&got.json()[0]["Priority"], got.header("x-nomad-index")), (&json!(77), "6"));

    let waits = harness.get("/v1/jobs/statuses?filter=ID%20==%20b&index=6&wait=60s");
    let (got, ()) = tokio::join!(waits, async {
        // A query sees a deletion at once, even if it arrives after the deletion.
        tokio::task::yield_now().await;
        harness.change(vec![Change::JobDeleted(model::JobKey::new("default", "b"))]);
    });
    assert_eq!((got.text.as_str(), got.header("x-nomad-index")), ("[]", "7"));

    let got = harness.get("/v1/jobs/statuses?filter=ID%20==%20a&index=99999999&wait=300ms").await;
    assert_eq!((ids(&got), got.header("x-nomad-index")), (vec!["a".to_owned()], "2"));
}
