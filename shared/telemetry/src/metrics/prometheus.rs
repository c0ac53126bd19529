//! The text exposition format of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use super::{Distribution, Kind, Meta, Series, Value, identity, observe, snapshot};

/// Content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Quantiles of a summary, as in the reference.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Prefixes of metrics that the reference's servers emit. The reference's own documentation and dashboards name these
/// metrics with a second `nomad.` in front ([`names`]).
const SERVER_PREFIXES: [&str; 14] = [
    "job_summary.",
    "job_status.",
    "broker.",
    "blocked_evals.",
    "plan.",
    "worker.",
    "leader.",
    "fsm.",
    "heartbeat.",
    "state.",
    "job.",
    "eval.",
    "alloc.",
    "deployment.",
];

/// A series as it is exposed.
#[derive(Debug, Clone)]
pub struct ExposedSeries {
    /// The recorded series.
    pub series: Series,
    /// Additional labels, which identify the process.
    pub more: Vec<(&'static str, String)>,
    /// For a summary: the observations from which its quantiles are computed.
    pub window: Distribution,
}

/// The names under which a metric is exposed, in words separated by dots.
///
/// The reference's servers add `nomad.` to names that already begin with it, and its documentation omits one of the
/// two. Both names are exposed, so that users of either find the metric.
pub fn names(meta: &Meta) -> Vec<String> {
    let name = meta.name;
    let mut names = vec![name.to_owned()];
    if let Some(rest) = name.strip_prefix("nomad.") {
        if rest.starts_with("nomad.") {
            names.push(rest.to_owned());
        } else if SERVER_PREFIXES.iter().any(|part| rest.starts_with(part)) {
            names.push(format!("nomad.{name}"));
        }
    }
    names
}

/// The Prometheus name of a metric. Drover's own counters end in `_total`, as is the convention; the reference's names
/// are unchanged.
pub fn exposed_name(meta: &Meta, name: &str) -> String {
    let mut exposed = name.replace(['.', '-', ' '], "_");
    if meta.kind == Kind::Counter && name.starts_with("drover.") {
        exposed.push_str("_total");
    }
    exposed
}

/// The Prometheus type of a metric. The reference's counters do not end in `_total`, and one of its gauges does;
/// checkers reject such types, so these metrics are untyped. Functions like `rate()` ignore the type.
pub fn exposed_type(meta: &Meta) -> &'static str {
    match meta.kind {
        Kind::Counter if meta.name.starts_with("drover.") => "counter",
        Kind::Counter => "untyped",
        Kind::Gauge if meta.name.ends_with(".total") => "untyped",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Timer => "summary",
    }
}

/// The metrics of this process alone. Its series have the same labels as in the metrics of the cluster.
pub fn process_text() -> String {
    let (service, process) = identity();
    observe(&service);
    let shown = snapshot().into_iter().map(|series| ExposedSeries {
        more: match series.meta.is_per_process() {
            true => vec![("service", service.clone()), ("process", process.clone())],
            false => Vec::new(),
        },
        window: Distribution::default(),
        series,
    });
    text(&shown.collect::<Vec<_>>())
}

/// Formats series as text. The series of one metric must be adjacent.
pub fn text(series: &[ExposedSeries]) -> String {
    let mut text = String::new();
    for group in series.chunk_by(|a, b| std::ptr::eq(a.series.meta, b.series.meta)) {
        let meta = group[0].series.meta;
        let labels: Vec<String> = group.iter().map(labels).collect();
        for name in names(meta) {
            let name = exposed_name(meta, &name);
            let _ = writeln!(text, "# HELP {name} {}", escaped(meta.help, false));
            let _ = writeln!(text, "# TYPE {name} {}", exposed_type(meta));
            for (shown, labels) in group.iter().zip(&labels) {
                write(&mut text, &name, labels, shown);
            }
        }
    }
    text
}

fn write(text: &mut String, name: &str, labels: &str, shown: &ExposedSeries) {
    let meta = shown.series.meta;
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let with = |more: &str, value: &str| {
        let comma = if labels.is_empty() { "" } else { "," };
        format!("{{{labels}{comma}{more}=\"{value}\"}}")
    };
    let _ = match &shown.series.value {
        Value::Counter(value) => writeln!(text, "{name}{braced} {value}"),
        Value::Gauge(value) => writeln!(text, "{name}{braced} {value}"),
        Value::Distribution(distribution) => {
            if meta.kind == Kind::Timer {
                for quantile in QUANTILES {
                    let value = shown.window.quantile(quantile, meta.bounds());
                    let _ = writeln!(text, "{name}{} {value}", with("quantile", &quantile.to_string()));
                }
            } else {
                let mut cumulative = 0;
                for (bound, count) in meta.bounds().iter().zip(&distribution.buckets) {
                    cumulative += count;
                    let _ = writeln!(text, "{name}_bucket{} {cumulative}", with("le", &bound.to_string()));
                }
                let _ = writeln!(text, "{name}_bucket{} {}", with("le", "+Inf"), distribution.count());
            }
            let _ = writeln!(text, "{name}_sum{braced} {}", distribution.sum);
            writeln!(text, "{name}_count{braced} {}", distribution.count())
        }
    };
}

/// The labels of a series, without braces.
fn labels(shown: &ExposedSeries) -> String {
    let own = shown.series.meta.labels.iter().copied().zip(&shown.series.labels);
    let more = shown.more.iter().map(|(name, value)| (*name, value));
    let all = own.chain(more).map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)));
    all.collect::<Vec<_>>().join(",")
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}
