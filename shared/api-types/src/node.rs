//! Nodes and node pools: identity, status, drain, drivers and plugins. The resources of a node are in
//! `node_resources.rs`.

use std::collections::BTreeMap;

use crate::duration;
use serde::{Deserialize, Serialize};

use crate::{Base64, CsiTopology, NodeReservedResources, NodeResources, Time};

/// A machine that runs allocations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Node {
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Secret that only the node and the servers know; always empty in responses.
    #[serde(rename = "SecretID")]
    pub secret_id: Option<String>,
    /// Its datacenter.
    pub datacenter: Option<String>,
    /// Display name, usually the host name.
    pub name: Option<String>,
    /// Parent of the tasks' control groups.
    pub cgroup_parent: Option<String>,
    /// `host:port` of its HTTP API.
    #[serde(rename = "HTTPAddr")]
    pub http_addr: Option<String>,
    /// Whether the HTTP API uses TLS.
    #[serde(rename = "TLSEnabled")]
    pub tls_enabled: Option<bool>,
    /// Attributes that the agent detected, such as `kernel.name`. Constraints refer to them.
    pub attributes: Option<BTreeMap<String, String>>,
    /// Total resources.
    pub node_resources: Option<NodeResources>,
    /// Resources that are reserved and not available to allocations.
    pub reserved_resources: Option<NodeReservedResources>,
    /// Ids of the machine in other systems, such as a cloud provider.
    pub links: Option<BTreeMap<String, String>>,
    /// Arbitrary key-value pairs set by the operator.
    pub meta: Option<BTreeMap<String, String>>,
    /// Node class, assigned by the operator.
    pub node_class: Option<String>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// Hash of everything that is not unique to the node. Nodes with equal hashes are equally feasible.
    pub computed_class: Option<String>,
    /// How it is being drained; null if it is not draining.
    pub drain_strategy: Option<DrainStrategy>,
    /// `eligible` or `ineligible` for new allocations.
    pub scheduling_eligibility: Option<String>,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: Option<String>,
    /// Human-readable reason for the status.
    pub status_description: Option<String>,
    /// Key that signed its node identity.
    #[serde(rename = "IdentitySigningKeyID")]
    pub identity_signing_key_id: Option<String>,
    /// When the status last changed: Unix time in seconds.
    pub status_updated_at: Option<i64>,
    /// Events, oldest first; only the latest ten are kept.
    pub events: Option<Vec<NodeEvent>>,
    /// Task drivers by name.
    pub drivers: Option<BTreeMap<String, DriverInfo>>,
    /// CSI controller plugins that run on this node, by id.
    #[serde(rename = "CSIControllerPlugins")]
    pub csi_controller_plugins: Option<BTreeMap<String, CsiInfo>>,
    /// CSI node plugins that run on this node, by id.
    #[serde(rename = "CSINodePlugins")]
    pub csi_node_plugins: Option<BTreeMap<String, CsiInfo>>,
    /// Host volumes by name, static and dynamic.
    pub host_volumes: Option<BTreeMap<String, ClientHostVolumeConfig>>,
    /// Whether its dynamic host volumes are deleted together with the node.
    #[serde(rename = "GCVolumesOnNodeGC")]
    pub gc_volumes_on_node_gc: Option<bool>,
    /// Networks that ports may be bound to, by name.
    pub host_networks: Option<BTreeMap<String, ClientHostNetworkConfig>>,
    /// The latest drain, including one that has finished.
    pub last_drain: Option<DrainMetadata>,
    /// Largest number of allocations on the node; 0 is no limit.
    pub node_max_allocs: Option<i64>,
    /// Index at which it last became down or disconnected; 0 once it is ready again.
    pub last_missed_heartbeat_index: Option<u64>,
    /// Index of the latest report of its allocations.
    pub last_alloc_update_index: Option<u64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Whether it is being drained, that is, whether `DrainStrategy` is set.
    pub drain: Option<bool>,
}

