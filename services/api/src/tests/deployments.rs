//! Tests of deployments, node eligibility and garbage collection over HTTP.

use std::sync::Arc;

use model::change::Change;
use model::deployment::{Deployment, DeploymentStatus};
use model::job::{Job, JobSpec};
use model::node::Eligibility;
use model::{AllocId, DeploymentId, Index, JobKey, JobVersionKey, NodeId, Text, Timestamp};
use serde_json::json;
use wire::Subject;
use wire::command::{
    Command, FailDeployment, ForceGarbageCollection, GarbageCollectionStarted, PauseDeployment,
    PromoteDeployment, SetAllocHealth, SetEligibility,
};

use super::harness::Harness;

const ID: &str = "05050505-0505-0505-0505-050505050505";
const OTHER: &str = "06060606-0606-0606-0606-060606060606";

fn job(index: u64) -> Change {
    let spec = JobSpec { namespace: "default".into(), id: "web".into(), ..JobSpec::default() };
    let index = Index(index);
    let indexes = Job { create_index: index, modify_index: index, job_modify_index: index, ..Job::default() };
    Change::Job(Arc::new(Job { spec: spec.into(), ..indexes }))
}

fn deployment(number: u8, namespace: &str, job_create_index: u64) -> Change {
    let job = JobKey::new(namespace, "web");
    Change::Deployment(Arc::new(Deployment {
        id: DeploymentId::from_bytes([number; 16]),
        job: JobVersionKey { job, create_index: Index(job_create_index), version: 3 },
        job_modify_index: Index(2),
        job_spec_modify_index: Index(2),
        is_multiregion: false,
        groups: [("app".into(), Default::default())].into(),
        status: DeploymentStatus::Running,
        status_description: "Deployment is running".into(),
        eval_priority: 50,
        create_index: Index(2),
        modify_index: Index(2),
        create_time: Timestamp::from_secs(1),
        modify_time: Timestamp::from_secs(1),
        trace: None,
    }))
}

