//! Whatever arrives is answered: query strings, paths, headers and bodies out of pieces that mean something, in any order.

use std::time::Duration;

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use reqwest::Method;

use super::house::House;

/// How long requests are made up. `DROVER_FUZZ_MS` makes it longer.
const FUZZ_MS: u64 = 2_000;
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const PATHS: [&str; 26] = [
    "/v1/jobs",
    "/v1/jobs/statuses",
    "/v1/job/",
    "/v1/jobs/parse",
    "/v1/validate/job",
    "/v1/allocations",
    "/v1/allocation/",
    "/v1/evaluations",
    "/v1/evaluations/count",
    "/v1/evaluation/",
    "/v1/nodes",
    "/v1/node/",
    "/v1/node/pools",
    "/v1/node/pool/",
    "/v1/namespaces",
    "/v1/namespace/",
    "/v1/search",
    "/v1/operator/scheduler/configuration",
    "/v1/agent/self",
    "/v1/agent/schedulers/config",
    "/v1/client/stats",
    "/v1/client/allocation/",
    "/v1/metrics",
    "/v1/client/fs/ls/",
    "/v1/vars",
    "/v1/acl/token/self",
];
const SUFFIXES: [&str; 14] = [
    "/stats",
    "",
    "a",
    "%2F",
    "/allocations",
    "/versions",
    "/submission",
    "/summary",
    "/evaluate",
    "/stop",
    "%ff",
    "%00",
    "%",
    "..%2f",
];
const NAMES: [&str; 17] = [
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
const VALUES: [&str; 22] = [
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

/// A request.
struct Made {
    method: Method,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

fn make(u: &mut Unstructured<'_>) -> Result<Made> {
    let methods = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::OPTIONS, Method::HEAD];
    let mut path = (*u.choose(&PATHS)?).to_owned();
    for _ in 0..u.int_in_range(0..=2)? {
        path.push_str(u.choose(&SUFFIXES)?);
    }
    // What waits for changes waits shortly: of a parameter that is given twice, the first counts.
    path.push_str("?wait=1ms");
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
    Ok(Made { method: u.choose(&methods)?.clone(), path, headers, body })
}

#[actix_web::test]
async fn whatever_is_asked_is_answered() {
    let house = House::with(Vec::new()).await;
    let mut made = Vec::new();
    let budget = std::env::var("DROVER_FUZZ_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(FUZZ_MS);
    arbtest(|u| {
        made.push(make(u)?);
        Ok(())
    })
    .budget_ms(budget / 20);
    let deadline = telemetry::clock::monotonic() + Duration::from_millis(budget);
    for Made { method, path, headers, body } in made {
        if telemetry::clock::monotonic() > deadline {
            break;
        }
        let mut request = house.ask(method.as_str(), &path).body(body.clone()).timeout(ANSWER_WITHIN);
        for (name, value) in headers {
            request = request.header(name, value.as_bytes());
        }
        let answer = request.send().await.unwrap_or_else(|error| panic!("{method} {path} {body}: {error}"));
        let status = answer.status();
        let length =
            answer.bytes().await.unwrap_or_else(|error| panic!("{method} {path} {body}: {error}")).len();
        assert!(length < 1 << 20, "{method} {path} {body}: {status} {length}");
    }
    assert_eq!(house.get("/v1/regions").await.status, 200);
}
