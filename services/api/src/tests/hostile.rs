//! Tests that no request hurts the API: what takes too long, holds too much, or comes from a page of another site is refused,
//! and other requests are served meanwhile.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use model::change::Change;
use model::job::{Job, JobSpec};
use model::node::{Node, NodeServerSide, NodeSpec};
use model::{Index, NodeId};
use telemetry::clock::monotonic;
use tokio_util::sync::CancellationToken;
use wire::command::Command;

use super::harness::{Harness, Response};

/// A node with as many attributes as a real one.
fn node() -> Change {
    let attributes = (0..22).map(|number| (format!("attribute.{number}").into(), "x".into())).collect();
    let spec = NodeSpec { attributes, ..NodeSpec::default() };
    let id = NodeId::from_bytes([0x11; 16]);
    Change::Node(Box::new(Node { id, spec: Arc::new(spec), server: NodeServerSide::default() }))
}

fn job(id: &str) -> Change {
    let spec = JobSpec { namespace: "default".into(), id: id.into(), ..JobSpec::default() };
    let indexes = Job { create_index: Index(2), modify_index: Index(2), ..Job::default() };
    Change::Job(Arc::new(Job { spec: Arc::new(spec), ..indexes }))
}

/// The path of a list of nodes, with quantifiers over attributes inside each other. No attribute ever satisfies them.
fn nested_quantifiers(depth: usize) -> String {
    let begin: String = (0..depth).map(|number| format!("any Attributes as k{number} {{ ")).collect();
    let filter = format!("{begin}k0 == none{}", " }".repeat(depth));
    format!("/v1/nodes?filter={}", filter.replace(' ', "%20").replace('{', "%7B").replace('}', "%7D"))
}

#[actix_web::test]
async fn a_filter_has_a_limit_of_steps() {
    let harness = Harness::with_flags(&["--http-filter-steps-max", "100000"]).await;
    harness.change(vec![node()]);
    assert_eq!(harness.get(&nested_quantifiers(2)).await.text, "[]");
    let got = harness.get(&nested_quantifiers(12)).await;
    assert_eq!(got.error().0, 400);
    let expected =
        "failed to read result page: the filter expression takes more than 100000 steps on these objects";
    assert!(got.text.starts_with(expected), "{}", got.text);
}

#[actix_web::test]
async fn a_slow_filter_keeps_no_other_request_waiting() {
    // The server has one thread that serves requests.
    let harness = Harness::with_flags(&["--http-filter-steps-max", "5000000"]).await;
    harness.change(vec![node()]);
    let path = nested_quantifiers(12);
    let slow = async {
        let got = harness.get(&path).await;
        (got.error().0, monotonic())
    };
    let other = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let got = harness.get("/v1/regions").await;
        (got.status.as_u16(), monotonic())
    };
    let ((slow, slow_at), (other, other_at)) = tokio::join!(slow, other);
    assert_eq!((slow, other), (400, 200));
    assert!(other_at < slow_at, "the filter was evaluated on the serving thread");
}

