//! Tasks: the program that a driver runs, and its templates, artifacts, secrets and mounts. Resources are in
//! `resources.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Affinity, Constraint, Consul, Resources, RestartPolicy, ScalingPolicy, Service};

/// A program that a driver runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Task {
    /// Unique in the group.
    pub name: Option<String>,
    /// Such as `docker`, `exec` or `raw_exec`.
    pub driver: Option<String>,
    /// User to run as; the driver's default if empty.
    pub user: Option<String>,
    /// The driver's settings.
    pub config: Option<BTreeMap<String, Value>>,
    /// Environment variables.
    pub env: Option<BTreeMap<String, String>>,
    /// Services to register in service discovery.
    pub services: Option<Vec<Service>>,
    /// Access to Vault.
    pub vault: Option<Box<Vault>>,
    /// Secrets fetched before the start, for use in the task's configuration.
    pub secrets: Option<Vec<Secret>>,
    /// Consul settings in place of the group's.
    pub consul: Option<Consul>,
    /// Files that are rendered before the start and after changes.
    pub templates: Option<Vec<Template>>,
    /// Constraints that a node must satisfy to be feasible.
    pub constraints: Option<Vec<Constraint>>,
    /// Preferences for nodes; a negative weight means that such a node is avoided.
    pub affinities: Option<Vec<Affinity>>,
    /// Resources reserved for the task.
    pub resources: Option<Resources>,
    /// Merged over the group's.
    pub restart_policy: Option<RestartPolicy>,
    /// Where the payload of a dispatched job is written.
    pub dispatch_payload: Option<DispatchPayloadConfig>,
    /// When it runs in relation to the main tasks; unset for a main task.
    pub lifecycle: Option<TaskLifecycleConfig>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: Option<BTreeMap<String, String>>,
    /// Nanoseconds between the kill signal and the end; default 5 s.
    pub kill_timeout: Option<i64>,
    /// Rotation of standard output and standard error.
    pub log_config: Option<LogConfig>,
    /// Artifacts that are downloaded before the start.
    pub artifacts: Option<Vec<TaskArtifact>>,
    /// Whether its end stops the other tasks of the group.
    pub leader: Option<bool>,
    /// Nanoseconds between deregistering the services and the kill signal.
    pub shutdown_delay: Option<i64>,
    /// The group's volumes that are mounted into it.
    pub volume_mounts: Option<Vec<VolumeMount>>,
    /// Policies for vertical scaling.
    pub scaling_policies: Option<Vec<ScalingPolicy>>,
    /// Signal that is sent to stop it; the driver's default if empty.
    pub kill_signal: Option<String>,
    /// Role of a Connect task, such as `connect-proxy:web`. Internal.
    pub kind: Option<String>,
    /// Present if the task is a CSI plugin.
    #[serde(rename = "CSIPluginConfig")]
    pub csi_plugin_config: Option<Box<TaskCsiPluginConfig>>,
    /// The default workload identity.
    pub identity: Option<WorkloadIdentity>,
    /// Further workload identities.
    pub identities: Option<Vec<WorkloadIdentity>>,
    /// Commands that users may run in the task.
    pub actions: Option<Vec<Action>>,
    /// Times at which the task runs. It is paused at all other times.
    pub schedule: Option<Box<TaskSchedule>>,
}

/// Access to Vault by the workload's identity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Vault {
    /// Vault role; the cluster's default if empty.
    pub role: Option<String>,
    /// Vault namespace.
    pub namespace: Option<String>,
    /// Name of the Consul or Vault cluster of the node's configuration; default `default`.
    pub cluster: Option<String>,
    /// Whether `VAULT_TOKEN` is set; default true.
    pub env: Option<bool>,
    /// Whether the token is not written to the secrets directory.
    pub disable_file: Option<bool>,
    /// What happens when the token changes: `restart`, `signal` or `noop`.
    pub change_mode: Option<String>,
    /// Signal for `ChangeMode` `signal`.
    pub change_signal: Option<String>,
    /// Whether the token is not renewed.
    pub allow_token_expiration: Option<bool>,
    /// Legacy; accepted in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<String>>,
}

/// A secret fetched before the task starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Secret {
    /// Name for interpolation, `${secret.<name>.<key>}`.
    pub name: Option<String>,
    /// Such as `nomad`, `vault` or a plugin's name.
    pub provider: Option<String>,
    /// Path at the provider.
    pub path: Option<String>,
    /// The provider's settings.
    pub config: Option<BTreeMap<String, Value>>,
    /// Environment of a provider that is a plugin.
    pub env: Option<BTreeMap<String, String>>,
}

/// A file rendered on the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Template {
    /// File with the template, in place of `EmbeddedTmpl`.
    pub source_path: Option<String>,
    /// File to write, relative to the task's directory.
    pub dest_path: Option<String>,
    /// Text of the template.
    pub embedded_tmpl: Option<String>,
    /// What happens after a change: `restart`, `signal`, `script` or `noop`; default `restart`.
    pub change_mode: Option<String>,
    /// Signal for `ChangeMode` `signal`.
    pub change_signal: Option<String>,
    /// Program for `ChangeMode` `script`.
    pub change_script: Option<Box<ChangeScript>>,
    /// Whether later changes are ignored.
    pub once: Option<bool>,
    /// Longest random delay before a change is acted upon, in nanoseconds; default 5 s.
    pub splay: Option<i64>,
    /// Octal file mode; default `0644`.
    pub perms: Option<String>,
    /// Owner of the file by user id.
    pub uid: Option<i64>,
    /// Owner of the file by group id.
    pub gid: Option<i64>,
    /// Delimiter that begins an expression; default `{{`.
    pub left_delim: Option<String>,
    /// Delimiter that ends an expression; default `}}`.
    pub right_delim: Option<String>,
    /// Whether the result is also read as environment variables.
    pub envvars: Option<bool>,
    /// Obsolete and without effect; nanoseconds.
    pub vault_grace: Option<i64>,
    /// Shortest and longest wait for values to settle.
    pub wait: Option<WaitConfig>,
    /// Whether a missing key is an error.
    pub err_missing_key: Option<bool>,
}

