//! Is bad input refused, in words, with nothing stored and nobody hurt?

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use reqwest::Method;
use serde_json::{Value, json};
use tests::harness::api::text;
use tests::harness::{Cluster, PATIENCE, jobs};
use wire::envelope::HEADER_KIND;
use wire::{Refusal, Subject, Wire as _};

use crate::BINARY;

/// What stands in a file that nobody may read by way of the API.
const SECRET: &str = "swordfish";

#[tokio::test(flavor = "multi_thread")]
async fn bad_jobs_are_refused() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let with = |member: &str, value: Value| {
        let mut job = jobs::pretending("bad", 1);
        *job.pointer_mut(member).expect("the job has it") = value;
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
    std::fs::write(&secret, SECRET).expect("the directory is there");
    cluster
        .api
        .put("/v1/jobs", &jobs::service("web", "ln -s / \"$NOMAD_ALLOC_DIR/root\"; echo ready; sleep 3600"))
        .await;
    let alloc = cluster.until_alloc("web", "running").await;
    let id = text(&alloc, "ID");
    cluster
        .until("the task has made its link", async |cluster| {
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
            assert_eq!(found, status, "{call} {path}: {text}");
            assert!(!text.contains(SECRET), "{call} {path}: {text}");
        }
    }
    // An absolute path begins at the allocation's directory.
    let url = format!("/v1/client/fs/cat/{id}?path={secret}");
    assert_eq!(cluster.api.send(Method::GET, &url, "").await.0, 404);
    assert_serves(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_messages_are_refused() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let url = cluster.nats.url();
    let node = text(&cluster.api.get("/v1/nodes").await[0], "ID").parse().expect("an id");
    for subject in [
        Subject::Command,
        Subject::AskHead,
        Subject::RenewLease,
        Subject::Dequeue,
        Subject::HandOut,
        Subject::NodeRegister(node),
        Subject::NodeHeartbeat(node),
        Subject::NodeWork(node),
        Subject::NodeReport(node),
        Subject::AgentFiles(node),
    ] {
        let url = url.clone();
        let asked = tokio::task::spawn_blocking(move || ask(&url, subject, b"\xc1 garbage"));
        let answer = asked.await.expect("the question is asked");
        assert!(answer.contains(&format!("{HEADER_KIND}: {}\r\n", Refusal::KIND)), "{subject}: {answer}");
    }
    assert_serves(&mut cluster).await;
}

/// What is answered to a message without headers, headers included. The client of `bus` could not send such a one.
fn ask(url: &str, subject: Subject, body: &[u8]) -> String {
    const INBOX: &str = "_INBOX.test";
    let (login, address) =
        url.strip_prefix("nats://").and_then(|url| url.split_once('@')).expect("a URL with a login");
    let (user, password) = login.split_once(':').expect("user and password");
    let mut connection = TcpStream::connect(address).expect("nats-server listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
    let options =
        json!({ "user": user, "pass": password, "verbose": false, "headers": true, "no_responders": true });
    let mut lines = format!("CONNECT {options}\r\nSUB {INBOX} 1\r\nPUB {subject} {INBOX} {}\r\n", body.len())
        .into_bytes();
    lines.extend_from_slice(body);
    lines.extend_from_slice(b"\r\n");
    connection.write_all(&lines).expect("nats-server reads");
    let mut answer = Vec::new();
    while !is_message(&answer) {
        let mut piece = [0; 4096];
        let length = connection.read(&mut piece).expect("an answer comes in time");
        assert!(length > 0, "nats-server hangs up: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether the headers of a message have arrived.
fn is_message(received: &[u8]) -> bool {
    let received = String::from_utf8_lossy(received);
    received.split_once("HMSG ").is_some_and(|(_, message)| message.contains("\r\n\r\n"))
}

/// Asserts that all that ran runs, and does its work.
async fn assert_serves(cluster: &mut Cluster) {
    cluster.api.put("/v1/jobs", &jobs::pretending("good", 1)).await;
    cluster.until_alloc("good", "running").await;
    cluster.assert_alive();
}
