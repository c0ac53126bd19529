//! Nodes: the part that an agent registers, and the part that the servers maintain.

mod ports;
mod resources;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A typed attribute of a device.
pub use api_types::Attribute;
pub use ports::PortRanges;
pub use resources::{
    Core, LegacyCpu, NodeAddress, NodeDevice, NodeDeviceGroup, NodeNetwork, NodeReserved, NodeResources,
    Topology,
};

use crate::alloc::Demand;
use crate::text::string_enum;
use crate::{Index, Nanos, NodeId, Text, Timestamp};

string_enum! {
    /// Status of a node (N-1.1).
    NodeStatus, "node status" {
        /// The node has registered but is not ready for allocations yet.
        Initializing => "initializing",
        /// The node is ready for allocations.
        Ready => "ready",
        /// The node is down; its allocations are lost.
        Down => "down",
        /// The node misses heartbeats; its allocations may still run.
        Disconnected => "disconnected",
    }
}

impl NodeStatus {
    /// Whether the node misses heartbeats (N-1.2).
    pub const fn is_unresponsive(self) -> bool {
        matches!(self, Self::Down | Self::Disconnected)
    }
}

string_enum! {
    /// Whether an operator allows new allocations on a node, regardless of its status and drain (N-1.3).
    Eligibility, "scheduling eligibility" {
        /// New allocations are allowed.
        Eligible => "eligible",
        /// No new allocations are allowed.
        Ineligible => "ineligible",
    }
}

/// A machine with an agent.
///
/// It consists of two parts that change at different times: [`NodeSpec`], which the agent registers, is large and changes
/// rarely; [`NodeServerSide`], which the servers maintain, is small and changes often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its id, chosen by the agent.
    pub id: NodeId,
    /// The part that the agent registered.
    pub spec: Arc<NodeSpec>,
    /// The part that the servers maintain.
    pub server: NodeServerSide,
}

impl NodeSpec {
    /// Resources available to tasks: total resources minus reserved ones.
    ///
    /// The processor capacity is computed from the topology. An agent that reports no cores has only the legacy value.
    pub fn capacity(&self) -> Demand {
        let total_mhz = match self.resources.processors.total_mhz() {
            0 => self.resources.cpu.cpu_mhz,
            mhz => mhz,
        };
        Demand {
            cpu_mhz: total_mhz.saturating_sub(self.reserved.cpu_mhz),
            memory_mb: self.resources.memory_mb.saturating_sub(self.reserved.memory_mb),
            disk_mb: self.resources.disk_mb.saturating_sub(self.reserved.disk_mb),
        }
    }
}

impl NodeSpec {
    /// The lists of reserved ports: those of each address, and the node's own.
    pub fn reserved_port_lists(&self) -> impl Iterator<Item = &Text> {
        let addresses = self.resources.node_networks.iter().flat_map(|network| &network.addresses);
        addresses.map(|address| &address.reserved_ports).chain([&self.reserved.ports])
    }
}

impl Node {
    /// Whether it accepts new allocations: it is ready, not draining, and eligible (N-1.3).
    pub fn is_ready(&self) -> bool {
        self.server.status == NodeStatus::Ready
            && self.server.drain.is_none()
            && self.server.eligibility == Eligibility::Eligible
    }
}