#[actix_web::test]
async fn pages_of_other_sites_change_nothing() {
    let harness = Harness::with(vec![job("a")]).await;
    let delete = |headers: &[(&'static str, &'static str)]| {
        let request = harness.builder("DELETE", "/v1/job/a?purge=true");
        Response::new(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
    };
    let got = delete(&[("origin", "https://evil.example")]).await;
    assert_eq!(got.error().0, 403);
    assert!(got.text.contains("DROVER_HTTP_ALLOWED_ORIGINS"), "{}", got.text);
    let got = delete(&[("host", "evil.example"), ("origin", "http://evil.example")]).await;
    assert_eq!(got.error().0, 403);
    assert!(got.text.contains("DROVER_HTTP_ALLOWED_HOSTS"), "{}", got.text);
    let got = Response::new(harness.builder("GET", "/v1/jobs").header("host", "evil.example")).await;
    assert_eq!(got.error().0, 403, "a page that made its name lead here reads nothing either");
    assert!(harness.applier.commands.lock().unwrap().is_empty());
    assert_eq!(delete(&[("host", "localhost")]).await.status, 200);
    assert_eq!(harness.applier.commands.lock().unwrap().len(), 1);
}

#[actix_web::test]
async fn pages_may_use_what_the_settings_allow() {
    let harness = Harness::with_flags(&["--http-allowed-origins", "https://ui.example"]).await;
    let from_page = |method, path| harness.builder(method, path).header("origin", "https://ui.example");
    let asked = from_page("OPTIONS", "/v1/jobs").header("access-control-request-method", "PUT");
    let got = Response::new(asked).await;
    assert_eq!((got.status.as_u16(), got.header("access-control-allow-origin")), (204, "https://ui.example"));
    let got = Response::new(from_page("DELETE", "/v1/job/a")).await;
    assert_eq!((got.status.as_u16(), got.header("access-control-allow-origin")), (200, "https://ui.example"));
}

#[actix_web::test]
async fn ids_reach_their_handlers_as_they_were_meant() {
    let harness = Harness::with(vec![job("a/b"), job("/a/b"), job("a/../b"), job("a/summary")]).await;
    for (path, id) in
        [("%2Fa%2Fb", "/a/b"), ("a%2F..%2Fb", "a/../b"), ("a%2Fsummary", "a/summary"), ("a%2Fb", "a/b")]
    {
        assert_eq!(harness.get(&format!("/v1/job/{path}")).await.json()["ID"], id, "{path}");
        let got = Response::new(harness.builder("DELETE", &format!("/v1/job/{path}?purge=true"))).await;
        assert_eq!(got.status, 200, "{path}");
        let command = harness.applier.commands.lock().unwrap().pop();
        let Some(Command::DeregisterJob(deregister)) = command else { panic!("{command:?}") };
        assert_eq!(&*deregister.job.id, id);
    }
    assert_eq!(harness.get("/v1/job/a/summary").await.error(), (404, "job not found"), "the summary of a");
}

#[actix_web::test]
async fn bodies_that_would_grow_are_refused() {
    let harness = Harness::with(Vec::new()).await;
    let list = format!(r#"{{"Job": {{"ID": "a", "Payload": [{}1]}}}}"#, "1,".repeat(10_000));
    let got = harness.put("/v1/jobs", &list).await;
    assert_eq!(got.error(), (413, "request body holds more than 10000 values"));
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b' '; 10 << 20]).unwrap();
    let request = harness.builder("PUT", "/v1/jobs").header("content-encoding", "gzip");
    let got = Response::new(request.body(bomb.finish().unwrap())).await;
    assert_eq!(got.error().0, 415);
    let deep = format!("{{\"Job\": {}{}}}", "[".repeat(9_000), "]".repeat(9_000));
    assert_eq!(harness.put("/v1/jobs", &deep).await.error().0, 400);
    let long = harness.get(&format!("/v1/jobs?prefix={}", "x".repeat(60_000))).await;
    assert_eq!(long.text, "[]");
    let topics = "topic=Job&".repeat(1_001);
    assert_eq!(harness.get(&format!("/v1/event/stream?{topics}")).await.error().0, 400);
}

#[actix_web::test]
async fn a_long_list_is_indented_as_it_is_sent() {
    let harness = Harness::with((0..2_000).map(|number| job(&format!("job-{number:04}"))).collect()).await;
    let got = harness.get("/v1/jobs?pretty").await;
    assert!(got.text.starts_with("[\n    {\n        \"") && got.text.ends_with("\n    }\n]\n"));
    assert_eq!(got.json().as_array().unwrap().len(), 2_000);
    assert_eq!(got.json(), harness.get("/v1/jobs").await.json());
}

#[actix_web::test]
async fn a_server_ends_although_a_request_does_not() {
    let stop = CancellationToken::new();
    let serving = crate::until_deadline(std::future::pending(), &stop, Duration::from_millis(20));
    let (ended, ()) = tokio::join!(serving, async { stop.cancel() });
    ended.unwrap();
}
