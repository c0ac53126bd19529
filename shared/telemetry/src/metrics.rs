//! Metrics: the catalogue of all series, the handles that record them, and what a process has recorded so far.
//!
//! A metric exists only in the [`catalogue`]: handles cannot be made elsewhere, so that what is documented, what
//! dashboards name and what is emitted cannot drift apart. Recording takes no lock: the series of a metric are cells of
//! atomics that are found by the values of their labels.
//!
//! A name is `nomad.<part>.<what>` where the reference has the metric, otherwise `drover.<part>.<what>` with its unit at the
//! end.

pub mod catalogue;
mod cells;
mod export;
pub mod prometheus;
mod runtime;
mod snapshot;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use self::cells::{Adds, Bits, Cells, Spread};

pub use self::export::set_up;
pub use self::prometheus::process_text;
pub use self::runtime::{observe, observe_tasks};
pub use self::snapshot::{Distribution, Series, Value, snapshot, snapshot_of_window};

/// The most series that one metric has in one process. Values of further ones are counted as `series_refused`.
pub const SERIES_PER_METRIC_MAX: usize = 512;

/// The values of a metric's labels, in the order in which the catalogue names the labels.
pub type Labels<'a> = &'a [&'a str];

/// What is known of a metric without looking at what was recorded.
#[derive(Debug)]
pub struct Meta {
    /// Its name, in words with dots between them.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub help: &'static str,
    /// How the values of several processes become those of the cluster.
    pub merge: Merge,
}

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution, shown as a histogram.
    Histogram,
    /// A distribution of times in milliseconds, shown as the reference shows its timers: a summary.
    Timer,
}

