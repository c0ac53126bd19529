//! Networks and ports, in the one form that groups, allocations and nodes share.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::mirror::{mirror, passthrough};

passthrough!(api_types::DnsConfig, api_types::CniConfig);

/// A network with ports: as a group asks for it, as an allocation got it, or as a node has it.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkResource {
    /// `host`, `bridge`, `none` or `cni/<name>`; empty is `host`.
    pub mode: Text,
    /// The node's interface.
    pub device: Text,
    /// The interface's address range.
    pub cidr: Text,
    /// The interface's address.
    pub ip: Text,
    /// Host name inside the network namespace.
    pub hostname: Text,
    /// Bandwidth in Mbit/s; shown, but never counted.
    pub mbits: u32,
    /// Name resolution inside the network namespace.
    pub dns: Option<api_types::DnsConfig>,
    /// Ports that the job chose.
    pub reserved_ports: Vec<Port>,
    /// Ports that the scheduler chooses.
    pub dynamic_ports: Vec<Port>,
    /// Arguments for CNI plugins.
    pub cni: Option<api_types::CniConfig>,
}

mirror! {
    omit_empty NetworkResource = NetworkResource {
        mode: "Mode",
        device: "Device",
        cidr: "CIDR",
        ip: "IP",
        hostname: "Hostname",
        mbits: "MBits",
        dns: "DNS",
        reserved_ports: "ReservedPorts",
        dynamic_ports: "DynamicPorts",
        cni: "CNI",
    }
}

/// A labelled port. Whether it is static or dynamic is told by the list that it stands in.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The name that tasks and services know it by.
    pub label: Text,
    /// The port on the node; 0 until it is chosen.
    pub value: u16,
    /// The port inside the network namespace; 0 is none, -1 the same as on the node.
    pub to: i32,
    /// The node's network that it belongs to, by alias.
    pub host_network: Text,
    /// Whether several allocations may have it on one node.
    pub ignore_collision: bool,
}

mirror! {
    omit_empty Port = Port {
        label: "Label",
        value: "Value",
        to: "To",
        host_network: "HostNetwork",
        ignore_collision: "IgnoreCollision",
    }
}
