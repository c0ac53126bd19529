//! Tests of reads: objects, headers, pages and consistency.

use std::sync::Arc;

use model::change::Change;
use model::cluster::NodePool;
use model::job::{Job, JobSpec, JobType};
use model::{Index, JobKey};

use super::harness::Harness;

fn job(namespace: &str, id: &str, index: u64) -> Change {
    let spec = JobSpec {
        namespace: namespace.into(),
        id: id.into(),
        name: id.into(),
        kind: JobType::Batch,
        priority: 50,
        ..JobSpec::default()
    };
    let index = Index(index);
    let indexes = Job { create_index: index, modify_index: index, job_modify_index: index, ..Job::default() };
    Change::Job(Arc::new(Job { spec: spec.into(), ..indexes }))
}

#[actix_web::test]
async fn a_job_is_read_with_the_headers_that_clients_want() {
    let harness = Harness::with(vec![job("default", "a/b", 2)]).await;
    for path in ["/v1/job/a%2Fb", "/v1/job/a/b"] {
        let got = harness.get(path).await;
        assert_eq!(got.json()["ID"], "a/b");
        assert_eq!(got.header("x-nomad-index"), "2");
        assert_eq!(got.header("x-nomad-knownleader"), "true");
        assert_eq!(got.header("x-nomad-lastcontact"), "0");
    }
    let got = harness.get("/v1/job/none").await;
    assert_eq!(got.error(), (404, "job not found"));
    assert_eq!(got.header("x-nomad-index"), "2");
    assert_eq!(harness.get("/v1/job/a%2Fb?namespace=other").await.error().0, 404);
    let got = harness.get("/v1/job/none/allocations").await;
    assert_eq!(got.text, "[]");
}

#[actix_web::test]
async fn lists_come_in_pages_and_orders() {
    let jobs = ["a-1", "a-2", "b-1", "c/1"].map(|id| job("default", id, 2));
    let harness = Harness::with(jobs.into_iter().chain([job("other", "a-1", 2)]).collect()).await;
    let ids = |got: &super::harness::Response| -> Vec<String> {
        let list = got.json();
        list.as_array().unwrap().iter().map(|stub| stub["ID"].as_str().unwrap().to_owned()).collect()
    };
    let got = harness.get("/v1/jobs").await;
    assert_eq!(ids(&got), ["a-1", "a-2", "b-1", "c/1"]);
    assert_eq!(got.json()[0]["Namespace"], "default");
    assert_eq!(ids(&harness.get("/v1/jobs?namespace=*").await).len(), 5);
    assert_eq!(ids(&harness.get("/v1/jobs?prefix=a-").await), ["a-1", "a-2"]);
    assert_eq!(ids(&harness.get("/v1/jobs?prefix=zzz").await), [""; 0]);
    assert_eq!(ids(&harness.get("/v1/jobs?reverse=true&prefix=a").await), ["a-2", "a-1"]);

    let got = harness.get("/v1/jobs?per_page=3").await;
    assert_eq!((ids(&got).len(), got.header("x-nomad-nexttoken")), (3, "default.c/1"));
    let got = harness.get("/v1/jobs?per_page=3&next_token=default.c%2F1").await;
    assert_eq!((ids(&got), got.header("x-nomad-nexttoken")), (vec!["c/1".to_owned()], ""));
    let got = harness.get("/v1/jobs?per_page=-1").await;
    assert_eq!((ids(&got).len(), got.header("x-nomad-nexttoken")), (0, "default.a-1"));
    assert_eq!(ids(&harness.get("/v1/jobs?per_page=2&next_token=nonsense").await), [""; 0]);
    let got = harness.get("/v1/jobs?reverse=true&per_page=1").await;
    assert_eq!((ids(&got), got.header("x-nomad-nexttoken")), (vec!["c/1".to_owned()], "default.b-1"));
    assert_eq!(ids(&harness.get("/v1/jobs?filter=ID%20==%20%22a-2%22").await), ["a-2"]);
    let got = harness.get("/v1/jobs?filter=Type%20==%20batch&per_page=1&next_token=default.b-1").await;
    assert_eq!((ids(&got), got.header("x-nomad-nexttoken")), (vec!["b-1".to_owned()], "default.c/1"));
    let got = harness.get("/v1/jobs?filter=ID%20==%20%22a-2%22&per_page=1").await;
    assert_eq!(
        (ids(&got), got.header("x-nomad-nexttoken")),
        (vec!["a-2".to_owned()], ""),
        "there is no further page"
    );
    for (filter, text) in [
        ("Type%20%3E%203", "failed to create result paginator: failed to read filter expression: 1:5 (4): "),
        ("Nope%20==%20x", "failed to read result page: error finding value in datum: /Nope at part 0: "),
    ] {
        let got = harness.get(&format!("/v1/jobs?filter={filter}")).await;
        assert!(got.error().0 == 400 && got.text.starts_with(text), "{}", got.text);
    }
    assert_eq!(
        harness.get("/v1/jobs?per_page=x").await.error(),
        (400, "Expect a number for `per_page` query string parameter")
    );
}

