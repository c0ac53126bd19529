//! What is known of a process at one moment, as plain data.

use std::time::Duration;

use agent::Registration;
use model::cluster::Singleton;
use model::{Epoch, Index};

/// The parts that a process runs; they decide what its readiness depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parts {
    /// Whether it follows the change feed with a replica of the state, as every server does.
    pub(crate) replica: bool,
    /// Whether it may be the plan applier, the one that writes the database.
    pub(crate) applier: bool,
    /// The other services of which one process is active at a time.
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
    /// Nothing that anybody waits for.
    pub(crate) const NONE: Self =
        Self { replica: false, applier: false, singletons: &[], api: false, agent: false };
}

/// What is known of a process at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// What the process calls itself.
    pub(crate) service: &'static str,
    /// What it runs.
    pub(crate) parts: Parts,
    /// How long ago it started.
    pub(crate) up: Duration,
    /// How long ago its event loop last ran.
    pub(crate) beat_ago: Duration,
    /// Whether it was told to stop.
    pub(crate) is_ending: bool,
    pub(crate) nats: Nats,
    /// How far its replica is; `None` until it was loaded.
    pub(crate) replica: Option<Index>,
    /// How long the replica has not caught up with what the plan applier announced.
    pub(crate) behind_for: Duration,
    /// What the plan applier announced last.
    pub(crate) head: Option<Announced>,
    /// Whether this process is the active plan applier.
    pub(crate) is_applier: bool,
    /// The leases that this process holds.
    pub(crate) leases: Vec<(Singleton, Epoch)>,
    /// Whether the database answers.
    pub(crate) database: Probed,
    /// Whether its own API answers.
    pub(crate) api: Probed,
    /// How the node stands with the servers.
    pub(crate) registration: Option<Registration>,
}

/// The connection to NATS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nats {
    /// There was none yet.
    Never,
    /// There was one, so long ago.
    Lost(Duration),
    Connected,
}

/// The head of the log as the plan applier announced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) index: Index,
    /// How long ago.
    pub(crate) ago: Duration,
}

/// The last result of something that is tried again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probed {
    /// It was not tried yet.
    Pending,
    /// It worked, so long ago.
    Worked { ago: Duration },
    /// It failed, and has failed for so long.
    Failed { since: Duration, why: String },
}
