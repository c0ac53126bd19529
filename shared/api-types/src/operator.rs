//! Cluster-wide settings of operators: the scheduler configuration, namespaces and root keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Base64;

/// The scheduler configuration of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SchedulerConfiguration {
    /// `binpack`, `spread` or `align`.
    pub scheduler_algorithm: Option<String>,
    /// Which jobs may preempt others.
    pub preemption_config: Option<PreemptionConfig>,
    /// Whether memory oversubscription (`MemoryMaxMB`) is allowed.
    pub memory_oversubscription_enabled: Option<bool>,
    /// Whether only management tokens may register jobs.
    pub reject_job_registration: Option<bool>,
    /// Whether the broker stops leasing evaluations to workers.
    pub pause_eval_broker: Option<bool>,
    /// Number of nodes that a sampling scheduler evaluates; 0 is its default.
    pub node_limit_for_feasibility_checks: Option<u64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}

/// Which jobs may preempt others, by type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PreemptionConfig {
    /// System jobs; the only default.
    pub system_scheduler_enabled: Option<bool>,
    /// Sysbatch jobs.
    pub sys_batch_scheduler_enabled: Option<bool>,
    /// Batch jobs.
    pub batch_scheduler_enabled: Option<bool>,
    /// Service jobs.
    pub service_scheduler_enabled: Option<bool>,
}

/// A named set of jobs and volumes, with limits of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Namespace {
    /// Unique; `default` always exists.
    pub name: Option<String>,
    /// Human-readable description.
    pub description: Option<String>,
    /// The quota that limits it.
    pub quota: Option<String>,
    /// Task drivers and network modes that are allowed.
    pub capabilities: Option<NamespaceCapabilities>,
    /// Node pools that are allowed.
    pub node_pool_configuration: Option<NamespaceNodePoolConfiguration>,
    /// Vault clusters that are allowed.
    pub vault_configuration: Option<NamespaceVaultConfiguration>,
    /// Consul clusters that are allowed.
    pub consul_configuration: Option<NamespaceConsulConfiguration>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: Option<BTreeMap<String, String>>,
    /// Hash of the namespace, which changes whenever the namespace does.
    pub hash: Option<Base64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Claims that every workload identity gets.
    pub required_extra_claims: Option<BTreeMap<String, String>>,
    /// Claims that a workload identity may request.
    pub optional_extra_claims: Option<BTreeMap<String, String>>,
}

/// Task drivers and network modes that are allowed in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceCapabilities {
    /// Allowed drivers; empty allows all.
    pub enabled_task_drivers: Option<Vec<String>>,
    /// Forbidden drivers.
    pub disabled_task_drivers: Option<Vec<String>>,
    /// Allowed modes; empty allows all.
    pub enabled_network_modes: Option<Vec<String>>,
    /// Forbidden modes.
    pub disabled_network_modes: Option<Vec<String>>,
}

/// Node pools that are allowed in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceNodePoolConfiguration {
    /// Pool of jobs that do not name one.
    pub default: Option<String>,
    /// Allowed names; globs are permitted.
    pub allowed: Option<Vec<String>>,
    /// Forbidden names; globs are permitted.
    pub denied: Option<Vec<String>>,
}

/// Vault clusters that are allowed in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceVaultConfiguration {
    /// Cluster of tasks that do not name one.
    pub default: Option<String>,
    /// Allowed names; globs are permitted.
    pub allowed: Option<Vec<String>>,
    /// Forbidden names; globs are permitted.
    pub denied: Option<Vec<String>>,
}

/// Consul clusters that are allowed in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceConsulConfiguration {
    /// Cluster of services that do not name one.
    pub default: Option<String>,
    /// Allowed names; globs are permitted.
    pub allowed: Option<Vec<String>>,
    /// Forbidden names; globs are permitted.
    pub denied: Option<Vec<String>>,
}

/// A key that the cluster signs with, in the list for operators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RootKeyMeta {
    /// Id of the key.
    #[serde(rename = "KeyID")]
    pub key_id: Option<String>,
    /// Algorithm of its signatures.
    pub algorithm: Option<String>,
    /// When it was created, in nanoseconds.
    pub create_time: Option<i64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// `active`, `inactive` or `prepublished`.
    pub state: Option<String>,
    /// When it becomes active if it is prepublished, in nanoseconds.
    pub publish_time: Option<i64>,
}

/// Settings of autopilot. Durations are texts, such as `10s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AutopilotConfiguration {
    /// Whether servers that have failed are removed.
    pub cleanup_dead_servers: Option<bool>,
    /// How long a new server must be healthy before it votes.
    pub server_stabilization_time: Option<String>,
    /// Time without contact to the leader after which a server is unhealthy.
    pub last_contact_threshold: Option<String>,
    /// Number of log entries by which a healthy server may trail.
    pub max_trailing_logs: Option<u64>,
    /// Number of servers below which none is removed.
    pub min_quorum: Option<u64>,
    /// Whether each zone has one voting server.
    pub enable_redundancy_zones: Option<bool>,
    /// Whether newer servers vote at once.
    pub disable_upgrade_migration: Option<bool>,
    /// Whether versions are compared by a tag.
    pub enable_custom_upgrades: Option<bool>,
    /// Index at which the settings were created.
    pub create_index: Option<u64>,
    /// Index at which they last changed.
    pub modify_index: Option<u64>,
}
