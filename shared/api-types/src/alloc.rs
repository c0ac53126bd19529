//! Allocations, in detail and as list entries: their resources, and the task states and events that the node reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AllocMetric, DnsConfig, Job, NetworkResource, Resources, TaskLifecycleConfig, Time};

/// A task group placed on a node. Empty fields are omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Allocation {
    /// UUID.
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The evaluation that last changed its desired status.
    #[serde(rename = "EvalID", skip_serializing_if = "Option::is_none")]
    pub eval_id: Option<String>,
    /// `<job>.<group>[<index>]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node it is on.
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Name of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The job it belongs to.
    #[serde(rename = "JobID", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The job, in the version that the allocation runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<Job>>,
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    /// Sum of all its resources; a legacy copy that some clients still read.
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
    /// How the scheduler chose the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<AllocMetric>,
    /// `run`, `stop` or `evict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_status: Option<String>,
    /// Human-readable reason for the desired status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_description: Option<String>,
    /// What the scheduler has been asked to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_transition: Option<DesiredTransition>,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_status: Option<String>,
    /// Human-readable reason for the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_description: Option<String>,
    /// Task states reported by the node, by task name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_states: Option<BTreeMap<String, TaskState>>,
    /// Former client statuses that are needed to handle disconnected nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alloc_states: Option<Vec<AllocState>>,
    /// The allocation that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_allocation: Option<String>,
    /// The allocation that replaces this one.
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
    /// Its network, as configured on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_status: Option<AllocNetworkStatus>,
    /// The evaluation that will reschedule it, or that waits for its node to reconnect.
    #[serde(rename = "FollowupEvalID", skip_serializing_if = "Option::is_none")]
    pub followup_eval_id: Option<String>,
    /// The allocations that were preempted to make room for this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_allocations: Option<Vec<String>>,
    /// The allocation that preempted this one.
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
    /// Index of the last change by a server. Changes that the node reports do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alloc_modify_index: Option<u64>,
    /// When it was created: Unix time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_time: Option<i64>,
    /// When it last changed: Unix time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_time: Option<i64>,
    /// The job version that it runs. A state dump writes this in place of the embedded job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_version: Option<u64>,
    /// In a state dump, the job's create index if the job has been purged and registered again since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_create_index: Option<u64>,
    /// Trace id of the plan that placed or last updated it, in hex digits, if there is one. Not part of Nomad's API.
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
    /// The evaluation that last changed its desired status.
    #[serde(rename = "EvalID")]
    pub eval_id: Option<String>,
    /// `<job>.<group>[<index>]`.
    pub name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The node it is on.
    #[serde(rename = "NodeID")]
    pub node_id: Option<String>,
    /// Name of that node.
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
    /// Human-readable reason for the desired status.
    pub desired_description: Option<String>,
    /// `pending`, `running`, `complete`, `failed`, `lost` or `unknown`.
    pub client_status: Option<String>,
    /// Human-readable reason for the status.
    pub client_description: Option<String>,
    /// What the scheduler has been asked to do with it.
    pub desired_transition: Option<DesiredTransition>,
    /// Task states reported by the node, by task name.
    pub task_states: Option<BTreeMap<String, TaskState>>,
    /// Its health in its deployment.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// The evaluation that will reschedule it, or that waits for its node to reconnect.
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: Option<String>,
    /// The allocation that replaces this one.
    pub next_allocation: Option<String>,
    /// Former attempts on other nodes.
    pub reschedule_tracker: Option<RescheduleTracker>,
    /// The allocations that were preempted to make room for this one.
    pub preempted_allocations: Option<Vec<String>>,
    /// The allocation that preempted this one.
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
    /// Resources of each task, by name.
    pub tasks: Option<BTreeMap<String, AllocatedTaskResources>>,
    /// Lifecycle by task, null for main tasks. It determines which tasks run at the same time.
    pub task_lifecycles: Option<BTreeMap<String, Option<TaskLifecycleConfig>>>,
    /// Resources that the tasks share.
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

/// A port that the scheduler assigned. Empty fields are omitted.
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
    /// Whether other allocations on the node may use the same port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_collision: Option<bool>,
}

/// The processor time that a task occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedCpuResources {
    /// In MHz.
    pub cpu_shares: Option<i64>,
    /// Ids of the cores reserved for it.
    pub reserved_cores: Option<Vec<u64>>,
}

/// The memory that a task occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocatedMemoryResources {
    /// Reserved memory in MB.
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

/// What the scheduler has been asked to do with an allocation.
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

/// The state of a task, as the node reports it.
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
    /// Events, oldest first; only about ten of the latest are kept.
    pub events: Option<Vec<TaskEvent>>,
    /// State of its schedule, such as `force_pause`; empty without one.
    pub paused: Option<String>,
}

/// An event in the life of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskEvent {
    /// Such as `Started`, `Terminated` or `Driver Failure`.
    pub r#type: Option<String>,
    /// Unix time in nanoseconds.
    pub time: Option<i64>,
    /// Short message.
    pub message: Option<String>,
    /// Human-readable text, filled in when the event is read.
    pub display_message: Option<String>,
    /// Details by name, such as `exit_code`.
    pub details: Option<BTreeMap<String, String>>,
    /// Whether the event fails the task. This field and all that follow are legacy; `Details` supersedes them.
    pub fails_task: Option<bool>,
    /// Why the task restarts.
    pub restart_reason: Option<String>,
    /// Error of a step before the start.
    pub setup_error: Option<String>,
    /// Error of the driver.
    pub driver_error: Option<String>,
    /// Exit code of the program.
    pub exit_code: Option<i64>,
    /// Signal that ended the program.
    pub signal: Option<i64>,
    /// Nanoseconds between the kill signal and the end.
    pub kill_timeout: Option<i64>,
    /// Error of the attempt to kill the task.
    pub kill_error: Option<String>,
    /// Why the task was killed.
    pub kill_reason: Option<String>,
    /// Nanoseconds until the task is started again.
    pub start_delay: Option<i64>,
    /// Error of the download of an artifact.
    pub download_error: Option<String>,
    /// Error of the validation of the task.
    pub validation_error: Option<String>,
    /// Disk limit that was exceeded, in bytes.
    pub disk_limit: Option<i64>,
    /// Task of the same group whose failure stopped this task.
    pub failed_sibling: Option<String>,
    /// Error of Vault.
    pub vault_error: Option<String>,
    /// Why a signal was sent.
    pub task_signal_reason: Option<String>,
    /// Signal that was sent.
    pub task_signal: Option<String>,
    /// Message of the driver.
    pub driver_message: Option<String>,
    /// Source of a generic event.
    pub generic_source: Option<String>,
}

/// A change of an allocation's state that is kept as history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocState {
    /// Which field changed; 0 is the client status.
    pub field: Option<i64>,
    /// The new value.
    pub value: Option<String>,
    /// When it changed.
    pub time: Option<Time>,
}

/// An allocation's health in its deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocDeploymentStatus {
    /// Whether it is healthy; unset until that is decided.
    pub healthy: Option<bool>,
    /// When the health was decided.
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
    /// Delay before the attempt, in nanoseconds.
    pub delay: Option<i64>,
}

/// The network of an allocation, as configured on the node.
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
