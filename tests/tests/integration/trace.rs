//! Is the way of a job, from its registration to its running tasks, one connected trace?

use std::collections::BTreeSet;

use reqwest::Method;
use tests::harness::otlp::{Collector, Span};
use tests::harness::{AGENT, Cluster, SERVICES, jobs, until};

use crate::BINARY;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_makes_one_trace_through_all_services() {
    let collector = Collector::start();
    let exports = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
    ];
    let mut cluster = Cluster::start(BINARY, &exports).await;
    let request = cluster.api.ask(Method::PUT, "/v1/jobs").json(&jobs::pretending("traced", 1));
    let answer =
        request.header("traceparent", format!("00-{TRACE}-{PARENT}-01")).send().await.expect("an answer");
    assert!(answer.status().is_success());
    cluster.until_alloc("traced", "running").await;

    let found = || collector.trace(TRACE);
    let whole = async || (lacks(&found()).is_empty() && strays(&found()).is_empty()).then_some(());
    until("the trace is whole", whole, || {
        let spans = found();
        format!(
            "no spans of {:?}; without their parents: {:#?}; all: {spans:#?}",
            lacks(&spans),
            strays(&spans)
        )
    })
    .await;
    cluster.assert_alive();
}

/// Processes that have not told what they did.
fn lacks(spans: &[Span]) -> BTreeSet<String> {
    let told: BTreeSet<&str> = spans.iter().map(|span| span.service.as_str()).collect();
    // The watcher speaks of many jobs at once, and only when they have run for a while.
    let wanted = SERVICES.into_iter().filter(|service| *service != "deployment-watcher").chain([AGENT]);
    let wanted = wanted.map(|service| format!("drover-{service}"));
    wanted.filter(|service| !told.contains(service.as_str())).collect()
}

/// Spans that hang on nothing.
fn strays(spans: &[Span]) -> Vec<&Span> {
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.span_id.as_str()).chain([PARENT]).collect();
    spans.iter().filter(|span| !ids.contains(span.parent.as_str())).collect()
}