#[actix_web::test]
async fn deployments_are_listed_and_read() {
    let harness = Harness::with(vec![job(2), deployment(5, "default", 2), deployment(6, "other", 1)]).await;
    let listed = harness.get("/v1/deployments").await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(
        (&listed[0]["ID"], &listed[0]["JobID"], &listed[0]["JobVersion"]),
        (&json!(ID), &json!("web"), &json!(3))
    );
    let ids = async |query: &str| {
        let listed = harness.get(&format!("/v1/deployments?{query}")).await.json();
        let ids = listed.as_array().unwrap().iter().map(|one| one["ID"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids("namespace=*").await, [ID, OTHER]);
    assert_eq!(ids("namespace=*&reverse=true").await, [OTHER, ID]);
    assert_eq!(ids("namespace=*&prefix=0606").await, [OTHER]);

    let read = harness.get(&format!("/v1/deployment/{ID}")).await;
    assert_eq!((read.header("x-nomad-index"), &read.json()["Status"]), ("2", &json!("running")));
    assert_eq!(read.json()["TaskGroups"]["app"]["HealthyAllocs"], 0);
    let none = "07070707-0707-0707-0707-070707070707";
    assert_eq!(harness.get(&format!("/v1/deployment/{none}")).await.error(), (404, "deployment not found"));
    assert_eq!(harness.get(&format!("/v1/deployment/allocations/{none}")).await.text, "[]");
}

#[actix_web::test]
async fn a_job_shows_the_deployments_of_its_own_incarnation() {
    let harness = Harness::with(vec![job(2), deployment(5, "default", 2), deployment(6, "default", 1)]).await;
    let count = async |path: &str| harness.get(path).await.json().as_array().unwrap().len();
    assert_eq!(count("/v1/job/web/deployments").await, 1);
    assert_eq!(count("/v1/job/web/deployments?all=true").await, 2);
    assert_eq!(harness.get("/v1/job/none/deployments").await.text, "[]");
    assert_eq!(harness.get("/v1/job/none/deployment").await.text, "null");
}

#[actix_web::test]
async fn a_deployment_is_given_up_by_command() {
    let harness = Harness::with(vec![deployment(5, "default", 2)]).await;
    let answer = harness.put(&format!("/v1/deployment/fail/{ID}"), "").await.json();
    assert_eq!(answer["EvalID"].as_str().unwrap().len(), 36);
    assert_eq!((&answer["DeploymentModifyIndex"], &answer["RevertedJobVersion"]), (&json!(3), &json!(null)));
    let id = DeploymentId::from_bytes([5; 16]);
    assert_eq!(*harness.applier.commands.lock().unwrap(), [Command::FailDeployment(FailDeployment { id })]);
    let got = harness.put("/v1/deployment/fail/x", "").await;
    assert_eq!(got.error(), (500, "deployment lookup failed: index error: UUID must be 36 characters"));
    assert_eq!(harness.put("/v1/deployment/fail/", "").await.error(), (500, "missing deployment ID"));
    assert_eq!(harness.get("/v1/deployment/").await.error(), (500, "missing deployment ID"));
}

#[actix_web::test]
async fn deployments_are_changed_by_commands() {
    // http-api §16.
    let harness = Harness::with(vec![deployment(5, "default", 2)]).await;
    let id = DeploymentId::from_bytes([5; 16]);
    let alloc = AllocId::from_bytes([6; 16]);
    let pause = |pause| Command::PauseDeployment(PauseDeployment { id, pause });
    let promote = |groups: Option<&[&str]>| {
        let groups = groups.map(|groups| groups.iter().map(|name| Text::from(*name)).collect());
        Command::PromoteDeployment(PromoteDeployment { id, groups })
    };
    let health = |healthy, unhealthy| Command::SetAllocHealth(SetAllocHealth { id, healthy, unhealthy });
    let cases = [
        ("pause", r#""Pause": true"#, pause(true)),
        ("pause", r#""Pause": false"#, pause(false)),
        ("pause", r#""Pause": null"#, pause(false)),
        ("promote", r#""All": true, "Groups": ["a"]"#, promote(None)),
        ("promote", r#""Groups": ["a", "b"]"#, promote(Some(&["a", "b"]))),
        ("promote", r#""Groups": null"#, promote(Some(&[]))),
        ("allocation-health", r#""HealthyAllocationIDs": ["06060606-0606-0606-0606-060606060606"]"#, {
            health(vec![alloc], Vec::new())
        }),
        ("allocation-health", r#""UnhealthyAllocationIDs": ["06060606-0606-0606-0606-060606060606"]"#, {
            health(Vec::new(), vec![alloc])
        }),
    ];
    for (verb, members, expected) in cases {
        let body = format!(r#"{{"DeploymentID": "{ID}", {members}}}"#);
        let got = harness.put(&format!("/v1/deployment/{verb}/{ID}"), &body).await;
        assert_eq!(got.json()["EvalID"].as_str().unwrap().len(), 36, "{verb} {members}");
        assert_eq!(got.header("x-nomad-index"), got.json()["Index"].to_string());
        assert_eq!(harness.applier.commands.lock().unwrap().pop(), Some(expected));
    }
}

#[actix_web::test]
async fn what_does_not_name_its_deployment_changes_none() {
    // The texts and their order are those of http-api §16.
    let harness = Harness::with(vec![deployment(5, "default", 2)]).await;
    for verb in ["pause", "promote", "allocation-health", "unblock"] {
        let error = async |body: &str| {
            let got = harness.put(&format!("/v1/deployment/{verb}/{ID}"), body).await;
            let (status, text) = got.error();
            (status, text.to_owned())
        };
        assert_eq!(error("").await, (400, "Request body is empty".to_owned()));
        for body in ["null", "{}", r#"{"DeploymentID": ""}"#] {
            assert_eq!(error(body).await, (400, "DeploymentID must be specified".to_owned()));
        }
        let other = format!(r#"{{"DeploymentID": "{OTHER}"}}"#);
        assert_eq!(error(&other).await, (400, "Deployment ID does not match".to_owned()));
        assert_eq!(error("[]").await.0, 400);
        let got = harness.get(&format!("/v1/deployment/{verb}/{ID}")).await;
        assert_eq!(got.error(), (405, "Invalid method"));
    }
    let health = async |deployment: &str, members: &str| {
        let body = format!(r#"{{"DeploymentID": "{deployment}"{members}}}"#);
        let got = harness.put(&format!("/v1/deployment/allocation-health/{deployment}"), &body).await;
        let (status, text) = got.error();
        assert_eq!(status, 500);
        text.to_owned()
    };
    let (malformed, unknown) = (r#", "HealthyAllocationIDs": ["x"]"#, format!(r#"["{OTHER}", "x"]"#));
    assert_eq!(health("x", "").await, "must specify at least one healthy/unhealthy allocation ID");
    let text = "deployment lookup failed: index error: UUID must be 36 characters";
    assert_eq!(health("x", malformed).await, text);
    assert_eq!(health(OTHER, malformed).await, "deployment not found");
    let text = "alloc \"x\" lookup failed: index error: UUID must be 36 characters";
    assert_eq!(health(ID, malformed).await, text);
    let unknown = format!(r#", "HealthyAllocationIDs": {unknown}"#);
    assert_eq!(health(ID, &unknown).await, format!("unknown alloc \"{OTHER}\""));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn with_one_region_nothing_is_blocked() {
    // A deployment that does not run has nothing to do; one that runs is refused (N-15, N-15.1).
    let with_status = |status, number| {
        let Change::Deployment(deployment) = deployment(number, "default", 2) else { unreachable!() };
        Change::Deployment(Arc::new(Deployment { status, ..Deployment::clone(&deployment) }))
    };
    let failed = with_status(DeploymentStatus::Failed, 7);
    let changes = vec![deployment(5, "default", 2), with_status(DeploymentStatus::Paused, 6), failed];
    let harness = Harness::with(changes).await;
    let unblock = async |id: &str| {
        let body = format!(r#"{{"DeploymentID": "{id}"}}"#);
        harness.put(&format!("/v1/deployment/unblock/{id}"), &body).await
    };
    assert_eq!(unblock(ID).await.error(), (500, "can't unblock running deployment"));
    let failed = "07070707-0707-0707-0707-070707070707";
    assert_eq!(unblock(failed).await.error(), (500, "can't unblock terminal deployment"));
    let none = "08080808-0808-0808-0808-080808080808";
    assert_eq!(unblock(none).await.error(), (500, "deployment not found"));
    let answer = unblock(OTHER).await.json();
    assert_eq!((&answer["EvalID"], &answer["EvalCreateIndex"]), (&json!(""), &json!(0)));
    assert_eq!((&answer["DeploymentModifyIndex"], &answer["RevertedJobVersion"]), (&json!(2), &json!(null)));
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn whether_a_node_may_get_work_is_a_command() {
    let harness = Harness::with(Vec::new()).await;
    let path = format!("/v1/node/{ID}/eligibility");
    let answer = harness.put(&path, r#"{"Eligibility": "ineligible"}"#).await.json();
    assert_eq!((&answer["NodeModifyIndex"], answer["EvalIDs"].as_array().unwrap().len()), (&json!(0), 1));
    let node = NodeId::from_bytes([5; 16]);
    let expected = Command::SetEligibility(SetEligibility { node, eligibility: Eligibility::Ineligible });
    assert_eq!(*harness.applier.commands.lock().unwrap(), [expected]);
    let got = harness.put(&path, r#"{"Eligibility": "maybe"}"#).await;
    assert_eq!(got.error(), (500, "invalid scheduling eligibility \"maybe\""));
}

#[actix_web::test]
async fn garbage_is_collected_by_whoever_applies() {
    let harness = Harness::with(Vec::new()).await;
    let (status, text) = (500, "No cluster leader: no process responds");
    assert_eq!(harness.put("/v1/system/gc", "").await.error(), (status, text));
    let mut forces = harness.bus.serve(Subject::ForceGarbageCollection.to_string()).await.unwrap();
    harness.bus.flush().await.unwrap();
    let answer = async {
        let request = forces.next().await.unwrap();
        request.body::<ForceGarbageCollection>().unwrap();
        request.answer(&GarbageCollectionStarted {}).await;
    };
    let (got, ()) = tokio::join!(harness.put("/v1/system/gc", ""), answer);
    assert_eq!((got.status.as_u16(), &*got.text), (200, ""));
}
