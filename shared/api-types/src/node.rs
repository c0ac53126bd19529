//! Nodes and node pools: identity, status, drain, drivers and plugins. What a node has is in `node_resources.rs`.

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
    /// Known to the node and the servers only; always empty when read.
    #[serde(rename = "SecretID")]
    pub secret_id: Option<String>,
    /// Its datacenter.
    pub datacenter: Option<String>,
    /// For people, usually the host name.
    pub name: Option<String>,
    /// Parent of the tasks' control groups.
    pub cgroup_parent: Option<String>,
    /// `host:port` of its HTTP API.
    #[serde(rename = "HTTPAddr")]
    pub http_addr: Option<String>,
    /// Whether that is HTTPS.
    #[serde(rename = "TLSEnabled")]
    pub tls_enabled: Option<bool>,
    /// What the agent found out, such as `kernel.name`; constraints refer to it.
    pub attributes: Option<BTreeMap<String, String>>,
    /// What it has.
    pub node_resources: Option<NodeResources>,
    /// What of that is not for allocations.
    pub reserved_resources: Option<NodeReservedResources>,
    /// Ids of the machine elsewhere, such as at a cloud provider.
    pub links: Option<BTreeMap<String, String>>,
    /// Free key-value pairs of the operator's.
    pub meta: Option<BTreeMap<String, String>>,
    /// A class given by the operator.
    pub node_class: Option<String>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// Hash of all that is not unique to a node: equal means equally feasible.
    pub computed_class: Option<String>,
    /// How it is being drained, null when it is not.
    pub drain_strategy: Option<DrainStrategy>,
    /// `eligible` or `ineligible` for new allocations.
    pub scheduling_eligibility: Option<String>,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: Option<String>,
    /// Why it has that status, for people.
    pub status_description: Option<String>,
    /// Key that signed its identity.
    #[serde(rename = "IdentitySigningKeyID")]
    pub identity_signing_key_id: Option<String>,
    /// When the status last changed: Unix time in seconds.
    pub status_updated_at: Option<i64>,
    /// What happened, oldest first; only the latest ten.
    pub events: Option<Vec<NodeEvent>>,
    /// Task drivers by name.
    pub drivers: Option<BTreeMap<String, DriverInfo>>,
    /// CSI plugins that run here as controller, by id.
    #[serde(rename = "CSIControllerPlugins")]
    pub csi_controller_plugins: Option<BTreeMap<String, CsiInfo>>,
    /// CSI plugins that run here for the node, by id.
    #[serde(rename = "CSINodePlugins")]
    pub csi_node_plugins: Option<BTreeMap<String, CsiInfo>>,
    /// Host volumes by name, static and dynamic.
    pub host_volumes: Option<BTreeMap<String, ClientHostVolumeConfig>>,
    /// Whether its dynamic host volumes vanish with it.
    #[serde(rename = "GCVolumesOnNodeGC")]
    pub gc_volumes_on_node_gc: Option<bool>,
    /// Networks that ports may be bound to, by name.
    pub host_networks: Option<BTreeMap<String, ClientHostNetworkConfig>>,
    /// The latest drain, also when it is over.
    pub last_drain: Option<DrainMetadata>,
    /// Most allocations it takes; 0 is no limit.
    pub node_max_allocs: Option<i64>,
    /// Index at which it last went down or was disconnected; 0 once it is ready again.
    pub last_missed_heartbeat_index: Option<u64>,
    /// Index of its latest report on allocations.
    pub last_alloc_update_index: Option<u64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
    /// Whether it is being drained, hence `DrainStrategy` is set.
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
    /// Holds `os.name` only; null unless the request asks for it.
    pub attributes: Option<BTreeMap<String, String>>,
    /// Its datacenter.
    pub datacenter: Option<String>,
    /// For people, usually the host name.
    pub name: Option<String>,
    /// The node pool by name.
    pub node_pool: Option<String>,
    /// A class given by the operator.
    pub node_class: Option<String>,
    /// Version of its agent.
    pub version: Option<String>,
    /// Whether it is being drained.
    pub drain: Option<bool>,
    /// `eligible` or `ineligible` for new allocations.
    pub scheduling_eligibility: Option<String>,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: Option<String>,
    /// Why it has that status, for people.
    pub status_description: Option<String>,
    /// Task drivers by name.
    pub drivers: Option<BTreeMap<String, DriverInfo>>,
    /// Host volumes by name.
    pub host_volumes: Option<BTreeMap<String, ClientHostVolumeConfig>>,
    /// What it has; null unless the request asks for it.
    pub node_resources: Option<NodeResources>,
    /// What of that is not for allocations; null unless the request asks for it.
    pub reserved_resources: Option<NodeReservedResources>,
    /// The latest drain, also when it is over.
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
    /// Nanoseconds until what is left is stopped; 0 is never, negative at once.
    pub deadline: Option<i64>,
    /// Whether system jobs stay.
    pub ignore_system_jobs: Option<bool>,
    /// When the deadline is over; zero when there is none.
    pub force_deadline: Option<Time>,
    /// When the drain began.
    pub started_at: Option<Time>,
}

