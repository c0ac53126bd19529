//! Jobs and task groups, and the policies that say how they are placed, replaced and spread. What runs inside a
//! group is in `task.rs`, its services in `service.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Base64, CsiMountOptions, NetworkResource, Service, Task};

/// A job: as users register it, and with what the server adds as reads show it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Job {
    /// Whether it was stopped: nothing of it shall run.
    pub stop: Option<bool>,
    /// The region it runs in; default `global`.
    pub region: Option<String>,
    /// The namespace it lives in.
    pub namespace: Option<String>,
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// The periodic or parameterized job that this one is an instance of, else empty.
    #[serde(rename = "ParentID")]
    pub parent_id: Option<String>,
    /// For people; default the id.
    pub name: Option<String>,
    /// `service`, `batch`, `system` or `sysbatch`.
    pub r#type: Option<String>,
    /// Higher goes first: 1 to 100, or the servers' own limit; default 50.
    pub priority: Option<i64>,
    /// Accepted for compatibility: whether a plan is committed only as a whole.
    pub all_at_once: Option<bool>,
    /// Eligible datacenters; entries may be globs such as `dc*`.
    pub datacenters: Option<Vec<String>>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// What a node must fulfil to be eligible.
    pub constraints: Option<Vec<Constraint>>,
    /// What makes a node more, or with a negative weight less, desirable.
    pub affinities: Option<Vec<Affinity>>,
    /// Over what the allocations shall be spread.
    pub spreads: Option<Vec<Spread>>,
    /// The groups, each placed as a unit, as many times as its count says.
    pub task_groups: Option<Vec<TaskGroup>>,
    /// How groups are rolled out, unless they say otherwise. Reads show an object of zeros when unused.
    pub update: Option<UpdateStrategy>,
    /// Regions to register the job in.
    pub multiregion: Option<Box<Multiregion>>,
    /// When to launch instances; makes the job a template of these.
    pub periodic: Option<PeriodicConfig>,
    /// What dispatches must and may bring; makes the job a template of these.
    pub parameterized_job: Option<ParameterizedJobConfig>,
    /// Whether it is an instance made by a dispatch; must not be set in a request.
    pub dispatched: Option<bool>,
    /// Token that kept the dispatch from happening twice.
    pub dispatch_idempotency_token: Option<String>,
    /// Input of a dispatched instance.
    pub payload: Option<Base64>,
    /// Free key-value pairs of the user's.
    pub meta: Option<BTreeMap<String, String>>,
    /// Consul namespace, a leftover that the `consul` block replaced.
    pub consul_namespace: Option<String>,
    /// Vault namespace, a leftover that the `vault` block replaced.
    pub vault_namespace: Option<String>,
    /// Accessor id of the ACL token that registered it.
    #[serde(rename = "NomadTokenID")]
    pub nomad_token_id: Option<String>,
    /// `pending`, `running` or `dead`.
    pub status: Option<String>,
    /// Why it has that status, for people.
    pub status_description: Option<String>,
    /// Whether this version was rolled out successfully, so that a rollback may choose it.
    pub stable: Option<bool>,
    /// Counts changes of the specification, from 0.
    pub version: Option<u64>,
    /// When this version was registered: Unix time in nanoseconds.
    pub submit_time: Option<i64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Index of the last change of the specification, other than of the status.
    pub job_modify_index: Option<u64>,
    /// What the web interface shows along with the job.
    #[serde(rename = "UI")]
    pub ui: Option<JobUiConfig>,
    /// Name that a user gave this version, which protects it from garbage collection.
    pub version_tag: Option<JobVersionTag>,
    /// Default for the groups' reschedule policy; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reschedule: Option<ReschedulePolicy>,
    /// Default for the groups' migrate strategy; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrate: Option<MigrateStrategy>,
}

