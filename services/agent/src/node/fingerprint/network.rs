//! The networks of the machine: the addresses by which tasks are reached, with the networks that ports can name (A-16.3,
//!

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use model::job::NetworkResource;
use model::node::{NodeAddress, NodeNetwork};
use sysinfo::Networks;

use crate::networks::detected::Detected;
use crate::node::host_networks::{AddressFamily, Alias, HostNetworkArgs, aliases};

/// The assumed speed of an interface, in Mbit/s.
const SPEED_MBITS: u32 = 1_000;
/// The kernel's routing table.
const ROUTES: &str = "/proc/net/route";
/// The loopback interface, which is reachable only from this machine.
pub const LOOPBACK: &str = "lo";

/// The machine's networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostNetworks {
    /// The interface of the default network, and its address. `None` if it has none.
    default: Option<(String, IpAddr)>,
    interfaces: BTreeMap<String, Interface>,
}

/// An interface of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Interface {
    mac_address: String,
    /// Its addresses with their prefixes.
    addresses: Vec<(IpAddr, u8)>,
}

impl HostNetworks {
    /// Detects the networks. The default one is on the interface of the default route, or on the loopback interface, if
    /// the settings name no other.
    pub(crate) fn detect(interface: Option<&str>, family: AddressFamily) -> Self {
        let found = Networks::new_with_refreshed_list().ok();
        let interfaces = found.iter().flat_map(|found| found.iter()).map(|(name, network)| {
            let addresses = network.ip_networks().iter().map(|net| (net.addr, net.prefix)).collect();
            let interface = Interface { mac_address: network.mac_address().to_string(), addresses };
            (name.to_string_lossy().into_owned(), interface)
        });
        let routes = fs::read_to_string(ROUTES).unwrap_or_default();
        let device = interface.or_else(|| default_device(&routes)).unwrap_or(LOOPBACK);
        Self::new(device, family, interfaces.collect())
    }

    fn new(device: &str, family: AddressFamily, mut interfaces: BTreeMap<String, Interface>) -> Self {
        for interface in interfaces.values_mut() {
            interface.addresses.sort_by_key(|(ip, _)| (is_link_local(*ip), !family.has(*ip), *ip));
        }
        let first = interfaces.get(device).and_then(|interface| interface.addresses.first());
        let default = first.map(|(ip, _)| (device.to_owned(), *ip));
        if default.is_none() {
            tracing::warn!(interface = device, "the network interface has no address");
        }
        Self { default, interfaces }
    }

    /// The address of the default network.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.default.as_ref().map(|(_, ip)| *ip)
    }

    /// The networks in the form that schedulers use: that of the default address first, then others in which ports can be,
    /// then those that the agent makes for allocations.
    pub(crate) fn node_networks(&self, named: &[HostNetworkArgs], detected: &Detected) -> Vec<NodeNetwork> {
        let mut networks: Vec<_> = self
            .interfaces
            .iter()
            .map(|(device, interface)| NodeNetwork {
                mode: "host".into(),
                device: device.as_str().into(),
                mac_address: interface.mac_address.as_str().into(),
                speed_mbits: SPEED_MBITS,
                addresses: self.addresses(device, interface, named),
            })
            .filter(|network| !network.addresses.is_empty())
            .collect();
        networks.sort_by_key(|network| {
            self.default.as_ref().is_none_or(|(device, _)| *device != *network.device)
        });
        networks.extend(detected.bridge.iter().map(|bridge| NodeNetwork {
            mode: "bridge".into(),
            device: bridge.name.as_str().into(),
            ..NodeNetwork::default()
        }));
        networks.extend(
            modes_of_plugins(detected)
                .map(|mode| NodeNetwork { mode: mode.into(), ..NodeNetwork::default() }),
        );
        networks
    }

    /// The addresses of an interface, once for each network that they belong to. Link-local addresses mean nothing without
    /// an interface, so that only the default address may be one.
    fn addresses(&self, device: &str, interface: &Interface, named: &[HostNetworkArgs]) -> Vec<NodeAddress> {
        let mut addresses = Vec::new();
        for (ip, _) in &interface.addresses {
            let is_default = self.default.as_ref().is_some_and(|(own, first)| own == device && first == ip);
            if is_link_local(*ip) && !is_default {
                continue;
            }
            for Alias { name, reserved_ports } in aliases(named, device, *ip, is_default) {
                addresses.push(NodeAddress {
                    family: if ip.is_ipv4() { "ipv4" } else { "ipv6" }.into(),
                    alias: name.into(),
                    address: ip.to_string().into(),
                    reserved_ports: reserved_ports.into(),
                    ..NodeAddress::default()
                });
            }
        }
        addresses
    }

    /// The networks in the older form: the default one, and the modes of those that the agent makes.
    pub(crate) fn legacy(&self, detected: &Detected) -> Vec<NetworkResource> {
        let default = self.default.as_ref().map(|(device, ip)| {
            let addresses = self.interfaces.get(device).map(|interface| &interface.addresses);
            let prefix =
                addresses.into_iter().flatten().find(|(own, _)| own == ip).map(|(_, prefix)| *prefix);
            NetworkResource {
                mode: "host".into(),
                device: device.as_str().into(),
                cidr: prefix.map(|prefix| format!("{ip}/{prefix}")).unwrap_or_default().into(),
                ip: ip.to_string().into(),
                mbits: SPEED_MBITS,
                ..NetworkResource::default()
            }
        });
        let bridge = detected.bridge.iter().map(|_| "bridge".to_owned());
        let made = bridge.chain(modes_of_plugins(detected));
        let made = made.map(|mode| NetworkResource { mode: mode.into(), ..NetworkResource::default() });
        default.into_iter().chain(made).collect()
    }
}

