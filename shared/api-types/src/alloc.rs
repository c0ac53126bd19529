//! Allocations, in detail and in lists: the resources they occupy, and the history that the node reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AllocMetric, DnsConfig, Job, NetworkResource, Resources, TaskLifecycleConfig, Time};

/// A group placed on a node. Omits what is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Allocation {
    /// UUID.
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The namespace it lives in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The evaluation that last changed what is wanted of it.
    #[serde(rename = "EvalID", skip_serializing_if = "Option::is_none")]
    pub eval_id: Option<String>,
    /// `<job>.<group>[<index>]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node it is on.
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// That node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The job in the version it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<Job>>,
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    /// All its resources in sum; a legacy copy that some clients still read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Box<Resources>>,
    /// Resources shared by its tasks; a legacy copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_resources: Option<Box<Resources>>,
    /// Resources by task; a legacy copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_resources: Option<BTreeMap<String, Resources>>,
    /// The resources it occupies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<AllocatedResources>,
    /// How the scheduler found the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<AllocMetric>,
    /// `run`, `stop` or `evict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_status: Option<String>,
    /// Why it shall, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_description: Option<String>,
    /// What the scheduler is asked to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_transition: Option<DesiredTransition>,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_status: Option<String>,
    /// Why it has that status, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_description: Option<String>,
    /// What the node reports, by task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_states: Option<BTreeMap<String, TaskState>>,
    /// Former client statuses that matter for disconnection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alloc_states: Option<Vec<AllocState>>,
    /// The one that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_allocation: Option<String>,
    /// The one that replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_allocation: Option<String>,
    /// The deployment it belongs to.
    #[serde(rename = "DeploymentID", skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<String>,
    /// Its health in that deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// Former attempts on other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reschedule_tracker: Option<RescheduleTracker>,
    /// What its network was set up as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_status: Option<AllocNetworkStatus>,
    /// The evaluation that is going to reschedule it, or that waits for its node.
    #[serde(rename = "FollowupEvalID", skip_serializing_if = "Option::is_none")]
    pub followup_eval_id: Option<String>,
    /// Those that had to go for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_allocations: Option<Vec<String>>,
    /// The one that it had to go for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_by_allocation: Option<String>,
    /// Key that signed its workload identities.
    #[serde(rename = "SigningKeyID", skip_serializing_if = "Option::is_none")]
    pub signing_key_id: Option<String>,
    /// Index of the change set that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_index: Option<u64>,
    /// Index of the last change by a scheduler, other than by the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alloc_modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_time: Option<i64>,
    /// The version it runs: what a state dump writes in place of the embedded job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_version: Option<u64>,
    /// The job's create index, in a state dump, where the job was purged and registered anew since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_create_index: Option<u64>,
    /// Trace of the plan that placed it or updated it last, in hex digits; only where there is one. Not in Nomad's API.
    #[serde(rename = "TraceID", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// An allocation in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocListStub {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// The evaluation that last changed what is wanted of it.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// `<job>.<group>[<index>]`.
    pub name: Option<String>,
    /// The namespace it lives in.
    pub namespace: Option<String>,
    /// The node it is on.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// That node's name.
    pub node_name: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID")]
    pub job_id: Option<String>,
    /// Type of its job.
    pub job_type: Option<String>,
    /// Version of its job.
    pub job_version: Option<u64>,
    /// The group's name.
    pub task_group: Option<String>,
    /// The resources it occupies; null unless the request asks for them.
    pub allocated_resources: Option<AllocatedResources>,
    /// `run`, `stop` or `evict`.
    pub desired_status: Option<String>,
    /// Why it shall, for people.
    pub desired_description: Option<String>,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    pub client_status: Option<String>,
    /// Why it has that status, for people.
    pub client_description: Option<String>,
    /// What the scheduler is asked to do with it.
    pub desired_transition: Option<DesiredTransition>,
    /// What the node reports, by task.
    pub task_states: Option<BTreeMap<String, TaskState>>,
    /// Its health in its deployment.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// The evaluation that is going to reschedule it, or that waits for its node.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: Option<String>,
    /// The one that replaces it.
    pub next_allocation: Option<String>,
    /// Former attempts on other nodes.
    pub reschedule_tracker: Option<RescheduleTracker>,
    /// Those that had to go for it.
    pub preempted_allocations: Option<Vec<String>>,
    /// The one that it had to go for.
    pub preempted_by_allocation: Option<String>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    pub modify_time: Option<i64>,
}

/// The resources that an allocation occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedResources {
    /// By task.
    pub tasks: Option<BTreeMap<String, AllocatedTaskResources>>,
    /// Lifecycle by task, null for main tasks: tells what does not run at the same time.
    pub task_lifecycles: Option<BTreeMap<String, Option<TaskLifecycleConfig>>>,
    /// What the tasks share.
    pub shared: Option<AllocatedSharedResources>,
}

/// The resources that a task occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedTaskResources {
    /// Processor share and cores.
    pub cpu: Option<AllocatedCpuResources>,
    /// Memory and its limit.
    pub memory: Option<AllocatedMemoryResources>,
    /// Its own networks; legacy.
    pub networks: Option<Vec<NetworkResource>>,
    /// Device instances.
    pub devices: Option<Vec<AllocatedDeviceResource>>,
}

/// The resources that the tasks of an allocation share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedSharedResources {
    /// Networks with their ports.
    pub networks: Option<Vec<NetworkResource>>,
    /// Size of the ephemeral disk in MB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<i64>,
    /// All ports of these networks.
    pub ports: Option<Vec<AllocatedPortMapping>>,
}

