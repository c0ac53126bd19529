//! Tasks: what runs inside an allocation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Affinity, Constraint, Resources, RestartPolicy, VolumeMount};
use crate::mirror::{mirror, text_members};
use crate::text::string_enum;
use crate::{Map, Nanos, Text};

string_enum! {
    /// When a task that is no main task runs.
    LifecycleHook, "lifecycle hook" {
        /// Before the main tasks start.
        Prestart => "prestart",
        /// After the main tasks have started.
        Poststart => "poststart",
        /// After the main tasks have ended.
        Poststop => "poststop",
    }
}

text_members!(LifecycleHook);

/// One program of an allocation, run by a driver.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its name, unique in the group.
    pub name: Text,
    /// The driver that runs it.
    pub driver: Text,
    /// The user that it runs as; empty is the driver's choice.
    pub user: Text,
    /// What the driver is told.
    pub config: Map<String, Value>,
    /// Its environment.
    pub env: BTreeMap<Text, Text>,
    /// What is registered in service discovery for it.
    pub services: Vec<api_types::Service>,
    /// Its access to Vault.
    pub vault: Option<Box<api_types::Vault>>,
    /// What is fetched before it starts.
    pub secrets: Vec<api_types::Secret>,
    /// Its Consul settings, in place of the group's.
    pub consul: Option<api_types::Consul>,
    /// Files that are rendered for it.
    pub templates: Vec<api_types::Template>,
    /// What a node must fulfil for it.
    pub constraints: Vec<Constraint>,
    /// What makes a node more desirable for it, or less.
    pub affinities: Vec<Affinity>,
    /// What it takes of its node.
    pub resources: Resources,
    /// How often it starts again after failing.
    pub restart_policy: Option<RestartPolicy>,
    /// Where a dispatch's input goes.
    pub dispatch_payload: Option<DispatchPayload>,
    /// When it runs; `None` is as a main task.
    pub lifecycle: Option<Lifecycle>,
    /// The user's own pairs.
    pub meta: BTreeMap<Text, Text>,
    /// Time between asking it to end and ending it.
    pub kill_timeout: Nanos,
    /// How its output is kept.
    pub log_config: LogConfig,
    /// What is downloaded before it starts.
    pub artifacts: Vec<api_types::TaskArtifact>,
    /// Whether its end ends the other tasks.
    pub leader: bool,
    /// Time between leaving service discovery and being asked to end.
    pub shutdown_delay: Nanos,
    /// The group's volumes that it sees.
    pub volume_mounts: Vec<VolumeMount>,
    /// What an autoscaler may do to its resources.
    pub scaling_policies: Vec<api_types::ScalingPolicy>,
    /// The signal that asks it to end; empty is the driver's choice.
    pub kill_signal: Text,
    /// What a Connect task stands in for, for instance `connect-proxy:web`.
    pub kind: Text,
    /// What makes it a CSI plugin.
    pub csi_plugin_config: Option<Box<api_types::TaskCsiPluginConfig>>,
    /// Its default identity.
    pub identity: Option<api_types::WorkloadIdentity>,
    /// Its further identities.
    pub identities: Vec<api_types::WorkloadIdentity>,
    /// Commands that users may run in it.
    pub actions: Vec<api_types::Action>,
    /// When it is paused.
    pub schedule: Option<Box<api_types::TaskSchedule>>,
}

mirror! {
    Task = Task {
        name: "Name",
        driver: "Driver",
        user: "User",
        config: "Config",
        env: "Env",
        services: "Services",
        vault: "Vault",
        secrets: "Secrets",
        consul: "Consul",
        templates: "Templates",
        constraints: "Constraints",
        affinities: "Affinities",
        resources: "Resources",
        restart_policy: "RestartPolicy",
        dispatch_payload: "DispatchPayload",
        lifecycle: "Lifecycle",
        meta: "Meta",
        kill_timeout: "KillTimeout",
        log_config: "LogConfig",
        artifacts: "Artifacts",
        leader: "Leader",
        shutdown_delay: "ShutdownDelay",
        volume_mounts: "VolumeMounts",
        scaling_policies: "ScalingPolicies",
        kill_signal: "KillSignal",
        kind: "Kind",
        csi_plugin_config: "CSIPluginConfig",
        identity: "Identity",
        identities: "Identities",
        actions: "Actions",
        schedule: "Schedule",
    }
}

/// When a task runs in relation to the main tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The moment.
    pub hook: LifecycleHook,
    /// Whether it stays beside the main tasks, rather than running to its end.
    pub sidecar: bool,
}

mirror! {
    Lifecycle = TaskLifecycleConfig { hook: "Hook", sidecar: "Sidecar" }
}

/// Where a dispatch's input goes.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchPayload {
    /// A file in the task's `local` directory.
    pub file: Text,
}

mirror! {
    DispatchPayload = DispatchPayloadConfig { file: "File" }
}

/// How a task's output is kept.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogConfig {
    /// Files of each stream.
    pub max_files: u32,
    /// Size of a file, in MB.
    pub max_file_size_mb: u32,
    /// Whether it is not kept at all.
    pub disabled: bool,
}

mirror! {
    LogConfig = LogConfig { max_files: "MaxFiles", max_file_size_mb: "MaxFileSizeMB", disabled: "Disabled" }
    // The opposite of `Disabled`, which `canonicalise` takes over.
    ignored { enabled = None }
}