/// A program that is run inside the task after a template has changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ChangeScript {
    /// Path of the program in the task.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Nanoseconds until it is killed; default 5 s.
    pub timeout: Option<i64>,
    /// Whether its failure kills the task.
    pub fail_on_error: Option<bool>,
    /// Whether it also runs after the first rendering.
    pub run_on_first_render: Option<bool>,
}

/// Shortest and longest wait for a template's values to settle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WaitConfig {
    /// Nanoseconds without a change before rendering.
    pub min: Option<i64>,
    /// Nanoseconds after which rendering happens anyway.
    pub max: Option<i64>,
}

/// Something to download.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskArtifact {
    /// URL, perhaps with go-getter's prefixes.
    pub getter_source: Option<String>,
    /// Options of the getter, such as `checksum`.
    pub getter_options: Option<BTreeMap<String, String>>,
    /// HTTP headers to send.
    pub getter_headers: Option<BTreeMap<String, String>>,
    /// `any`, `file` or `dir`; default `any`.
    pub getter_mode: Option<String>,
    /// Whether TLS certificates are not verified.
    pub getter_insecure: Option<bool>,
    /// Destination relative to the task's directory; default `local/`.
    pub relative_dest: Option<String>,
    /// Whether the task's user becomes the owner.
    pub chown: Option<bool>,
}

/// Rotation of a task's log files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LogConfig {
    /// Files kept for each stream; default 10.
    pub max_files: Option<i64>,
    /// Size of each in MB; default 10.
    #[serde(rename = "MaxFileSizeMB")]
    pub max_file_size_mb: Option<i64>,
    /// Whether log collection is disabled.
    pub disabled: Option<bool>,
    /// Deprecated opposite of `Disabled`; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Where the payload of a dispatched job is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DispatchPayloadConfig {
    /// File in the task's `local` directory.
    pub file: Option<String>,
}

/// When a task runs in relation to the main tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskLifecycleConfig {
    /// `prestart`, `poststart` or `poststop`.
    pub hook: Option<String>,
    /// Whether it keeps running beside the main tasks, instead of ending.
    pub sidecar: Option<bool>,
}

/// Configuration of a task that is a CSI plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskCsiPluginConfig {
    /// The plugin's id, shared by all its instances.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// `controller`, `node` or `monolith`.
    pub r#type: Option<String>,
    /// Path in the task where the directory of the socket is mounted; default `/csi`.
    pub mount_dir: Option<String>,
    /// Path in the task where volumes are staged; default `/local/csi`.
    pub stage_publish_base_dir: Option<String>,
    /// Nanoseconds until a plugin that does not respond is restarted; default 30 s.
    pub health_timeout: Option<i64>,
}

/// A signed token that identifies the workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WorkloadIdentity {
    /// Unique in the task; default `default`.
    pub name: Option<String>,
    /// Audience of the token.
    pub audience: Option<Vec<String>>,
    /// What happens when the token is renewed: `restart`, `signal` or `noop`; empty is `noop`.
    pub change_mode: Option<String>,
    /// Signal for `ChangeMode` `signal`.
    pub change_signal: Option<String>,
    /// Whether it is set in the environment.
    pub env: Option<bool>,
    /// Whether it is written to a file in the secrets directory.
    pub file: Option<bool>,
    /// Path of that file in place of the default.
    pub filepath: Option<String>,
    /// The service that it identifies; set by the server.
    pub service_name: Option<String>,
    /// Nanoseconds for which it is valid; 0 means as long as the allocation exists.
    #[serde(rename = "TTL")]
    pub ttl: Option<i64>,
    /// Further claims by name.
    pub extra_claims: Option<Vec<String>>,
}

/// A command that users may run in the task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Action {
    /// Unique in the task.
    pub name: Option<String>,
    /// Path of the program in the task.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
}

/// The times at which a task runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskSchedule {
    /// Start and end by cron expressions.
    pub cron: Option<TaskScheduleCron>,
}

/// A recurring window in which a task runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskScheduleCron {
    /// Six-field cron expression for the start of the window.
    pub start: Option<String>,
    /// Minute and hour of the end of the window, as two cron fields.
    pub end: Option<String>,
    /// IANA time zone; the node's if empty.
    pub timezone: Option<String>,
}

/// A volume of the group that is mounted into a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeMount {
    /// Name in the group's volumes.
    pub volume: Option<String>,
    /// Path in the task.
    pub destination: Option<String>,
    /// Whether it is mounted read-only.
    pub read_only: Option<bool>,
    /// `private`, `host-to-task` or `bidirectional`; default `private`.
    pub propagation_mode: Option<String>,
    /// Label for the mount.
    #[serde(rename = "SELinuxLabel")]
    pub selinux_label: Option<String>,
}
