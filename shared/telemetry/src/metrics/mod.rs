//! Metrics: the catalogue of all series, the handles that record them, and the values that a process has recorded.
//!
//! A metric exists only in the [`catalogue`]. Handles cannot be created elsewhere, so that the documentation, the
//! dashboards and the recorded metrics cannot diverge. Recording takes no lock: the series of a metric are cells of
//! atomics, which are found by their label values.
//!
//! A name is `nomad.<part>.<what>` if the reference has the metric, otherwise `drover.<part>.<what>` with the unit at
//! the end.

pub mod catalogue;
mod cells;
mod export;
pub mod prometheus;
mod runtime;
mod snapshot;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::cells::{Cells, CounterCell, DistributionCell, GaugeCell};

pub use self::export::set_up;
pub use self::prometheus::process_text;
pub use self::runtime::{observe, observe_tasks};
pub use self::snapshot::{Distribution, Series, Value, snapshot, snapshot_and_reset_window};

/// Maximum number of series of one metric in one process. Values of further series are counted as `series_refused`.
pub const SERIES_PER_METRIC_MAX: usize = 512;

/// Label values of a series, in the order of the label names in the catalogue.
pub type Labels<'a> = &'a [&'a str];

/// Static description of a metric.
#[derive(Debug)]
pub struct Meta {
    /// Name, in words separated by dots.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Description, in one sentence.
    pub help: &'static str,
    /// How the values of several processes are combined for the cluster.
    pub merge: Merge,
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution, exposed as a histogram.
    Histogram,
    /// A distribution of times in milliseconds, exposed as a summary, as the reference exposes its timers.
    Timer,
}

/// How the values of several processes are combined for the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each process has its own series, with the labels `service` and `process`.
    PerProcess,
    /// As [`Merge::PerProcess`], but only the active process of this service is shown.
    PerProcessActive(&'static str),
    /// The sum over all processes.
    Sum,
    /// Only the active process of this service is shown.
    Active(&'static str),
    /// The API computes the metric from its replica when it is read. No process records it.
    Api,
}

/// A metric that only rises.
#[derive(Debug)]
pub struct Counter {
    meta: Meta,
    cells: Cells<CounterCell>,
}

/// A metric that rises and falls.
#[derive(Debug)]
pub struct Gauge {
    meta: Meta,
    cells: Cells<GaugeCell>,
    /// Series that are replaced as a whole; see [`Gauge::replace`].
    replaced: Mutex<Vec<(Vec<String>, f64)>>,
}

/// A metric with a distribution: times in seconds, sizes in bytes.
#[derive(Debug)]
pub struct Histogram {
    meta: Meta,
    cells: Cells<DistributionCell>,
    exported: OnceLock<opentelemetry::metrics::Histogram<f64>>,
}

/// A distribution of durations in milliseconds, as the reference measures them.
#[derive(Debug)]
pub struct Timer(Histogram);

/// A metric of the catalogue.
#[derive(Debug, Clone, Copy)]
pub enum Metric {
    /// A value that only rises.
    Counter(&'static Counter),
    /// A value that rises and falls.
    Gauge(&'static Gauge),
    /// A distribution.
    Histogram(&'static Histogram),
    /// A distribution of durations.
    Timer(&'static Timer),
}

impl Meta {
    /// Upper bounds of the buckets of a distribution.
    pub fn bounds(&self) -> &'static [f64] {
        const SECONDS: &[f64] = &[
            0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
            2.5, 5.0, 10.0, 30.0, 60.0,
        ];
        const MILLISECONDS: &[f64] = &[
            0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0,
            5000.0, 10_000.0, 30_000.0, 60_000.0,
        ];
        const COUNTS: &[f64] = &[
            1.0,
            4.0,
            16.0,
            64.0,
            256.0,
            1024.0,
            4096.0,
            16_384.0,
            65_536.0,
            262_144.0,
            1_048_576.0,
            4_194_304.0,
            16_777_216.0,
            67_108_864.0,
        ];
        match self.kind {
            Kind::Timer => MILLISECONDS,
            Kind::Histogram if self.name.ends_with("seconds") => SECONDS,
            Kind::Counter | Kind::Gauge | Kind::Histogram => COUNTS,
        }
    }

    /// The service of which only the active process is shown.
    pub fn active(&self) -> Option<&'static str> {
        match self.merge {
            Merge::PerProcessActive(service) | Merge::Active(service) => Some(service),
            Merge::PerProcess | Merge::Sum | Merge::Api => None,
        }
    }

    /// Whether each process has its own series.
    pub fn is_per_process(&self) -> bool {
        matches!(self.merge, Merge::PerProcess | Merge::PerProcessActive(_))
    }
}

impl Counter {
    const fn new(meta: Meta) -> Self {
        Self { meta, cells: Cells::new() }
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.add_with(n, &[]);
    }

    /// Adds `n` to the series with these labels.
    pub fn add_with(&self, n: u64, labels: Labels<'_>) {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        if let Some(cell) = self.cells.get_or_insert(labels) {
            cell.add(n);
        }
    }
}

impl Gauge {
    const fn new(meta: Meta) -> Self {
        Self { meta, cells: Cells::new(), replaced: Mutex::new(Vec::new()) }
    }

    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.set_with(value, &[]);
    }

    /// Sets the value of the series with these labels.
    pub fn set_with(&self, value: f64, labels: Labels<'_>) {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        if let Some(cell) = self.cells.get_or_insert(labels) {
            cell.set(value);
        }
    }

    /// Replaces all series, for labels whose values change over time. At most [`SERIES_PER_METRIC_MAX`] series are
    /// kept. This takes a lock, so it is meant for values that are published every few seconds.
    pub fn replace(&self, series: impl IntoIterator<Item = (Vec<String>, f64)>) {
        let series = series.into_iter().take(SERIES_PER_METRIC_MAX).collect();
        *self.replaced.lock().unwrap_or_else(PoisonError::into_inner) = series;
    }

    /// Removes all series, for instance because another process is now active.
    pub fn clear(&self) {
        self.cells.for_each(|_, cell| cell.clear());
        self.replace([]);
    }

    /// A series with a computed value, for [`Merge::Api`].
    pub fn computed(&'static self, labels: Vec<String>, value: f64) -> Series {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        Series { meta: &self.meta, labels, value: Value::Gauge(value) }
    }
}

impl Histogram {
    const fn new(meta: Meta) -> Self {
        Self { meta, cells: Cells::new(), exported: OnceLock::new() }
    }

    /// Records one observation.
    pub fn record(&self, value: f64) {
        self.record_with(value, &[]);
    }

    /// Records one observation to the series with these labels.
    pub fn record_with(&self, value: f64, labels: Labels<'_>) {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        if let Some(cell) = self.cells.get_or_insert(labels) {
            cell.record(self.meta.bounds(), value);
        }
        export::record(self, value, labels);
    }
}

