//! Tests of files and logs, with a fake agent.

use std::sync::Arc;

use actix_web::web::Bytes;
use bus::Bus;
use model::alloc::{AllocCommon, AllocatedResources, PackedAssigned, PackedMetric};
use model::change::Change;
use model::job::{Job, JobSpec};
use model::node::{Node, NodeServerSide, NodeSpec};
use model::plan::{Placement, Placements};
use model::{AllocId, Index, NodeId};
use serde_json::{Value, json};
use wire::files::*;
use wire::{Refusal, RefusalKind, Subject};

use super::harness::{Harness, Response};

pub(super) const NODE: NodeId = NodeId::from_bytes([0x11; 16]);
pub(super) const ALLOC: AllocId = AllocId::from_bytes([0x22; 16]);
const TEXT: &[u8] = b"0123456789abcdef";

/// A job with one allocation on a node.
pub(super) fn cluster() -> Vec<Change> {
    let spec = JobSpec { namespace: "default".into(), id: "fs".into(), ..JobSpec::default() };
    let job = Job { spec: Arc::new(spec), create_index: Index(2), ..Job::default() };
    let common = AllocCommon {
        job: job.version_key(),
        task_group: "g".into(),
        name_stem: "fs.g".into(),
        eval_id: model::EvalId::from_bytes([5; 16]),
        deployment_id: None,
        resources: AllocatedResources::default(),
        metrics: PackedMetric::default(),
        trace: None,
    };
    let mut placements = Placements::new(Arc::new(common));
    let node = placements.add_node(NODE);
    placements.push(Placement {
        id: ALLOC,
        node,
        name_index: 0,
        assigned: PackedAssigned::default(),
        previous: None,
        preempted: Vec::new(),
        reschedule: None,
    });
    let node = Node { id: NODE, spec: Arc::new(NodeSpec::default()), server: NodeServerSide::default() };
    vec![Change::Job(Arc::new(job)), Change::Node(Box::new(node)), Change::AllocsPlaced(Box::new(placements))]
}

/// A fake agent with one file, `/t/f.txt`, and logs of the tasks `t` and `ended`. The logs grow by a line whenever a
/// request waits for more, until the task has ended. A listing of `/endless` always goes on, one of `/again` begins
/// anew.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentFiles(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        let mut logs = TEXT.to_vec();
        while let Some(request) = requests.next().await {
            let missing = |path: &str| Refusal {
                kind: RefusalKind::NotFound,
                message: format!("stat {path}: no such file or directory").into(),
            };
            let info = |name: &str| FileInfo {
                name: name.into(),
                is_dir: name == "d",
                size: TEXT.len() as u64,
                mode: "-rw-r--r--".into(),
                modified: model::Timestamp::from_secs(1_767_225_600),
                content_type: Some("text/html".into()),
            };
            if request.is::<ListFiles>() {
                let asked: ListFiles = request.body().unwrap();
                // The name of the first entry is not text.
                let (name, next) = match (&*asked.path, asked.after.as_deref()) {
                    ("/endless", after) => {
                        ("e", Some(Bytes::from([after.unwrap_or_default(), b"e"].concat())))
                    }
                    (_, None) => ("d", Some(Bytes::from_static(b"d\xff"))),
                    ("/again", Some(_)) => ("d", Some(Bytes::from_static(b"d\xff"))),
                    (_, Some(after)) => {
                        assert_eq!(after, b"d\xff");
                        ("f.txt", None)
                    }
                };
                request.answer(&FileList { files: vec![info(name)], next }).await;
            } else if request.is::<StatFile>() {
                let asked: StatFile = request.body().unwrap();
                match &*asked.path {
                    "/t/f.txt" => request.answer(&info("f.txt")).await,
                    "/t/d" => request.answer(&info("d")).await,
                    path => request.refuse(missing(path)).await,
                }
            } else if request.is::<ReadFile>() {
                let asked: ReadFile = request.body().unwrap();
                let size = TEXT.len() as u64;
                let offset = match asked.from {
                    Origin::Start(offset) => offset,
                    Origin::End(offset) => size.saturating_sub(offset),
                };
                let data = TEXT.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
                request.answer(&FileChunk { offset, data: data.to_vec().into(), size }).await;
            } else {
                let asked: ReadLogs = request.body().unwrap();
                let ended = &*asked.task == "ended";
                if &*asked.task != "t" && !ended {
                    let message = format!("unknown task name \"{}\"", asked.task).into();
                    request.refuse(Refusal { kind: RefusalKind::Invalid, message }).await;
                    continue;
                }
                if asked.wait_ms > 0 && !ended {
                    logs.extend(b"\nmore");
                }
                let offset = match asked.from {
                    LogPosition::Cursor(cursor) => cursor.offset,
                    LogPosition::Origin(Origin::Start(offset)) => offset,
                    LogPosition::Origin(Origin::End(offset)) => logs.len() as u64 - offset,
                };
                let data = logs[usize::try_from(offset).unwrap()..].to_vec();
                let next = LogCursor { file: 0, offset: offset + data.len() as u64 };
                let path = "alloc/logs/t.stdout.0".into();
                request.answer(&LogChunk { path, data: data.into(), next, ended }).await;
            }
        }
    });
}

