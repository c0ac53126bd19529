//! A job is one trace through separate processes, from the request that registers it to its running task. Names and
//! attributes follow OpenTelemetry's conventions. Logs, objects and tables carry the trace's id.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};
use tests::harness::api::{Api, array, text};
use tests::harness::otlp::{Collector, Span};
use tests::harness::{AGENT, Cluster, SERVICES, jobs, wait_until, waterfall};
use tokio::task::JoinSet;

use crate::BINARY;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// Name of the applier's span of a command.
const COMMAND: &str = "process applier.command.{role}";
/// Environment variable with the path of the file to which the trace is drawn, if any.
const PICTURE: &str = "DROVER_WATERFALL";
/// Attributes whose values differ from run to run. All others are compared.
const REDACTED: [&str; 9] = [
    "drover.alloc.id",
    "drover.deployment.id",
    "drover.eval.id",
    "drover.index",
    "drover.node.id",
    "messaging.destination.name",
    "messaging.message.body.size",
    "messaging.message.conversation_id",
    "server.port",
];

/// The trace of one registered job: a line for each span with its process, name and kind, then its attributes.
const ONE_JOB: &str = include_str!("../../data/traces/one_job.txt");
/// The trace of a registration that the applier refuses.
const REFUSED: &str = include_str!("../../data/traces/refused.txt");

/// Environment variables by which every process logs everything as JSON.
fn logs() -> Vec<(&'static str, String)> {
    vec![
        ("DROVER_LOG_FORMAT", "json".to_owned()),
        ("DROVER_LOG_LEVEL", "info,agent=debug,api=debug,bus=debug,eval_broker=debug,node_tracker=debug,plan_applier=debug,scheduler=debug".to_owned()),
    ]
}

/// The same, and those by which it exports its spans to a collector.
fn exports(collector: &Collector) -> Vec<(&'static str, String)> {
    let exports = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test".to_owned()),
    ];
    [exports, logs()].concat()
}

