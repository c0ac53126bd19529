//! Networks and ports, in the form that groups, allocations and nodes share.

use serde::{Deserialize, Serialize};

use crate::Text;
use crate::mirror::{mirror, passthrough};

passthrough!(api_types::DnsConfig, api_types::CniConfig);

/// A network with ports: requested by a group, assigned to an allocation, or available on a node.
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
    /// Bandwidth in Mbit/s. It is returned by the API but not accounted for.
    pub mbits: u32,
    /// DNS configuration inside the network namespace.
    pub dns: Option<api_types::DnsConfig>,
    /// Static ports, which the job chooses.
    pub reserved_ports: Vec<Port>,
    /// Dynamic ports, which the scheduler chooses.
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

/// A labelled port. The list that contains it determines whether it is static or dynamic.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The name by which tasks and services refer to it.
    pub label: Text,
    /// The port on the node; 0 until it is chosen.
    pub value: u16,
    /// The port inside the network namespace; 0 is none, -1 the same as on the node.
    pub to: i32,
    /// Alias of the host network that it belongs to.
    pub host_network: Text,
    /// Whether several allocations on one node may use it.
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