/// A secret. Its `Debug` output does not contain the value, so that it is not logged.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub Text);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// The part of a node that its agent registers.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Secret that proves that a later registration comes from the same agent (N-2.6).
    pub secret_id: Secret,
    /// Number of times that the agent has started, counted on its disk. Reports of another boot are dropped (`docs/architecture/agents.md`).
    pub boot: u32,
    /// Its name, usually the host name.
    pub name: Text,
    /// Its datacenter.
    pub datacenter: Text,
    /// Its node pool.
    pub node_pool: Text,
    /// Its node class, assigned by the operator.
    pub node_class: Text,
    /// Hash of all attributes that constraints can refer to, except those that are unique to the node.
    pub computed_class: Text,
    /// Address of an API that can reach the node.
    pub http_addr: Text,
    /// Whether that API uses TLS.
    pub tls_enabled: bool,
    /// The parent of its tasks' control groups.
    pub cgroup_parent: Text,
    /// Attributes that the agent detected.
    pub attributes: BTreeMap<Text, Text>,
    /// Arbitrary key-value pairs set by the operator.
    pub meta: BTreeMap<Text, Text>,
    /// Ids of the machine in other systems.
    pub links: BTreeMap<Text, Text>,
    /// Total resources.
    pub resources: NodeResources,
    /// Resources that are not available to tasks.
    pub reserved: NodeReserved,
    /// Its task drivers by name.
    pub drivers: BTreeMap<Text, Driver>,
    /// Its host volumes by name.
    pub host_volumes: BTreeMap<Text, NodeHostVolume>,
    /// Its host networks by name, in the form of the API.
    pub host_networks: BTreeMap<Text, api_types::ClientHostNetworkConfig>,
    /// CSI controller plugins that run on it, in the form of the API.
    pub csi_controllers: BTreeMap<Text, api_types::CsiInfo>,
    /// CSI node plugins that run on it, in the form of the API.
    pub csi_nodes: BTreeMap<Text, api_types::CsiInfo>,
    /// Whether its dynamic host volumes are deleted when the node is garbage-collected.
    pub gc_volumes: bool,
    /// Largest number of allocations; 0 is unlimited.
    pub max_allocs: u32,
}

/// Largest number of events that are kept for a node (N-1.8).
pub const EVENTS_MAX: usize = 10;

/// The part of a node that the servers maintain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeServerSide {
    /// Its status.
    pub status: NodeStatus,
    /// Human-readable reason for the status.
    #[serde(default)]
    pub status_description: Text,
    /// When its status was last updated.
    #[serde(default)]
    pub status_updated_at: Timestamp,
    /// Whether an operator allows new allocations.
    pub eligibility: Eligibility,
    /// Its drain, while it is draining.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Its latest drain, including one that has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_drain: Option<LastDrain>,
    /// The latest events, oldest first; at most [`EVENTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<NodeEvent>,
    /// Index at which it last missed a heartbeat; 0 once it is ready again (N-3.10).
    #[serde(default)]
    pub last_missed_heartbeat_index: Index,
    /// Index of its latest report of all its allocations (N-7.12).
    #[serde(default)]
    pub last_alloc_update_index: Index,
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
}

impl Default for NodeServerSide {
    /// The server side of a node that has just registered (N-2.4).
    fn default() -> Self {
        Self {
            status: NodeStatus::Initializing,
            status_description: Text::default(),
            status_updated_at: Timestamp::UNSET,
            eligibility: Eligibility::Eligible,
            drain: None,
            last_drain: None,
            events: Vec::new(),
            last_missed_heartbeat_index: Index::ZERO,
            last_alloc_update_index: Index::ZERO,
            create_index: Index::ZERO,
            modify_index: Index::ZERO,
        }
    }
}

/// A task driver on a node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Attributes that the driver detected.
    pub attributes: BTreeMap<Text, Text>,
    /// Whether the driver was found on the node.
    pub detected: bool,
    /// Whether it is healthy.
    pub healthy: bool,
    /// Human-readable reason for the health.
    pub health_description: Text,
    /// When its health was last checked.
    pub update_time: Timestamp,
}

/// A host volume on a node. A volume without an id is static: it is part of the node's configuration.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHostVolume {
    /// Its name.
    pub name: Text,
    /// Path on the node.
    pub path: Text,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Id of a dynamic volume; empty for a static one.
    pub id: Text,
}

/// The drain of a node (N-9.2).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// How long it may take; 0 is unlimited, a negative value means at once.
    pub deadline: Nanos,
    /// Whether allocations of system jobs stay.
    pub ignore_system_jobs: bool,
    /// Time at which the remaining allocations are stopped; unset without a deadline.
    pub force_deadline: Timestamp,
    /// When it began.
    pub started_at: Timestamp,
}