/// A node in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeListStub {
    /// Its address without a port.
    pub address: Option<String>,
    /// UUID.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Only `os.name`; null unless the request asks for it.
    pub attributes: Option<BTreeMap<String, String>>,
    /// Its datacenter.
    pub datacenter: Option<String>,
    /// Display name, usually the host name.
    pub name: Option<String>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// Node class, assigned by the operator.
    pub node_class: Option<String>,
    /// Version of its agent.
    pub version: Option<String>,
    /// Whether it is being drained.
    pub drain: Option<bool>,
    /// `eligible` or `ineligible` for new allocations.
    pub scheduling_eligibility: Option<String>,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: Option<String>,
    /// Human-readable reason for the status.
    pub status_description: Option<String>,
    /// Task drivers by name.
    pub drivers: Option<BTreeMap<String, DriverInfo>>,
    /// Host volumes by name.
    pub host_volumes: Option<BTreeMap<String, ClientHostVolumeConfig>>,
    /// Total resources; null unless the request asks for them.
    pub node_resources: Option<NodeResources>,
    /// Resources that are reserved and not available to allocations; null unless the request asks for them.
    pub reserved_resources: Option<NodeReservedResources>,
    /// The latest drain, including one that has finished.
    pub last_drain: Option<DrainMetadata>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}

/// How a node is being drained.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainStrategy {
    /// Nanoseconds until the remaining allocations are stopped; 0 means never, a negative value at once.
    pub deadline: Option<i64>,
    /// Whether allocations of system jobs stay.
    pub ignore_system_jobs: Option<bool>,
    /// When the deadline expires; zero if there is none.
    pub force_deadline: Option<Time>,
    /// When the drain began.
    pub started_at: Option<Time>,
}

/// A request to drain a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainSpec {
    /// Nanoseconds until the remaining allocations are stopped; 0 means never, a negative value at once.
    pub deadline: Option<i64>,
    /// Whether allocations of system jobs stay.
    pub ignore_system_jobs: Option<bool>,
}

/// The record of a drain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainMetadata {
    /// When it began.
    pub started_at: Option<Time>,
    /// When this last changed.
    pub updated_at: Option<Time>,
    /// `draining`, `complete` or `canceled`.
    pub status: Option<String>,
    /// Accessor id of the ACL token that requested it.
    #[serde(rename = "AccessorID")]
    pub accessor_id: Option<String>,
    /// Arbitrary key-value pairs set by the operator who requested it.
    pub meta: Option<BTreeMap<String, String>>,
}

/// An event in the life of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeEvent {
    /// Human-readable message.
    pub message: Option<String>,
    /// Such as `Drain`, `Driver` or `Cluster`.
    pub subsystem: Option<String>,
    /// Details by name.
    pub details: Option<BTreeMap<String, String>>,
    /// When it happened.
    pub timestamp: Option<Time>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
}

/// A task driver on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DriverInfo {
    /// Attributes that the driver detected, such as `driver.docker.version`.
    pub attributes: Option<BTreeMap<String, String>>,
    /// Whether the driver was found on the node.
    pub detected: Option<bool>,
    /// Whether it is healthy.
    pub healthy: Option<bool>,
    /// Human-readable reason for the health.
    pub health_description: Option<String>,
    /// When this last changed.
    pub update_time: Option<Time>,
}

/// A host volume on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClientHostVolumeConfig {
    /// Name that requests refer to.
    pub name: Option<String>,
    /// Directory on the host.
    pub path: Option<String>,
    /// Whether it is read-only.
    pub read_only: Option<bool>,
    /// Id of a dynamic host volume; empty for a static one.
    #[serde(rename = "ID")]
    pub id: Option<String>,
}

/// A network of the host that ports may be bound to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClientHostNetworkConfig {
    /// Name that ports refer to.
    pub name: Option<String>,
    /// Address range that selects the addresses.
    #[serde(rename = "CIDR")]
    pub cidr: Option<String>,
    /// Interface that selects the addresses.
    pub interface: Option<String>,
    /// Ports that may not be allocated, such as `22,8000-8100`.
    pub reserved_ports: Option<String>,
}

