//! Tasks: the programs of an allocation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Affinity, Constraint, Resources, RestartPolicy, Service, TaskTemplate, Vault, VolumeMount,
    WorkloadIdentity,
};
use crate::mirror::{mirror, text_members};
use crate::text::string_enum;
use crate::{Map, Nanos, Text};

string_enum! {
    /// When a task runs that is not a main task.
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
    /// The user that it runs as; empty is the driver's default.
    pub user: Text,
    /// Configuration of the driver.
    pub config: Map<String, Value>,
    /// Environment variables.
    pub env: BTreeMap<Text, Text>,
    /// Services to register in service discovery.
    pub services: Vec<Service>,
    /// Its access to Vault.
    pub vault: Option<Box<Vault>>,
    /// Secrets that are fetched before it starts.
    pub secrets: Vec<api_types::Secret>,
    /// Consul settings in place of the group's.
    pub consul: Option<api_types::Consul>,
    /// Files that are rendered for it.
    pub templates: Vec<TaskTemplate>,
    /// Constraints that a node must satisfy.
    pub constraints: Vec<Constraint>,
    /// Preferences for nodes.
    pub affinities: Vec<Affinity>,
    /// Resources that it requests.
    pub resources: Resources,
    /// When and how often it is restarted after a failure.
    pub restart_policy: Option<RestartPolicy>,
    /// Where the payload of a dispatch is written.
    pub dispatch_payload: Option<DispatchPayload>,
    /// When it runs; `None` for a main task.
    pub lifecycle: Option<Lifecycle>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: BTreeMap<Text, Text>,
    /// Time between the kill signal and forced termination.
    pub kill_timeout: Nanos,
    /// Rotation of its log files.
    pub log_config: LogConfig,
    /// Artifacts that are downloaded before it starts.
    pub artifacts: Vec<api_types::TaskArtifact>,
    /// Whether the other tasks of the group are stopped when it ends.
    pub leader: bool,
    /// Time between deregistering the services and the kill signal.
    pub shutdown_delay: Nanos,
    /// The group's volumes that are mounted into it.
    pub volume_mounts: Vec<VolumeMount>,
    /// Policies for an autoscaler of its resources.
    pub scaling_policies: Vec<api_types::ScalingPolicy>,
    /// The signal that is sent to stop it; empty is the driver's default.
    pub kill_signal: Text,
    /// Role of a Connect task, for instance `connect-proxy:web`.
    pub kind: Text,
    /// Configuration of a task that is a CSI plugin.
    pub csi_plugin_config: Option<Box<api_types::TaskCsiPluginConfig>>,
    /// The default workload identity.
    pub identity: Option<WorkloadIdentity>,
    /// Further workload identities.
    pub identities: Vec<WorkloadIdentity>,
    /// Commands that users may run in it.
    pub actions: Vec<api_types::Action>,
    /// Times at which it runs; it is paused at all other times.
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
    /// When it starts.
    pub hook: LifecycleHook,
    /// Whether it keeps running beside the main tasks, instead of ending.
    pub sidecar: bool,
}

mirror! {
    Lifecycle = TaskLifecycleConfig { hook: "Hook", sidecar: "Sidecar" }
}

/// Where the payload of a dispatch is written.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchPayload {
    /// A file in the task's `local` directory.
    pub file: Text,
}

mirror! {
    DispatchPayload = DispatchPayloadConfig { file: "File" }
}

/// Rotation of a task's log files.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogConfig {
    /// Number of files for each stream.
    pub max_files: u32,
    /// Size of a file in MB.
    pub max_file_size_mb: u32,
    /// Whether log collection is disabled.
    pub disabled: bool,
}

mirror! {
    LogConfig = LogConfig { max_files: "MaxFiles", max_file_size_mb: "MaxFileSizeMB", disabled: "Disabled" }
    // The opposite of `Disabled`; `canonicalise` copies its value there.
    ignored { enabled = None }
}
