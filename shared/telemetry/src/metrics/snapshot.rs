//! Snapshots of the values that this process has recorded.

use std::sync::PoisonError;

use super::{Meta, Metric, catalogue};

/// One series of a metric.
#[derive(Debug, Clone)]
pub struct Series {
    /// The metric.
    pub meta: &'static Meta,
    /// Label values, in the catalogue's order.
    pub labels: Vec<String>,
    /// The recorded value.
    pub value: Value,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Sum of a counter since the start of the process.
    Counter(u64),
    /// Last value of a gauge.
    Gauge(f64),
    /// Distribution since the start of the process.
    Distribution(Distribution),
}

/// The observations of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Number of observations in each of the buckets of [`Meta::bounds`], and in a last one, which has no upper bound.
    pub buckets: Vec<u64>,
    /// Sum of the observations.
    pub sum: f64,
    /// Sum of the squared observations.
    pub squares: f64,
    /// Smallest observation in the current window; infinite if there is none.
    pub min: f64,
    /// Largest observation in the current window.
    pub max: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { buckets: Vec::new(), sum: 0.0, squares: 0.0, min: f64::INFINITY, max: 0.0 }
    }
}

impl Distribution {
    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds the observations of another distribution.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (own, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += others;
        }
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The observations since an earlier state of the same distribution. Minimum and maximum are those of this state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.buckets.iter().chain(std::iter::repeat(&0));
        Self {
            buckets: self
                .buckets
                .iter()
                .zip(before)
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            sum: (self.sum - earlier.sum).max(0.0),
            squares: (self.squares - earlier.squares).max(0.0),
            min: self.min,
            max: self.max,
        }
    }

    /// Estimates a quantile from the buckets, as Prometheus' `histogram_quantile` does; NaN without observations.
    pub fn quantile(&self, quantile: f64, bounds: &[f64]) -> f64 {
        let count = self.count();
        if count == 0 {
            return f64::NAN;
        }
        let rank = quantile * count as f64;
        let mut below = 0.0;
        let mut lower = 0.0;
        for (bucket, in_bucket) in self.buckets.iter().enumerate() {
            let Some(upper) = bounds.get(bucket) else { break };
            if below + *in_bucket as f64 >= rank && *in_bucket > 0 {
                return lower + (upper - lower) * ((rank - below) / *in_bucket as f64);
            }
            below += *in_bucket as f64;
            lower = *upper;
        }
        lower
    }
}

/// All series of this process, by name and labels.
pub fn snapshot() -> Vec<Series> {
    take(false)
}

/// As [`snapshot`], and starts a new window for the minimum and maximum of distributions. Only the task that publishes
/// the metrics of the process may call it.
pub fn snapshot_and_reset_window() -> Vec<Series> {
    take(true)
}

fn take(ends_window: bool) -> Vec<Series> {
    let mut series = Vec::new();
    for metric in catalogue::all() {
        let meta = metric.meta();
        let mut add = |labels: &[String], value| series.push(Series { meta, labels: labels.to_vec(), value });
        match metric {
            Metric::Counter(counter) => {
                counter.cells.for_each(|labels, cell| add(labels, Value::Counter(cell.get())));
            }
            Metric::Gauge(gauge) => {
                gauge.cells.for_each(|labels, cell| {
                    if let Some(value) = cell.get() {
                        add(labels, Value::Gauge(value));
                    }
                });
                let replaced = gauge.replaced.lock().unwrap_or_else(PoisonError::into_inner);
                replaced.iter().for_each(|(labels, value)| add(labels, Value::Gauge(*value)));
            }
            Metric::Histogram(histogram) => {
                histogram.cells.for_each(|labels, cell| add(labels, distribution(cell, meta, ends_window)));
            }
            Metric::Timer(timer) => {
                timer.0.cells.for_each(|labels, cell| add(labels, distribution(cell, meta, ends_window)));
            }
        }
    }
    series.sort_by(|a, b| (a.meta.name, &a.labels).cmp(&(b.meta.name, &b.labels)));
    series
}

fn distribution(cell: &super::cells::DistributionCell, meta: &Meta, ends_window: bool) -> Value {
    let recorded = cell.get(meta.bounds(), ends_window);
    Value::Distribution(Distribution {
        buckets: recorded.buckets,
        sum: recorded.sum,
        squares: recorded.squares,
        min: recorded.min,
        max: recorded.max,
    })
}
