//! The metrics of one API cover the whole cluster, under the names that the reference documents, in both formats.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use reqwest::Method;
use serde_json::Value;
use telemetry::metrics::prometheus::{exposed_name, names};
use telemetry::metrics::{Metric, catalogue};
use tests::harness::api::{Api, array, text};
use tests::harness::{Cluster, SERVICES, jobs};
use tests::promtool::promtool;

use crate::BINARY;

/// Metrics without a series in a cluster without failures and without waiting jobs.
const NOT_SHOWN: &[&str] = &[
    // Only for jobs that wait.
    "nomad.broker.eval_waiting",
    "nomad.blocked_evals.cpu",
    "nomad.blocked_evals.memory",
    "nomad.blocked_evals.job.cpu",
    "nomad.blocked_evals.job.memory",
    // Only for nodes that were rejected.
    "nomad.plan.node_rejected",
    "nomad.plan.rejection_tracker.node_score",
];

/// The samples of an exposition, by name and labels as written.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            (series, value.parse().unwrap_or_else(|_| panic!("{line:?}")))
        })
        .collect()
}

async fn scrape(api: &Api) -> String {
    let (status, text) = api.send(Method::GET, "/v1/metrics?format=prometheus", "").await;
    assert_eq!(status, 200, "{text}");
    text
}

/// The processes that have series of a metric, by service.
fn processes(text: &str, metric: &str) -> BTreeMap<String, BTreeSet<String>> {
    let label = |series: &str, name: &str| {
        let expression =
            Regex::new(&format!("{name}=\"([^\"]*)\"")).expect("the regular expression is valid");
        expression.captures(series).map(|found| found[1].to_owned())
    };
    let mut processes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for series in samples(text).keys().filter(|series| series.starts_with(&format!("{metric}{{"))) {
        let (Some(service), Some(process)) = (label(series, "service"), label(series, "process")) else {
            panic!("{series}");
        };
        processes.entry(service).or_default().insert(process);
    }
    processes
}

