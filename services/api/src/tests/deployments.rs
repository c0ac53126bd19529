//! Tests of deployments, node eligibility and garbage collection over HTTP.

use std::sync::Arc;

use model::change::Change;
use model::deployment::{Deployment, DeploymentStatus};
use model::job::{Job, JobSpec};
use model::node::Eligibility;
use model::{DeploymentId, Index, JobKey, JobVersionKey, NodeId, Timestamp};
use serde_json::json;
use wire::Subject;
use wire::command::{
    Command, FailDeployment, ForceGarbageCollection, GarbageCollectionStarted, SetEligibility,
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
async fn a_deployment_is_given_up_by_command_and_the_rest_is_not_built() {
    let harness = Harness::with(vec![deployment(5, "default", 2)]).await;
    let answer = harness.put(&format!("/v1/deployment/fail/{ID}"), "").await.json();
    assert_eq!(answer["EvalID"].as_str().unwrap().len(), 36);
    assert_eq!((&answer["DeploymentModifyIndex"], &answer["RevertedJobVersion"]), (&json!(3), &json!(null)));
    let id = DeploymentId::from_bytes([5; 16]);
    assert_eq!(*harness.applier.commands.lock().unwrap(), [Command::FailDeployment(FailDeployment { id })]);
    for verb in ["pause", "promote", "allocation-health", "unblock"] {
        let got = harness.put(&format!("/v1/deployment/{verb}/{ID}"), "{}").await;
        let (status, text) = got.error();
        assert_eq!(status, 501);
        assert!(text.contains(verb), "{text}");
    }
}

#[actix_web::test]
async fn whether_a_node_may_get_work_is_a_command() {
    let harness = Harness::with(Vec::new()).await;
    let path = format!("/v1/node/{ID}/eligibility");
    let answer = harness.put(&path, r#"{"Eligibility": "ineligible"}"#).await.json();
    assert_eq!((&answer["NodeModifyIndex"], answer["EvalIDs"].as_array().unwrap().len()), (&json!(3), 1));
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
