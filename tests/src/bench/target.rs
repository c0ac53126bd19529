//! The target of a measurement: a private cluster, or an existing one.

use std::time::{Duration, Instant};

use telemetry::clock;

use super::{BenchCluster, JobTimes, Kind, Remote, Streamed};

/// A cluster to measure.
pub enum Target {
    /// A cluster that was started for the measurement.
    Own(Box<BenchCluster>),
    /// An existing cluster.
    Remote(Remote),
}

impl Target {
    /// Registers a job and waits until all of it runs.
    ///
    /// # Panics
    /// If the job is refused, or does not run in time.
    pub async fn place(&mut self, name: &str, count: u64) -> JobTimes {
        let now = clock::monotonic();
        match self {
            Self::Own(cluster) => cluster.place(name, count, now).await,
            Self::Remote(remote) => remote.place(name, count, now).await,
        }
    }

    /// Keeps `in_flight` jobs in flight for the given length of time; a job is in flight from its registration until
    /// all of it is placed.
    ///
    /// # Panics
    /// If a job is refused, or is not placed in time.
    pub async fn stream(&mut self, name: &str, count: u64, in_flight: usize, length: Duration) -> Streamed {
        match self {
            Self::Own(cluster) => cluster.stream(name, count, in_flight, length).await,
            Self::Remote(remote) => remote.stream(name, count, in_flight, length).await,
        }
    }

    /// Registers a job without allocations, or a new version of it. Returns when that was durable, or acknowledged if
    /// durability cannot be observed.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change(&mut self, name: &str, version: u64) -> Instant {
        match self {
            Self::Own(cluster) => cluster.change(name, version).await,
            Self::Remote(remote) => remote.change(name, version).await,
        }
    }

    /// Registers jobs of the given kind from now on.
    pub fn set_kind(&mut self, kind: Kind) {
        match self {
            Self::Own(cluster) => cluster.kind = kind,
            Self::Remote(remote) => remote.set_kind(kind),
        }
    }

    /// The id that a job has on this target.
    pub fn id(&self, name: &str) -> String {
        match self {
            Self::Own(_) => name.to_owned(),
            Self::Remote(remote) => remote.id(name),
        }
    }

    /// Ends a private cluster. On an existing one, stops the jobs that were registered.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn end(self) {
        match self {
            Self::Own(cluster) => drop(cluster),
            Self::Remote(remote) => remote.end().await,
        }
    }

    /// The URL of an API.
    ///
    /// # Panics
    /// If there is no API.
    pub fn api(&self) -> &str {
        match self {
            Self::Own(cluster) => cluster.api(),
            Self::Remote(remote) => remote.api(),
        }
    }

    /// The processor time that the cluster has used so far, where it can be measured.
    ///
    /// # Panics
    /// If a part of the cluster does not run.
    pub fn processor_time(&self) -> Option<Duration> {
        match self {
            Self::Own(cluster) => Some(cluster.total_processor_time()),
            Self::Remote(_) => None,
        }
    }
}
