//! Jobs and task groups, and the policies by which they are placed, updated, rescheduled and spread. Tasks are in
//! `task.rs`, services in `service.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Base64, CsiMountOptions, NetworkResource, Service, Task};

/// A job, as users register it. Responses also contain the fields that the server adds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Job {
    /// Whether it was stopped, so that no allocation of it should run.
    pub stop: Option<bool>,
    /// The region it runs in; default `global`.
    pub region: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// The periodic or parameterized job that this job is an instance of; empty if it is none.
    #[serde(rename = "ParentID")]
    pub parent_id: Option<String>,
    /// Display name; default the id.
    pub name: Option<String>,
    /// `service`, `batch`, `system` or `sysbatch`.
    pub r#type: Option<String>,
    /// 1 to 100, or to the limit of the servers; a higher priority is scheduled first. Default 50.
    pub priority: Option<i64>,
    /// Whether a plan is committed only as a whole. Accepted for compatibility.
    pub all_at_once: Option<bool>,
    /// Eligible datacenters; entries may be globs such as `dc*`.
    pub datacenters: Option<Vec<String>>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// Constraints that a node must satisfy to be feasible.
    pub constraints: Option<Vec<Constraint>>,
    /// Preferences for nodes; a negative weight means that such a node is avoided.
    pub affinities: Option<Vec<Affinity>>,
    /// Attributes over which the allocations are spread.
    pub spreads: Option<Vec<Spread>>,
    /// The task groups. Each is placed as a unit, as many times as its count.
    pub task_groups: Option<Vec<TaskGroup>>,
    /// Default update strategy of the groups. Responses contain an object of zeros if it is unset.
    pub update: Option<UpdateStrategy>,
    /// Regions to register the job in.
    pub multiregion: Option<Box<Multiregion>>,
    /// When to launch instances. A job with this block does not run itself; it is a template for its instances.
    pub periodic: Option<PeriodicConfig>,
    /// Input of dispatches. A job with this block does not run itself; it is a template for the dispatched instances.
    pub parameterized_job: Option<ParameterizedJobConfig>,
    /// Whether it is an instance created by a dispatch. It must not be set in a request.
    pub dispatched: Option<bool>,
    /// Token by which a repeated dispatch is recognized.
    pub dispatch_idempotency_token: Option<String>,
    /// Payload of a dispatched instance.
    pub payload: Option<Base64>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: Option<BTreeMap<String, String>>,
    /// Consul namespace; superseded by the `consul` block.
    pub consul_namespace: Option<String>,
    /// Vault namespace; superseded by the `vault` block.
    pub vault_namespace: Option<String>,
    /// Accessor id of the ACL token that registered it.
    #[serde(rename = "NomadTokenID")]
    pub nomad_token_id: Option<String>,
    /// `pending`, `running` or `dead`.
    pub status: Option<String>,
    /// Human-readable reason for the status.
    pub status_description: Option<String>,
    /// Whether this version was rolled out successfully, so that a failed deployment may revert to it.
    pub stable: Option<bool>,
    /// Number of the version, which starts at 0 and rises with each change of the specification.
    pub version: Option<u64>,
    /// When this version was registered: Unix time in nanoseconds.
    pub submit_time: Option<i64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Index of the last change of the specification. Changes of the status do not count.
    pub job_modify_index: Option<u64>,
    /// Description and links that the web interface shows with the job.
    #[serde(rename = "UI")]
    pub ui: Option<JobUiConfig>,
    /// Name that a user has given to this version. A tagged version is not garbage-collected.
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
    /// How allocations are migrated from a draining node.
    pub migrate: Option<MigrateStrategy>,
    /// Constraints that a node must satisfy to be feasible.
    pub constraints: Option<Vec<Constraint>>,
    /// Bounds and policy for the autoscaler.
    pub scaling: Option<Box<ScalingPolicy>>,
    /// When and how often a failed task is restarted on the same node.
    pub restart_policy: Option<RestartPolicy>,
    /// What happens when the node is disconnected.
    pub disconnect: Option<DisconnectStrategy>,
    /// The tasks, at least one.
    pub tasks: Option<Vec<Task>>,
    /// Disk space that the tasks share.
    pub ephemeral_disk: Option<EphemeralDisk>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: Option<BTreeMap<String, String>>,
    /// When and how often a failed allocation is rescheduled.
    pub reschedule_policy: Option<ReschedulePolicy>,
    /// Preferences for nodes; a negative weight means that such a node is avoided.
    pub affinities: Option<Vec<Affinity>>,
    /// Attributes over which the allocations are spread, in addition to the job's.
    pub spreads: Option<Vec<Spread>>,
    /// Network and ports that the tasks share; at most one network.
    pub networks: Option<Vec<NetworkResource>>,
    /// Consul settings of the group's services and templates.
    pub consul: Option<Consul>,
    /// Services to register in service discovery.
    pub services: Option<Vec<Service>>,
    /// Volumes that tasks may mount, by the name that tasks use.
    pub volumes: Option<BTreeMap<String, VolumeRequest>>,
    /// Nanoseconds between deregistering the services and killing the tasks.
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

