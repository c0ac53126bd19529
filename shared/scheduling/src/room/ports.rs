//! Ports of one node: those in use, and those that an allocation gets (`docs/rules/scheduling.md` §6.2).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::Text;
use model::alloc::{AllocatedResources, AssignedNetwork, AssignedPort, PackedAssigned};
use model::job::{NetworkResource, Port};
use model::node::{NodeAddress, PortRanges};
use state::{NodePorts, NodeRef, View};

use crate::feasible::{DEFAULT_HOST_NETWORK, host_network};
use crate::hash;

/// The dynamic port range of nodes that do not set one.
const DYNAMIC_MIN: u16 = 20_000;
const DYNAMIC_MAX: u16 = 32_000;
/// Value of `to` for the same port inside a network as on the node.
const SAME_AS_ON_NODE: i32 = -1;
/// Maximum number of addresses of a network's range that are tried.
const ADDRESSES_MAX: u32 = 1 << 16;

/// Ports in use on one node after the plan's changes so far.
#[derive(Debug, Clone)]
pub(crate) struct PortUsage {
    taken: NodePorts,
    reserved: PortRanges,
    /// Bandwidth in use, in MBit/s, by device.
    mbits: BTreeMap<Text, u32>,
}

/// Why a node cannot give the ports, as metrics name it after `network: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPorts(pub(crate) String);

/// Whether a node's lists of reserved ports can be parsed. If not, nothing is placed on the node.
pub(super) fn has_readable_lists(node: NodeRef<'_>) -> bool {
    let (page, bit) = node.page();
    page.invalid_ports >> bit & 1 == 0
}

impl PortUsage {
    /// The ports in use in the snapshot.
    pub(crate) fn of(node: NodeRef<'_>) -> Self {
        Self {
            taken: node.ports().cloned().unwrap_or_default(),
            reserved: PortRanges::of(&node.spec().reserved.ports),
            mbits: BTreeMap::new(),
        }
    }

    /// Whether two allocations have the same port.
    pub(super) fn has_collision(&self) -> bool {
        self.taken.collisions(View::Held).next().is_some()
    }

    /// Adds or removes the ports and the bandwidth of an allocation.
    pub(crate) fn count(&mut self, resources: &AllocatedResources, assigned: &PackedAssigned, more: bool) {
        let times = if more { 1 } else { -1 };
        for (address, port) in resources.host_ports(assigned) {
            self.taken.count(address, port, times, times);
        }
        self.count_mbits(resources, assigned, more);
    }

    /// Adds or removes the bandwidth of an allocation.
    pub(super) fn count_mbits(
        &mut self,
        resources: &AllocatedResources,
        assigned: &PackedAssigned,
        more: bool,
    ) {
        if !asks_for_bandwidth(resources) {
            return;
        }
        for network in flat_networks(&resources.with(&assigned.unpack().unwrap_or_default())) {
            let used = self.mbits.entry(Text::clone(&network.device)).or_default();
            *used =
                if more { used.saturating_add(network.mbits) } else { used.saturating_sub(network.mbits) };
        }
    }

    /// Bandwidth of a device in use, in MBit/s.
    pub(crate) fn used_mbits(&self, device: &str) -> u32 {
        self.mbits.get(device).copied().unwrap_or(0)
    }
}

/// The networks of an allocation whose bandwidth counts: the group's and the first of each task. None if the group has
/// ports, which are counted separately.
fn flat_networks(resources: &AllocatedResources) -> impl Iterator<Item = &NetworkResource> {
    let of_group =
        resources.networks.iter().chain(resources.tasks.iter().flat_map(|task| task.networks.first()));
    of_group.filter(|_| resources.ports.is_empty())
}

fn asks_for_bandwidth(resources: &AllocatedResources) -> bool {
    flat_networks(resources).any(|network| network.mbits > 0)
}

/// Ports for one allocation, being built: first its group's, then its tasks'.
#[derive(Debug, Clone)]
pub(crate) struct PortOffer {
    /// Selects dynamic ports. It is a hash of the allocation's id, so plans made at the same time for one node rarely
    /// collide.
    seed: u64,
    /// Networks of the group, then of each task.
    pub(crate) networks: Vec<AssignedNetwork>,
    /// Ports of the group.
    pub(crate) ports: Vec<AssignedPort>,
    offered: Vec<(Text, u16)>,
}

