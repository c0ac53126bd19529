//! Metrics of the node-tracker.

use std::time::Duration;

use telemetry::metrics::catalogue::{
    HEARTBEAT_ACTIVE, HEARTBEAT_INVALIDATE, TRACKER_HEARTBEATS, TRACKER_MISSED, TRACKER_RECEIVE_LAG,
    TRACKER_REFUSED, TRACKER_REPORTS, TRACKER_STANDBY_HEARTBEATS, TRACKER_TIMERS, TRACKER_WAKES,
};

/// Sets the number of nodes with a timer (N-4.5).
pub(crate) fn timers(count: usize) {
    TRACKER_TIMERS.set(count as f64);
    HEARTBEAT_ACTIVE.set(count as f64);
}

/// Sets the time for which heartbeats may have been sent that are not handled yet.
pub(crate) fn deaf_time(duration: Duration) {
    TRACKER_RECEIVE_LAG.set(duration.as_secs_f64());
}

/// Counts heartbeats that this process answered.
pub(crate) fn heartbeats(count: usize) {
    TRACKER_HEARTBEATS.add(count as u64);
}

/// Counts heartbeats that this standby received and another process answered.
pub(crate) fn standby_heartbeats(count: usize) {
    TRACKER_STANDBY_HEARTBEATS.add(count as u64);
}

/// Counts nodes that missed their heartbeats, and records how long reporting them took.
pub(crate) fn missed(count: usize, took: Duration) {
    TRACKER_MISSED.add(count as u64);
    HEARTBEAT_INVALIDATE.record(took);
}

/// Counts a refused request by its reason.
pub(crate) fn refused(reason: &'static str) {
    TRACKER_REFUSED.add_with(1, &[reason]);
}

/// Records the number of reports in one command.
pub(crate) fn report_batch(reports: usize) {
    TRACKER_REPORTS.record(reports as f64);
}

/// Counts wakes.
pub(crate) fn wakes(count: usize) {
    TRACKER_WAKES.add(count as u64);
}