/// The modes of networks that operators described.
fn modes_of_plugins(detected: &Detected) -> impl Iterator<Item = String> {
    detected.cni.iter().map(|name| format!("cni/{name}"))
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// The interface of the default route with the lowest metric.
fn default_device(routes: &str) -> Option<&str> {
    let defaults = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        match fields[..] {
            [device, "00000000", _, _, _, _, metric, "00000000", ..] => {
                Some((metric.parse::<u32>().unwrap_or(u32::MAX), device))
            }
            _ => None,
        }
    });
    defaults.min().map(|(_, device)| device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::detected::DetectedBridge;

    fn found(family: AddressFamily) -> HostNetworks {
        let interface = |addresses: &[(&str, u8)]| Interface {
            mac_address: "02:00:00:00:00:01".into(),
            addresses: addresses.iter().map(|(ip, prefix)| (ip.parse().unwrap(), *prefix)).collect(),
        };
        let interfaces = [
            ("eth0".to_owned(), interface(&[("fe80::1", 64), ("2001:db8::7", 64), ("10.0.0.7", 24)])),
            ("eth1".to_owned(), interface(&[("203.0.113.7", 24), ("fe80::2", 64)])),
            ("lo".to_owned(), interface(&[("127.0.0.1", 8)])),
        ];
        HostNetworks::new("eth0", family, interfaces.into())
    }

    fn named() -> Vec<HostNetworkArgs> {
        ["public:cidr=203.0.113.0/24;reserved_ports=22", "lan:interface=eth0", "local:interface=lo"]
            .map(|text| text.parse().unwrap())
            .to_vec()
    }

    #[test]
    fn addresses_are_listed_with_the_networks_that_ports_can_name() {
        let networks = found(AddressFamily::Ipv4).node_networks(&named(), &Detected::default());
        let lines: Vec<_> = networks
            .iter()
            .flat_map(|network| network.addresses.iter().map(move |address| (network, address)))
            .map(|(network, address)| {
                format!(
                    "{} {} {} {:?}",
                    network.device, address.address, address.alias, &*address.reserved_ports
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                "eth0 10.0.0.7 default \"\"",
                "eth0 10.0.0.7 lan \"\"",
                "eth0 2001:db8::7 lan \"\"",
                "eth1 203.0.113.7 public \"22\"",
                "lo 127.0.0.1 local \"\"",
            ]
        );
    }

    #[test]
    fn the_preferred_family_decides_about_the_default_address() {
        assert_eq!(found(AddressFamily::Ipv4).ip(), Some("10.0.0.7".parse().unwrap()));
        let found = found(AddressFamily::Ipv6);
        assert_eq!(found.ip(), Some("2001:db8::7".parse().unwrap()));
        assert_eq!(&*found.legacy(&Detected::default())[0].cidr, "2001:db8::7/64");
    }

    #[test]
    fn networks_of_allocations_are_listed_by_their_modes() {
        let bridge = DetectedBridge { name: "nomad".into(), hairpin: false };
        let detected = Detected { bridge: Some(bridge), cni: vec!["lan".into()], ..Detected::default() };
        let found = found(AddressFamily::Ipv4);
        let modes: Vec<_> = found.legacy(&detected).into_iter().map(|network| network.mode).collect();
        assert_eq!(modes, ["host", "bridge", "cni/lan"]);
        let networks = found.node_networks(&[], &detected);
        let modes: Vec<_> = networks.iter().map(|network| (&*network.mode, &*network.device)).collect();
        assert_eq!(modes, [("host", "eth0"), ("bridge", "nomad"), ("cni/lan", "")]);
    }

    #[test]
    fn the_default_route_with_the_lowest_metric_is_taken() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
            eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_device(routes), Some("eth0"));
        assert_eq!(default_device("Iface\n"), None);
    }
}
