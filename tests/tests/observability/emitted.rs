//! Checks the metrics and labels of an expression against the series that processes emit.

use std::collections::BTreeSet;

use telemetry::metrics::prometheus::{exposed_name, names};
use telemetry::metrics::{Kind, Meta, Metric, catalogue};

use crate::promql::names_in;

/// Labels that Prometheus adds, or that the API adds to series of each process.
const ADDED: &[&str] = &["instance", "job", "service", "process", "alertname"];

/// Returns the faults of an expression: metrics and labels that no process emits.
pub(crate) fn faults(expression: &str) -> Vec<String> {
    let found = names_in(expression);
    let mut faults = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.iter().copied().collect();
    if found.metrics.is_empty() {
        faults.push(format!("no metric in {expression}"));
    }
    for name in &found.metrics {
        match find(name) {
            Some((meta, more)) => {
                labels.extend(meta.labels);
                labels.extend(more);
            }
            None => faults.push(format!("no process emits {name}")),
        }
    }
    let unknown = found.labels.iter().filter(|label| !labels.contains(label.as_str()));
    faults.extend(unknown.map(|label| format!("no metric of {expression} has the label {label}")));
    faults
}

/// Returns whether processes emit a metric of this name, or a series of one.
pub(crate) fn is_emitted(name: &str) -> bool {
    find(name).is_some() || find(&format!("{name}_bucket")).is_some()
}

/// Returns the metric that has a series of this name, and the labels that its type adds.
fn find(series: &str) -> Option<(&'static Meta, &'static [&'static str])> {
    catalogue::all().map(Metric::meta).find_map(|meta| {
        names(meta).iter().find_map(|name| {
            let end = series.strip_prefix(&exposed_name(meta, name))?;
            match (meta.kind, end) {
                (Kind::Counter | Kind::Gauge, "") => Some((meta, [].as_slice())),
                (Kind::Histogram, "_bucket") => Some((meta, ["le"].as_slice())),
                (Kind::Timer, "") => Some((meta, ["quantile"].as_slice())),
                (Kind::Histogram | Kind::Timer, "_sum" | "_count") => Some((meta, [].as_slice())),
                _ => None,
            }
        })
    })
}

#[test]
fn metrics_that_no_process_emits_are_found() {
    let ok =
        "sum by (le, service) (rate(drover_applier_commit_seconds_bucket[5m])) > nomad_raft_commitTime_sum";
    assert_eq!(faults(ok), [""; 0]);
    assert_eq!(faults("rate(drover_applier_plans[5m])"), ["no process emits drover_applier_plans"]);
    assert_eq!(faults("drover_applier_commit_seconds"), ["no process emits drover_applier_commit_seconds"]);
    assert_eq!(faults("drover_feed_index_bucket"), ["no process emits drover_feed_index_bucket"]);
    let roll = "drover_active{roll=\"b\"}";
    assert_eq!(faults(roll), [format!("no metric of {roll} has the label roll")]);
    assert_eq!(
        faults("sum by (task) (drover_active)"),
        ["no metric of sum by (task) (drover_active) has the label task"]
    );
    assert_eq!(faults("vector(1)"), ["no metric in vector(1)"]);
}