async fn harness() -> Harness {
    let harness = Harness::with(cluster()).await;
    serve(harness.bus.clone()).await;
    harness
}

fn path(operation: &str, query: &str) -> String {
    format!("/v1/client/fs/{operation}/{ALLOC}{query}")
}

#[actix_web::test]
async fn files_are_listed_described_and_read() {
    let harness = harness().await;
    let list = harness.get(&path("ls", "?path=/t")).await.json();
    assert_eq!((&list[0]["Name"], &list[0]["IsDir"]), (&json!("d"), &json!(true)));
    assert_eq!((&list[1]["Name"], &list[1]["ContentType"]), (&json!("f.txt"), &json!("")));
    let stat = harness.get(&path("stat", "?path=/t/f.txt")).await.json();
    assert_eq!(
        stat,
        json!({"Name": "f.txt", "IsDir": false, "Size": 16, "FileMode": "-rw-r--r--",
               "ModTime": "2026-01-01T00:00:00Z", "ContentType": "text/html"})
    );
    let cat = harness.get(&path("cat", "?path=/t/f.txt")).await;
    assert_eq!((cat.text.as_bytes(), cat.header("content-type")), (TEXT, "text/plain"));
    assert_eq!(cat.header("x-content-type-options"), "nosniff");
    for (query, piece) in
        [("&offset=3&limit=4", "3456"), ("&offset=10&limit=0", "abcdef"), ("&offset=100&limit=1", "")]
    {
        assert_eq!(harness.get(&path("readat", &format!("?path=/t/f.txt{query}"))).await.text, piece);
    }
}

#[actix_web::test]
async fn errors_of_files_come_before_the_body() {
    let harness = harness().await;
    let unknown = "/v1/client/fs/ls/00000000-0000-4000-8000-000000000000";
    let before = format!("can't seek to offset -1: seek {ALLOC}/t/f.txt: invalid argument");
    for (path, status, text) in [
        (path("stat", ""), 400, "must provide a file name"),
        (path("stat", "?path=/none"), 404, "stat /none: no such file or directory"),
        (path("cat", "?path=/none"), 404, "stat /none: no such file or directory"),
        (path("cat", "?path=/t/d"), 400, "file \"/t/d\" is a directory"),
        (path("cat", "?path=../../etc/passwd"), 500, "Path escapes the alloc directory"),
        (path("ls", "?path=../.."), 500, "Path escapes the alloc directory"),
        (path("stream", "?path=/none"), 400, "stat /none: no such file or directory"),
        (path("stream", "?path=/x&origin=middle"), 400, "origin must be start or end"),
        (
            path("readat", "?path=/t/f.txt"),
            400,
            "error parsing offset: strconv.ParseInt: parsing \"\": invalid syntax",
        ),
        (path("logs", "?type=stdout"), 400, "must provide task name"),
        (path("logs", "?task=t&type=x"), 400, "must provide log type (stdout/stderr)"),
        (path("stream", "?path=/t/f.txt&offset=-1"), 500, before.as_str()),
        (path("stream", "?path=../x"), 400, "Path escapes the alloc directory"),
        ("/v1/client/fs/logs/x".to_owned(), 400, "must provide task name"),
        (
            path("logs", "?task=t&type=stdout&follow=x"),
            400,
            "failed to parse follow field to boolean: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        (path("logs", "?task=x&type=stdout"), 400, "unknown task name \"x\""),
        (path("nonsense", ""), 404, "Invalid method"),
        ("/v1/client/fs/ls/".to_owned(), 400, "must provide a valid alloc id"),
        (
            "/v1/client/fs/ls/abc".to_owned(),
            500,
            "alloc lookup failed: index error: UUID must be 36 characters",
        ),
        (unknown.to_owned(), 404, "Unknown allocation \"00000000-0000-4000-8000-000000000000\""),
    ] {
        assert_eq!(harness.get(&path).await.error(), (status, text), "{path}");
    }
}