#[actix_web::test]
async fn tokens_may_be_of_any_letters() {
    let harness = Harness::with(vec![job("default", "a", 2), job("default", "\u{e4}", 2)]).await;
    let got = harness.get("/v1/jobs?per_page=1").await;
    assert_eq!(got.headers["x-nomad-nexttoken"].as_bytes(), "default.\u{e4}".as_bytes());
    let got = harness.get("/v1/jobs?per_page=1&next_token=default.%C3%A4").await;
    assert_eq!(got.json()[0]["ID"], "\u{e4}");
}

#[actix_web::test]
async fn a_long_list_is_sent_whole() {
    let jobs = (0..1_000).map(|number| job("default", &format!("job-{number:04}"), 2)).collect();
    let harness = Harness::with(jobs).await;
    let list = harness.get("/v1/jobs").await.json();
    assert_eq!(list.as_array().unwrap().len(), 1_000);
    assert_eq!(list[999]["ID"], "job-0999");
}

#[actix_web::test]
async fn ids_that_are_none_are_a_failure() {
    let harness = Harness::with(Vec::new()).await;
    let uuid = "00000000-0000-4000-8000-000000000000";
    for (path, status, text) in [
        ("/v1/allocation/abc", 500, "alloc lookup failed: index error: UUID must be 36 characters"),
        (&format!("/v1/allocation/{uuid}"), 404, "alloc not found"),
        (&format!("/v1/evaluation/{uuid}"), 404, "eval not found"),
        (
            "/v1/evaluation/",
            500,
            "failed to lookup eval: eval lookup failed: index error: UUID must be 36 characters",
        ),
        (&format!("/v1/node/{uuid}"), 404, "node not found"),
        ("/v1/node/", 500, "missing node ID"),
        (
            &format!("/v1/node/{uuid}/nonsense"),
            500,
            "node lookup failed: index error: UUID must be 36 characters",
        ),
        (
            "/v1/nodes?prefix=abc",
            500,
            "node lookup failed: index error: Input (without hyphens) must be even length",
        ),
        ("/v1/namespace/none", 404, "Namespace not found"),
        ("/v1/job/none/summary", 404, "job not found"),
        ("/v1/job/none/versions", 404, "job versions not found"),
    ] {
        assert_eq!(harness.get(path).await.error(), (status, text), "{path}");
    }
    assert_eq!(harness.get("/v1/node/abc/allocations").await.text, "[]");
    assert_eq!(harness.get(&format!("/v1/evaluation/{uuid}/allocations")).await.text, "[]");
}

#[actix_web::test]
async fn small_objects_are_listed_by_name() {
    let pool = |name: &str| Change::NodePool(Box::new(NodePool { name: name.into(), ..NodePool::default() }));
    let harness = Harness::with(["a", "b", "bc"].map(pool).into()).await;
    for (query, names, next) in [
        ("", "a b bc default", ""),
        ("?prefix=b", "b bc", ""),
        ("?per_page=2", "a b", "bc"),
        ("?per_page=2&next_token=bc", "bc default", ""),
        ("?per_page=3&reverse=true", "default bc b", "a"),
        ("?reverse=true&next_token=b", "b a", ""),
        ("?filter=Name+contains+%22c%22", "bc", ""),
    ] {
        let got = harness.get(&format!("/v1/node/pools{query}")).await;
        let list = got.json();
        let found: Vec<&str> =
            list.as_array().unwrap().iter().map(|one| one["Name"].as_str().unwrap()).collect();
        assert_eq!((&*found.join(" "), got.header("x-nomad-nexttoken")), (names, next), "{query}");
    }
}