/// How the values of several processes become those of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each process has series of its own, told apart by the labels `service` and `process`.
    Each,
    /// As [`Merge::Each`], and only the process that is active for this service is shown.
    EachActive(&'static str),
    /// Added up.
    Sum,
    /// Only the process that is active for this service is shown.
    Active(&'static str),
    /// Computed by the API from its replica of the state when somebody reads it; no process records it.
    Api,
}

/// Something that only grows.
#[derive(Debug)]
pub struct Counter {
    meta: Meta,
    cells: Cells<Adds>,
}

/// Something that goes up and down.
#[derive(Debug)]
pub struct Gauge {
    meta: Meta,
    cells: Cells<Bits>,
    /// Series that are replaced as a whole, see [`Gauge::replace`].
    replaced: Mutex<Vec<(Vec<String>, f64)>>,
}

/// Something of which the distribution matters: times in seconds, sizes in bytes.
#[derive(Debug)]
pub struct Histogram {
    meta: Meta,
    cells: Cells<Spread>,
    exported: OnceLock<opentelemetry::metrics::Histogram<f64>>,
}

/// How long something took, in milliseconds, as the reference measures it.
#[derive(Debug)]
pub struct Timer(Histogram);

/// A metric of the catalogue.
#[derive(Debug, Clone, Copy)]
pub enum Metric {
    /// Only grows.
    Counter(&'static Counter),
    /// Goes up and down.
    Gauge(&'static Gauge),
    /// A distribution.
    Histogram(&'static Histogram),
    /// A distribution of times.
    Timer(&'static Timer),
}

impl Meta {
    /// The upper bounds of the buckets of a distribution.
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

    /// The service whose active process alone is shown.
    pub fn active(&self) -> Option<&'static str> {
        match self.merge {
            Merge::EachActive(service) | Merge::Active(service) => Some(service),
            Merge::Each | Merge::Sum | Merge::Api => None,
        }
    }

    /// Whether each process has series of its own.
    pub fn is_of_each(&self) -> bool {
        matches!(self.merge, Merge::Each | Merge::EachActive(_))
    }
}

impl Counter {
    const fn new(meta: Meta) -> Self {
        Self { meta, cells: Cells::new() }
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.add_with(n, &[]);
    }

    /// Counts `n` more in the series with these labels.
    pub fn add_with(&self, n: u64, labels: Labels<'_>) {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        if let Some(cell) = self.cells.of(labels) {
            cell.add(n);
        }
    }
}

impl Gauge {
    const fn new(meta: Meta) -> Self {
        Self { meta, cells: Cells::new(), replaced: Mutex::new(Vec::new()) }
    }

    /// Sets its value.
    pub fn set(&self, value: f64) {
        self.set_with(value, &[]);
    }

    /// Sets the value of the series with these labels.
    pub fn set_with(&self, value: f64, labels: Labels<'_>) {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        if let Some(cell) = self.cells.of(labels) {
            cell.set(value);
        }
    }

    /// Replaces all series by these, for labels whose values come and go. At most [`SERIES_PER_METRIC_MAX`] are kept. Takes a
    /// lock: for what is published every few seconds.
    pub fn replace(&self, series: impl IntoIterator<Item = (Vec<String>, f64)>) {
        let series = series.into_iter().take(SERIES_PER_METRIC_MAX).collect();
        *self.replaced.lock().unwrap_or_else(PoisonError::into_inner) = series;
    }

    /// Takes all series away, as when another process is active from now on.
    pub fn clear(&self) {
        self.cells.each(|_, cell| cell.clear());
        self.replace([]);
    }

    /// A series of it that was not recorded but computed, for [`Merge::Api`].
    pub fn computed(&'static self, labels: Vec<String>, value: f64) -> Series {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        Series { meta: &self.meta, labels, value: Value::Gauge(value) }
    }
}

impl Histogram {
    const fn new(meta: Meta) -> Self {
        Self { meta, cells: Cells::new(), exported: OnceLock::new() }
    }

    /// Adds one observation.
    pub fn record(&self, value: f64) {
        self.record_with(value, &[]);
    }

    /// Adds one observation to the series with these labels.
    pub fn record_with(&self, value: f64, labels: Labels<'_>) {
        debug_assert_eq!(labels.len(), self.meta.labels.len(), "{}", self.meta.name);
        if let Some(cell) = self.cells.of(labels) {
            cell.record(self.meta.bounds(), value);
        }
        export::record(self, value, labels);
    }
}

impl Timer {
    const fn new(meta: Meta) -> Self {
        Self(Histogram::new(meta))
    }

    /// Adds one observation.
    pub fn record(&self, took: Duration) {
        self.record_with(took, &[]);
    }

    /// Adds one observation to the series with these labels.
    pub fn record_with(&self, took: Duration, labels: Labels<'_>) {
        self.0.record_with(took.as_secs_f64() * 1_000.0, labels);
    }
}

impl Metric {
    /// What is known of it.
    pub fn meta(self) -> &'static Meta {
        match self {
            Self::Counter(counter) => &counter.meta,
            Self::Gauge(gauge) => &gauge.meta,
            Self::Histogram(histogram) => &histogram.meta,
            Self::Timer(timer) => &timer.0.meta,
        }
    }
}

/// What this process calls itself, and its id.
static IDENTITY: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));

/// This process calls itself `service`, and has this id.
pub fn identify(service: &str, process: &str) {
    *IDENTITY.lock().unwrap_or_else(PoisonError::into_inner) = (service.to_owned(), process.to_owned());
}

fn identity() -> (String, String) {
    IDENTITY.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The services for which this process is the active one, with the epochs of their leases.
static ACTIVE: Mutex<Vec<(&'static str, u64)>> = Mutex::new(Vec::new());

/// This process is the active one of a service, by a lease of this epoch.
pub fn set_active(service: &'static str, epoch: u64) {
    let mut active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
    active.retain(|(name, _)| *name != service);
    active.push((service, epoch));
}

/// This process is not the active one of a service any more. All series that only the active process shows are taken away.
pub fn set_standby(service: &'static str) {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|(name, _)| *name != service);
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

#[cfg(test)]
mod tests;
