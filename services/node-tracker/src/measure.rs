//! What the tracker records of its work.

use std::time::Duration;

use telemetry::metrics::catalogue::{
    HEARTBEAT_ACTIVE, HEARTBEAT_INVALIDATE, TRACKER_BEATS, TRACKER_DEAF, TRACKER_MISSED, TRACKER_OVERHEARD,
    TRACKER_REFUSED, TRACKER_REPORTS, TRACKER_TIMERS, TRACKER_WAKES,
};

/// How many nodes have a timer (N-4.5).
pub(crate) fn timers(count: usize) {
    TRACKER_TIMERS.set(count as f64);
    HEARTBEAT_ACTIVE.set(count as f64);
}

/// For how many seconds heartbeats may wait that are not dealt with yet.
pub(crate) fn unheard(length: Duration) {
    TRACKER_DEAF.set(length.as_secs_f64());
}

/// Nodes were heard of.
pub(crate) fn beats(count: usize) {
    TRACKER_BEATS.add(count as u64);
}

/// Nodes were heard of, and answered by another process.
pub(crate) fn overheard(count: usize) {
    TRACKER_OVERHEARD.add(count as u64);
}

/// Nodes were missed, and it took so long to report that.
pub(crate) fn missed(count: usize, took: Duration) {
    TRACKER_MISSED.add(count as u64);
    HEARTBEAT_INVALIDATE.record(took);
}

/// A node was refused what it asked for.
pub(crate) fn refused(why: &'static str) {
    TRACKER_REFUSED.add_with(1, &[why]);
}

/// So many nodes' reports went into one command.
pub(crate) fn gathered(reports: usize) {
    TRACKER_REPORTS.record(reports as f64);
}

/// Agents were told to look.
pub(crate) fn woken(count: usize) {
    TRACKER_WAKES.add(count as u64);
}
