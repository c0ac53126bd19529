//! What is measured: a cluster of our own, or somebody else's.

use std::time::{Duration, Instant};

use telemetry::clock;

use super::{Benched, Kind, Placed, Remote, Streamed};

/// A cluster to measure.
pub enum Target {
    /// One that was started for it.
    Ours(Box<Benched>),
    /// One that is there.
    Theirs(Remote),
}

impl Target {
    /// Registers a job and waits until all of it runs.
    ///
    /// # Panics
    /// If it is refused, or does not come to run.
    pub async fn place(&mut self, name: &str, count: u64) -> Placed {
        let now = clock::monotonic();
        match self {
            Self::Ours(cluster) => cluster.place(name, count, now).await,
            Self::Theirs(remote) => remote.place(name, count, now).await,
        }
    }

    /// Has so many jobs in flight, from when they are sent until all of each is placed, for as long as it is to last.
    ///
    /// # Panics
    /// If one is refused, or does not come to be placed.
    pub async fn stream(&mut self, name: &str, count: u64, in_flight: usize, length: Duration) -> Streamed {
        match self {
            Self::Ours(cluster) => cluster.stream(name, count, in_flight, length).await,
            Self::Theirs(remote) => remote.stream(name, count, in_flight, length).await,
        }
    }

    /// Registers a job that runs nothing, or a new version of it. When that was durable, as far as can be seen.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change(&mut self, name: &str, version: u64) -> Instant {
        match self {
            Self::Ours(cluster) => cluster.change(name, version).await,
            Self::Theirs(remote) => remote.change(name, version).await,
        }
    }

    /// Gives it jobs of a kind from now on.
    pub fn set_kind(&mut self, kind: Kind) {
        match self {
            Self::Ours(cluster) => cluster.kind = kind,
            Self::Theirs(remote) => remote.set_kind(kind),
        }
    }

    /// What a job of a name is called there.
    pub fn id(&self, name: &str) -> String {
        match self {
            Self::Ours(_) => name.to_owned(),
            Self::Theirs(remote) => remote.id(name),
        }
    }

    /// Stops what was begun where somebody else goes on; a cluster of our own ends.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn end(self) {
        match self {
            Self::Ours(cluster) => drop(cluster),
            Self::Theirs(remote) => remote.end().await,
        }
    }

    /// The address of an API, as a URL.
    ///
    /// # Panics
    /// If there is none.
    pub fn api(&self) -> &str {
        match self {
            Self::Ours(cluster) => cluster.api(),
            Self::Theirs(remote) => remote.api(),
        }
    }

    /// What it has used of processors so far, where that can be known.
    ///
    /// # Panics
    /// If a part of it does not run.
    pub fn cost(&self) -> Option<Duration> {
        match self {
            Self::Ours(cluster) => Some(cluster.cost()),
            Self::Theirs(_) => None,
        }
    }
}
