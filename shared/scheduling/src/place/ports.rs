//! Ports of one node: which are taken, and which an allocation can have (`spec/scheduling.md` §6.2).

use model::alloc::{Assigned, AssignedNetwork, AssignedPort};
use model::job::{NetworkResource, Port};
use model::node::NodeAddress;
use model::{AllocId, Text};
use state::{AllocRef, NodePorts, NodeRef, View};

use crate::feasible::{DEFAULT_HOST_NETWORK, host_network};
use crate::hash;

/// The dynamic range of nodes that name none.
const DYNAMIC_MIN: u16 = 20_000;
const DYNAMIC_MAX: u16 = 32_000;
/// Stands for the same port inside a network as on the node.
const SAME_AS_ON_NODE: i32 = -1;

/// The ports of one node as the plan so far leaves them.
#[derive(Debug)]
pub(crate) struct PortBook {
    taken: NodePorts,
    reserved: Ranges,
}

/// Why a node's ports will not do, as metrics say it after `network: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPorts(pub(crate) String);

/// Why nothing at all can be placed on a node, whether it asks for ports or not: its own list of reserved ports
/// cannot be read, or allocations on it have the same port.
pub(crate) fn unusable(node: NodeRef<'_>, book: Option<&PortBook>) -> Option<NoPorts> {
    let (page, place) = node.page();
    if book.is_none() && (page.reserves_ports | page.special) >> place & 1 == 0 {
        // Nearly every node: asked for each placement, its registration would be fetched from far away each time.
        return None;
    }
    let spec = node.spec();
    let addresses = spec.resources.node_networks.iter().flat_map(|network| &network.addresses);
    let mut lists = addresses.map(|address| &address.reserved_ports).chain([&spec.reserved.ports]);
    if !lists.all(|list| Ranges::is_readable(list)) {
        return Some(NoPorts("invalid node".to_owned()));
    }
    let taken = book.map(|book| &book.taken).or(node.ports())?;
    taken.collisions(View::Held).next().map(|_| NoPorts("port collision".to_owned()))
}

impl PortBook {
    /// The ports of a node as the snapshot has them.
    pub(crate) fn of(node: NodeRef<'_>) -> Self {
        Self {
            taken: node.ports().cloned().unwrap_or_default(),
            reserved: Ranges::parse(&node.spec().reserved.ports),
        }
    }

    /// Counts what an allocation that exists holds, one time more or less.
    pub(crate) fn count(&mut self, alloc: AllocRef<'_>, times: i32) {
        for (address, port) in alloc.common().resources.host_ports(alloc.assigned()) {
            self.taken.count(address, port, times, times);
        }
    }

    /// Takes what [`offer`](Self::offer) found.
    pub(crate) fn take(&mut self, ask: &NetworkResource, got: &Assigned) {
        for (port, got) in all_ports(ask).zip(&got.ports) {
            if !port.ignore_collision {
                self.taken.count(&got.host_ip, got.value, 1, 1);
            }
        }
    }

    /// Addresses and ports for an allocation, dynamic ones by a hash of its id: plans that were made at the same time for
    /// one node then rarely collide.
    pub(crate) fn offer(
        &self,
        node: NodeRef<'_>,
        ask: &NetworkResource,
        alloc: AllocId,
    ) -> Result<Assigned, NoPorts> {
        let mut offer =
            Offer { book: self, node, ask, seed: hash::of_id(alloc.as_bytes()), ports: Vec::new() };
        for port in &ask.reserved_ports {
            let got = offer.static_port(port)?;
            offer.ports.push(got);
        }
        for port in &ask.dynamic_ports {
            let got = offer.dynamic_port(port)?;
            offer.ports.push(got);
        }
        let ports = offer.ports;
        let network = AssignedNetwork {
            device: Text::default(),
            ip: group_address(node),
            ports: ports.iter().map(|port| port.value).collect(),
        };
        Ok(Assigned { networks: vec![network], ports, tasks: Vec::new() })
    }
}

fn all_ports(ask: &NetworkResource) -> impl Iterator<Item = &Port> {
    ask.reserved_ports.iter().chain(&ask.dynamic_ports)
}

/// The address that a group's network is told to have: the first of the node's first host network.
fn group_address(node: NodeRef<'_>) -> Text {
    let mut networks = node.spec().resources.node_networks.iter();
    let host = networks.find(|network| matches!(&*network.mode, "" | "host"));
    host.and_then(|network| network.addresses.first())
        .map_or_else(Text::default, |first| Text::clone(&first.address))
}

