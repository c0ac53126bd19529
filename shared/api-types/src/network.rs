//! Networks and ports, in the form that groups, allocations and nodes share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A network with ports: requested by a group, assigned to an allocation, or available on a node. Empty fields are
/// omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkResource {
    /// `host`, `bridge`, `none` or `cni/<name>`; empty is `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Network interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Address range of the interface.
    #[serde(rename = "CIDR", skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// Address of the interface.
    #[serde(rename = "IP", skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Host name inside the network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Bandwidth in Mbit/s; deprecated.
    #[serde(rename = "MBits", skip_serializing_if = "Option::is_none")]
    pub mbits: Option<i64>,
    /// Resolver inside the network namespace.
    #[serde(rename = "DNS", skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsConfig>,
    /// Static ports, which the job chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_ports: Option<Vec<Port>>,
    /// Dynamic ports, which the scheduler chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_ports: Option<Vec<Port>>,
    /// Arguments for CNI plugins.
    #[serde(rename = "CNI", skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniConfig>,
}

/// A labelled port. Empty fields are omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Port {
    /// Name by which tasks and services refer to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Port on the host; 0 until the scheduler chose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// Port in the network namespace; 0 is none, -1 is the same as on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<i64>,
    /// The host network of the node that it belongs to; default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network: Option<String>,
    /// Whether several allocations on one node may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_collision: Option<bool>,
}

/// Contents of a `resolv.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DnsConfig {
    /// Addresses of name servers.
    pub servers: Option<Vec<String>>,
    /// Search domains.
    pub searches: Option<Vec<String>>,
    /// Resolver options.
    pub options: Option<Vec<String>>,
}

/// Arguments for CNI plugins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CniConfig {
    /// `CNI_ARGS` by name.
    pub args: Option<BTreeMap<String, String>>,
}