/// Objections of promtool, except those about names that the reference prescribes.
fn objections(text: &str) -> Vec<String> {
    let output = promtool(&["check", "metrics"], text);
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "promtool cannot parse the metrics: {output_text}");
    let prescribed = |line: &str| {
        let Some((name, objection)) = line.split_once(' ') else { return false };
        let is_ours = !name.starts_with("nomad_");
        let known = [
            ("metric name should not include type 'summary'", "job_summary"),
            ("metric names should be written in 'snake_case' not 'camelCase'", "snapshotIndex"),
            ("metric names should be written in 'snake_case' not 'camelCase'", "commitTime"),
            ("metric names should be written in 'snake_case' not 'camelCase'", "lastContact"),
            ("metric names should be written in 'snake_case' not 'camelCase'", "dispatchLog"),
        ];
        !is_ours && known.iter().any(|(text, part)| objection == *text && name.contains(part))
    };
    output_text.lines().filter(|line| !prescribed(line)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_api_tells_of_the_whole_cluster() {
    let mut names_of_processes: Vec<&str> = SERVICES.into_iter().chain(["agent"]).collect();
    names_of_processes.extend(["scheduler@2", "api@2", "eval-broker@2"]);
    let published = ["DROVER_PUBLISH_NODE_METRICS", "DROVER_PUBLISH_ALLOCATION_METRICS"];
    let published = published.map(|name| (name, "true".to_owned()));
    let mut cluster = Cluster::start_processes(BINARY, &published, &names_of_processes).await;
    // This job has processes whose resources can be measured.
    cluster.api.put("/v1/jobs", &jobs::service("real", "sleep 1000")).await;
    for number in 0..8 {
        let job = jobs::mock_service(&format!("measured-{number}"), 2);
        cluster.api.put("/v1/jobs", &job).await;
    }
    cluster.api.get("/v1/job/measured-0").await;
    cluster.api.get("/v1/node/pools").await;

    // Wait until every server process is included and both schedulers have done work.
    let servers = SERVICES.len() + 3;
    let text = cluster
        .wait_until("all processes have published their work", async |cluster| {
            let text = scrape(&cluster.api).await;
            let all: usize = processes(&text, "drover_build_info").values().map(BTreeSet::len).sum();
            let found = samples(&text);
            let processed = |series: &&str| series.starts_with("drover_scheduler_evals_processed_total{");
            let evals: f64 = found.keys().copied().filter(processed).map(|series| found[series]).sum();
            let running = found.get(
                "nomad_job_summary_running{job=\"measured-7\",task_group=\"group\",namespace=\"default\"}",
            );
            let of_agents = ["nomad_client_uptime{", "nomad_client_allocs_memory_usage{job=\"real\""];
            let have_client_metrics =
                of_agents.iter().all(|start| found.keys().any(|series| series.starts_with(start)));
            (all == servers && evals >= 9.0 && running == Some(&2.0) && have_client_metrics).then_some(text)
        })
        .await;
    let found = samples(&text);

    // Every metric with a name of the reference is included, under each of its names.
    let shown: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut missing = Vec::new();
    for meta in catalogue::all().map(Metric::meta).filter(|meta| meta.name.starts_with("nomad.")) {
        let expected = names(meta).into_iter().map(|name| exposed_name(meta, &name));
        missing.extend(
            expected.filter(|name| !shown.contains(name.as_str()) && !NOT_SHOWN.contains(&meta.name)),
        );
    }
    assert!(missing.is_empty(), "{missing:#?} in\n{text}");
    assert_eq!(objections(&text), [""; 0]);

    // Of two brokers only the active one is included.
    assert_eq!(processes(&text, "drover_build_info")["eval-broker"].len(), 2);
    assert_eq!(processes(&text, "drover_broker_ready")["eval-broker"].len(), 1);
    assert_eq!(found["nomad_broker_total_ready"], 0.0);
    assert!(found["nomad_raft_apply"] >= 8.0);
    assert!(found["nomad_nomad_worker_submit_plan_count"] >= 8.0);
    assert_eq!(found["nomad_autopilot_healthy"], 1.0);
    assert_eq!(found["nomad_heartbeat_active"], 1.0);

    // The other API shows the same.
    let other = cluster.apis().pop().expect("there are two APIs");
    assert_ne!(other.host(), cluster.api.host());
    let stable_series = |text: &str| -> BTreeSet<String> {
        let is_stable = |series: &&str| {
            series.starts_with("nomad_job_summary") || series.starts_with("drover_build_info")
        };
        samples(text).keys().copied().filter(is_stable).map(str::to_owned).collect()
    };
    let first = stable_series(&text);
    cluster
        .wait_until("both APIs name the same processes and jobs", async |_| {
            (stable_series(&scrape(&other).await) == first).then_some(())
        })
        .await;

    // A killed process disappears, but its counts remain in the sums.
    let submitted = found["nomad_nomad_worker_submit_plan_count"];
    let scheduler = processes(&text, "drover_build_info")["scheduler"].clone();
    cluster.kill9("scheduler@2");
    cluster
        .wait_until("the killed scheduler is not shown any more", async |cluster| {
            let text = scrape(&cluster.api).await;
            let left = processes(&text, "drover_build_info").remove("scheduler")?;
            assert!(samples(&text)["nomad_nomad_worker_submit_plan_count"] >= submitted);
            (left.len() == 1 && left.is_subset(&scheduler)).then_some(())
        })
        .await;
    // A process that shuts down cleanly disappears at once.
    cluster.signal("eval-broker@2", nix::sys::signal::Signal::SIGTERM);
    cluster
        .wait_until("the broker that has exited is not shown any more", async |cluster| {
            let text = scrape(&cluster.api).await;
            (processes(&text, "drover_build_info")["eval-broker"].len() == 1).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_form_is_the_references() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let observed = cluster
        .wait_until("an interval with registrations is complete", async |cluster| {
            cluster.api.put("/v1/jobs", &jobs::mock_service("measured", 1)).await;
            let metrics = cluster.api.get("/v1/metrics").await;
            let has =
                |list: &str, name: &str| array(&metrics[list]).iter().any(|one| text(one, "Name") == name);
            (has("Counters", "nomad.raft.apply") && has("Samples", "nomad.nomad.job.register"))
                .then_some(metrics)
        })
        .await;
    let keys: Vec<&String> = observed.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["Counters", "Gauges", "Points", "PrecisionGauges", "Samples", "Timestamp"]);
    let moment = Regex::new(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d0 \+0000 UTC$").unwrap();
    assert!(moment.is_match(text(&observed, "Timestamp")), "{}", observed["Timestamp"]);
    assert_eq!(observed["Points"], serde_json::json!([]));
    assert_eq!(observed["PrecisionGauges"], serde_json::json!([]));

    let of = |list: &str, fields: &[&str]| {
        let list = array(&observed[list]);
        assert!(!list.is_empty());
        for one in list {
            let keys: BTreeSet<&str> = one.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, fields.iter().copied().collect(), "{one}");
            assert!(text(one, "Name").starts_with("nomad."), "{one}");
            assert!(one["Labels"].as_object().unwrap().values().all(Value::is_string), "{one}");
            let is_number = |field: &&&str| !["Name", "Labels"].contains(*field);
            assert!(fields.iter().filter(is_number).all(|field| one[*field].is_number()), "{one}");
        }
        assert!(list.is_sorted_by_key(|one| text(one, "Name")), "by name");
    };
    of("Gauges", &["Name", "Value", "Labels"]);
    let sampled = ["Name", "Count", "Rate", "Sum", "Min", "Max", "Mean", "Stddev", "Labels"];
    of("Counters", &sampled);
    of("Samples", &sampled);
    let tasks =
        array(&observed["Gauges"]).iter().find(|one| text(one, "Name") == "nomad.runtime.num_goroutines");
    assert_eq!(tasks.expect("the gauge always exists")["Labels"], serde_json::json!({}));
    let register =
        array(&observed["Samples"]).iter().find(|one| text(one, "Name") == "nomad.nomad.job.register");
    let register = register.expect("jobs were registered");
    let number = |field: &str| register[field].as_f64().unwrap();
    assert!(number("Count") >= 1.0 && number("Min") > 0.0 && number("Max") >= number("Mean"), "{register}");
    assert!((number("Sum") - number("Mean") * number("Count")).abs() < 0.001, "{register}");
    assert!((number("Rate") - number("Sum") / 10.0).abs() < 0.001, "{register}");

    // Any other format is JSON.
    let (status, body) = cluster.api.send(Method::GET, "/v1/metrics?format=tea", "").await;
    assert_eq!((status, body.starts_with('{')), (200, true));
    assert_eq!(cluster.api.send(Method::PUT, "/v1/metrics", "").await.0, 405);
    cluster.assert_alive();
}
