//! Settings of the cluster: the scheduler's configuration, node pools, namespaces, and who holds which lease.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text::words;
use crate::{Epoch, Index, Nanos, ProcessId, Text};

words! {
    /// How a node's score comes from what it has left.
    SchedulerAlgorithm, "scheduler algorithm" {
        /// The fullest node that fits.
        Binpack => "binpack",
        /// The emptiest one.
        Spread => "spread",
        /// The one whose free resources have the shape of what is asked (design §8).
        Align => "align",
    }
}

/// The scheduler's settings for the whole cluster.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerConfig {
    /// `None` is the default, bin packing.
    pub algorithm: Option<SchedulerAlgorithm>,
    /// Which schedulers may make room.
    pub preemption: Preemption,
    /// Whether tasks may grow beyond the memory that they reserve.
    pub memory_oversubscription: bool,
    /// Whether only management tokens may register jobs.
    pub reject_job_registration: bool,
    /// Whether evaluations rest.
    pub pause_eval_broker: bool,
    /// The reference's limit of nodes looked at; kept and shown, but every node is looked at (design §8).
    pub node_limit: u64,
    /// The index that made it.
    pub create_index: Index,
    /// The last index that changed it.
    pub modify_index: Index,
}

/// Which schedulers may make room for more important jobs.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "one flag a scheduler")]
pub struct Preemption {
    pub system: bool,
    pub sysbatch: bool,
    pub batch: bool,
    pub service: bool,
}

/// A set of nodes that jobs choose by name.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePool {
    /// Its name.
    pub name: Text,
    /// For people.
    pub description: Text,
    /// For people, too.
    pub meta: BTreeMap<Text, Text>,
    /// Settings that stand above the cluster's here.
    pub scheduler: Option<NodePoolScheduler>,
    /// How long an identity of its nodes lives; 0 is the default.
    pub identity_ttl: Nanos,
    /// The index that made it.
    pub create_index: Index,
    /// The last index that changed it.
    pub modify_index: Index,
}

/// The scheduler's settings for one node pool.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolScheduler {
    /// `None` is the cluster's.
    pub algorithm: Option<SchedulerAlgorithm>,
    /// `None` is the cluster's.
    pub memory_oversubscription: Option<bool>,
}

/// A name space for jobs and what belongs to them.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name.
    pub name: Text,
    /// For people.
    pub description: Text,
    /// For people, too.
    pub meta: BTreeMap<Text, Text>,
    /// Drivers and network modes that jobs in it may use, as the API shows them.
    pub capabilities: Option<api_types::NamespaceCapabilities>,
    /// The index that made it.
    pub create_index: Index,
    /// The last index that changed it.
    pub modify_index: Index,
}

words! {
    /// A service of which one process is active at a time, by leave of the applier (design §5).
    Singleton, "service" {
        /// Evaluations that wait.
        EvalBroker => "eval-broker",
        /// Nodes and their heartbeats.
        NodeTracker => "node-tracker",
        /// Deployments.
        DeploymentWatcher => "deployment-watcher",
    }
}

/// Who is active for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The service.
    pub service: Singleton,
    /// Its active process.
    pub holder: ProcessId,
    /// How often it has changed hands.
    pub epoch: Epoch,
    /// The index at which it last did.
    pub modify_index: Index,
}