/// How the allocations of an old job version are replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UpdateStrategy {
    /// Nanoseconds between batches, for system jobs.
    pub stagger: Option<i64>,
    /// Number of allocations updated at a time; 0 at job level turns deployments off.
    pub max_parallel: Option<i64>,
    /// What makes an allocation healthy: `checks`, `task_states` or `manual`.
    pub health_check: Option<String>,
    /// Nanoseconds that an allocation must be healthy before it counts as healthy.
    pub min_healthy_time: Option<i64>,
    /// Nanoseconds after which an allocation that is not healthy counts as unhealthy.
    pub healthy_deadline: Option<i64>,
    /// Nanoseconds without a newly healthy allocation after which the deployment fails. 0 means never, but then the
    /// first unhealthy allocation fails it.
    pub progress_deadline: Option<i64>,
    /// Whether a failure rolls the job back to its latest stable version.
    pub auto_revert: Option<bool>,
    /// Whether canaries are promoted once all are healthy.
    pub auto_promote: Option<bool>,
    /// Number of canaries, which are placed before any allocation of the old version is stopped.
    pub canary: Option<i64>,
}

/// How allocations are migrated from a draining node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MigrateStrategy {
    /// Number of allocations of the group that may be migrated at a time.
    pub max_parallel: Option<i64>,
    /// What makes a replacement healthy: `checks` or `task_states`.
    pub health_check: Option<String>,
    /// Nanoseconds that an allocation must be healthy before it counts as healthy.
    pub min_healthy_time: Option<i64>,
    /// Nanoseconds after which an allocation that is not healthy counts as unhealthy.
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
    /// Delay before a restart in nanoseconds.
    pub delay: Option<i64>,
    /// What happens after the last attempt: `fail`, or `delay` until the next interval.
    pub mode: Option<String>,
    /// Whether templates are rendered again on a restart.
    pub render_templates: Option<bool>,
}

/// When and how often a failed allocation is rescheduled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ReschedulePolicy {
    /// Attempts allowed within `Interval`, unless unlimited.
    pub attempts: Option<i64>,
    /// Window of `Attempts` in nanoseconds.
    pub interval: Option<i64>,
    /// First delay in nanoseconds.
    pub delay: Option<i64>,
    /// How the delay grows: `constant`, `exponential` or `fibonacci`.
    pub delay_function: Option<String>,
    /// Longest delay in nanoseconds.
    pub max_delay: Option<i64>,
    /// Whether the number of attempts is unlimited.
    pub unlimited: Option<bool>,
}

/// What happens to the allocations of a disconnected node, and when it reconnects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DisconnectStrategy {
    /// Nanoseconds after which they are lost. Until then they are unknown.
    pub lost_after: Option<i64>,
    /// Nanoseconds without contact to a server after which the agent stops them.
    pub stop_on_client_after: Option<i64>,
    /// Whether replacements are placed while the node is disconnected; default true.
    pub replace: Option<bool>,
    /// Which allocation to keep when the node reconnects: `best_score`, `longest_running`, `keep_original` or
    /// `keep_replacement`.
    pub reconcile: Option<String>,
}

/// Disk space in the allocation's directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EphemeralDisk {
    /// Whether a replacement prefers the same node and keeps the data there.
    pub sticky: Option<bool>,
    /// Size in MB; default 300.
    #[serde(rename = "SizeMB")]
    pub size_mb: Option<i64>,
    /// Whether the data is copied to another node if possible.
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
    /// Such as `=`, `version`, `regexp`, `is_set` or `distinct_hosts`. Required.
    pub operand: Option<String>,
}