impl PortOffer {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, networks: Vec::new(), ports: Vec::new(), offered: Vec::new() }
    }

    /// Assigns addresses and ports to a group.
    pub(crate) fn add_group(
        &mut self,
        usage: &PortUsage,
        node: NodeRef<'_>,
        ask: &NetworkResource,
    ) -> Result<(), NoPorts> {
        let mut got: Vec<AssignedPort> = Vec::new();
        for port in &ask.reserved_ports {
            got.push(self.static_port(usage, node, port)?);
            self.note_offered(&got);
        }
        for port in &ask.dynamic_ports {
            got.push(self.dynamic_port(usage, node, ask, port)?);
            self.note_offered(&got);
        }
        self.networks.push(AssignedNetwork {
            device: Text::default(),
            ip: group_address(node),
            ports: got.iter().map(|port| port.value).collect(),
        });
        self.ports = got;
        Ok(())
    }

    /// Assigns addresses and ports to a task, by its network block in the older form.
    pub(crate) fn add_task(
        &mut self,
        usage: &PortUsage,
        node: NodeRef<'_>,
        ask: &NetworkResource,
    ) -> Result<(), NoPorts> {
        let mut why = "no networks available".to_owned();
        for network in node.spec().resources.networks.iter().filter(|network| !network.device.is_empty()) {
            for ip in addresses_of(network) {
                match self.task_ports(usage, node, ask, network, &ip) {
                    Ok(ports) => {
                        self.offered.extend(ports.iter().map(|port| (Text::clone(&ip), *port)));
                        let device = Text::clone(&network.device);
                        self.networks.push(AssignedNetwork { device, ip, ports });
                        return Ok(());
                    }
                    Err(NoPorts(because)) => why = because,
                }
            }
        }
        Err(NoPorts(why))
    }

    fn task_ports(
        &mut self,
        usage: &PortUsage,
        node: NodeRef<'_>,
        ask: &NetworkResource,
        network: &NetworkResource,
        ip: &Text,
    ) -> Result<Vec<u16>, NoPorts> {
        if usage.used_mbits(&network.device).saturating_add(ask.mbits) > network.mbits {
            return Err(NoPorts("bandwidth exceeded".to_owned()));
        }
        let address = NodeAddress { address: Text::clone(ip), ..NodeAddress::default() };
        let own = PortRanges::default();
        let mut ports = Vec::new();
        for port in &ask.reserved_ports {
            if !self.is_free(usage, &address, &own, port.value) {
                return Err(collision(port));
            }
            ports.push(port.value);
        }
        for _ in &ask.dynamic_ports {
            let value = self.search(node, |offer, value| {
                !ports.contains(&value) && offer.is_free(usage, &address, &own, value)
            });
            ports.push(value.ok_or_else(no_dynamic_port)?);
        }
        Ok(ports)
    }

    fn note_offered(&mut self, got: &[AssignedPort]) {
        if let Some(last) = got.last() {
            self.offered.push((Text::clone(&last.host_ip), last.value));
        }
    }

    /// The first address of the port's host network where a static port is free.
    fn static_port(
        &self,
        usage: &PortUsage,
        node: NodeRef<'_>,
        port: &Port,
    ) -> Result<AssignedPort, NoPorts> {
        let found = addresses(node, port)?.into_iter().find(|address| {
            let own = PortRanges::of(&address.reserved_ports);
            port.ignore_collision || self.is_free(usage, address, &own, port.value)
        });
        found.map(|address| assigned(port, port.value, address)).ok_or_else(|| collision(port))
    }

    /// A dynamic port. A hash replaces the random choice.
    fn dynamic_port(
        &mut self,
        usage: &PortUsage,
        node: NodeRef<'_>,
        ask: &NetworkResource,
        port: &Port,
    ) -> Result<AssignedPort, NoPorts> {
        for address in addresses(node, port)? {
            let own = PortRanges::of(&address.reserved_ports);
            let value = self.search(node, |offer, value| {
                !is_requested_static(ask, port, node, value) && offer.is_free(usage, address, &own, value)
            });
            if let Some(value) = value {
                return Ok(assigned(port, value, address));
            }
        }
        Err(no_dynamic_port())
    }

    /// The first port of a node's dynamic range that `is_usable` accepts, searched cyclically from a start that depends
    /// on the seed.
    fn search(&mut self, node: NodeRef<'_>, is_usable: impl Fn(&Self, u16) -> bool) -> Option<u16> {
        let resources = &node.spec().resources;
        let or = |value: u16, default| if value == 0 { default } else { value };
        let min = or(resources.dynamic_port_min, DYNAMIC_MIN);
        let max = or(resources.dynamic_port_max, DYNAMIC_MAX);
        let range = u32::from(max.saturating_sub(min)) + 1;
        self.seed = hash::mix(self.seed);
        let start = (self.seed % u64::from(range)) as u32;
        let mut values = (0..range).map(|step| min + ((start + step) % range) as u16);
        values.find(|value| is_usable(self, *value))
    }

    fn is_free(&self, usage: &PortUsage, address: &NodeAddress, own: &PortRanges, value: u16) -> bool {
        !usage.reserved.contains(value)
            && !own.contains(value)
            && !usage.taken.is_used(&address.address, value, View::Held)
            && !self.offered.iter().any(|(ip, offered)| *offered == value && *ip == address.address)
    }
}

