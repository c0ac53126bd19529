//! Commands about the cluster: namespaces, node pools, the scheduler configuration and signing keys.

use model::change::Cause;
use model::cluster::{Namespace, NodePool, SchedulerConfig};
use model::keyring::RootKey;
use model::{Index, Text};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! cluster_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Creates or updates a namespace.
            SetNamespace(Box<SetNamespace>),
            /// Deletes a namespace.
            DeleteNamespace(DeleteNamespace),
            /// Creates or updates a node pool.
            SetNodePool(Box<SetNodePool>),
            /// Deletes a node pool.
            DeleteNodePool(DeleteNodePool),
            /// Replaces the scheduler configuration.
            SetSchedulerConfig(SetSchedulerConfig),
            /// Adds a signing key to the cluster.
            AddRootKey(AddRootKey),
        }
    };
}

/// Creates or updates a namespace (http-api §19). The sender has validated it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNamespace {
    /// The namespace. The applier sets its indexes.
    pub namespace: Namespace,
}

impl CommandBody for SetNamespace {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::Settings,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Deletes a namespace, if it has no non-terminal jobs or allocations, and no volumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// Name of the namespace.
    pub name: Text,
}

impl CommandBody for DeleteNamespace {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::Settings,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Creates or updates a node pool (http-api §17). The sender has validated it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetNodePool {
    /// The node pool. The applier sets its indexes.
    pub pool: NodePool,
}

impl CommandBody for SetNodePool {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::NodePoolUpserted,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Deletes a node pool, if it has no nodes and no non-terminal jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNodePool {
    /// Name of the node pool.
    pub name: Text,
}

impl CommandBody for DeleteNodePool {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::NodePoolDeleted,
            is_expensive: true,
            is_deferrable: true,
        }
    }
}

/// Replaces the scheduler configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSchedulerConfig {
    /// The whole configuration.
    pub config: SchedulerConfig,
    /// Replaces the configuration only if its modify index has this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_index: Option<Index>,
}

impl CommandBody for SetSchedulerConfig {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::Settings,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

/// Adds a signing key to the cluster, unless the cluster has one. Its private half is already stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddRootKey {
    /// The key. The applier sets its creation time and its indexes.
    pub key: RootKey,
}

impl CommandBody for AddRootKey {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::PlanApplier,
            class: Class::Rest,
            cause: Cause::Settings,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{INDEX, root_key};

    impl Sample for SetNamespace {
        fn samples() -> Vec<Self> {
            let namespace =
                Namespace { name: "team".into(), description: "d".into(), ..Namespace::default() };
            vec![Self { namespace }]
        }
    }

    impl Sample for DeleteNamespace {
        fn samples() -> Vec<Self> {
            vec![Self { name: "team".into() }]
        }
    }

    impl Sample for SetNodePool {
        fn samples() -> Vec<Self> {
            let pool = NodePool { name: "gpu".into(), identity_ttl: model::Nanos(7), ..NodePool::default() };
            vec![Self { pool }]
        }
    }

    impl Sample for DeleteNodePool {
        fn samples() -> Vec<Self> {
            vec![Self { name: "gpu".into() }]
        }
    }

    impl Sample for SetSchedulerConfig {
        fn samples() -> Vec<Self> {
            let config = SchedulerConfig { pause_eval_broker: true, ..SchedulerConfig::default() };
            vec![Self { config, enforce_index: Some(INDEX) }]
        }
    }

    impl Sample for AddRootKey {
        fn samples() -> Vec<Self> {
            vec![Self { key: root_key() }]
        }
    }
}
