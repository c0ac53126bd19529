//! What the tracker counts.

use std::time::Duration;

use telemetry::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

static TIMERS: Gauge = gauge("drover.tracker.heartbeat.timers");
static UNHEARD: Gauge = gauge("drover.tracker.heartbeats.unheard");
static BEATS: Counter = counter("drover.tracker.heartbeats");
static OVERHEARD: Counter = counter("drover.tracker.heartbeats.overheard");
static MISSED: Counter = counter("drover.tracker.nodes.missed");
static REFUSED: Counter = counter("drover.tracker.refused");
static REPORTS: Histogram = histogram("drover.tracker.reports.gathered");
static WAKES: Counter = counter("drover.tracker.wakes");

/// How many nodes have a timer (N-4.5).
pub(crate) fn timers(count: usize) {
    TIMERS.set(count as f64);
}

/// For how many seconds heartbeats may wait that are not dealt with yet.
pub(crate) fn unheard(length: Duration) {
    UNHEARD.set(length.as_secs_f64());
}

/// Nodes were heard of.
pub(crate) fn beats(count: usize) {
    BEATS.add(count as u64);
}

/// Nodes were heard of, and answered by another process.
pub(crate) fn overheard(count: usize) {
    OVERHEARD.add(count as u64);
}

/// Nodes were missed.
pub(crate) fn missed(count: usize) {
    MISSED.add(count as u64);
}

/// A node was refused what it asked for.
pub(crate) fn refused(why: &'static str) {
    REFUSED.add_with(1, &[("why", why)]);
}

/// So many nodes' reports went into one command.
pub(crate) fn gathered(reports: usize) {
    REPORTS.record(reports as f64);
}

/// Agents were told to look.
pub(crate) fn woken(count: usize) {
    WAKES.add(count as u64);
}
