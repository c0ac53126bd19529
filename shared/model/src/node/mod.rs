//! Nodes: what an agent says of its machine, and what the servers know of it.

mod ports;
mod resources;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A typed value, as devices tell their attributes.
pub use api_types::Attribute;
pub use ports::PortRanges;
pub use resources::{
    Core, LegacyCpu, NodeAddress, NodeDevice, NodeDeviceGroup, NodeNetwork, NodeReserved, NodeResources,
    Topology,
};

use crate::alloc::Demand;
use crate::text::words;
use crate::{Index, Nanos, NodeId, Text, Timestamp};

words! {
    /// Whether a node is there (N-1.1).
    NodeStatus, "node status" {
        /// Known, but not ready for work.
        Initializing => "initializing",
        /// Ready.
        Ready => "ready",
        /// Gone; its allocations are lost.
        Down => "down",
        /// Not heard of; its allocations may still run.
        Disconnected => "disconnected",
    }
}

impl NodeStatus {
    /// Whether the servers do not hear it (N-1.2).
    pub const fn is_unresponsive(self) -> bool {
        matches!(self, Self::Down | Self::Disconnected)
    }
}

words! {
    /// Whether a node may get new work, its status and drain apart (N-1.3).
    Eligibility, "scheduling eligibility" {
        /// It may.
        Eligible => "eligible",
        /// It may not.
        Ineligible => "ineligible",
    }
}

/// A machine with an agent.
///
/// Two halves, because they change at different times: what the agent registers ([`NodeSpec`], big, rarely) and what
/// the servers add to it ([`NodeServerSide`], small, often).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its id, chosen by the agent.
    pub id: NodeId,
    /// What the agent registered.
    pub spec: Arc<NodeSpec>,
    /// What the servers know of it.
    pub server: NodeServerSide,
}

impl NodeSpec {
    /// What tasks can have of it: what it has less what is reserved.
    ///
    /// Compute is what the topology makes; an agent that knows nothing of its cores has only the older number.
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
    /// The lists of ports that are not for tasks: its own, and each address's.
    pub fn reserved_port_lists(&self) -> impl Iterator<Item = &Text> {
        let addresses = self.resources.node_networks.iter().flat_map(|network| &network.addresses);
        addresses.map(|address| &address.reserved_ports).chain([&self.reserved.ports])
    }
}

impl Node {
    /// Whether it may get new work: ready, not draining, eligible (N-1.3).
    pub fn is_ready(&self) -> bool {
        self.server.status == NodeStatus::Ready
            && self.server.drain.is_none()
            && self.server.eligibility == Eligibility::Eligible
    }
}

/// A secret; never shown, not even in logs.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub Text);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// What an agent says of its machine when it registers.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Proves that a later registration comes from the same agent (N-2.6).
    pub secret_id: Secret,
    /// How often the agent has started, counted on its disk; reports of another boot are dropped (design §6).
    pub boot: u32,
    /// Its name, mostly the host's.
    pub name: Text,
    /// Its datacenter.
    pub datacenter: Text,
    /// Its node pool.
    pub node_pool: Text,
    /// Its class, for people and constraints.
    pub node_class: Text,
    /// Stands for all that constraints can ask, what is unique to the node apart.
    pub computed_class: Text,
    /// The address of an API that can reach it.
    pub http_addr: Text,
    /// Whether that address speaks TLS.
    pub tls_enabled: bool,
    /// The parent of its tasks' control groups.
    pub cgroup_parent: Text,
    /// What it found out about itself.
    pub attributes: BTreeMap<Text, Text>,
    /// What its owner says of it.
    pub meta: BTreeMap<Text, Text>,
    /// Ids that it has elsewhere.
    pub links: BTreeMap<Text, Text>,
    /// What it has to give.
    pub resources: NodeResources,
    /// What of that is not for tasks.
    pub reserved: NodeReserved,
    /// Its task drivers.
    pub drivers: BTreeMap<Text, Driver>,
    /// Its host volumes by name.
    pub host_volumes: BTreeMap<Text, NodeHostVolume>,
    /// Its named networks, as the API shows them.
    pub host_networks: BTreeMap<Text, api_types::ClientHostNetworkConfig>,
    /// Controllers of CSI plugins that run on it, as the API shows them.
    pub csi_controllers: BTreeMap<Text, api_types::CsiInfo>,
    /// CSI plugins that run on it, as the API shows them.
    pub csi_nodes: BTreeMap<Text, api_types::CsiInfo>,
    /// Whether its dynamic host volumes go when it is collected.
    pub gc_volumes: bool,
    /// How many allocations it takes; 0 is any number.
    pub max_allocs: u32,
}