/// How a node shall be drained.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainSpec {
    /// Nanoseconds until what is left is stopped; 0 is never, negative at once.
    pub deadline: Option<i64>,
    /// Whether system jobs stay.
    pub ignore_system_jobs: Option<bool>,
}

/// What is remembered of a drain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainMetadata {
    /// When it began.
    pub started_at: Option<Time>,
    /// When this last changed.
    pub updated_at: Option<Time>,
    /// `draining`, `complete` or `canceled`.
    pub status: Option<String>,
    /// ACL token that asked for it.
    #[serde(rename = "AccessorID")]
    pub accessor_id: Option<String>,
    /// What its author noted.
    pub meta: Option<BTreeMap<String, String>>,
}

/// Something that happened to a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeEvent {
    /// What, for people.
    pub message: Option<String>,
    /// Such as `Drain`, `Driver` or `Cluster`.
    pub subsystem: Option<String>,
    /// Particulars by name.
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
    /// What it found out about itself, such as `driver.docker.version`.
    pub attributes: Option<BTreeMap<String, String>>,
    /// Whether it is there.
    pub detected: Option<bool>,
    /// Whether it works.
    pub healthy: Option<bool>,
    /// Why it does or does not, for people.
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
    /// Whether nobody may write.
    pub read_only: Option<bool>,
    /// Id of a dynamic host volume, else empty.
    #[serde(rename = "ID")]
    pub id: Option<String>,
}

/// A network of the host that ports may be bound to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClientHostNetworkConfig {
    /// Name that ports refer to.
    pub name: Option<String>,
    /// Address range that picks the addresses.
    #[serde(rename = "CIDR")]
    pub cidr: Option<String>,
    /// Interface that picks the addresses.
    pub interface: Option<String>,
    /// Ports not to use, such as `22,8000-8100`.
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
    /// Whether it works.
    pub healthy: Option<bool>,
    /// Why it does or does not, for people.
    pub health_description: Option<String>,
    /// When this last changed.
    pub update_time: Option<Time>,
    /// The vendor's name for it.
    pub provider: Option<String>,
    /// The vendor's version of it.
    pub provider_version: Option<String>,
    /// Whether volumes need a controller to be attached.
    pub requires_controller_plugin: Option<bool>,
    /// Whether volumes are reachable only from some nodes.
    pub requires_topologies: Option<bool>,
    /// What it can do as controller; only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_info: Option<Box<CsiControllerInfo>>,
    /// What it can do for the node; only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<Box<CsiNodeInfo>>,
}

/// What a CSI plugin can do for its node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiNodeInfo {
    /// The storage provider's id of the node.
    #[serde(rename = "ID")]
    pub id: Option<String>,
    /// Most volumes that can be attached.
    pub max_volumes: Option<i64>,
    /// Where the node is, in the provider's terms.
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

/// What a CSI plugin can do as controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiControllerInfo {
    /// Create and delete volumes.
    pub supports_create_delete: Option<bool>,
    /// Attach volumes to nodes.
    pub supports_attach_detach: Option<bool>,
    /// List volumes.
    pub supports_list_volumes: Option<bool>,
    /// Tell how much space is left.
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
    /// Tell which nodes a volume is attached to.
    pub supports_list_volumes_attached_nodes: Option<bool>,
    /// Report a volume's condition.
    pub supports_condition: Option<bool>,
    /// Look up a single volume.
    pub supports_get: Option<bool>,
}

/// Nodes set apart from others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePool {
    /// Unique; `default` and `all` always exist.
    pub name: Option<String>,
    /// What it is for, for people.
    pub description: Option<String>,
    /// Free key-value pairs of the user's.
    pub meta: Option<BTreeMap<String, String>>,
    /// What is different about scheduling here.
    pub scheduler_configuration: Option<NodePoolSchedulerConfiguration>,
    /// How long a node's identity is valid, in nanoseconds; requests may also say `24h`.
    #[serde(rename = "NodeIdentityTTL", deserialize_with = "duration::string_or_nanos")]
    pub node_identity_ttl: Option<i64>,
    /// Changes whenever the pool does.
    pub hash: Option<Base64>,
    /// Index of the change set that created it.
    pub create_index: Option<u64>,
    /// Index of the change set that last changed it.
    pub modify_index: Option<u64>,
}

/// What is different about scheduling in a node pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePoolSchedulerConfiguration {
    /// Algorithm in place of the cluster's; empty for that.
    pub scheduler_algorithm: Option<String>,
    /// Whether `MemoryMaxMB` counts; unset for the cluster's setting.
    pub memory_oversubscription_enabled: Option<bool>,
}