/// Tasks that always run together on one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroup {
    /// Unique in the job.
    pub name: Option<String>,
    /// Number of allocations wanted; 0 is valid. For system jobs: on each node.
    pub count: Option<i64>,
    /// How changes of this group are rolled out.
    pub update: Option<UpdateStrategy>,
    /// How allocations leave a draining node.
    pub migrate: Option<MigrateStrategy>,
    /// What a node must fulfil to be eligible.
    pub constraints: Option<Vec<Constraint>>,
    /// Bounds and policy for the autoscaler.
    pub scaling: Option<Box<ScalingPolicy>>,
    /// Restarts on the same node after a task failed.
    pub restart_policy: Option<RestartPolicy>,
    /// What happens when the node loses contact.
    pub disconnect: Option<DisconnectStrategy>,
    /// The tasks, at least one.
    pub tasks: Option<Vec<Task>>,
    /// Disk space that the tasks share.
    pub ephemeral_disk: Option<EphemeralDisk>,
    /// Free key-value pairs of the user's.
    pub meta: Option<BTreeMap<String, String>>,
    /// Attempts on other nodes after an allocation failed.
    pub reschedule_policy: Option<ReschedulePolicy>,
    /// What makes a node more, or with a negative weight less, desirable.
    pub affinities: Option<Vec<Affinity>>,
    /// Over what the allocations shall be spread, in addition to the job's.
    pub spreads: Option<Vec<Spread>>,
    /// Network and ports that the tasks share, at most one.
    pub networks: Option<Vec<NetworkResource>>,
    /// Consul settings of the group's services and templates.
    pub consul: Option<Consul>,
    /// What is registered in service discovery.
    pub services: Option<Vec<Service>>,
    /// Volumes that tasks may mount, by the name they use.
    pub volumes: Option<BTreeMap<String, VolumeRequest>>,
    /// Nanoseconds between leaving service discovery and being killed.
    pub shutdown_delay: Option<i64>,
    /// Nanoseconds after which an allocation is stopped.
    pub max_run_duration: Option<i64>,
    /// Nanoseconds; superseded by `Disconnect.StopOnClientAfter`.
    pub stop_after_client_disconnect: Option<i64>,
    /// Nanoseconds; superseded by `Disconnect.LostAfter`.
    pub max_client_disconnect: Option<i64>,
    /// Deprecated and ignored; see `Disconnect.Replace`.
    pub prevent_reschedule_on_lost: Option<bool>,
}

/// How allocations are replaced by those of a new job version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UpdateStrategy {
    /// Nanoseconds between batches, for system jobs.
    pub stagger: Option<i64>,
    /// How many at a time; 0 at job level turns deployments off.
    pub max_parallel: Option<i64>,
    /// What makes an allocation healthy: `checks`, `task_states` or `manual`.
    pub health_check: Option<String>,
    /// Nanoseconds that it must stay healthy to count.
    pub min_healthy_time: Option<i64>,
    /// Nanoseconds after which it counts as unhealthy.
    pub healthy_deadline: Option<i64>,
    /// Nanoseconds without a newly healthy one after which the deployment fails; 0 is never, but then the
    /// first unhealthy one fails it.
    pub progress_deadline: Option<i64>,
    /// Whether failure rolls back to the latest stable version.
    pub auto_revert: Option<bool>,
    /// Whether canaries are promoted once all are healthy.
    pub auto_promote: Option<bool>,
    /// How many to place beside the old ones before touching those.
    pub canary: Option<i64>,
}

/// How allocations move off a draining node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MigrateStrategy {
    /// How many of the group may be moving at a time.
    pub max_parallel: Option<i64>,
    /// What makes a replacement healthy: `checks` or `task_states`.
    pub health_check: Option<String>,
    /// Nanoseconds that it must stay healthy to count.
    pub min_healthy_time: Option<i64>,
    /// Nanoseconds after which it counts as unhealthy.
    pub healthy_deadline: Option<i64>,
}

