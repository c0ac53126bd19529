//! What an expression names, looked for among the series that processes emit.

use std::collections::BTreeSet;

use telemetry::metrics::prometheus::{exposed_name, names};
use telemetry::metrics::{Kind, Meta, Metric, catalogue};

use crate::promql::named;

/// Labels that Prometheus adds, or that the API adds to series of each process.
const ADDED: &[&str] = &["instance", "job", "service", "process", "alertname"];

/// What is wrong with an expression; nothing if every metric and label that it names is emitted.
pub(crate) fn faults(expression: &str) -> Vec<String> {
    let named = named(expression);
    let mut faults = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.iter().copied().collect();
    if named.metrics.is_empty() {
        faults.push(format!("no metric in {expression}"));
    }
    for name in &named.metrics {
        match find(name) {
            Some((meta, more)) => {
                labels.extend(meta.labels);
                labels.extend(more);
            }
            None => faults.push(format!("nobody emits {name}")),
        }
    }
    let unknown = named.labels.iter().filter(|label| !labels.contains(label.as_str()));
    faults.extend(unknown.map(|label| format!("no metric of {expression} has the label {label}")));
    faults
}

/// Whether processes emit a metric of this name, or a series of one.
pub(crate) fn is_emitted(name: &str) -> bool {
    find(name).is_some() || find(&format!("{name}_bucket")).is_some()
}

/// The metric of which a series has this name, and the labels that its form adds.
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
fn what_nobody_emits_is_found() {
    let ok =
        "sum by (le, service) (rate(drover_applier_commit_seconds_bucket[5m])) > nomad_raft_commitTime_sum";
    assert_eq!(faults(ok), [""; 0]);
    assert_eq!(faults("rate(drover_applier_plans[5m])"), ["nobody emits drover_applier_plans"]);
    assert_eq!(faults("drover_applier_commit_seconds"), ["nobody emits drover_applier_commit_seconds"]);
    assert_eq!(faults("drover_feed_index_bucket"), ["nobody emits drover_feed_index_bucket"]);
    let roll = "drover_active{roll=\"b\"}";
    assert_eq!(faults(roll), [format!("no metric of {roll} has the label roll")]);
    assert_eq!(
        faults("sum by (task) (drover_active)"),
        ["no metric of sum by (task) (drover_active) has the label task"]
    );
    assert_eq!(faults("vector(1)"), ["no metric in vector(1)"]);
}