/// A CSI plugin on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiInfo {
    /// Its id, shared by all its instances.
    #[serde(rename = "PluginID")]
    pub plugin_id: Option<String>,
    /// The allocation that runs it.
    #[serde(rename = "AllocID")]
    pub alloc_id: Option<String>,
    /// Whether it is healthy.
    pub healthy: Option<bool>,
    /// Human-readable reason for the health.
    pub health_description: Option<String>,
    /// When this last changed.
    pub update_time: Option<Time>,
    /// The vendor's name for the plugin.
    pub provider: Option<String>,
    /// The vendor's version of the plugin.
    pub provider_version: Option<String>,
    /// Whether attaching a volume needs a controller.
    pub requires_controller_plugin: Option<bool>,
    /// Whether volumes are reachable only from some nodes.
    pub requires_topologies: Option<bool>,
    /// Capabilities of a controller plugin; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_info: Option<Box<CsiControllerInfo>>,
    /// Capabilities of a node plugin; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<Box<CsiNodeInfo>>,
}

/// Capabilities of a CSI node plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiNodeInfo {
    /// The storage provider's id of the node.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Largest number of volumes that can be attached.
    pub max_volumes: Option<i64>,
    /// Topology of the node, in the provider's terms.
    pub accessible_topology: Option<CsiTopology>,
    /// Whether volumes are staged before they are mounted.
    pub requires_node_stage_volume: Option<bool>,
    /// Whether it reports a volume's usage.
    pub supports_stats: Option<bool>,
    /// Whether it can expand a volume.
    pub supports_expand: Option<bool>,
    /// Whether it reports a volume's condition.
    pub supports_condition: Option<bool>,
}

/// Capabilities of a CSI controller plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiControllerInfo {
    /// Create and delete volumes.
    pub supports_create_delete: Option<bool>,
    /// Attach volumes to nodes.
    pub supports_attach_detach: Option<bool>,
    /// List volumes.
    pub supports_list_volumes: Option<bool>,
    /// Report the available capacity.
    pub supports_get_capacity: Option<bool>,
    /// Create and delete snapshots.
    pub supports_create_delete_snapshot: Option<bool>,
    /// List snapshots.
    pub supports_list_snapshots: Option<bool>,
    /// Create a volume from another.
    pub supports_clone: Option<bool>,
    /// Attach volumes read-only.
    pub supports_read_only_attach: Option<bool>,
    /// Expand volumes.
    pub supports_expand: Option<bool>,
    /// Report the nodes that a volume is attached to.
    pub supports_list_volumes_attached_nodes: Option<bool>,
    /// Report a volume's condition.
    pub supports_condition: Option<bool>,
    /// Look up a single volume.
    pub supports_get: Option<bool>,
}

/// A named set of nodes that a job chooses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePool {
    /// Unique; `default` and `all` always exist.
    pub name: Option<String>,
    /// Human-readable description.
    pub description: Option<String>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: Option<BTreeMap<String, String>>,
    /// Scheduler settings that differ in this pool.
    pub scheduler_configuration: Option<NodePoolSchedulerConfiguration>,
    /// How long a node's identity is valid, in nanoseconds. Requests may also use a duration such as `24h`.
    #[serde(rename = "NodeIdentityTTL", deserialize_with = "duration::string_or_nanos")]
    pub node_identity_ttl: Option<i64>,
    /// Hash of the pool, which changes whenever the pool does.
    pub hash: Option<Base64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}

/// Scheduler settings of a node pool that override the cluster's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePoolSchedulerConfiguration {
    /// Scheduler algorithm; empty for the cluster's setting.
    pub scheduler_algorithm: Option<String>,
    /// Whether memory oversubscription (`MemoryMaxMB`) is allowed; unset for the cluster's setting.
    pub memory_oversubscription_enabled: Option<bool>,
}