fn collision(port: &Port) -> NoPorts {
    NoPorts(format!("reserved port collision {}={}", port.label, port.value))
}

fn no_dynamic_port() -> NoPorts {
    NoPorts("dynamic port selection failed".to_owned())
}

/// The node's addresses in a port's host network.
fn addresses<'n>(node: NodeRef<'n>, port: &Port) -> Result<Vec<&'n NodeAddress>, NoPorts> {
    let alias = host_network(port, node).unwrap_or(DEFAULT_HOST_NETWORK.into());
    let all = node.spec().resources.node_networks.iter().flat_map(|network| &network.addresses);
    let of_alias: Vec<_> = all.filter(|address| *address.alias == *alias).collect();
    if of_alias.is_empty() {
        return Err(NoPorts(format!("no addresses available for {alias} network")));
    }
    Ok(of_alias)
}

/// The addresses of a node's network in the older form: its whole range if it has one, otherwise its own address.
fn addresses_of(network: &NetworkResource) -> Vec<Text> {
    let range = network.cidr.split_once('/').and_then(|(ip, bits)| {
        let (ip, bits) = (ip.parse::<Ipv4Addr>().ok()?, bits.parse::<u32>().ok().filter(|bits| *bits <= 32)?);
        let size = 1u64 << (32 - bits);
        Some((u64::from(u32::from(ip)) & !(size - 1), size.min(u64::from(ADDRESSES_MAX))))
    });
    match range {
        Some((first, size)) => {
            (first..first + size).map(|ip| Ipv4Addr::from(ip as u32).to_string().into()).collect()
        }
        None => vec![Text::clone(&network.ip)],
    }
}

/// The address reported for a group's network: the first one of the node's first host network.
fn group_address(node: NodeRef<'_>) -> Text {
    let mut networks = node.spec().resources.node_networks.iter();
    let host = networks.find(|network| matches!(&*network.mode, "" | "host"));
    host.and_then(|network| network.addresses.first())
        .map_or_else(Text::default, |first| Text::clone(&first.address))
}

/// Whether the group asks for `value` as a static port in the same host network.
fn is_requested_static(ask: &NetworkResource, port: &Port, node: NodeRef<'_>, value: u16) -> bool {
    let in_network = |other: &&Port| host_network(other, node) == host_network(port, node);
    ask.reserved_ports.iter().filter(|other| other.value == value).any(|other| in_network(&other))
}

fn assigned(port: &Port, value: u16, address: &NodeAddress) -> AssignedPort {
    let to = if port.to == SAME_AS_ON_NODE { value.into() } else { port.to };
    AssignedPort { value, to, host_ip: Text::clone(&address.address) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    fn ask(static_ports: &[u16], dynamic: usize) -> NetworkResource {
        let port = |value| Port { label: format!("p{value}").into(), value, ..Port::default() };
        NetworkResource {
            reserved_ports: static_ports.iter().copied().map(port).collect(),
            dynamic_ports: vec![port(0); dynamic],
            ..NetworkResource::default()
        }
    }

    fn offer(reserved: &str, range: (u16, u16), ask: &NetworkResource) -> Result<Vec<u16>, String> {
        let scene = Scene::default().node_with(1, |spec| {
            spec.reserved.ports = reserved.into();
            spec.resources.dynamic_port_min = range.0;
            spec.resources.dynamic_port_max = range.1;
        });
        let state = scene.state();
        let node = state.nodes().next().unwrap();
        let mut offer = PortOffer::new(7);
        offer.add_group(&PortUsage::of(node), node, ask).map_err(|error| error.0)?;
        Ok(offer.ports.iter().map(|port| port.value).collect())
    }

    #[test]
    fn all_of_a_range_is_given_before_it_runs_out() {
        let mut got = offer("101", (100, 103), &ask(&[102], 2)).unwrap();
        got.sort_unstable();
        assert_eq!(got, [100, 102, 103]);
        let error = offer("101", (100, 103), &ask(&[102], 3)).unwrap_err();
        assert_eq!(error, "dynamic port selection failed");
    }

    #[test]
    fn reserved_ports_and_strange_networks_are_named() {
        assert_eq!(offer("20,80-90", (0, 0), &ask(&[85], 0)).unwrap_err(), "reserved port collision p85=85");
        let mut other = ask(&[80], 0);
        other.reserved_ports[0].host_network = "public".into();
        assert_eq!(offer("", (0, 0), &other).unwrap_err(), "no addresses available for public network");
    }
}
