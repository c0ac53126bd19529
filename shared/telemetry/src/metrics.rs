//! Metrics: handles that live in statics, and what this process has counted so far.
//!
//! A name is `drover.<part>.<what>`, with its unit at the end. Whatever is recorded before [`init`](crate::init), as in
//! tests, is lost.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality};

/// Names and values that tell the series of one metric apart.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

static METER: OnceLock<Meter> = OnceLock::new();
static READER: OnceLock<Reader> = OnceLock::new();

/// Something that only grows.
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    instrument: OnceLock<opentelemetry::metrics::Counter<u64>>,
}

/// Something that goes up and down.
#[derive(Debug)]
pub struct Gauge {
    name: &'static str,
    instrument: OnceLock<opentelemetry::metrics::Gauge<f64>>,
}

/// Something of which the distribution matters: times in seconds, sizes in bytes.
#[derive(Debug)]
pub struct Histogram {
    name: &'static str,
    instrument: OnceLock<opentelemetry::metrics::Histogram<f64>>,
}

/// A counter; keep it in a static.
pub const fn counter(name: &'static str) -> Counter {
    Counter { name, instrument: OnceLock::new() }
}

/// A gauge; keep it in a static.
pub const fn gauge(name: &'static str) -> Gauge {
    Gauge { name, instrument: OnceLock::new() }
}

/// A histogram; keep it in a static.
pub const fn histogram(name: &'static str) -> Histogram {
    Histogram { name, instrument: OnceLock::new() }
}

impl Counter {
    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.add_with(n, &[]);
    }

    /// Counts `n` more in the series with these labels.
    pub fn add_with(&self, n: u64, labels: Labels<'_>) {
        let Some(meter) = METER.get() else { return };
        self.instrument.get_or_init(|| meter.u64_counter(self.name).build()).add(n, &attributes(labels));
    }
}

impl Gauge {
    /// Says what it is now.
    pub fn set(&self, value: f64) {
        self.set_with(value, &[]);
    }

    /// Says what the series with these labels is now.
    pub fn set_with(&self, value: f64, labels: Labels<'_>) {
        let Some(meter) = METER.get() else { return };
        self.instrument.get_or_init(|| meter.f64_gauge(self.name).build()).record(value, &attributes(labels));
    }
}

impl Histogram {
    /// Adds one observation.
    pub fn record(&self, value: f64) {
        self.record_with(value, &[]);
    }

    /// Adds one observation to the series with these labels.
    pub fn record_with(&self, value: f64, labels: Labels<'_>) {
        let Some(meter) = METER.get() else { return };
        let build = || meter.f64_histogram(self.name).with_boundaries(bounds(self.name)).build();
        self.instrument.get_or_init(build).record(value, &attributes(labels));
    }
}

fn attributes(labels: Labels<'_>) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| KeyValue::new(*name, (*value).to_owned())).collect()
}

/// Bucket bounds: from 50 µs to a minute for times, powers of four for everything else.
fn bounds(name: &str) -> Vec<f64> {
    const SECONDS: [f64; 19] = [
        0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        5.0, 10.0, 30.0, 60.0,
    ];
    if name.ends_with("seconds") {
        SECONDS.to_vec()
    } else {
        (0..14).map(|power| 4_f64.powi(power)).collect()
    }
}

/// What this process has counted of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The metric's name.
    pub name: String,
    /// Names and values that tell this series from others of the metric.
    pub labels: Vec<(String, String)>,
    /// What was counted.
    pub value: Value,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A counter's sum since the process began.
    Counter(u64),
    /// A gauge's last value.
    Gauge(f64),
    /// A histogram since the process began.
    Histogram(Distribution),
}

/// The observations of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// How many there were.
    pub count: u64,
    /// What they add up to.
    pub sum: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Upper bounds, and how many observations lie at or below each and above the one before; those above the last
    /// bound are not listed.
    pub buckets: Vec<(f64, u64)>,
}

