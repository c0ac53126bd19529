//! Tests of the return to an older version, of stability and of version tags.

use std::sync::Arc;

use model::JobKey;
use model::change::Change;
use model::job::{Job, JobSpec};
use serde_json::json;
use wire::command::{Command, RevertJob, SetJobStability, TagJobVersion, UntagJobVersion};

use super::harness::{Harness, Response};

const JOB: &str = r#"{"Job": {"ID": "web", "TaskGroups": [{"Name": "g",
    "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]}}"#;
const REVERT: &str = "/v1/job/web/revert";
const STABLE: &str = "/v1/job/web/stable";
const TAG: &str = "/v1/job/web/versions/golden/tag";

fn web() -> JobKey {
    JobKey::new("default", "web")
}

/// A job of three versions, of which the second is not valid.
async fn with_versions() -> Harness {
    let harness = Harness::with(Vec::new()).await;
    harness.put("/v1/jobs", JOB).await.json();
    let first = Job::clone(harness.replica.snapshot().job(&web()).unwrap());
    let spec = JobSpec::clone(&first.spec);
    let invalid = Arc::new(JobSpec { priority: 5_000, ..spec.clone() });
    let newest = Arc::new(JobSpec { priority: 70, stop: true, ..spec });
    harness.change(vec![
        Change::Job(Arc::new(Job { spec: invalid, version: 1, ..first.clone() })),
        Change::Job(Arc::new(Job { spec: newest, version: 2, ..first })),
    ]);
    harness.applier.commands.lock().unwrap().clear();
    harness
}

fn last(harness: &Harness) -> Option<Command> {
    harness.applier.commands.lock().unwrap().pop()
}

#[actix_web::test]
async fn a_return_to_an_older_version_is_a_command() {
    // http-api §11.3; the applier compares the versions.
    let harness = with_versions().await;
    let revert =
        |version, prior_version| Some(Command::RevertJob(RevertJob { job: web(), version, prior_version }));
    let got = harness.put(REVERT, r#"{"JobID": "web"}"#).await;
    assert_eq!((got.json()["EvalID"].as_str().unwrap().len(), &got.json()["Warnings"]), (36, &json!("")));
    assert_eq!(got.header("x-nomad-index"), got.json()["Index"].to_string());
    assert_eq!(last(&harness), revert(0, None));
    let body = r#"{"JobID": "web", "JobVersion": 9, "EnforcePriorVersion": 2, "VaultToken": "x"}"#;
    harness.put(REVERT, body).await.json();
    assert_eq!(last(&harness), revert(9, Some(2)), "what does not exist is refused by the applier");
    let got = harness.put(REVERT, r#"{"JobID": "web", "JobVersion": 1}"#).await;
    assert_eq!(got.error().0, 500);
    assert!(got.text.contains("riority"), "{}", got.text);
    assert_eq!(last(&harness), None, "the version is not valid");
    let in_team = r#"{"JobID": "web", "Namespace": "team"}"#;
    harness.put(REVERT, in_team).await.json();
    let Some(Command::RevertJob(found)) = last(&harness) else { panic!("the request is a command") };
    assert_eq!(&*found.job.namespace, "team");
}

#[actix_web::test]
async fn stability_is_a_command() {
    let harness = with_versions().await;
    let got = harness.put(STABLE, r#"{"JobID": "web", "JobVersion": 1, "Stable": true}"#).await;
    assert_eq!(got.json(), json!({ "Index": got.json()["Index"] }));
    assert_eq!(got.header("x-nomad-index"), got.json()["Index"].to_string());
    let expected = SetJobStability { job: web(), version: 1, stable: true };
    assert_eq!(last(&harness), Some(Command::SetJobStability(expected)));
}

#[actix_web::test]
async fn requests_about_a_version_name_the_job() {
    let harness = with_versions().await;
    for path in [REVERT, STABLE] {
        for (body, text) in [
            ("", "Request body is empty"),
            ("null", "JobID must be specified"),
            ("{}", "JobID must be specified"),
            (r#"{"JobID": "x"}"#, "Job ID does not match"),
        ] {
            assert_eq!(harness.put(path, body).await.error(), (400, text), "{path} {body}");
        }
        for body in ["[]", "{", r#"{"JobID": "web", "JobVersion": -1}"#, r#"{"JobVersion": "0"}"#] {
            assert_eq!(harness.put(path, body).await.error().0, 400, "{path} {body}");
        }
        assert_eq!(harness.get(path).await.error(), (405, "Invalid method"));
    }
    assert_eq!(last(&harness), None);
}

#[actix_web::test]
async fn a_tag_is_a_command_and_its_answer_has_no_index_header() {
    let harness = with_versions().await;
    let got = harness.put(TAG, r#"{"Version": 1, "Description": "good", "Name": "other"}"#).await;
    let Some(Command::TagJobVersion(command)) = last(&harness) else { panic!("the request is a command") };
    let TagJobVersion { job, version, name, description, at } = command;
    assert_eq!((job, version, &*name, &*description), (web(), Some(1), "golden", "good"));
    let answer = got.json();
    let expected = json!({
        "Name": "golden", "Description": "good", "TaggedTime": at.0, "Index": answer["Index"],
        "LastContact": 0, "KnownLeader": false, "NextToken": "",
    });
    assert_eq!((&answer, got.header("x-nomad-index")), (&expected, ""));

    for (body, expected) in [(r#"{"Latest": true}"#, None), ("{}", Some(0)), ("null", Some(0))] {
        harness.put(TAG, body).await.json();
        let Some(Command::TagJobVersion(command)) = last(&harness) else { panic!("{body} is a command") };
        assert_eq!(command.version, expected);
    }
    // http-api §11.3: all writes take a namespace in the body; that of the query takes precedence.
    for (query, namespace) in [("", "team"), ("?namespace=default", "default")] {
        harness.put(&format!("{TAG}{query}"), r#"{"Namespace": "team"}"#).await.json();
        let Some(Command::TagJobVersion(command)) = last(&harness) else { panic!("it is a command") };
        assert_eq!(&*command.job.namespace, namespace);
    }
    let got = harness.put(TAG, r#"{"Version": 1, "Latest": true}"#).await;
    assert_eq!(got.error(), (500, "version must be zero when tagging latest, got: 1"));
    assert_eq!(harness.put(TAG, "").await.error(), (400, "Request body is empty"));
    assert_eq!(harness.put(TAG, "[]").await.error().0, 400);
    assert_eq!(harness.get(TAG).await.error(), (405, "Invalid method"));
    let invalid = (404, "invalid job tag endpoint");
    assert_eq!(harness.put("/v1/job/a/b/versions/golden/tag", "{}").await.error(), invalid);
    assert_eq!(harness.put("/v1/job/a/versions/golden/x/tag", "{}").await.error(), invalid);
    assert_eq!(last(&harness), None);

    let got = Response::new(harness.builder("DELETE", TAG)).await;
    let expected = UntagJobVersion { job: web(), name: "golden".into() };
    assert_eq!(last(&harness), Some(Command::UntagJobVersion(expected)));
    let answer = got.json();
    assert_eq!((&answer["Name"], &answer["TaggedTime"]), (&json!(""), &json!(0)));
    assert_eq!(got.header("x-nomad-index"), "");
}