#[actix_web::test]
async fn a_node_that_does_not_answer_has_no_path() {
    let harness = Harness::with(cluster()).await;
    let got = harness.get(&path("ls", "")).await;
    assert_eq!(got.error(), (404, format!("No path to node \"{NODE}\"").as_str()));
}

#[actix_web::test]
async fn logs_are_plain_or_framed() {
    let harness = harness().await;
    let got = harness.get(&path("logs", "?task=t&type=stdout&plain=true")).await;
    assert_eq!((got.text.as_bytes(), got.header("content-type")), (TEXT, "text/plain"));
    let got = harness.get(&path("logs", "?task=t&type=stdout&plain=true&origin=end&offset=3")).await;
    assert_eq!(got.text, "def");
    let got = harness.get(&path("logs", "?task=t&type=stdout")).await;
    assert_eq!(got.header("content-type"), "application/json");
    let frame: Value = serde_json::from_str(&got.text).unwrap();
    assert_eq!((&frame["Offset"], &frame["File"]), (&json!(16), &json!("alloc/logs/t.stdout.0")));
    let got = harness.get(&path("logs", "?task=t&type=stdout&plain=true&offset=-3")).await;
    assert_eq!(got.text, "def");
    let got = harness.get(&path("stream", "?path=/t/f.txt&follow=false&offset=100")).await;
    assert_eq!((got.text.as_str(), got.header("content-type")), ("", ""), "there is no data");
    let got = harness.get(&path("stream", "?path=/t/f.txt&follow=false&offset=10")).await;
    assert_eq!(serde_json::from_str::<Value>(&got.text).unwrap()["Data"], "YWJjZGVm");
}

#[actix_web::test]
async fn a_listing_ends() {
    let harness = harness().await;
    let expected = "directory \"/endless\" has more than 100000 entries, and cannot be listed";
    assert_eq!(harness.get(&path("ls", "?path=/endless")).await.error(), (500, expected));
    let expected = "the node listed the same part of the directory twice";
    assert_eq!(harness.get(&path("ls", "?path=/again")).await.error(), (500, expected));
}

#[actix_web::test]
async fn following_ends_with_the_task() {
    let harness = harness().await;
    let got = harness.get(&path("logs", "?task=ended&type=stdout&plain=true&follow=true")).await;
    assert_eq!(got.text.as_bytes(), TEXT);
    let got = harness.get(&path("logs", "?task=ended&type=stdout&follow=true")).await;
    let frame: Value = serde_json::from_str(&got.text).unwrap();
    assert_eq!(frame["Offset"], 16, "no frame follows the data");
}

#[actix_web::test]
async fn following_goes_on_until_the_client_leaves() {
    let harness = harness().await;
    let request = harness.builder("GET", &path("logs", "?task=t&type=stdout&plain=true&follow=true"));
    let mut response = request.send().await.unwrap();
    let mut seen = Vec::new();
    while seen.windows(4).filter(|part| *part == b"more").count() < 3 {
        seen.extend(response.chunk().await.unwrap().unwrap());
    }
    assert!(seen.starts_with(TEXT));
    drop(response);
    // A stream that follows a log does not block other requests.
    assert_eq!(Response::new(harness.builder("GET", "/v1/regions")).await.status, 200);
}