/// What this process has counted so far, by name and labels.
pub fn series() -> Vec<Series> {
    let mut found = ResourceMetrics::default();
    let Some(reader) = READER.get() else { return Vec::new() };
    if reader.0.collect(&mut found).is_err() {
        return Vec::new();
    }
    let mut series = Vec::new();
    for metric in found.scope_metrics().flat_map(|scope| scope.metrics()) {
        let mut add = |attributes: &mut dyn Iterator<Item = &KeyValue>, value| {
            let labels = attributes.map(|label| (label.key.to_string(), label.value.to_string()));
            let mut labels: Vec<_> = labels.collect();
            labels.sort();
            series.push(Series { name: metric.name().to_owned(), labels, value });
        };
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                .data_points()
                .for_each(|point| add(&mut point.attributes(), Value::Counter(point.value()))),
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => gauge
                .data_points()
                .for_each(|point| add(&mut point.attributes(), Value::Gauge(point.value()))),
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    let distribution = Distribution {
                        count: point.count(),
                        sum: point.sum(),
                        min: point.min().unwrap_or_default(),
                        max: point.max().unwrap_or_default(),
                        buckets: point.bounds().zip(point.bucket_counts()).collect(),
                    };
                    add(&mut point.attributes(), Value::Histogram(distribution));
                }
            }
            // The handles above make no others.
            AggregatedMetrics::U64(_) | AggregatedMetrics::F64(_) | AggregatedMetrics::I64(_) => {}
        }
    }
    series.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
    series
}

/// What was counted, in the text format that Prometheus reads.
pub fn prometheus(series: &[Series]) -> String {
    let mut text = String::new();
    let mut last = "";
    for one in series {
        let name = one.name.replace('.', "_");
        if one.name != last {
            let kind = match one.value {
                Value::Counter(_) => "counter",
                Value::Gauge(_) => "gauge",
                Value::Histogram(_) => "histogram",
            };
            let _ = writeln!(text, "# TYPE {name} {kind}");
            last = &one.name;
        }
        let labels = |more: Option<(&str, &str)>| {
            let own = one.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let all: Vec<String> = own
                .chain(more)
                .map(|(name, value)| format!("{}={value:?}", name.replace('.', "_")))
                .collect();
            if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
        };
        let _ = match &one.value {
            Value::Counter(value) => writeln!(text, "{name}{} {value}", labels(None)),
            Value::Gauge(value) => writeln!(text, "{name}{} {value}", labels(None)),
            Value::Histogram(found) => {
                let mut below = 0;
                for (bound, count) in &found.buckets {
                    below += count;
                    let _ =
                        writeln!(text, "{name}_bucket{} {below}", labels(Some(("le", &bound.to_string()))));
                }
                let _ = writeln!(text, "{name}_bucket{} {}", labels(Some(("le", "+Inf"))), found.count);
                let _ = writeln!(text, "{name}_sum{} {}", labels(None), found.sum);
                writeln!(text, "{name}_count{} {}", labels(None), found.count)
            }
        };
    }
    text
}

/// A reader that this process keeps for itself.
pub(crate) fn reader() -> impl MetricReader {
    READER.get_or_init(|| Reader(Arc::new(ManualReader::builder().build()))).clone()
}

/// From here on, handles count.
pub(crate) fn set_up(provider: &SdkMeterProvider) {
    METER.get_or_init(|| provider.meter("drover"));
}

/// The provider wants to own its reader, and we want to ask it.
#[derive(Debug, Clone)]
struct Reader(Arc<ManualReader>);

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, found: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(found)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_told_in_the_text_format_of_prometheus() {
        static PLANS: Counter = counter("drover.applier.plans");
        static READY: Gauge = gauge("drover.broker.ready");
        static COMMIT: Histogram = histogram("drover.applier.commit.seconds");

        PLANS.add(9);
        let provider = SdkMeterProvider::builder().with_reader(reader()).build();
        set_up(&provider);
        PLANS.add_with(2, &[("verdict", "whole")]);
        PLANS.add_with(1, &[("verdict", "say \"no\"")]);
        READY.set(3.0);
        READY.set(2.5);
        COMMIT.record(0.0003);
        COMMIT.record(70.0);

        let text = prometheus(&series());
        assert!(text.contains("# TYPE drover_applier_plans counter\n"), "{text}");
        assert!(text.contains("drover_applier_plans{verdict=\"whole\"} 2\n"), "{text}");
        assert!(text.contains("drover_applier_plans{verdict=\"say \\\"no\\\"\"} 1\n"), "{text}");
        assert!(text.contains("drover_broker_ready 2.5\n"), "{text}");
        assert!(text.contains("drover_applier_commit_seconds_bucket{le=\"0.00025\"} 0\n"), "{text}");
        assert!(text.contains("drover_applier_commit_seconds_bucket{le=\"0.0005\"} 1\n"), "{text}");
        assert!(text.contains("drover_applier_commit_seconds_bucket{le=\"60\"} 1\n"), "{text}");
        assert!(text.contains("drover_applier_commit_seconds_bucket{le=\"+Inf\"} 2\n"), "{text}");
        assert!(text.contains("drover_applier_commit_seconds_count 2\n"), "{text}");
    }
}