/// How many of a node's events are kept (N-1.8).
pub const EVENTS_MAX: usize = 10;

/// What the servers add to a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeServerSide {
    /// Whether it is there.
    pub status: NodeStatus,
    /// The same in words.
    #[serde(default)]
    pub status_description: Text,
    /// When its status was written last.
    #[serde(default)]
    pub status_updated_at: Timestamp,
    /// Whether it may get new work.
    pub eligibility: Eligibility,
    /// Its drain, while it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Its last drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_drain: Option<LastDrain>,
    /// The newest events, oldest first; at most [`EVENTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<NodeEvent>,
    /// The index at which it was last found missing; 0 after it became ready again (N-3.10).
    #[serde(default)]
    pub last_missed_heartbeat_index: Index,
    /// The index at which it last reported its allocations (N-7.12).
    #[serde(default)]
    pub last_alloc_update_index: Index,
    /// The index that made it.
    #[serde(default)]
    pub create_index: Index,
    /// The last index that changed it.
    #[serde(default)]
    pub modify_index: Index,
}

impl Default for NodeServerSide {
    /// A node that has only just registered (N-2.4).
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
    /// What it found out about itself.
    pub attributes: BTreeMap<Text, Text>,
    /// Whether it is there.
    pub detected: bool,
    /// Whether it works.
    pub healthy: bool,
    /// Why it does not.
    pub health_description: Text,
    /// When that was last looked at.
    pub update_time: Timestamp,
}

/// A host volume on a node; one without an id is a fixed part of the node's configuration.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHostVolume {
    /// Its name.
    pub name: Text,
    /// Where it is.
    pub path: Text,
    /// Whether it may not be written.
    pub read_only: bool,
    /// The id of the dynamic volume; empty for a static one.
    pub id: Text,
}

/// How a node is emptied (N-9.2).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// How long it may take; 0 is for ever, below 0 is at once.
    pub deadline: Nanos,
    /// Whether system jobs stay.
    pub ignore_system_jobs: bool,
    /// The moment at which whatever is left must go; unset without a deadline.
    pub force_deadline: Timestamp,
    /// When it began.
    pub started_at: Timestamp,
}

words! {
    /// Where a drain stands (N-9.6).
    DrainStatus, "drain status" {
        /// It goes on.
        Draining => "draining",
        /// The node is empty.
        Complete => "complete",
        /// A user ended it.
        Canceled => "canceled",
    }
}

/// A node's last drain (N-9.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastDrain {
    /// When it began.
    pub started_at: Timestamp,
    /// When something about it changed last.
    pub updated_at: Timestamp,
    /// Where it stands.
    pub status: DrainStatus,
    /// The token that asked for it.
    #[serde(default)]
    pub accessor_id: Text,
    /// What the asker said of it.
    #[serde(default)]
    pub meta: BTreeMap<Text, Text>,
}

/// Something that happened to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEvent {
    /// What happened.
    pub message: Text,
    /// Which part of the system says so; one of N-1.8.
    pub subsystem: Text,
    /// More about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<Text, Text>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// The index that wrote it.
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

    /// As in the recorded case `placement/cores-01`: of four cores two are not for use and reserved.
    #[test]
    fn what_disabled_cores_make_is_taken_off_once() {
        let cores = vec![core(0, true), core(1, true), core(2, false), core(3, false)];
        let capacity = spec(Topology { cores, ..Topology::default() }, 5_000).capacity();
        assert_eq!((capacity.cpu_mhz, capacity.memory_mb), (5_000, 800));
    }

    #[test]
    fn the_owners_word_goes_before_the_cores_and_those_before_the_older_number() {
        let topology =
            |override_total_mhz, cores| Topology { override_total_mhz, cores, ..Topology::default() };
        let mhz = |topology| spec(topology, 100).capacity().cpu_mhz;
        assert_eq!(mhz(topology(6_000, vec![core(0, false)])), 5_900);
        assert_eq!(mhz(topology(0, vec![core(0, false)])), 2_400);
        assert_eq!(mhz(topology(0, Vec::new())), 600);
    }

    #[test]
    fn what_is_reserved_beyond_what_there_is_leaves_nothing() {
        assert_eq!(spec(Topology::default(), 1_000).capacity().cpu_mhz, 0);
    }
}