/// A port that was chosen. Omits what is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedPortMapping {
    /// Its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Port on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// Port in the network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<i64>,
    /// Address on the host.
    #[serde(rename = "HostIP", skip_serializing_if = "Option::is_none")]
    pub host_ip: Option<String>,
    /// Whether others may have it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_collision: Option<bool>,
}

/// The processor time that a task occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedCpuResources {
    /// In MHz.
    pub cpu_shares: Option<i64>,
    /// Ids of cores that are its own.
    pub reserved_cores: Option<Vec<u64>>,
}

/// The memory that a task occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedMemoryResources {
    /// Set aside, in MB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<i64>,
    /// Limit in MB; 0 is `MemoryMB`.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: Option<i64>,
}

/// Instances of a device that a task occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedDeviceResource {
    /// Such as `nvidia`.
    pub vendor: Option<String>,
    /// Such as `gpu`.
    pub r#type: Option<String>,
    /// The model.
    pub name: Option<String>,
    /// Ids of the instances.
    #[serde(rename = "DeviceIDs")]
    pub device_ids: Option<Vec<String>>,
}

/// What the scheduler is asked to do with an allocation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredTransition {
    /// Move it off its node.
    pub migrate: Option<bool>,
    /// Reschedule it, now that the deployment has failed it.
    pub reschedule: Option<bool>,
    /// Reschedule it even though its policy is used up.
    pub force_reschedule: Option<bool>,
    /// Stop it without the shutdown delay.
    pub no_shutdown_delay: Option<bool>,
    /// Move it off its node without placing another.
    pub migrate_disable_placement: Option<bool>,
}

/// What the node reports about a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskState {
    /// `pending`, `running` or `dead`.
    pub state: Option<String>,
    /// Whether it ended in failure.
    pub failed: Option<bool>,
    /// Restarts so far.
    pub restarts: Option<u64>,
    /// When it was last restarted.
    pub last_restart: Option<Time>,
    /// When it first started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// What happened, oldest first; only the latest ten or so.
    pub events: Option<Vec<TaskEvent>>,
    /// State of its schedule, such as `force_pause`; empty without one.
    pub paused: Option<String>,
}

/// Something that happened to a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskEvent {
    /// Such as `Started`, `Terminated` or `Driver Failure`.
    pub r#type: Option<String>,
    /// Unix time in nanoseconds.
    pub time: Option<i64>,
    /// Short text.
    pub message: Option<String>,
    /// Text for people, filled in on read.
    pub display_message: Option<String>,
    /// Particulars by name, such as `exit_code`.
    pub details: Option<BTreeMap<String, String>>,
    /// Whether it fails the task. This and what follows is legacy, superseded by `Details`.
    pub fails_task: Option<bool>,
    /// Why it restarts.
    pub restart_reason: Option<String>,
    /// What failed before the start.
    pub setup_error: Option<String>,
    /// What the driver failed with.
    pub driver_error: Option<String>,
    /// Exit code of the program.
    pub exit_code: Option<i64>,
    /// Signal that ended the program.
    pub signal: Option<i64>,
    /// Nanoseconds between the kill signal and the end.
    pub kill_timeout: Option<i64>,
    /// What failed when killing it.
    pub kill_error: Option<String>,
    /// Why it was killed.
    pub kill_reason: Option<String>,
    /// Nanoseconds until it is started again.
    pub start_delay: Option<i64>,
    /// What an artifact failed with.
    pub download_error: Option<String>,
    /// What is wrong with the task.
    pub validation_error: Option<String>,
    /// Disk limit that was exceeded, in bytes.
    pub disk_limit: Option<i64>,
    /// Task whose failure ended this one.
    pub failed_sibling: Option<String>,
    /// What Vault failed with.
    pub vault_error: Option<String>,
    /// Why it was signalled.
    pub task_signal_reason: Option<String>,
    /// Signal it was sent.
    pub task_signal: Option<String>,
    /// What the driver says.
    pub driver_message: Option<String>,
    /// Who says so, for other events.
    pub generic_source: Option<String>,
}

/// A change of an allocation's state that is kept as history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocState {
    /// What changed; 0 is the client status.
    pub field: Option<i64>,
    /// What it became.
    pub value: Option<String>,
    /// When it did.
    pub time: Option<Time>,
}

/// An allocation's health in its deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocDeploymentStatus {
    /// Unset until decided.
    pub healthy: Option<bool>,
    /// When it was decided.
    pub timestamp: Option<Time>,
    /// Whether it is a canary that is not promoted.
    pub canary: Option<bool>,
    /// Index of the change set that last changed the health.
    pub modify_index: Option<u64>,
}

/// An allocation's former attempts on other nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RescheduleTracker {
    /// The attempts, oldest first.
    pub events: Option<Vec<RescheduleEvent>>,
    /// Whether the last attempt was placed: empty, `ok` or `no placement`.
    pub last_reschedule: Option<String>,
}

/// One attempt on another node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RescheduleEvent {
    /// Unix time in nanoseconds.
    pub reschedule_time: Option<i64>,
    /// The allocation that failed.
    #[serde(rename = "PrevAllocID")]
    pub prev_alloc_id: Option<String>,
    /// The node it failed on.
    #[serde(rename = "PrevNodeID")]
    pub prev_node_id: Option<String>,
    /// How long was waited, in nanoseconds.
    pub delay: Option<i64>,
}

/// What an allocation's network was set up as.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocNetworkStatus {
    /// Interface in the network namespace.
    pub interface_name: Option<String>,
    /// IPv4 address.
    pub address: Option<String>,
    /// IPv6 address.
    #[serde(rename = "AddressIPv6")]
    pub address_ipv6: Option<String>,
    /// Resolver in the network namespace.
    #[serde(rename = "DNS")]
    pub dns: Option<DnsConfig>,
}
