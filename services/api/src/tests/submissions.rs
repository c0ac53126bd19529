//! Tests of job sources: registering with a source, and reading it.

use std::sync::Arc;

use model::change::Change;
use model::job::{Job, JobSource, JobSpec, JobSubmission};
use model::{Index, JobKey, JobVersionKey};
use serde_json::json;
use wire::command::Command;

use super::harness::Harness;

const VERSION: &str = "/v1/job/web/submission?version=";

fn job(version: u64) -> Change {
    let spec = JobSpec { namespace: "default".into(), id: "web".into(), ..JobSpec::default() };
    Change::Job(Arc::new(Job { spec: spec.into(), version, create_index: Index(2), ..Job::default() }))
}

fn version(version: u64) -> JobVersionKey {
    JobVersionKey { job: JobKey::new("default", "web"), create_index: Index(2), version }
}

fn submission(number: u64, flag: &str) -> Change {
    submission_with(number, flag, "100")
}

fn submission_with(number: u64, flag: &str, odd: &str) -> Change {
    let source = JobSource {
        text: "job \"web\" {}".into(),
        format: "hcl2".into(),
        variable_flags: Some([("a".into(), flag.into()), ("odd".into(), odd.into())].into()),
        variables: "c = 3\n".into(),
    };
    Change::JobSubmission(Box::new(JobSubmission {
        version: version(number),
        job_modify_index: Index(2),
        source: Arc::new(source),
        is_copy: false,
    }))
}

#[actix_web::test]
async fn the_source_of_a_version_is_read() {
    let harness = Harness::with(vec![job(0), submission(0, "x%20y"), job(1), job(2)]).await;
    let got = harness.get(&format!("{VERSION}0")).await;
    assert_eq!((got.header("x-nomad-index"), got.header("x-nomad-knownleader")), ("2", "true"));
    let expected = json!({
        "Source": "job \"web\" {}",
        "Format": "hcl2",
        "VariableFlags": { "a": "x%20y", "odd": "100" },
        "Variables": "c = 3\n",
        "Namespace": "default",
        "JobID": "web",
        "Version": 0,
        "JobModifyIndex": 2,
    });
    assert_eq!(got.json(), expected);
    let missing = harness.get(&format!("{VERSION}1")).await;
    assert_eq!(missing.error(), (404, "job source not found"));
    assert_eq!(missing.header("x-nomad-index"), "2");
    assert_eq!(harness.get("/v1/job/none/submission?version=0").await.error(), (404, "job source not found"));
    for wrong in ["", "-1", "x", "1.5"] {
        let got = harness.get(&format!("{VERSION}{wrong}")).await;
        assert_eq!(got.error(), (400, "Unable to parse job submission version parameter"), "{wrong}");
        assert_eq!(got.header("x-nomad-index"), "");
    }
}

#[actix_web::test]
async fn values_of_flags_are_plain_once_another_version_has_taken_them_over() {
    let copied = Change::JobSubmissionCopied { from: version(0), to: version(1) };
    let harness = Harness::with(vec![job(0), submission(0, "x%20y"), job(1), job(2), copied]).await;
    harness.change(vec![submission(2, "z%2520")]);
    let flags = async |version: u64| {
        let got = harness.get(&format!("{VERSION}{version}")).await.json();
        got["VariableFlags"].clone()
    };
    assert_eq!(flags(0).await, json!({ "a": "x y", "odd": "100" }));
    assert_eq!(flags(1).await, json!({ "a": "x y", "odd": "100" }));
    assert_eq!(flags(2).await, json!({ "a": "z%2520", "odd": "100" }));
}

// http-api §11.3
#[actix_web::test]
async fn a_shared_source_whose_flags_cannot_be_unescaped_is_not_shown() {
    let copied = Change::JobSubmissionCopied { from: version(0), to: version(1) };
    for (flag, escape) in [("a%zzb", "%zz"), ("100%", "%"), ("%4", "%4"), ("%20%x", "%x")] {
        let changes = vec![job(0), submission_with(0, "x", flag), job(1), copied.clone()];
        let harness = Harness::with(changes).await;
        for number in [0, 1] {
            let got = harness.get(&format!("{VERSION}{number}")).await;
            assert_eq!(got.error(), (500, &*format!("invalid URL escape \"{escape}\"")));
            assert_eq!(got.header("x-nomad-knownleader"), "true", "it has the headers of a read");
        }
    }
    let alone = Harness::with(vec![job(0), submission_with(0, "x", "100%")]).await;
    assert_eq!(alone.get(&format!("{VERSION}0")).await.json()["VariableFlags"]["odd"], "100%");
}

#[actix_web::test]
async fn a_registration_sends_its_source_along() {
    let harness = Harness::with(Vec::new()).await;
    let body = json!({
        "Job": { "ID": "web", "TaskGroups": [{ "Name": "g", "Tasks": [{ "Name": "t", "Driver": "raw_exec" }] }] },
        "Submission": { "Source": "{}", "Format": "json", "VariableFlags": { "a": "1" }, "JobID": "of no interest" },
    });
    assert_eq!(harness.put("/v1/jobs", &body.to_string()).await.json()["Warnings"], "");
    let commands = harness.applier.commands.lock().unwrap();
    let [Command::RegisterJob(register)] = &commands[..] else { panic!("{commands:?}") };
    let expected = JobSource {
        text: "{}".into(),
        format: "json".into(),
        variable_flags: Some([("a".into(), "1".into())].into()),
        variables: "".into(),
    };
    assert_eq!(register.source.as_deref(), Some(&expected));
}
