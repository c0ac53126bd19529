//! The JSON form of metrics, as in the reference.

use std::collections::BTreeMap;

use api_types::Time;
use model::Timestamp;
use serde::Serialize;
use telemetry::metrics::{Distribution, Value, prometheus};

use super::cluster::{INTERVAL, Line};

/// Prefix of all metric names. Metrics of our own get it here, because clients expect it.
const PREFIX: &str = "nomad.";

/// Metrics of the last interval. Members are in the order of their names, as clients see them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Summary {
    counters: Vec<Sample>,
    gauges: Vec<Gauge>,
    points: [(); 0],
    precision_gauges: [(); 0],
    samples: Vec<Sample>,
    timestamp: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Gauge {
    name: String,
    value: f64,
    labels: BTreeMap<&'static str, String>,
}

/// Observations of a series.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Sample {
    name: String,
    count: u64,
    rate: f64,
    sum: f64,
    min: f64,
    max: f64,
    mean: f64,
    stddev: f64,
    labels: BTreeMap<&'static str, String>,
}

/// Converts to the JSON form. Counters and samples without observations in the last interval are left out.
pub(crate) fn json(lines: &[Line], now: Timestamp) -> Summary {
    let (mut gauges, mut counters, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for Line { shown, interval } in lines {
        let series = &shown.series;
        let own = series.meta.labels.iter().copied().zip(series.labels.iter().cloned());
        let labels: BTreeMap<_, _> = own.chain(shown.more.iter().cloned()).collect();
        for name in prometheus::names(series.meta) {
            let name = if name.starts_with(PREFIX) { name } else { format!("{PREFIX}{name}") };
            let labels = labels.clone();
            match &series.value {
                Value::Gauge(value) => gauges.push(Gauge { name, value: *value, labels }),
                Value::Counter(_) if interval.count() > 0 => counters.push(sample(name, interval, labels)),
                Value::Distribution(_) if interval.count() > 0 => {
                    samples.push(sample(name, interval, labels))
                }
                Value::Counter(_) | Value::Distribution(_) => {}
            }
        }
    }
    gauges.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
    for list in [&mut counters, &mut samples] {
        list.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
    }
    Summary { timestamp: utc(now), gauges, precision_gauges: [], points: [], counters, samples }
}

fn sample(name: String, found: &Distribution, labels: BTreeMap<&'static str, String>) -> Sample {
    let (count, sum) = (found.count(), found.sum);
    let n = count as f64;
    // Sample variance. Rounding may make it slightly negative.
    let variance = if count < 2 { 0.0 } else { (found.squares - sum * sum / n).max(0.0) / (n - 1.0) };
    Sample {
        name,
        count,
        rate: sum / INTERVAL.as_secs_f64(),
        sum,
        min: if found.min.is_finite() { found.min } else { 0.0 },
        max: found.max,
        mean: sum / n,
        stddev: variance.sqrt(),
        labels,
    }
}

/// Formats the start of the interval as the reference does: `2006-01-02 15:04:05 +0000 UTC`.
fn utc(now: Timestamp) -> String {
    let secs = now.as_secs();
    let interval = i64::try_from(INTERVAL.as_secs()).expect("the interval fits into an i64");
    let rfc3339 =
        Time::from_unix_nanos((secs - secs.rem_euclid(interval)).saturating_mul(1_000_000_000)).to_string();
    format!("{} +0000 UTC", rfc3339.trim_end_matches('Z').replace('T', " "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json, to_value};
    use telemetry::metrics::prometheus::ExposedSeries;
    use telemetry::metrics::{Series, catalogue};

    use super::*;

    fn line(name: &str, labels: &[&str], value: Value, interval: Distribution) -> Line {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let series = Series { meta: catalogue::find(name).unwrap(), labels, value };
        let shown = ExposedSeries { series, more: Vec::new(), window: interval.clone() };
        Line { shown, interval }
    }

    #[test]
    fn series_stand_in_the_lists_of_the_reference() {
        let interval = Distribution { buckets: vec![2, 1], sum: 12.0, squares: 56.0, min: 2.0, max: 6.0 };
        let none = Distribution::default();
        let gauge = line("drover.active", &["api"], Value::Gauge(1.0), none.clone());
        let counter = line("nomad.raft.apply", &[], Value::Counter(30), interval.clone());
        let quiet = line("nomad.raft.state.leader", &[], Value::Counter(30), none);
        let timer = line("nomad.plan.evaluate", &[], Value::Distribution(interval.clone()), interval);
        let shaped =
            to_value(json(&[timer, counter, quiet, gauge], Timestamp::from_secs(1_136_214_249))).unwrap();
        assert_eq!(shaped["Timestamp"], "2006-01-02 15:04:00 +0000 UTC");
        assert_eq!(
            shaped["Gauges"],
            json!([{"Name": "nomad.drover.active", "Value": 1.0, "Labels": {"role": "api"}}])
        );
        assert_eq!(shaped["PrecisionGauges"], json!([]));
        assert_eq!(shaped["Points"], json!([]));
        let sample = |name: &str| {
            json!({"Name": name, "Count": 3, "Rate": 1.2, "Sum": 12.0, "Min": 2.0, "Max": 6.0, "Mean": 4.0,
                   "Stddev": 2.0, "Labels": {}})
        };
        assert_eq!(shaped["Counters"], json!([sample("nomad.raft.apply")]));
        assert_eq!(
            shaped["Samples"],
            json!([sample("nomad.nomad.plan.evaluate"), sample("nomad.plan.evaluate")])
        );
        let keys: Vec<&String> = shaped.as_object().map(|all| all.keys().collect()).unwrap_or_default();
        assert_eq!(keys, ["Counters", "Gauges", "Points", "PrecisionGauges", "Samples", "Timestamp"]);
        assert_ne!(shaped["Gauges"], Json::Null);
    }
}
