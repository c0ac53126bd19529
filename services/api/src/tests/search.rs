//! Tests of the fuzzy search.

use std::sync::Arc;

use model::Index;
use model::change::Change;
use model::job::{Job, JobSpec};
use serde_json::{Value, json};

use super::harness::Harness;

const FUZZY: &str = "/v1/search/fuzzy";
const CACHE: &str = r#"{"Job": {"ID": "cache", "TaskGroups": [{"Name": "web-g",
    "Tasks": [{"Name": "redis", "Driver": "raw_exec", "Config": {"command": "/bin/redis-server"}}]}]}}"#;

fn job(namespace: &str, name: &str) -> Change {
    let spec =
        JobSpec { namespace: namespace.into(), id: name.into(), name: name.into(), ..JobSpec::default() };
    Change::Job(Arc::new(Job { spec: Arc::new(spec), create_index: Index(2), ..Job::default() }))
}

async fn search(harness: &Harness, body: Value) -> Value {
    harness.put(FUZZY, &body.to_string()).await.json()
}

#[actix_web::test]
async fn names_that_contain_a_text_are_found_in_order() {
    // http-api §25.
    let jobs = ["b-web", "web", "a-web-long", "other"].map(|name| job("default", name));
    let harness = Harness::with(jobs.into_iter().chain([job("team", "web-team")]).collect()).await;
    let found = search(&harness, json!({ "Text": "WEB", "Context": "jobs" })).await;
    let of = |name: &str| json!({ "ID": name, "Scope": ["default", name] });
    assert_eq!(found["Matches"], json!({ "jobs": [of("web"), of("b-web"), of("a-web-long")] }));
    assert_eq!(found["Truncations"], json!({ "jobs": false }));
    let found = search(&harness, json!({ "Text": "web", "Context": "jobs", "Namespace": "team" })).await;
    assert_eq!(found["Matches"]["jobs"][0]["Scope"], json!(["team", "web-team"]));
    let found = search(&harness, json!({ "Text": "efaul", "Context": "namespaces" })).await;
    assert_eq!(found["Matches"], json!({ "namespaces": [{ "ID": "default", "Scope": null }] }));
    let found = search(&harness, json!({ "Text": "efaul", "Context": "node_pools" })).await;
    assert_eq!(found["Matches"], json!({ "node_pools": [{ "ID": "default", "Scope": ["default"] }] }));
}

#[actix_web::test]
async fn what_a_job_consists_of_is_found() {
    let harness = Harness::with(Vec::new()).await;
    harness.put("/v1/jobs", CACHE).await.json();
    let found = search(&harness, json!({ "Text": "redis", "Context": "jobs" })).await;
    let expected = json!({
        "tasks": [{ "ID": "redis", "Scope": ["default", "cache", "web-g"] }],
        "commands": [{ "ID": "/bin/redis-server", "Scope": ["default", "cache", "web-g", "redis"] }],
    });
    assert_eq!(found["Matches"], expected);
    assert_eq!(found["Truncations"], json!({ "jobs": false }));
    let found = search(&harness, json!({ "Text": "WEB-", "Context": "all" })).await;
    assert_eq!(found["Matches"]["groups"], json!([{ "ID": "web-g", "Scope": ["default", "cache"] }]));
}

#[actix_web::test]
async fn objects_without_names_are_always_in_the_result() {
    let harness =
        Harness::with((0..25).map(|number| job("default", &format!("many-{number:02}"))).collect()).await;
    let found = search(&harness, json!({ "Text": "zz-none", "Context": "all" })).await;
    let expected =
        json!({ "evals": [], "deployment": [], "volumes": [], "host_volumes": [], "scaling_policy": [] });
    assert_eq!(found["Matches"], expected);
    assert_eq!(found["Truncations"].as_object().unwrap().len(), 12);
    let found = search(&harness, json!({ "Text": "many", "Context": "jobs" })).await;
    assert_eq!(found["Matches"]["jobs"].as_array().unwrap().len(), 20);
    assert_eq!(found["Truncations"], json!({ "jobs": true }));
}

#[actix_web::test]
async fn a_fuzzy_search_has_a_text_and_a_context() {
    let harness = Harness::with(Vec::new()).await;
    let short = |length| format!("fuzzy search query must be at least 2 characters, got {length}");
    let context = |named: &str| {
        format!(
            "context must be one of [allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars \
             namespaces host_volumes] or 'all' for all contexts; got \"{named}\""
        )
    };
    for (body, text) in [
        ("null", short(0)),
        ("{}", short(0)),
        (r#"{"Text": "x", "Context": "odd"}"#, short(1)),
        (r#"{"Text": "é"}"#, context("")),
        (r#"{"Text": "xy", "Context": "groups"}"#, context("groups")),
    ] {
        assert_eq!(harness.put(FUZZY, body).await.error(), (500, text.as_str()), "{body}");
    }
    assert_eq!(harness.put(FUZZY, "").await.error(), (400, "Request body is empty"));
    assert_eq!(harness.put(FUZZY, r#"{"Text": 5}"#).await.error().0, 400);
    assert_eq!(harness.get(FUZZY).await.error(), (405, "Invalid method"));
    let off = Harness::with_flags(&["--search-fuzzy-enabled=false"]).await;
    let got = off.put(FUZZY, r#"{"Text": "xy", "Context": "all"}"#).await;
    assert_eq!(got.error(), (500, "fuzzy search is not enabled"));
}