/// When and how often a failed task is restarted in place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RestartPolicy {
    /// Restarts allowed within `Interval`.
    pub attempts: Option<i64>,
    /// Window of `Attempts` in nanoseconds.
    pub interval: Option<i64>,
    /// Wait before a restart in nanoseconds.
    pub delay: Option<i64>,
    /// When attempts are used up: `fail`, or `delay` until the next interval.
    pub mode: Option<String>,
    /// Whether templates are rendered again at a restart.
    pub render_templates: Option<bool>,
}

/// When and how often a failed allocation is tried on another node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ReschedulePolicy {
    /// Attempts allowed within `Interval`, unless unlimited.
    pub attempts: Option<i64>,
    /// Window of `Attempts` in nanoseconds.
    pub interval: Option<i64>,
    /// First wait in nanoseconds.
    pub delay: Option<i64>,
    /// How the wait grows: `constant`, `exponential` or `fibonacci`.
    pub delay_function: Option<String>,
    /// Longest wait in nanoseconds.
    pub max_delay: Option<i64>,
    /// Whether to go on forever.
    pub unlimited: Option<bool>,
}

/// What happens to allocations of a node that lost contact, and when it is back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DisconnectStrategy {
    /// Nanoseconds after which they count as lost; until then they are unknown.
    pub lost_after: Option<i64>,
    /// Nanoseconds without a server after which the node itself stops them.
    pub stop_on_client_after: Option<i64>,
    /// Whether others are placed meanwhile; default true.
    pub replace: Option<bool>,
    /// Which to keep when the node is back: `best_score`, `longest_running`, `keep_original` or
    /// `keep_replacement`.
    pub reconcile: Option<String>,
}

/// Disk space in the allocation's directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EphemeralDisk {
    /// Whether a replacement prefers the same node, and keeps the data there.
    pub sticky: Option<bool>,
    /// Size in MB; default 300.
    #[serde(rename = "SizeMB")]
    pub size_mb: Option<i64>,
    /// Whether data follows to another node, as far as possible.
    pub migrate: Option<bool>,
}

/// A condition on nodes: `LTarget Operand RTarget`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Constraint {
    /// Left side, usually an interpolation such as `${attr.kernel.name}`.
    pub l_target: Option<String>,
    /// Right side, usually a literal.
    pub r_target: Option<String>,
    /// Such as `=`, `version`, `regexp`, `is_set` or `distinct_hosts`; default `=`.
    pub operand: Option<String>,
}

/// A wish on nodes: `LTarget Operand RTarget`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Affinity {
    /// Left side, usually an interpolation such as `${node.datacenter}`.
    pub l_target: Option<String>,
    /// Right side, usually a literal.
    pub r_target: Option<String>,
    /// Such as `=`, `version`, `regexp` or `set_contains_any`; default `=`.
    pub operand: Option<String>,
    /// -100 to 100 but not 0; negative means avoid. Default 50.
    pub weight: Option<i64>,
}

/// An attribute over whose values the allocations shall be spread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Spread {
    /// Such as `${node.datacenter}`.
    pub attribute: Option<String>,
    /// 0 to 100, relative to other spreads; default 50.
    pub weight: Option<i64>,
    /// Wanted shares; none means evenly.
    pub spread_target: Option<Vec<SpreadTarget>>,
}

/// The share of one value of a spread's attribute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SpreadTarget {
    /// Value of the attribute.
    pub value: Option<String>,
    /// Share of the allocations, 0 to 100.
    pub percent: Option<u64>,
}

/// When a periodic job is launched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PeriodicConfig {
    /// Whether it launches at all; default true.
    pub enabled: Option<bool>,
    /// A single cron expression; superseded by `Specs`.
    pub spec: Option<String>,
    /// Cron expressions, each of which launches.
    pub specs: Option<Vec<String>>,
    /// Always `cron`.
    pub spec_type: Option<String>,
    /// Whether a launch is skipped while an earlier instance still runs.
    pub prohibit_overlap: Option<bool>,
    /// IANA time zone of the expressions; default `UTC`.
    pub time_zone: Option<String>,
}