/// An offer in the making.
struct Offer<'a> {
    book: &'a PortBook,
    node: NodeRef<'a>,
    ask: &'a NetworkResource,
    seed: u64,
    ports: Vec<AssignedPort>,
}

impl<'a> Offer<'a> {
    ///
    fn static_port(&self, port: &Port) -> Result<AssignedPort, NoPorts> {
        let found = self.addresses(port)?.into_iter().find(|address| {
            let own = Ranges::parse(&address.reserved_ports);
            port.ignore_collision || self.is_free(address, &own, port.value)
        });
        match found {
            Some(address) => Ok(assigned(port, port.value, address)),
            None => Err(NoPorts(format!("reserved port collision {}={}", port.label, port.value))),
        }
    }

    /// with a hash in place of chance.
    fn dynamic_port(&mut self, port: &Port) -> Result<AssignedPort, NoPorts> {
        let resources = &self.node.spec().resources;
        let or = |value: u16, default| if value == 0 { default } else { value };
        let min = or(resources.dynamic_port_min, DYNAMIC_MIN);
        let max = or(resources.dynamic_port_max, DYNAMIC_MAX);
        let range = u32::from(max.saturating_sub(min)) + 1;
        self.seed = hash::mix(self.seed);
        let start = (self.seed % u64::from(range)) as u32;
        for address in self.addresses(port)? {
            let own = Ranges::parse(&address.reserved_ports);
            let mut values = (0..range).map(|step| min + ((start + step) % range) as u16);
            if let Some(value) =
                values.find(|value| !self.asks_for(port, *value) && self.is_free(address, &own, *value))
            {
                return Ok(assigned(port, value, address));
            }
        }
        Err(NoPorts("dynamic port selection failed".to_owned()))
    }

    /// The node's addresses in a port's host network.
    fn addresses(&self, port: &Port) -> Result<Vec<&'a NodeAddress>, NoPorts> {
        let alias = host_network(port, self.node).unwrap_or(DEFAULT_HOST_NETWORK.into());
        let all = self.node.spec().resources.node_networks.iter().flat_map(|network| &network.addresses);
        let of_alias: Vec<_> = all.filter(|address| *address.alias == *alias).collect();
        if of_alias.is_empty() {
            return Err(NoPorts(format!("no addresses available for {alias} network")));
        }
        Ok(of_alias)
    }

    /// Whether the same group asks for that very port in the same host network.
    fn asks_for(&self, port: &Port, value: u16) -> bool {
        let in_network = |other: &&Port| other.host_network == port.host_network;
        self.ask.reserved_ports.iter().filter(in_network).any(|other| other.value == value)
    }

    fn is_free(&self, address: &NodeAddress, own: &Ranges, value: u16) -> bool {
        let mut offered = self.ports.iter();
        !self.book.reserved.contains(value)
            && !own.contains(value)
            && !self.book.taken.is_used(&address.address, value, View::Held)
            && !offered.any(|port| port.value == value && port.host_ip == address.address)
    }
}

fn assigned(port: &Port, value: u16, address: &NodeAddress) -> AssignedPort {
    let to = if port.to == SAME_AS_ON_NODE { value.into() } else { port.to };
    AssignedPort { value, to, host_ip: Text::clone(&address.address) }
}

/// Ports as nodes write them down: `22,8000-8010`. What cannot be read is left out.
#[derive(Debug, Default)]
struct Ranges(Vec<(u16, u16)>);

impl Ranges {
    fn parse(text: &str) -> Self {
        Self(text.split(',').filter_map(Self::range).collect())
    }

    fn is_readable(text: &str) -> bool {
        text.is_empty() || text.split(',').all(|part| Self::range(part).is_some())
    }

    fn range(part: &str) -> Option<(u16, u16)> {
        match part.trim().split_once('-') {
            Some((first, last)) => Some((first.trim().parse().ok()?, last.trim().parse().ok()?)),
            None => part.trim().parse().ok().map(|port| (port, port)),
        }
    }

    fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

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
        let got = PortBook::of(node).offer(node, ask, AllocId::from_bytes([7; 16]));
        got.map(|got| got.ports.iter().map(|port| port.value).collect()).map_err(|error| error.0)
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
