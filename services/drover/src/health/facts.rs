//! The health of a process at one moment, as plain data.

use std::time::Duration;

use agent::Registration;
use model::cluster::Singleton;
use model::{Epoch, Index};

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
    /// Whether this process is the active plan applier.
    pub(crate) is_applier: bool,
    /// The leases that this process holds.
    pub(crate) leases: Vec<(Singleton, Epoch)>,
    /// Whether the database answers.
    pub(crate) database: ProbeResult,
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
