//! The network of a container, and its published ports. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::AllocId;
use model::text::quoted;
use serde_json::{Map, Value, json};

use super::super::config::TaskConfig;
use super::{Facts, Object};
use crate::driver::start::Start;

/// The name of the container that holds the network of an allocation.
pub(in super::super) fn holder_name(alloc: AllocId) -> String {
    format!("nomad_init_{alloc}")
}

/// Refuses what the network of the group decides about.
fn check_names(config: &TaskConfig) -> Result<(), String> {
    let network = &config.network;
    let given = [
        ("dns_options", !network.dns_options.is_empty()),
        ("dns_search_domains", !network.dns_search_domains.is_empty()),
        ("dns_servers", !network.dns_servers.is_empty()),
        ("extra_hosts", !network.extra_hosts.is_empty()),
        ("hostname", !network.hostname.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(format!(
            "{key}: the names of a group with a network of its own are given in the network block, as hostname and dns"
        )),
        None => Ok(()),
    }
}

/// The container's network.
#[derive(Debug)]
pub(super) struct Network {
    mode: String,
    /// Whether the container has its own address in a network of the engine.
    has_endpoint: bool,
    pub(super) published: Vec<Published>,
}

/// A port of the container that is reached by a port of the node.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) label: String,
    host_ip: String,
    host: u16,
    pub(super) inner: u16,
}

impl Network {
    /// Decides about the network.
    ///
    /// # Errors
    /// If the engine cannot join it, or a port is not the group's.
    pub(super) fn of(facts: Facts<'_>, config: &TaskConfig, start: &Start) -> Result<Self, String> {
        let network = &config.network;
        let mode = if !network.mode.is_empty() {
            network.mode.clone()
        } else if let Some(group) = &start.network {
            check_names(config)?;
            if facts.is_podman {
                format!("ns:{}", group.namespace.display())
            } else {
                // Docker joins the network of a container only.
                format!("container:{}", holder_name(start.id.alloc))
            }
        } else {
            "default".to_owned()
        };
        let shares = ["host", "none"].contains(&mode.as_str())
            || ["container:", "ns:"].iter().any(|prefix| mode.starts_with(prefix));
        let published = published(config, start)?;
        // In a namespace that others have made, ports are mapped already, or are the node's own.
        let published = if shares { Vec::new() } else { published };
        Ok(Self { mode, has_endpoint: !shares, published })
    }

    pub(super) fn host_config(&self, config: &TaskConfig, host: &mut Object) {
        let network = &config.network;
        host.put("NetworkMode", &self.mode);
        host.put("ExtraHosts", &network.extra_hosts);
        host.put("Dns", &network.dns_servers);
        host.put("DnsSearch", &network.dns_search_domains);
        host.put("DnsOptions", &network.dns_options);
        let mut bindings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for port in &self.published {
            for protocol in ["tcp", "udp"] {
                let binding = json!({ "HostIp": port.host_ip, "HostPort": port.host.to_string() });
                bindings.entry(format!("{}/{protocol}", port.inner)).or_default().push(binding);
            }
        }
        host.put("PortBindings", bindings);
    }

    pub(super) fn exposed(&self) -> BTreeMap<String, Map<String, Value>> {
        let ports = self.published.iter();
        ports
            .flat_map(|port| {
                ["tcp", "udp"].map(|protocol| (format!("{}/{protocol}", port.inner), Map::new()))
            })
            .collect()
    }

    pub(super) fn endpoints(&self, config: &TaskConfig) -> Value {
        let network = &config.network;
        let mut endpoint = Object::default();
        endpoint.put("Aliases", &network.aliases);
        endpoint.put("MacAddress", &network.mac);
        let mut addresses = Object::default();
        addresses.put("IPv4Address", &network.ipv4);
        addresses.put("IPv6Address", &network.ipv6);
        endpoint.put("IPAMConfig", addresses.0);
        if !self.has_endpoint || endpoint.0.is_empty() {
            return Value::Null;
        }
        json!({ "EndpointsConfig": { &self.mode: endpoint.0 } })
    }
}

/// The ports that the task publishes: labels of the group's ports, and those of `port_map`.
fn published(config: &TaskConfig, start: &Start) -> Result<Vec<Published>, String> {
    let network = &config.network;
    let labels: BTreeSet<&String> = network.ports.iter().chain(network.port_map.keys()).collect();
    let mut all = Vec::new();
    for label in labels {
        let mut found = start.ports.iter().filter(|port| *port.label == **label).peekable();
        if found.peek().is_none() {
            return Err(format!("Port {} not found, check network block", quoted(label)));
        }
        all.extend(found.map(|port| Published {
            label: label.clone(),
            host_ip: port.host_ip.to_string(),
            host: port.value,
            inner: network.port_map.get(label).copied().unwrap_or_else(|| inner_port(port.to, port.value)),
        }));
    }
    Ok(all)
}

/// The port inside, which is the node's if the job does not say otherwise.
fn inner_port(to: i32, value: u16) -> u16 {
    u16::try_from(to).ok().filter(|port| *port > 0).unwrap_or(value)
}