async fn put(api: &Api, path: &str, body: &Value, trace: &str, flags: &str) -> (u16, String) {
    let request = api.request(Method::PUT, path).json(body);
    let request =
        request.header("user-agent", "test/1").header("traceparent", format!("00-{trace}-{PARENT}-{flags}"));
    let response = request.send().await.expect("the API answers");
    (response.status().as_u16(), response.text().await.expect("the body can be read"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_makes_one_trace_through_all_services() {
    let collector = Collector::start();
    let mut cluster = Cluster::start(BINARY, &exports(&collector)).await;
    let mut job = jobs::mock_service("traced", 1);
    job["Job"]["Update"] = json!({ "MinHealthyTime": 1_000_000 });
    let (status, body) = put(&cluster.api, "/v1/jobs", &job, TRACE, "01").await;
    assert_eq!(status, 200, "{body}");
    cluster.wait_for_alloc("traced", "running").await;

    let found = || collector.trace(TRACE);
    // The commit of the report comes last. Spans are exported when they have ended, and parents end after their
    // children.
    let is_complete = async || (orphans(&found()).is_empty() && tree(&found()) == ONE_JOB).then_some(());
    wait_until("the trace is complete", is_complete, || {
        format!("without their parents: {:#?}\n{}", orphans(&found()), tree(&found()))
    })
    .await;
    let spans = found();
    assert!(spans.iter().all(|span| span.start > 0 && span.end >= span.start), "{spans:#?}");
    assert_resources(&spans);
    if let Some(file) = std::env::var_os(PICTURE) {
        std::fs::write(file, waterfall::draw(&spans, PARENT)).expect("the picture can be written");
    }
    assert_logs(&cluster);
    assert_objects(&cluster).await;
    assert_deployment(&cluster, &collector).await;
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_spans_are_marked_and_unsampled_traces_are_not_recorded() {
    let collector = Collector::start();
    let mut cluster = Cluster::start(BINARY, &exports(&collector)).await;

    // The applier finds that the job has another index. The API reports that like every refusal.
    let job = json!({
        "Job": jobs::mock_service("refused", 1)["Job"], "EnforceIndex": true, "JobModifyIndex": 7,
    });
    let (status, _) = put(&cluster.api, "/v1/jobs", &job, TRACE, "01").await;
    assert_eq!(status, 500);
    let found = || collector.trace(TRACE);
    let is_complete = async || (orphans(&found()).is_empty() && tree(&found()) == REFUSED).then_some(());
    wait_until("the failed request's trace is complete", is_complete, || tree(&found())).await;
    let spans = found();
    for span in &spans {
        let error = span.error.as_deref().unwrap_or_else(|| panic!("{span:#?} has failed"));
        assert!(error.contains("Enforcing job modify index"), "{error}");
    }

    // A client that does not sample its trace is not traced, but the trace's id is passed on.
    let unsampled = TRACE.replace('0', "1");
    let (status, body) =
        put(&cluster.api, "/v1/jobs", &jobs::mock_service("quiet", 1), &unsampled, "00").await;
    assert_eq!(status, 200, "{body}");
    let alloc = cluster.wait_for_alloc("quiet", "running").await;
    let alloc = cluster.api.get(&format!("/v1/allocation/{}", text(&alloc, "ID"))).await;
    assert_eq!(text(&alloc, "TraceID"), unsampled);

    // Another request that is traced follows. Spans of the former would have arrived before.
    let last = TRACE.replace('0', "2");
    let (status, body) = put(&cluster.api, "/v1/jobs", &jobs::mock_service("last", 1), &last, "01").await;
    assert_eq!(status, 200, "{body}");
    cluster.wait_for_alloc("last", "running").await;
    let ended = async || collector.trace(&last).iter().any(|span| span.name == "start alloc").then_some(());
    wait_until("the last trace has arrived", ended, || tree(&collector.trace(&last))).await;
    assert_eq!(collector.trace(&unsampled), []);
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_trace_is_followed_where_no_spans_are_exported() {
    let mut cluster = Cluster::start(BINARY, &logs()).await;
    let (status, body) = put(&cluster.api, "/v1/jobs", &jobs::mock_service("traced", 1), TRACE, "01").await;
    assert_eq!(status, 200, "{body}");
    let alloc = cluster.wait_for_alloc("traced", "running").await;
    let alloc = cluster.api.get(&format!("/v1/allocation/{}", text(&alloc, "ID"))).await;
    assert_eq!(text(&alloc, "TraceID"), TRACE);
    for name in ["api", "plan-applier", "eval-broker", "scheduler"] {
        for line in traced_lines(&cluster, name) {
            assert_eq!(text(&line, "span_id"), PARENT, "{name}: {line}");
        }
    }
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_link_the_traces_that_they_join() {
    const JOBS: u128 = 24;
    let collector = Collector::start();
    let mut cluster = Cluster::start(BINARY, &exports(&collector)).await;
    let traces: Vec<String> = (1..=JOBS).map(|number| format!("{number:032x}")).collect();
    let mut registrations = JoinSet::new();
    for (number, trace) in traces.iter().cloned().enumerate() {
        let api = cluster.api.clone();
        registrations.spawn(async move {
            put(&api, "/v1/jobs", &jobs::mock_service(&format!("job-{number}"), 1), &trace, "01").await
        });
    }
    for (status, body) in registrations.join_all().await {
        assert_eq!(status, 200, "{body}");
    }
    // A command whose commit is a part of its trace, or is linked with it in both directions.
    let is_committed = |command: &Span, spans: &[Span]| {
        let mut commits = spans.iter().filter(|span| span.name == "commit log");
        let own = (command.trace_id.clone(), command.span_id.clone());
        commits.any(|commit| {
            let is_child =
                commit.trace_id == own.0 && (commit.parent == own.1 || commit.links.contains(&own));
            let is_root = commit.parent.is_empty()
                && commit.links.contains(&own)
                && command.links.contains(&(commit.trace_id.clone(), commit.span_id.clone()));
            is_child || is_root
        })
    };
    let commands = |spans: &[Span]| -> Vec<Span> {
        let of =
            |span: &&Span| span.attributes.get("drover.command").is_some_and(|name| name == "RegisterJob");
        let processed = spans.iter().filter(|span| span.name == COMMAND).filter(of);
        processed.filter(|span| traces.contains(&span.trace_id)).cloned().collect()
    };
    let all_committed = async || {
        let spans = collector.spans();
        let commands = commands(&spans);
        let is_complete =
            commands.len() == traces.len() && commands.iter().all(|command| is_committed(command, &spans));
        is_complete.then_some(spans)
    };
    let spans = wait_until("all registrations belong to commits", all_committed, || {
        let spans = collector.spans();
        let missing = commands(&spans).into_iter().filter(|command| !is_committed(command, &spans));
        format!("{:#?}", missing.collect::<Vec<_>>())
    })
    .await;
    for commit in spans.iter().filter(|span| span.name == "commit log" && span.parent.is_empty()) {
        let linked: BTreeSet<&str> = commit.links.iter().map(|(trace, _)| trace.as_str()).collect();
        assert!(linked.len() > 1, "a commit of one trace belongs to it: {commit:#?}");
    }
    cluster.assert_alive();
}

/// Every service identifies itself.
fn assert_resources(spans: &[Span]) {
    let services: BTreeSet<&str> = spans.iter().map(Span::service).collect();
    // The deployment watcher handles many jobs at once, in traces of its own.
    let expected = SERVICES.into_iter().filter(|service| *service != "deployment-watcher").chain([AGENT]);
    let expected: Vec<String> = expected.map(|service| format!("drover-{service}")).collect();
    assert_eq!(services, expected.iter().map(String::as_str).collect());
    let mut instances: BTreeMap<&str, &str> = BTreeMap::new();
    for span in spans {
        let of = |name: &str| span.resource.get(name).map_or("", String::as_str);
        let instance = of("service.instance.id");
        assert_eq!(*instances.entry(instance).or_insert(span.service()), span.service());
        assert_eq!(of("service.version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(of("deployment.environment.name"), "test");
        assert!(!of("host.name").is_empty());
    }
    assert_eq!(instances.len(), services.len());
}

/// Each process has logged a line with the ids of the trace and of one of its spans.
fn assert_logs(cluster: &Cluster) {
    for name in SERVICES.into_iter().filter(|service| *service != "deployment-watcher").chain([AGENT]) {
        for line in traced_lines(cluster, name) {
            assert_eq!(text(&line, "span_id").len(), 16, "{line}");
        }
    }
}

/// The lines that a process has logged in the trace; at least one.
fn traced_lines(cluster: &Cluster, name: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(cluster.log(name)).expect("the log can be read");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let traced: Vec<Value> = lines.filter(|line| text(line, "trace_id") == TRACE).collect();
    assert!(!traced.is_empty(), "{name} has logged nothing in the trace:\n{log}");
    traced
}

/// Evaluations, allocations and the deployment carry the trace's id, in the API and in the tables.
async fn assert_objects(cluster: &Cluster) {
    let of_job = async |what: &str| cluster.api.get(&format!("/v1/job/traced/{what}")).await;
    let evals = of_job("evaluations").await;
    assert!(!array(&evals).is_empty());
    for eval in array(&evals) {
        assert_eq!(text(eval, "TraceID"), TRACE, "{eval}");
    }
    let deployment = of_job("deployment").await;
    assert_eq!(text(&deployment, "TraceID"), TRACE, "{deployment}");
    for alloc in array(&of_job("allocations").await) {
        let alloc = cluster.api.get(&format!("/v1/allocation/{}", text(alloc, "ID"))).await;
        assert_eq!(text(&alloc, "TraceID"), TRACE, "{alloc}");
    }
    let queries = [
        "select trace_id from evals where job_id = 'traced'",
        "select trace_id from deployments where job_id = 'traced'",
        "select trace_id from allocs join alloc_shares on alloc_shares.id = allocs.share_id
            where allocs.job_id = 'traced'",
    ];
    for query in queries {
        // The projection follows shortly after the log.
        let is_written = async || cluster.sql(query).first().map(|row| row == TRACE);
        wait_until("the tables have the trace's id", is_written, || {
            format!("{query}: {:?}", cluster.sql(query))
        })
        .await;
        assert!(cluster.sql(query).iter().all(|row| row == TRACE), "{query}");
    }
}

/// Updates of the deployment have a trace of their own, which links to the one in which the deployment began.
async fn assert_deployment(cluster: &Cluster, collector: &Collector) {
    let deployment = cluster.api.get("/v1/job/traced/deployment").await;
    let is_linked = |span: &Span| span.links.iter().any(|(trace, _)| trace == TRACE);
    let root = async || {
        let mut spans = collector.spans().into_iter();
        spans.find(|span| span.name == "update deployments" && is_linked(span))
    };
    let root = wait_until("the deployment is updated", root, || cluster.log_tails()).await;
    assert_eq!((root.service(), root.parent.as_str()), ("drover-deployment-watcher", ""));
    assert_ne!(root.trace_id, TRACE);
    assert_eq!(root.attributes["drover.deployment.id"], text(&deployment, "ID"));
    let applied = async || {
        let spans = collector.trace(&root.trace_id);
        spans
            .into_iter()
            .find(|span| span.name == COMMAND && span.attributes["drover.command"] == "UpdateDeployments")
    };
    wait_until("the update is applied in the same trace", applied, || cluster.log_tails()).await;
}

/// Spans whose parents are missing.
fn orphans(spans: &[Span]) -> Vec<&Span> {
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.span_id.as_str()).chain([PARENT]).collect();
    spans.iter().filter(|span| !ids.contains(span.parent.as_str())).collect()
}

/// The spans as a tree, children in order of their start, with everything that is the same in every run.
///
/// Of equal siblings only the last is included, because an agent may report an allocation before it runs as well.
fn tree(spans: &[Span]) -> String {
    let mut children: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        children.entry(&span.parent).or_default().push(span);
    }
    children.values_mut().for_each(|siblings| siblings.sort_by_key(|span| span.start));
    branches(PARENT, &children, 0).concat()
}

fn branches(parent: &str, children: &BTreeMap<&str, Vec<&Span>>, depth: usize) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for span in children.get(parent).into_iter().flatten() {
        let branch = line(span, depth) + &branches(&span.span_id, children, depth + 1).concat();
        shown.retain(|before| *before != branch);
        shown.push(branch);
    }
    shown
}

fn line(span: &Span, depth: usize) -> String {
    let mut line = String::new();
    let service = span.service().trim_start_matches("drover-");
    let _ = write!(line, "{:indent$}{service}: {} ({})", "", span.name, span.kind, indent = 2 * depth);
    if !span.links.is_empty() {
        let _ = write!(line, " links {}", span.links.len());
    }
    if span.error.is_some() {
        line.push_str(" failed");
    }
    line.push('\n');
    for (name, value) in &span.attributes {
        let value = if REDACTED.contains(&name.as_str()) { "…" } else { value };
        let _ = writeln!(line, "{:indent$}· {name} = {value}", "", indent = 2 * depth + 2);
    }
    line
}
