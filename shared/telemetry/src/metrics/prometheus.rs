//! The text format that Prometheus reads (version 0.0.4).

use std::fmt::Write as _;

use super::{Distribution, Kind, Meta, Series, Value, identity, observe, snapshot};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The quantiles of a summary, as the reference has them.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// What the names of the metrics begin with that the reference's servers emit. Its own documentation and dashboards name them
/// with a second `nomad.` in front ([`names`]).
const OF_SERVERS: [&str; 14] = [
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

/// A series as it is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// What was recorded.
    pub series: Series,
    /// Labels beside those of the metric: which process it was.
    pub more: Vec<(&'static str, String)>,
    /// Of a summary: the observations that its quantiles are computed from.
    pub window: Distribution,
}

/// The names under which a metric is shown, in words with dots between them.
///
/// The reference's servers put `nomad.` in front of names that begin with it already, where its documentation leaves one of
/// the two out. Both are shown, so that either finds its metrics.
pub fn names(meta: &Meta) -> Vec<String> {
    let name = meta.name;
    let mut names = vec![name.to_owned()];
    if let Some(rest) = name.strip_prefix("nomad.") {
        if rest.starts_with("nomad.") {
            names.push(rest.to_owned());
        } else if OF_SERVERS.iter().any(|part| rest.starts_with(part)) {
            names.push(format!("nomad.{name}"));
        }
    }
    names
}

/// What Prometheus calls a metric of this name: counters of ours end in `_total`, as is the convention; the reference's names
/// are kept as they are.
pub fn exposed_name(meta: &Meta, name: &str) -> String {
    let mut exposed = name.replace(['.', '-', ' '], "_");
    if meta.kind == Kind::Counter && name.starts_with("drover.") {
        exposed.push_str("_total");
    }
    exposed
}

/// What Prometheus is told of the type. Counters of the reference do not end in `_total`, without which a checker refuses the
/// type, and one of its gauges does; `rate()` and its like do not look at it.
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

/// What this process alone has recorded. Its series have the same labels as where they are shown with those of other
/// processes.
pub fn process_text() -> String {
    let (service, process) = identity();
    observe(&service);
    let shown = snapshot().into_iter().map(|series| Shown {
        more: match series.meta.is_of_each() {
            true => vec![("service", service.clone()), ("process", process.clone())],
            false => Vec::new(),
        },
        window: Distribution::default(),
        series,
    });
    text(&shown.collect::<Vec<_>>())
}

/// Series in the text format. Those of one metric must follow each other.
pub fn text(series: &[Shown]) -> String {
    let mut text = String::new();
    for of_one in series.chunk_by(|a, b| std::ptr::eq(a.series.meta, b.series.meta)) {
        let meta = of_one[0].series.meta;
        let labels: Vec<String> = of_one.iter().map(labels).collect();
        for name in names(meta) {
            let name = exposed_name(meta, &name);
            let _ = writeln!(text, "# HELP {name} {}", escaped(meta.help, false));
            let _ = writeln!(text, "# TYPE {name} {}", exposed_type(meta));
            for (shown, labels) in of_one.iter().zip(&labels) {
                write(&mut text, &name, labels, shown);
            }
        }
    }
    text
}

fn write(text: &mut String, name: &str, labels: &str, shown: &Shown) {
    let meta = shown.series.meta;
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let with = |more: &str, value: &str| {
        let comma = if labels.is_empty() { "" } else { "," };
        format!("{{{labels}{comma}{more}=\"{value}\"}}")
    };
    let _ = match &shown.series.value {
        Value::Counter(value) => writeln!(text, "{name}{braced} {value}"),
        Value::Gauge(value) => writeln!(text, "{name}{braced} {value}"),
        Value::Distribution(found) => {
            if meta.kind == Kind::Timer {
                for quantile in QUANTILES {
                    let value = shown.window.quantile(quantile, meta.bounds());
                    let _ = writeln!(text, "{name}{} {value}", with("quantile", &quantile.to_string()));
                }
            } else {
                let mut below = 0;
                for (bound, count) in meta.bounds().iter().zip(&found.buckets) {
                    below += count;
                    let _ = writeln!(text, "{name}_bucket{} {below}", with("le", &bound.to_string()));
                }
                let _ = writeln!(text, "{name}_bucket{} {}", with("le", "+Inf"), found.count());
            }
            let _ = writeln!(text, "{name}_sum{braced} {}", found.sum);
            writeln!(text, "{name}_count{braced} {}", found.count())
        }
    };
}

/// The labels of a series without braces.
fn labels(shown: &Shown) -> String {
    let own = shown.series.meta.labels.iter().copied().zip(&shown.series.labels);
    let more = shown.more.iter().map(|(name, value)| (*name, value));
    let all = own.chain(more).map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)));
    all.collect::<Vec<_>>().join(",")
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}
