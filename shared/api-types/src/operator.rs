//! What operators set for the whole cluster: the scheduler's configuration, and namespaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Base64;

/// The cluster's settings for scheduling.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SchedulerConfiguration {
    /// `binpack`, `spread` or `align`.
    pub scheduler_algorithm: Option<String>,
    /// Which jobs may preempt others.
    pub preemption_config: Option<PreemptionConfig>,
    /// Whether `MemoryMaxMB` counts.
    pub memory_oversubscription_enabled: Option<bool>,
    /// Whether only managers may register jobs.
    pub reject_job_registration: Option<bool>,
    /// Whether no evaluation is handed out.
    pub pause_eval_broker: Option<bool>,
    /// How many nodes a scheduler that samples looks at; 0 is its default.
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

/// A set of jobs and volumes set apart from others, with limits of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Namespace {
    /// Unique; `default` always exists.
    pub name: Option<String>,
    /// What it is for, for people.
    pub description: Option<String>,
    /// The quota that limits it.
    pub quota: Option<String>,
    /// Task drivers and network modes that may be used.
    pub capabilities: Option<NamespaceCapabilities>,
    /// Node pools that may be used.
    pub node_pool_configuration: Option<NamespaceNodePoolConfiguration>,
    /// Vault clusters that may be used.
    pub vault_configuration: Option<NamespaceVaultConfiguration>,
    /// Consul clusters that may be used.
    pub consul_configuration: Option<NamespaceConsulConfiguration>,
    /// Free key-value pairs of the user's.
    pub meta: Option<BTreeMap<String, String>>,
    /// Changes whenever the namespace does.
    pub hash: Option<Base64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Claims that every workload identity gets.
    pub required_extra_claims: Option<BTreeMap<String, String>>,
    /// Claims that a workload identity may ask for.
    pub optional_extra_claims: Option<BTreeMap<String, String>>,
}

/// Task drivers and network modes that may be used in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceCapabilities {
    /// Only these drivers; empty is all.
    pub enabled_task_drivers: Option<Vec<String>>,
    /// Not these drivers.
    pub disabled_task_drivers: Option<Vec<String>>,
    /// Only these modes; empty is all.
    pub enabled_network_modes: Option<Vec<String>>,
    /// Not these modes.
    pub disabled_network_modes: Option<Vec<String>>,
}

/// Node pools that may be used in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceNodePoolConfiguration {
    /// The pool of jobs that name none.
    pub default: Option<String>,
    /// Only these; may hold globs.
    pub allowed: Option<Vec<String>>,
    /// Not these; may hold globs.
    pub denied: Option<Vec<String>>,
}

/// Vault clusters that may be used in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceVaultConfiguration {
    /// The cluster of tasks that name none.
    pub default: Option<String>,
    /// Only these; may hold globs.
    pub allowed: Option<Vec<String>>,
    /// Not these; may hold globs.
    pub denied: Option<Vec<String>>,
}

/// Consul clusters that may be used in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceConsulConfiguration {
    /// The cluster of services that name none.
    pub default: Option<String>,
    /// Only these; may hold globs.
    pub allowed: Option<Vec<String>>,
    /// Not these; may hold globs.
    pub denied: Option<Vec<String>>,
}
