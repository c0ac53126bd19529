//! Fuzz test: every request gets a response, whatever its path, query string, headers and body. Requests are random
//! combinations of meaningful parts.

use std::time::Duration;

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use reqwest::Method;
use tokio::sync::mpsc;

use super::files::cluster;
use super::harness::Harness;
use crate::routes;

/// Duration of the test, in milliseconds. `DROVER_FUZZ_MS` overrides it.
const FUZZ_MS: u64 = 15_000;
/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a response, in bytes. The test cluster is small.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Maximum resident memory of the process at the end.
const MEMORY_KB_MAX: u64 = 2 << 20;
/// Number of generated requests that are queued.
const QUEUED_MAX: usize = 64;

/// Endless responses, of which only the status is checked.
const ENDLESS: [&str; 2] = ["/v1/event/stream", "/v1/agent/monitor"];
/// Values of `:name` segments.
const IDS: [&str; 14] = [
    "a",
    "fs",
    "default",
    "11111111-1111-1111-1111-111111111111",
    "22222222-2222-2222-2222-222222222222",
    "2222",
    "0",
    "",
    "%2F",
    "%ff",
    "%00",
    "%",
    "..%2f",
    "%E4%BD%A0",
];
const SUFFIXES: [&str; 4] = ["", "", "/", "/a"];
const NAMES: [&str; 25] = [
    "path",
    "task",
    "type",
    "offset",
    "limit",
    "origin",
    "topic",
    "log_level",
    "include_children",
    "node_id",
    "filter",
    "per_page",
    "next_token",
    "prefix",
    "namespace",
    "reverse",
    "stale",
    "index",
    "wait",
    "pretty",
    "region",
    "diffs",
    "diff_version",
    "cas",
    "meta",
];
const VALUES: [&str; 24] = [
    "stdout",
    "Job:*",
    "",
    "*",
    "true",
    "-1",
    "0",
    "1",
    "99999999999999999999",
    "1ms",
    "default",
    "a",
    "0a",
    "zz",
    "%22",
    "%ff",
    "+",
    "ID%20==%20%22a%22",
    "not%20(",
    "ID%20matches%20%22(%22",
    "any%20TaskGroups%20as%20t%20%7B%20t.Name%20==%20a%20%7D",
    "1.00000000-0000-4000-8000-000000000000",
    "default.a",
    "%E4%BD%A0",
];
const BODIES: [&str; 19] = [
    "{\"Jobs\":[{\"ID\":\"a\"}]}",
    "",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "null",
    "{}",
    ",",
    ":",
    "\"Job\":",
    "\"ID\":\"a\"",
    "\"TaskGroups\":[",
    "1e999",
    "-0",
    "{\"Job\":{\"ID\":\"a\",\"Type\":\"batch\",\"TaskGroups\":[{}]}}",
    "\u{fffd}",
    "\\u0000",
];
const HEADERS: [(&str, &str); 8] = [
    ("accept-encoding", "gzip, deflate"),
    ("accept-encoding", "gzip;q=0"),
    ("x-nomad-token", "\u{e4}"),
    ("authorization", "Bearer x"),
    ("origin", "https://ui.example"),
    ("access-control-request-method", "GET"),
    ("content-type", "text/nonsense"),
    ("traceparent", "00-nonsense"),
];

/// A generated request.
struct FuzzRequest {
    method: Method,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

fn make(u: &mut Unstructured<'_>) -> Result<FuzzRequest> {
    let methods = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::OPTIONS, Method::HEAD];
    let route = routes::paths().nth(u.choose_index(routes::paths().count())?).unwrap_or_default();
    let mut path = String::new();
    for (at, part) in route.split('/').enumerate() {
        path.push_str(if at == 0 { "" } else { "/" });
        path.push_str(if part.starts_with(':') { u.choose(&IDS)? } else { part });
    }
    path.push_str(u.choose(&SUFFIXES)?);
    // Blocking queries must end soon: the first value of a repeated parameter counts.
    path.push_str("?wait=1ms&follow=false");
    for _ in 0..u.int_in_range(0..=4)? {
        path.push('&');
        path.push_str(u.choose(&NAMES)?);
        path.push('=');
        path.push_str(u.choose(&VALUES)?);
    }
    let mut headers = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        headers.push(*u.choose(&HEADERS)?);
    }
    let mut body = String::new();
    for _ in 0..u.int_in_range(0..=6)? {
        body.push_str(u.choose(&BODIES)?);
    }
    Ok(FuzzRequest { method: u.choose(&methods)?.clone(), path, headers, body })
}

/// Generates requests on a separate thread, until the receiver is dropped or the time is over.
fn generate() -> mpsc::Receiver<FuzzRequest> {
    let budget = std::env::var("DROVER_FUZZ_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(FUZZ_MS);
    let (sender, requests) = mpsc::channel(QUEUED_MAX);
    std::thread::spawn(move || {
        arbtest(|u| {
            // Fails if the test has stopped receiving, because a request failed.
            let _ = sender.blocking_send(make(u)?);
            Ok(())
        })
        .budget_ms(budget);
    });
    requests
}

#[actix_web::test]
async fn every_request_is_answered() {
    let harness = Harness::with(cluster()).await;
    let mut requests = generate();
    while let Some(FuzzRequest { method, path, headers, body }) = requests.recv().await {
        let mut request =
            harness.builder(method.as_str(), &path).body(body.clone()).timeout(RESPONSE_TIMEOUT);
        for (name, value) in headers {
            request = request.header(name, value.as_bytes());
        }
        let wrong = |error: reqwest::Error| -> ! { panic!("{method} {path} {body}: {error}") };
        let response = request.send().await.unwrap_or_else(|error| wrong(error));
        let status = response.status();
        if status == 200 && ENDLESS.iter().any(|endless| path.starts_with(endless)) {
            continue;
        }
        let length = response.bytes().await.unwrap_or_else(|error| wrong(error)).len();
        assert!(length < RESPONSE_BYTES_MAX, "{method} {path} {body}: {status} {length}");
    }
    assert_eq!(harness.get("/v1/regions").await.status, 200);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < MEMORY_KB_MAX, "{peak} kB");
}