/// What dispatches of a parameterized job bring along.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ParameterizedJobConfig {
    /// `optional`, `required` or `forbidden`.
    pub payload: Option<String>,
    /// Meta keys that each dispatch must give.
    pub meta_required: Option<Vec<String>>,
    /// Meta keys that a dispatch may give.
    pub meta_optional: Option<Vec<String>>,
}

/// A job that is registered in several regions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Multiregion {
    /// Order and failure mode of its rollout.
    pub strategy: Option<MultiregionStrategy>,
    /// The regions, in order of rollout.
    pub regions: Option<Vec<MultiregionRegion>>,
}

/// How a multi-region job is rolled out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MultiregionStrategy {
    /// Regions at a time; 0 is all.
    pub max_parallel: Option<i64>,
    /// Which regions fail with one that failed: `fail_all`, `fail_local`, or empty for it and those after
    /// it.
    pub on_failure: Option<String>,
}

/// What is different about the job in one region.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MultiregionRegion {
    /// The region.
    pub name: Option<String>,
    /// Count of groups that set none.
    pub count: Option<i64>,
    /// Datacenters in place of the job's.
    pub datacenters: Option<Vec<String>>,
    /// Node pool in place of the job's.
    pub node_pool: Option<String>,
    /// Merged over the job's meta.
    pub meta: Option<BTreeMap<String, String>>,
}

/// What the web interface shows along with a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobUiConfig {
    /// Markdown text.
    pub description: Option<String>,
    /// Links to show.
    pub links: Option<Vec<JobUiLink>>,
}

/// A link in the web interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobUiLink {
    /// Text of the link.
    pub label: Option<String>,
    /// Where it leads. Requests spell the key `URL`.
    pub url: Option<String>,
}

/// A name for a version of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobVersionTag {
    /// Unique in the job.
    pub name: Option<String>,
    /// What the version is about.
    pub description: Option<String>,
    /// When it was tagged: Unix time in nanoseconds.
    pub tagged_time: Option<i64>,
}

/// Bounds and rules for the autoscaler; kept here, acted upon elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingPolicy {
    /// UUID, made by the server.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// `horizontal` for a group's count, `vertical_cpu` or `vertical_mem` for a task's resources.
    pub r#type: Option<String>,
    /// What it scales, such as `Job`, `Group` and `Namespace`; filled in by the server.
    pub target: Option<BTreeMap<String, String>>,
    /// Rules that only the autoscaler understands.
    pub policy: Option<BTreeMap<String, Value>>,
    /// Least count or amount.
    pub min: Option<i64>,
    /// Greatest count or amount.
    pub max: Option<i64>,
    /// Whether the autoscaler shall act; default true.
    pub enabled: Option<bool>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// The job's namespace; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Which Consul to talk to, and as what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Consul {
    /// Consul namespace.
    pub namespace: Option<String>,
    /// Name of the Consul or Vault cluster of the node's configuration; default `default`.
    pub cluster: Option<String>,
    /// Consul admin partition.
    pub partition: Option<String>,
}

/// A volume that a group asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeRequest {
    /// Name for mounts, the key in the group's map.
    pub name: Option<String>,
    /// `host` or `csi`.
    pub r#type: Option<String>,
    /// Name of a host volume or id of a CSI volume.
    pub source: Option<String>,
    /// Whether nothing is going to be written.
    pub read_only: Option<bool>,
    /// Whether replacements must get the very same dynamic host volume.
    pub sticky: Option<bool>,
    /// How many nodes and allocations share it, such as `single-node-writer`.
    pub access_mode: Option<String>,
    /// `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Options for mounting a file system.
    pub mount_options: Option<CsiMountOptions>,
    /// Whether each allocation has a volume of its own, `Source` with `[index]` appended.
    pub per_alloc: Option<bool>,
}