impl Timer {
    const fn new(meta: Meta) -> Self {
        Self(Histogram::new(meta))
    }

    /// Records one observation.
    pub fn record(&self, took: Duration) {
        self.record_with(took, &[]);
    }

    /// Records one observation to the series with these labels.
    pub fn record_with(&self, took: Duration, labels: Labels<'_>) {
        self.0.record_with(took.as_secs_f64() * 1_000.0, labels);
    }
}

impl Metric {
    /// The description of the metric.
    pub fn meta(self) -> &'static Meta {
        match self {
            Self::Counter(counter) => &counter.meta,
            Self::Gauge(gauge) => &gauge.meta,
            Self::Histogram(histogram) => &histogram.meta,
            Self::Timer(timer) => &timer.0.meta,
        }
    }
}

/// Service name and id of this process.
static IDENTITY: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));

/// Sets the service name and the id of this process.
pub fn identify(service: &str, process: &str) {
    *IDENTITY.lock().unwrap_or_else(PoisonError::into_inner) = (service.to_owned(), process.to_owned());
}

fn identity() -> (String, String) {
    IDENTITY.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The services for which this process is the active one, with the epochs of their leases.
static ACTIVE: Mutex<Vec<(&'static str, u64)>> = Mutex::new(Vec::new());

/// Wakes who waits for a change of [`ACTIVE`].
static ACTIVE_CHANGED: Notify = Notify::const_new();

/// Records that this process is the active one of a service, with a lease of this epoch.
pub fn set_active(service: &'static str, epoch: u64) {
    let mut active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
    active.retain(|(name, _)| *name != service);
    active.push((service, epoch));
    ACTIVE_CHANGED.notify_one();
}

/// Records that this process is not the active one of a service any more, and removes the series that only the active
/// process shows.
pub fn set_standby(service: &'static str) {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|(name, _)| *name != service);
    ACTIVE_CHANGED.notify_one();
    for metric in catalogue::all() {
        if let Metric::Gauge(gauge) = metric
            && gauge.meta.active() == Some(service)
        {
            gauge.clear();
        }
    }
}

/// The services for which this process is the active one, with the epochs of their leases.
pub fn active() -> Vec<(&'static str, u64)> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Waits until this process becomes the active one of a service, or stops being it. A change since the last call counts.
/// For one caller at a time.
pub async fn active_changed() {
    ACTIVE_CHANGED.notified().await;
}

#[cfg(test)]
mod tests;
