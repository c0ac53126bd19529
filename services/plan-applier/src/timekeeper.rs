//! [`Timekeeper`]: the cluster's time for all tasks of the active applier, and what operators should know about clocks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::{Nanos, Timestamp};
use telemetry::clock;

use crate::cluster_clock::{ClusterClock, Finding, Reading};

/// The cluster's time. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Timekeeper(Arc<Mutex<ClusterClock>>);

impl Timekeeper {
    pub(crate) fn new(clock: ClusterClock) -> Self {
        Self(Arc::new(Mutex::new(clock)))
    }

    /// The cluster's time now.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock().now(clock::monotonic())
    }

    /// Takes the time of the database that a write returned, which began and ended at these moments.
    pub(crate) fn observe(&self, time: Timestamp, begun: Instant, ended: Instant) {
        let findings = self.clock().observe(Reading { time, begun, ended, wall: clock::now() });
        findings.into_iter().for_each(log);
    }

    fn clock(&self) -> MutexGuard<'_, ClusterClock> {
        // No method panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(finding: Finding) {
    match finding {
        Finding::HostDiffers(by) => tracing::warn!(
            by_secs = secs(by),
            "the clock of this host differs from the database's; the cluster's time follows the database's"
        ),
        Finding::HostAgrees => tracing::info!("the clock of this host agrees with the database's again"),
        Finding::TimeDiffers(by) => tracing::error!(
            by_secs = secs(by),
            "the cluster's time differs from the database's clock, and approaches it slowly: set that clock right if it is \
             wrong"
        ),
        Finding::TimeAgrees => tracing::info!("the cluster's time agrees with the database's clock again"),
    }
}

/// A difference in seconds.
fn secs(by: Nanos) -> f64 {
    by.0 as f64 / Nanos::SECOND.0 as f64
}
