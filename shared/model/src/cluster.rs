//! Cluster-wide settings: the scheduler configuration, node pools, namespaces, and the leases of singleton services.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::small_object::{Column, SmallObject, hash};
use crate::table::Table;
use crate::text::string_enum;
use crate::{Epoch, Index, Nanos, ProcessId, Text};

string_enum! {
    /// How the scheduler scores a node by its free resources.
    SchedulerAlgorithm, "scheduler algorithm" {
        /// Prefers the fullest node with enough free resources.
        Binpack => "binpack",
        /// Prefers the emptiest node.
        Spread => "spread",
        /// Prefers the node whose free resources are most similar in proportion to the request (`docs/architecture/scheduling.md`).
        Align => "align",
    }
}

/// The scheduler configuration of the cluster.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerConfig {
    /// The algorithm. `None` is the default, bin packing.
    pub algorithm: Option<SchedulerAlgorithm>,
    /// Which schedulers may preempt allocations.
    pub preemption: Preemption,
    /// Whether tasks may use more memory than they reserve.
    pub memory_oversubscription: bool,
    /// Whether only management tokens may register jobs.
    pub reject_job_registration: bool,
    /// Whether the broker stops leasing evaluations to workers.
    pub pause_eval_broker: bool,
    /// The number of nodes that the reference implementation samples. It is only stored and returned: the scheduler
    /// evaluates every node (`docs/architecture/scheduling.md`).
    pub node_limit: u64,
    /// Index of the change set that created it.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
}

/// Which schedulers may preempt allocations of jobs with a lower priority.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "one flag per scheduler")]
pub struct Preemption {
    pub system: bool,
    pub sysbatch: bool,
    pub batch: bool,
    pub service: bool,
}

/// A named set of nodes that a job chooses.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodePool {
    /// Its name.
    pub name: Text,
    /// Human-readable description.
    pub description: Text,
    /// Arbitrary key-value pairs set by the operator.
    pub meta: BTreeMap<Text, Text>,
    /// Scheduler settings that override the cluster's.
    pub scheduler: Option<NodePoolScheduler>,
    /// How long the identity of a node in the pool is valid; 0 is the default.
    pub identity_ttl: Nanos,
    /// Index of the change set that created it.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
}

impl NodePool {
    /// The pool that contains every node (N-28.4, R-5.2).
    pub const ALL: &'static str = "all";
    /// The pool of nodes, and of jobs, that name none.
    pub const DEFAULT: &'static str = "default";

    /// Whether a pool always exists and cannot be changed.
    pub fn is_built_in(name: &str) -> bool {
        matches!(name, Self::ALL | Self::DEFAULT)
    }
}

impl SmallObject for NodePool {
    type Key = Text;
    type Api = api_types::NodePool;

    const TABLE: Table = Table::NodePools;
    const NAME: &'static str = "node pool";
    const TOPIC: Option<&'static str> = Some("NodePool");
    const KEY_COLUMNS: &'static [Column<Text>] = &[Column::text("name", |name| name)];
    const COLUMNS: &'static [Column<Self>] = &[Column::text("description", |pool| &pool.description)];

    fn key(&self) -> &Text {
        &self.name
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &Text) -> Cow<'_, str> {
        Cow::Borrowed(key)
    }

    fn shape(&self) -> api_types::NodePool {
        /// Default lifetime of the identities of a pool's nodes, in nanoseconds.
        const IDENTITY_TTL: i64 = 24 * 3_600 * 1_000_000_000;
        let api = self.to_api();
        api_types::NodePool {
            hash: (!Self::is_built_in(&self.name)).then(|| hash(self)),
            node_identity_ttl: api.node_identity_ttl.filter(|nanos| *nanos != 0).or(Some(IDENTITY_TTL)),
            ..api
        }
    }
}

/// The scheduler settings of one node pool.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolScheduler {
    /// The algorithm. `None` is the cluster's setting.
    pub algorithm: Option<SchedulerAlgorithm>,
    /// Whether tasks may use more memory than they reserve. `None` is the cluster's setting.
    pub memory_oversubscription: Option<bool>,
}

/// A named set of jobs and of the objects that belong to them.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name.
    pub name: Text,
    /// Human-readable description.
    pub description: Text,
    /// Arbitrary key-value pairs set by the operator.
    pub meta: BTreeMap<Text, Text>,
    /// Drivers and network modes that its jobs may use, in the form of the API.
    pub capabilities: Option<api_types::NamespaceCapabilities>,
    /// Index of the change set that created it.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
}

impl Namespace {
    /// The namespace of jobs, and of requests, that name none. It always exists.
    pub const DEFAULT: &'static str = "default";
}

impl SmallObject for Namespace {
    type Key = Text;
    type Api = api_types::Namespace;

    const TABLE: Table = Table::Namespaces;
    const NAME: &'static str = "namespace";
    const KEY_COLUMNS: &'static [Column<Text>] = &[Column::text("name", |name| name)];
    const COLUMNS: &'static [Column<Self>] =
        &[Column::text("description", |namespace| &namespace.description)];

    fn key(&self) -> &Text {
        &self.name
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &Text) -> Cow<'_, str> {
        Cow::Borrowed(key)
    }

    fn shape(&self) -> api_types::Namespace {
        api_types::Namespace { hash: Some(hash(self)), ..self.to_api() }
    }
}

string_enum! {
    /// A service of which one process is active at a time. The plan applier grants the lease (`docs/architecture/leases.md`).
    Singleton, "service" {
        /// The service that queues evaluations.
        EvalBroker => "eval-broker",
        /// The service that receives the heartbeats and reports of nodes.
        NodeTracker => "node-tracker",
        /// The service that advances deployments.
        DeploymentWatcher => "deployment-watcher",
    }
}

/// The lease of a singleton service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The service.
    pub service: Singleton,
    /// Its active process.
    pub holder: ProcessId,
    /// Number of times that the lease has changed hands.
    pub epoch: Epoch,
    /// Index at which the lease last changed hands.
    pub modify_index: Index,
}