/// A preference for nodes: `LTarget Operand RTarget`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Affinity {
    /// Left side, usually an interpolation such as `${node.datacenter}`.
    pub l_target: Option<String>,
    /// Right side, usually a literal.
    pub r_target: Option<String>,
    /// Such as `=`, `version`, `regexp` or `set_contains_any`. Required.
    pub operand: Option<String>,
    /// -100 to 100 but not 0; a negative weight means that such nodes are avoided. Default 50.
    pub weight: Option<i64>,
}

/// An attribute over whose values the allocations are spread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Spread {
    /// Such as `${node.datacenter}`.
    pub attribute: Option<String>,
    /// 0 to 100, relative to other spreads; default 50.
    pub weight: Option<i64>,
    /// Target shares by value; an empty list spreads evenly.
    pub spread_target: Option<Vec<SpreadTarget>>,
}

/// Target share of one value of the attribute.
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
    /// Cron expressions. Each of them launches instances.
    pub specs: Option<Vec<String>>,
    /// Always `cron`.
    pub spec_type: Option<String>,
    /// Whether a launch is skipped while an earlier instance still runs.
    pub prohibit_overlap: Option<bool>,
    /// IANA time zone of the expressions; default `UTC`.
    pub time_zone: Option<String>,
}

/// Which input a dispatch of a parameterized job must or may contain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ParameterizedJobConfig {
    /// `optional`, `required` or `forbidden`.
    pub payload: Option<String>,
    /// Meta keys that each dispatch must set.
    pub meta_required: Option<Vec<String>>,
    /// Meta keys that a dispatch may set.
    pub meta_optional: Option<Vec<String>>,
    /// How many of the jobs that dispatches make run at once; further ones are held back in their order. Nomad does not have
    /// it, so it is left out if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_children_running: Option<i64>,
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
    /// Number of regions updated at a time; 0 is all.
    pub max_parallel: Option<i64>,
    /// Which regions fail if one of them fails: `fail_all`, `fail_local`, or empty for that region and all later
    /// ones.
    pub on_failure: Option<String>,
}

/// Settings of a job that differ in one region.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MultiregionRegion {
    /// The region.
    pub name: Option<String>,
    /// Count of the groups whose count is 0.
    pub count: Option<i64>,
    /// Datacenters in place of the job's.
    pub datacenters: Option<Vec<String>>,
    /// Node pool in place of the job's.
    pub node_pool: Option<String>,
    /// Merged over the job's meta.
    pub meta: Option<BTreeMap<String, String>>,
}

/// Description and links that the web interface shows with a job.
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
    /// Target of the link. Requests spell the key `URL`.
    pub url: Option<String>,
}

/// A name for a version of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobVersionTag {
    /// Unique in the job.
    pub name: Option<String>,
    /// Human-readable description of the version.
    pub description: Option<String>,
    /// When it was tagged: Unix time in nanoseconds.
    pub tagged_time: Option<i64>,
}

/// Bounds and rules for the autoscaler. Drover only stores them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingPolicy {
    /// UUID, generated by the server.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// `horizontal` for a group's count, `vertical_cpu` or `vertical_mem` for a task's resources.
    pub r#type: Option<String>,
    /// Target that it scales, such as `Job`, `Group` and `Namespace`; filled in by the server.
    pub target: Option<BTreeMap<String, String>>,
    /// Rules that only the autoscaler understands.
    pub policy: Option<BTreeMap<String, Value>>,
    /// Smallest count or amount.
    pub min: Option<i64>,
    /// Greatest count or amount.
    pub max: Option<i64>,
    /// Whether the autoscaler should act; default true.
    pub enabled: Option<bool>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// The job's namespace; in requests only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The Consul cluster, namespace and admin partition to use.
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

/// A volume that a group requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeRequest {
    /// Name for mounts, the key in the group's map.
    pub name: Option<String>,
    /// `host` or `csi`.
    pub r#type: Option<String>,
    /// Name of a host volume or id of a CSI volume.
    pub source: Option<String>,
    /// Whether the volume is mounted read-only.
    pub read_only: Option<bool>,
    /// Whether replacements must get the same dynamic host volume.
    pub sticky: Option<bool>,
    /// How nodes and allocations share the volume, such as `single-node-writer`.
    pub access_mode: Option<String>,
    /// `file-system` or `block-device`.
    pub attachment_mode: Option<String>,
    /// Options for mounting a file system.
    pub mount_options: Option<CsiMountOptions>,
    /// Whether each allocation has a volume of its own, `Source` with `[index]` appended.
    pub per_alloc: Option<bool>,
}