impl Drain {
    /// When the remaining allocations are stopped: a time in the past for a drain at once, `None` without a deadline.
    pub fn due(&self) -> Option<Timestamp> {
        match self.deadline.0 {
            ..0 => Some(Timestamp::UNSET),
            0 => None,
            1.. => Some(self.force_deadline),
        }
    }
}

/// What a request for a drain asks for (N-9.2).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainSpec {
    /// How long it may take; 0 is unlimited, a negative value means at once.
    pub deadline: Nanos,
    /// Whether allocations of system jobs stay.
    pub ignore_system_jobs: bool,
}

impl DrainSpec {
    /// The drain that begins, or changes, at `now`. Its deadline counts from then (N-9.3).
    pub fn begin(self, started_at: Timestamp, now: Timestamp) -> Drain {
        let Self { deadline, ignore_system_jobs } = self;
        let force_deadline = if deadline > Nanos::ZERO { now + deadline } else { Timestamp::UNSET };
        Drain { deadline, ignore_system_jobs, force_deadline, started_at }
    }
}

string_enum! {
    /// Status of a drain (N-9.6).
    DrainStatus, "drain status" {
        /// The drain is in progress.
        Draining => "draining",
        /// The drain is complete.
        Complete => "complete",
        /// An operator cancelled the drain.
        Canceled => "canceled",
    }
}

/// The record of a node's latest drain (N-9.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastDrain {
    /// When it began.
    pub started_at: Timestamp,
    /// When the record last changed.
    pub updated_at: Timestamp,
    /// Its status.
    pub status: DrainStatus,
    /// Accessor id of the token that requested it.
    #[serde(default)]
    pub accessor_id: Text,
    /// Arbitrary key-value pairs set by the operator who requested it.
    #[serde(default)]
    pub meta: BTreeMap<Text, Text>,
}

/// An event in the life of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEvent {
    /// Human-readable message.
    pub message: Text,
    /// The subsystem that recorded it, one of those in N-1.8.
    pub subsystem: Text,
    /// Details by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<Text, Text>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// Index of the change set that added it.
    #[serde(default)]
    pub create_index: Index,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(id: u16, disable: bool) -> Core {
        Core { id, disable, base_mhz: 2_500, max_mhz: 3_000, ..Core::default() }
    }

    fn spec(processors: Topology, reserved_mhz: u32) -> NodeSpec {
        NodeSpec {
            resources: NodeResources {
                processors,
                cpu: LegacyCpu { cpu_mhz: 700, ..LegacyCpu::default() },
                memory_mb: 1_000,
                ..NodeResources::default()
            },
            reserved: NodeReserved { cpu_mhz: reserved_mhz, memory_mb: 200, ..NodeReserved::default() },
            ..NodeSpec::default()
        }
    }

    /// The recorded case `placement/cores-01`: two of four cores are disabled and reserved.
    #[test]
    fn disabled_cores_that_are_also_reserved_are_subtracted_once() {
        let cores = vec![core(0, true), core(1, true), core(2, false), core(3, false)];
        let capacity = spec(Topology { cores, ..Topology::default() }, 5_000).capacity();
        assert_eq!((capacity.cpu_mhz, capacity.memory_mb), (5_000, 800));
    }

    #[test]
    fn configured_compute_precedes_cores_and_cores_precede_the_legacy_number() {
        let topology =
            |override_total_mhz, cores| Topology { override_total_mhz, cores, ..Topology::default() };
        let mhz = |topology| spec(topology, 100).capacity().cpu_mhz;
        assert_eq!(mhz(topology(6_000, vec![core(0, false)])), 5_900);
        assert_eq!(mhz(topology(0, vec![core(0, false)])), 2_400);
        assert_eq!(mhz(topology(0, Vec::new())), 600);
    }

    #[test]
    fn reserving_more_than_the_total_leaves_no_capacity() {
        assert_eq!(spec(Topology::default(), 1_000).capacity().cpu_mhz, 0);
    }
}
