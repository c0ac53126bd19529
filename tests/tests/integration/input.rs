//! Malformed input is refused with a message, is not stored, and harms nothing.

use nats_auth::Credentials;
use reqwest::Method;
use serde_json::{Value, json};
use tests::harness::api::text;
use tests::harness::raw_nats::{RawNats, Received};
use tests::harness::{Cluster, jobs};
use wire::envelope::HEADER_KIND;
use wire::{Inbox, Refusal, Role, Subject, Wire as _};

use crate::BINARY;

/// The sender of malformed messages. It has all permissions at NATS, so that services receive them.
const ROLE: Role = Role::Observer;
/// The content of a file that must not be readable through the API.
const SECRET: &str = "swordfish";

#[tokio::test(flavor = "multi_thread")]
async fn bad_jobs_are_refused() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let with = |member: &str, value: Value| {
        let mut job = jobs::mock_service("bad", 1);
        *job.pointer_mut(member).expect("the job has this member") = value;
        job.to_string()
    };
    let groups =
        |count: usize| format!(r#"{{"Job":{{"ID":"bad","TaskGroups":[{}{{}}]}}}}"#, "{},".repeat(count - 1));
    let nested = format!(r#"{{"Job":{}}}"#, "[".repeat(100_000));
    for (what, body, status, words) in [
        ("nothing", String::new(), 400, "empty"),
        ("half of it", r#"{"Job": {"ID": "bad""#.to_owned(), 400, ""),
        ("no JSON", "job \"bad\" {}".to_owned(), 400, ""),
        ("a list", "[]".to_owned(), 400, ""),
        ("no job", "{}".to_owned(), 400, "Job must be specified"),
        ("deeply nested", nested, 400, ""),
        (
            "a count that is text",
            with("/Job/TaskGroups/0/Count", json!("two")),
            400,
            "Job.TaskGroups[0].Count",
        ),
        ("a count that is too large", with("/Job/TaskGroups/0/Count", json!(u64::MAX)), 400, "Count"),
        ("an id that is a number", with("/Job/ID", json!(7)), 400, "Job.ID"),
        ("groups that are a text", with("/Job/TaskGroups", json!("group")), 400, "Job.TaskGroups"),
        ("a negative count", with("/Job/TaskGroups/0/Count", json!(-1)), 500, "count can't be negative"),
        ("a million allocations", with("/Job/TaskGroups/0/Count", json!(1_000_000)), 500, "job_max_count"),
        ("a null character", with("/Job/ID", json!("b\0d")), 500, "null character"),
        ("a million groups", groups(1_000_000), 413, "objects"),
        ("too many bytes", " ".repeat(9 << 20), 413, "larger"),
    ] {
        let (found, text) = cluster.api.send(Method::PUT, "/v1/jobs", body).await;
        assert_eq!(found, status, "{what}: {text}");
        assert!(text.contains(words), "{what}: {text}");
    }
    assert_eq!(cluster.api.get("/v1/jobs").await, json!([]));
    assert_eq!(cluster.sql("select (select count(*) from jobs), (select count(*) from evals)"), ["0|0"]);
    assert_serves(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_out_of_an_allocation_are_refused() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let secret = cluster.path("secret");
    std::fs::write(&secret, SECRET).expect("the file can be written");
    cluster
        .api
        .put("/v1/jobs", &jobs::service("web", "ln -s / \"$NOMAD_ALLOC_DIR/root\"; echo ready; sleep 3600"))
        .await;
    let alloc = cluster.wait_for_alloc("web", "running").await;
    let id = text(&alloc, "ID");
    cluster
        .wait_until("the task has created its link", async |cluster| {
            let path = format!("/v1/client/fs/logs/{id}?task=task&type=stdout&plain=true");
            cluster.api.send(Method::GET, &path, "").await.1.contains("ready").then_some(())
        })
        .await;
    let secret = secret.display();
    for (path, status) in [
        ("../secret".to_owned(), 500),
        ("alloc/../../secret".to_owned(), 500),
        ("%2e%2e%2fsecret".to_owned(), 500),
        (format!("alloc/root{secret}"), 500),
        (format!("{}{secret}", "../".repeat(20)), 500),
        ("alloc/%00".to_owned(), 400),
    ] {
        for call in ["cat", "readat", "stat", "ls", "stream"] {
            let url = format!("/v1/client/fs/{call}/{id}?path={path}&offset=0&limit=64&follow=false");
            let (found, text) = cluster.api.send(Method::GET, &url, "").await;
            // A stream has its own status for whatever is wrong with a path (http-api §13).
            let expected = if call == "stream" { 400 } else { status };
            assert_eq!(found, expected, "{call} {path}: {text}");
            assert!(!text.contains(SECRET), "{call} {path}: {text}");
        }
    }
    // An absolute path is relative to the allocation's directory.
    let url = format!("/v1/client/fs/cat/{id}?path={secret}");
    assert_eq!(cluster.api.send(Method::GET, &url, "").await.0, 404);
    assert_serves(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_messages_are_refused() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let url = cluster.nats.url();
    let credentials = cluster
        .nats
        .credentials(ROLE)
        .expect("the credentials can be written")
        .expect("NATS uses credentials");
    let credentials = std::fs::read_to_string(credentials).expect("the credentials can be read");
    let credentials = Credentials::read(&credentials).expect("the credentials can be parsed");
    let node = text(&cluster.api.get("/v1/nodes").await[0], "ID").parse().expect("the id is valid");
    for subject in [
        Subject::Command(ROLE),
        Subject::GetHead,
        Subject::RenewLease(ROLE),
        Subject::Dequeue,
        Subject::EvalLease,
        Subject::NodeRegister(node),
        Subject::NodeHeartbeat(node),
        Subject::NodeWork(node),
        Subject::NodeReport(node),
        Subject::NodeServices(node),
        Subject::NodeDirectory(node),
        Subject::AgentFiles(node),
    ] {
        let (url, credentials) = (url.clone(), credentials.clone());
        let answer =
            tokio::task::spawn_blocking(move || answer_to(&url, &credentials, subject, b"\xc1 garbage"));
        let answer = answer.await.expect("the client does not panic");
        assert!(answer.contains(&format!("{HEADER_KIND}: {}\r\n", Refusal::KIND)), "{subject}: {answer}");
    }
    assert_serves(&mut cluster).await;
}

/// Returns the answer to a message without headers, including its headers. The client of `bus` cannot send such a
/// message.
fn answer_to(url: &str, credentials: &Credentials, subject: Subject, body: &[u8]) -> String {
    let inbox = Inbox::of(ROLE, &subject).to_string() + ".garbage";
    let mut client = RawNats::connect(url, Some(credentials)).expect("the role has all permissions");
    client.subscribe_to(&inbox, "");
    client.publish(&subject.to_string(), &inbox, "", body);
    match client.message() {
        Ok(Received::Message { text, .. }) => text,
        other => panic!("{subject}: {other:?}"),
    }
}

/// Asserts that all processes still run and that a new job runs.
async fn assert_serves(cluster: &mut Cluster) {
    cluster.api.put("/v1/jobs", &jobs::mock_service("good", 1)).await;
    cluster.wait_for_alloc("good", "running").await;
    cluster.assert_alive();
}
