//! The health of a process at one moment, as plain data.

use std::time::Duration;

use agent::Registration;
use model::cluster::Singleton;
use model::{Epoch, Index, ProcessId};

/// The services that a process runs. Its readiness depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parts {
    /// Whether it follows the feed with a replica of the state, as every server does.
    pub(crate) replica: bool,
    /// Whether it may be the plan applier, the only writer of the database.
    pub(crate) applier: bool,
    /// The other services that run as one active instance with standbys.
    pub(crate) singletons: &'static [Singleton],
    /// Whether it serves the HTTP API.
    pub(crate) api: bool,
    /// Whether it runs tasks as a node.
    pub(crate) agent: bool,
}

impl Parts {
    const SERVER: Self = Self { replica: true, applier: false, singletons: &[], api: false, agent: false };
    /// The HTTP API alone.
    pub(crate) const API: Self = Self { api: true, ..Self::SERVER };
    /// Scheduler workers alone.
    pub(crate) const SCHEDULER: Self = Self::SERVER;
    /// The plan applier alone.
    pub(crate) const PLAN_APPLIER: Self = Self { applier: true, ..Self::SERVER };
    /// The evaluation broker alone.
    pub(crate) const EVAL_BROKER: Self = Self { singletons: &[Singleton::EvalBroker], ..Self::SERVER };
    /// The node tracker alone.
    pub(crate) const NODE_TRACKER: Self = Self { singletons: &[Singleton::NodeTracker], ..Self::SERVER };
    /// The deployment watcher alone.
    pub(crate) const DEPLOYMENT_WATCHER: Self =
        Self { singletons: &[Singleton::DeploymentWatcher], ..Self::SERVER };
    /// An agent alone.
    pub(crate) const AGENT: Self =
        Self { replica: false, applier: false, singletons: &[], api: false, agent: true };
    /// All servers in one process.
    pub(crate) const SERVERS: Self =
        Self { replica: true, applier: true, singletons: Singleton::ALL, api: true, agent: false };
    /// No service that readiness depends on.
    pub(crate) const NONE: Self =
        Self { replica: false, applier: false, singletons: &[], api: false, agent: false };
}

/// The health of a process at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// The name of the process.
    pub(crate) service: &'static str,
    /// The services that it runs.
    pub(crate) parts: Parts,
    /// The time since it started.
    pub(crate) up: Duration,
    /// The time since its event loop last ran.
    pub(crate) beat_ago: Duration,
    /// Whether it has been told to stop.
    pub(crate) is_ending: bool,
    pub(crate) nats: Nats,
    /// The index of its replica; `None` until the replica is loaded.
    pub(crate) replica: Option<Index>,
    /// How long the replica has been behind the announced head.
    pub(crate) behind_for: Duration,
    /// The last announcement of the plan applier.
    pub(crate) head: Option<Announced>,
    /// The plan applier's lease.
    pub(crate) applier_lease: Lease,
    /// The leases of the other services that run as one active instance; those that are missing are not held.
    pub(crate) leases: Vec<(Singleton, Lease)>,
    /// Whether the database answers. Only the plan applier probes it.
    pub(crate) database: ProbeResult,
    /// Whether the database is the one that the plan applier writes.
    pub(crate) database_match: DatabaseMatch,
    /// Why the log in the database cannot be read, and since when.
    pub(crate) log_failure: Option<LogFailure>,
    /// Whether its own API answers.
    pub(crate) api: ProbeResult,
    /// The registration of the node with the servers.
    pub(crate) registration: Option<Registration>,
}

/// The connection to NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nats {
    /// The process has not been connected yet.
    NotYet,
    /// The connection was lost so long ago.
    Lost(Duration),
    /// It is connected, but NATS refuses what the work of the process depends on; a description.
    Refuses(String),
    Connected,
}

/// A lease, as a process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lease {
    /// This process holds it.
    Held { epoch: Epoch },
    /// This process stands by.
    NotHeld {
        /// The last lease of this process, if it had one.
        lost: Option<LostLease>,
        /// The process that holds the lease, if this process knows of one.
        holder: Option<Holder>,
    },
}

impl Lease {
    /// A lease of which the process knows nothing.
    pub(crate) const UNKNOWN: Self = Self::NotHeld { lost: None, holder: None };
}

/// A lease that a process has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostLease {
    pub(crate) epoch: Epoch,
    /// The time since the loss.
    pub(crate) ago: Duration,
    pub(crate) reason: String,
}

/// Another process that holds a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) process: ProcessId,
    pub(crate) epoch: Epoch,
}

/// The database of a process, compared with the one that the plan applier writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatabaseMatch {
    /// They have not been compared yet.
    Unknown,
    Same,
    /// They are not the same, or the applier's lacks something that this process has seen. The text says which.
    Other(String),
}

/// Why the log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFailure {
    pub(crate) since: Duration,
    pub(crate) error: String,
}

/// The head of the log that the plan applier announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) index: Index,
    /// The time since the announcement.
    pub(crate) ago: Duration,
}

/// The last result of a repeated probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// There has been no result yet.
    Pending,
    /// The last probe succeeded, so long ago.
    Succeeded { ago: Duration },
    /// The last probe failed, and the last success was so long ago.
    Failed { since: Duration, error: String },
}