#[actix_web::test]
async fn the_cluster_is_shown() {
    let harness = Harness::with(Vec::new()).await;
    assert_eq!(harness.get("/v1/namespaces").await.json()[0]["Description"], "Default shared namespace");
    assert_eq!(harness.get("/v1/node/pools").await.json()[0]["Name"], "default");
    assert_eq!(harness.get("/v1/regions").await.text, r#"["global"]"#);
    assert_eq!(harness.get("/v1/status/leader").await.text, r#""127.0.0.1:4647""#);
    assert_eq!(harness.get("/v1/agent/health").await.json()["server"]["ok"], true);
    assert_eq!(harness.get("/v1/agent/health?type=client").await.text, "{}");
    assert_eq!(harness.get("/v1/agent/self").await.json()["config"]["ACL"]["Enabled"], false);
    assert_eq!(harness.get("/v1/agent/members").await.json()["Members"][0]["Status"], "alive");
    assert!(harness.get("/v1/metrics").await.json()["Counters"].is_array());
    assert_eq!(harness.get("/v1/metrics?format=prometheus").await.status, 200);
    let scheduler = harness.get("/v1/operator/scheduler/configuration").await;
    assert_eq!(scheduler.json()["SchedulerConfig"]["SchedulerAlgorithm"], "binpack");
    assert_eq!(scheduler.header("x-nomad-index"), "1", "never 0");
}

#[actix_web::test]
async fn metrics_in_prometheus_format_can_be_switched_off() {
    let harness = Harness::with_flags(&["--prometheus-metrics=false"]).await;
    let refused = harness.get("/v1/metrics?format=prometheus").await;
    assert_eq!(refused.error(), (415, "Prometheus is not enabled"));
    assert!(harness.get("/v1/metrics").await.json()["Counters"].is_array());
}

#[actix_web::test]
async fn a_default_read_sees_what_was_written_and_a_stale_one_does_not_wait() {
    let harness = Harness::with(Vec::new()).await;
    *harness.applier.head.lock().unwrap() = Some(Index(3));
    let late = harness.get("/v1/job/a");
    let stale = harness.get("/v1/job/a?stale").await;
    assert_eq!(stale.error(), (404, "job not found"));
    let written = async {
        // The read may or may not have been sent by now. It must see the change either way.
        harness.change(vec![job("default", "a", 3)]);
    };
    let (late, ()) = tokio::join!(late, written);
    assert_eq!(late.json()["ID"], "a");
    assert!(harness.replica.snapshot().job(&JobKey::new("default", "a")).is_some());
}

#[actix_web::test]
async fn without_an_applier_only_stale_reads_are_answered() {
    let harness = Harness::without_applier(vec![job("default", "a", 2)]).await;
    assert_eq!(harness.get("/v1/job/a").await.error(), (500, "No cluster leader"));
    assert_eq!(harness.put("/v1/job/a/evaluate", "").await.error(), (500, "No cluster leader"));
    let stale = harness.get("/v1/job/a?stale").await;
    assert_eq!(stale.json()["ID"], "a");
    assert_eq!(stale.header("x-nomad-knownleader"), "false");
    assert_eq!(harness.get("/v1/status/leader").await.text, "\"\"");
    let (status, text) =
        (harness.get("/v1/agent/health").await.status, harness.get("/v1/agent/health").await.text);
    let message = "No cluster leader: plan-applier: not heard of since this server started: none is active, or it \
                   cannot reach NATS or PostgreSQL";
    let expected = format!(r#"{{"server":{{"message":"{message}","ok":false}}}}"#);
    assert_eq!((status.as_u16(), text), (500, expected));
}

#[actix_web::test]
async fn prefixes_are_searched() {
    let jobs = (0..25).map(|number| job("default", &format!("many-{number:02}"), 2));
    let others = [job("default", "one", 2), job("other", "one-more", 2)];
    let harness = Harness::with(jobs.chain(others).collect()).await;
    let search = async |body: &str| harness.put("/v1/search", body).await.json();
    let found = search(r#"{"Prefix": "one", "Context": "jobs"}"#).await;
    assert_eq!(found["Matches"], serde_json::json!({"jobs": ["one"]}));
    assert_eq!(found["Truncations"], serde_json::json!({"jobs": false}));
    let found = search(r#"{"Prefix": "one", "Context": "jobs", "Namespace": "*"}"#).await;
    assert_eq!(found["Matches"]["jobs"].as_array().unwrap().len(), 2);
    let found = search(r#"{"Prefix": "many", "Context": "jobs"}"#).await;
    assert_eq!(
        (found["Matches"]["jobs"].as_array().unwrap().len(), &found["Truncations"]["jobs"]),
        (20, &true.into())
    );
    let found = search(r#"{"Prefix": "def", "Context": "all"}"#).await;
    assert_eq!(found["Matches"]["namespaces"][0], "default");
    assert_eq!(found["Matches"]["jobs"], serde_json::Value::Null);
    let found = search(r#"{"Prefix": "zz", "Context": "evals"}"#).await;
    assert_eq!(found["Matches"], serde_json::json!({}), "no id begins with it");
    let got = harness.put("/v1/search", r#"{"Prefix": "x", "Context": "nonsense"}"#).await;
    assert!(got.error().0 == 500 && got.text.ends_with("or 'all' for all contexts; got \"nonsense\""));
}

#[actix_web::test]
async fn events_are_streamed_as_things_happen() {
    use futures::StreamExt as _;

    let harness = Harness::with(vec![job("default", "a", 2)]).await;
    harness.change_together(vec![vec![job("default", "too-early", 3)], vec![job("default", "b", 4)]]);
    let request = harness.builder("GET", "/v1/event/stream?topic=Job&index=4");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let mut body = response.bytes_stream();
    let mut text = String::new();
    harness.change_together(vec![vec![job("default", "c", 5)], vec![], vec![job("default", "d", 7)]]);
    while text.lines().count() < 4 {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
    }
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({}), "the heartbeat is sent at once");
    let event = |line: usize| (lines[line]["Index"].as_u64(), lines[line]["Events"][0]["Key"].as_str());
    assert_eq!(event(1), (Some(4), Some("b")), "from the recent changes");
    assert_eq!([event(2), event(3)], [(Some(5), Some("c")), (Some(7), Some("d"))]);
    assert_eq!(harness.get("/v1/event/stream?topic=a:b:c").await.error().0, 400);
    assert_eq!(harness.get("/v1/event/stream?index=x").await.error().0, 400);
}

#[actix_web::test]
async fn versions_are_compared_if_wanted() {
    let harness = Harness::with(vec![job("default", "a", 2)]).await;
    let version = |number: u64, priority: u16| {
        let Change::Job(first) = job("default", "a", 2) else { unreachable!("it is a job") };
        let spec = JobSpec { priority, ..JobSpec::clone(&first.spec) };
        Change::Job(Arc::new(Job { spec: spec.into(), version: number, ..Job::clone(&first) }))
    };
    harness.change(vec![version(1, 60)]);
    harness.change(vec![version(2, 70)]);
    let diffs =
        async |query: &str| harness.get(&format!("/v1/job/a/versions{query}")).await.json()["Diffs"].clone();
    assert_eq!(diffs("").await, serde_json::Value::Null);
    assert_eq!(diffs("?diff_version=0").await, serde_json::Value::Null, "no comparison was requested");
    let pairs = diffs("?diffs=true").await;
    assert_eq!(pairs.as_array().unwrap().len(), 2);
    assert_eq!((&pairs[0]["Fields"][0]["Old"], &pairs[0]["Fields"][0]["New"]), (&"60".into(), &"70".into()));
    let against = diffs("?diffs=true&diff_version=0").await;
    assert_eq!(against[0]["Fields"][0]["Old"], "50");
    assert_eq!(harness.get("/v1/job/a/versions?diffs=true&diff_version=9").await.error().0, 500);
    assert_eq!(harness.get("/v1/job/a/versions?diff_version=x").await.error().0, 500);
    assert_eq!(harness.get("/v1/job/a/actions").await.text, "[]");
}
