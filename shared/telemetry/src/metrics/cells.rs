//! Cells of atomics, which are found by label values without a lock: a hash table of linked lists that only grows.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use opentelemetry::KeyValue;

use super::SERIES_PER_METRIC_MAX;
use super::catalogue::SERIES_REFUSED;

/// Number of linked lists in the table of a metric.
const LISTS: usize = 64;
/// Maximum number of buckets of a distribution. The last one has no upper bound.
const BUCKETS_MAX: usize = 20;

/// The series of one metric.
#[derive(Debug)]
pub(super) struct Cells<C> {
    /// The cell of a metric without labels.
    only: OnceLock<C>,
    lists: [OnceLock<Box<Node<C>>>; LISTS],
    count: AtomicUsize,
}

#[derive(Debug)]
struct Node<C> {
    hash: u64,
    labels: Vec<String>,
    cell: C,
    next: OnceLock<Box<Self>>,
}

impl<C: Default> Cells<C> {
    pub(super) const fn new() -> Self {
        Self { only: OnceLock::new(), lists: [const { OnceLock::new() }; LISTS], count: AtomicUsize::new(0) }
    }

    /// Returns the cell of the series with these labels, and creates it if necessary; `None` if there are too many series.
    pub(super) fn get_or_insert(&self, labels: &[&str]) -> Option<&C> {
        if labels.is_empty() {
            return Some(self.only.get_or_init(C::default));
        }
        let hash = hash(labels);
        let mut link = &self.lists[(hash >> 32) as usize % LISTS];
        loop {
            match link.get() {
                Some(node) if node.hash == hash && node.labels == labels => return Some(&node.cell),
                Some(node) => link = &node.next,
                None if self.count.load(Ordering::Relaxed) >= SERIES_PER_METRIC_MAX => {
                    SERIES_REFUSED.add(1);
                    return None;
                }
                // If another thread is faster, the next iteration compares with that thread's node.
                None => drop(link.get_or_init(|| {
                    self.count.fetch_add(1, Ordering::Relaxed);
                    let labels = labels.iter().map(|value| (*value).to_owned()).collect();
                    Box::new(Node { hash, labels, cell: C::default(), next: OnceLock::new() })
                })),
            }
        }
    }

    /// Calls `visit` with each series.
    pub(super) fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a [String], &'a C)) {
        if let Some(cell) = self.only.get() {
            visit(&[], cell);
        }
        for list in &self.lists {
            let mut link = list;
            while let Some(node) = link.get() {
                visit(&node.labels, &node.cell);
                link = &node.next;
            }
        }
    }
}

/// A hash of the label values, computed from eight bytes at a time.
fn hash(labels: &[&str]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = 0_u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    for value in labels {
        let (words, rest) = value.as_bytes().as_chunks::<8>();
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last) ^ (value.len() as u64) << 56);
    }
    hash
}

/// The cell of a counter.
#[derive(Debug, Default)]
pub(super) struct CounterCell(AtomicU64);

impl CounterCell {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The cell of a gauge: the bits of its value, or of NaN if it has no value.
#[derive(Debug)]
pub(super) struct GaugeCell(AtomicU64);

impl Default for GaugeCell {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl GaugeCell {
    pub(super) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.set(f64::NAN);
    }

    pub(super) fn get(&self) -> Option<f64> {
        Some(f64::from_bits(self.0.load(Ordering::Relaxed))).filter(|value| !value.is_nan())
    }
}

/// The cell of a distribution.
#[derive(Debug)]
pub(super) struct DistributionCell {
    buckets: [AtomicU64; BUCKETS_MAX],
    sum: AtomicU64,
    squares: AtomicU64,
    /// Minimum and maximum since the start of the current window.
    min: AtomicU64,
    max: AtomicU64,
    /// Labels of the series, for exporters.
    pub(super) attributes: OnceLock<Vec<KeyValue>>,
}

impl Default for DistributionCell {
    fn default() -> Self {
        let zero = || AtomicU64::new(0_f64.to_bits());
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS_MAX],
            sum: zero(),
            squares: zero(),
            min: AtomicU64::new(f64::INFINITY.to_bits()),
            max: zero(),
            attributes: OnceLock::new(),
        }
    }
}

/// Contents of a distribution's cell.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) buckets: Vec<u64>,
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl DistributionCell {
    /// Observations are times and sizes, so they are not negative, and their bits compare in the same order as their
    /// values.
    pub(super) fn record(&self, bounds: &[f64], value: f64) {
        let value = value.max(0.0);
        let bucket = bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        add(&self.sum, value);
        add(&self.squares, value * value);
        let bits = value.to_bits();
        if bits < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(bits, Ordering::Relaxed);
        }
        if bits > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(bits, Ordering::Relaxed);
        }
    }

    /// Returns the contents. If `ends_window` is set, minimum and maximum start anew.
    pub(super) fn get(&self, bounds: &[f64], ends_window: bool) -> Recorded {
        let bits = |cell: &AtomicU64| f64::from_bits(cell.load(Ordering::Relaxed));
        let (min, max) = if ends_window {
            let min = self.min.swap(f64::INFINITY.to_bits(), Ordering::Relaxed);
            let max = self.max.swap(0_f64.to_bits(), Ordering::Relaxed);
            (f64::from_bits(min), f64::from_bits(max))
        } else {
            (bits(&self.min), bits(&self.max))
        };
        Recorded {
            buckets: self.buckets[..=bounds.len()].iter().map(|one| one.load(Ordering::Relaxed)).collect(),
            sum: bits(&self.sum),
            squares: bits(&self.squares),
            min,
            max,
        }
    }
}

fn add(cell: &AtomicU64, value: f64) {
    let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
        Some((f64::from_bits(bits) + value).to_bits())
    });
}
