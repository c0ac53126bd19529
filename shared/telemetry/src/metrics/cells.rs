//! Cells of atomics, found by the values of labels without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use opentelemetry::KeyValue;

use super::SERIES_PER_METRIC_MAX;
use super::catalogue::SERIES_REFUSED;

/// Lists that the series of a metric are spread over.
const LISTS: usize = 64;
/// The most buckets of a distribution, the last of which has no upper bound.
const BUCKETS_MAX: usize = 20;

/// The series of one metric.
#[derive(Debug)]
pub(super) struct Cells<C> {
    /// Of metrics without labels.
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

    /// The cell of the series with these labels, made if it is the first time; `None` where there are too many.
    pub(super) fn of(&self, labels: &[&str]) -> Option<&C> {
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
                // Another thread may be faster; then its node is looked at next.
                None => drop(link.get_or_init(|| {
                    self.count.fetch_add(1, Ordering::Relaxed);
                    let labels = labels.iter().map(|value| (*value).to_owned()).collect();
                    Box::new(Node { hash, labels, cell: C::default(), next: OnceLock::new() })
                })),
            }
        }
    }

    /// Calls `see` with each series.
    pub(super) fn each<'a>(&'a self, mut see: impl FnMut(&'a [String], &'a C)) {
        if let Some(cell) = self.only.get() {
            see(&[], cell);
        }
        for list in &self.lists {
            let mut link = list;
            while let Some(node) = link.get() {
                see(&node.labels, &node.cell);
                link = &node.next;
            }
        }
    }
}

/// A hash of the labels' values, eight bytes at a time.
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

/// A counter's cell.
#[derive(Debug, Default)]
pub(super) struct Adds(AtomicU64);

impl Adds {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A gauge's cell: the bits of its value, or of a NaN while it has none.
#[derive(Debug)]
pub(super) struct Bits(AtomicU64);

impl Default for Bits {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl Bits {
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

/// A distribution's cell.
#[derive(Debug)]
pub(super) struct Spread {
    buckets: [AtomicU64; BUCKETS_MAX],
    sum: AtomicU64,
    squares: AtomicU64,
    /// The smallest and the largest since the last window.
    min: AtomicU64,
    max: AtomicU64,
    /// Its labels, for exporters.
    pub(super) attributes: OnceLock<Vec<KeyValue>>,
}

impl Default for Spread {
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

/// What a distribution's cell holds.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) buckets: Vec<u64>,
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Observations are times and sizes: never negative, so that the bits of two compare as the values do.
    pub(super) fn record(&self, bounds: &[f64], value: f64) {
        let value = value.max(0.0);
        let at = bounds.partition_point(|bound| *bound < value);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
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

    /// What it holds; where a window ends, the smallest and the largest begin anew.
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
