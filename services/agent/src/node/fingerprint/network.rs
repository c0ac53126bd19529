//! The network on which the node is reachable: that of the configured interface, or of the default route.

use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;

use model::job::NetworkResource;
use model::node::{NodeAddress, NodeNetwork};
use sysinfo::{NetworkData, Networks};

/// The assumed speed of an interface, in Mbit/s.
const SPEED_MBITS: u32 = 1_000;
/// The kernel's routing table.
const ROUTES: &str = "/proc/net/route";
/// The loopback interface, which is reachable only from this machine.
pub const LOOPBACK: &str = "lo";

/// The host's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostNetwork {
    device: String,
    /// The address.
    pub(crate) ip: IpAddr,
    prefix: u8,
    mac_address: String,
}

impl HostNetwork {
    /// Detects the network. A machine without a default route uses its loopback interface.
    pub(crate) fn detect(interface: Option<&str>) -> Option<Self> {
        let routes = fs::read_to_string(ROUTES).unwrap_or_default();
        let device = interface.or_else(|| default_device(&routes)).unwrap_or(LOOPBACK);
        let networks = Networks::new_with_refreshed_list().ok();
        let found = networks
            .as_ref()
            .and_then(|networks| networks.get(OsStr::new(device)))
            .and_then(|network| Self::of(device, network));
        if found.is_none() {
            tracing::warn!(interface = device, "the network interface has no address");
        }
        found
    }

    fn of(device: &str, network: &NetworkData) -> Option<Self> {
        let mut addresses: Vec<_> = network.ip_networks().iter().map(|net| (net.addr, net.prefix)).collect();
        addresses.sort_by_key(|(ip, _)| (is_link_local(*ip), ip.is_ipv6(), *ip));
        let (ip, prefix) = *addresses.first()?;
        Some(Self { device: device.to_owned(), ip, prefix, mac_address: network.mac_address().to_string() })
    }

    /// The network in the form that schedulers use.
    pub(crate) fn node_network(&self) -> NodeNetwork {
        NodeNetwork {
            mode: "host".into(),
            device: self.device.as_str().into(),
            mac_address: self.mac_address.as_str().into(),
            speed_mbits: SPEED_MBITS,
            addresses: vec![NodeAddress {
                family: if self.ip.is_ipv4() { "ipv4" } else { "ipv6" }.into(),
                alias: "default".into(),
                address: self.ip.to_string().into(),
                ..NodeAddress::default()
            }],
        }
    }

    /// The network in the older form.
    pub(crate) fn legacy(&self) -> NetworkResource {
        NetworkResource {
            mode: "host".into(),
            device: self.device.as_str().into(),
            cidr: format!("{}/{}", self.ip, self.prefix).into(),
            ip: self.ip.to_string().into(),
            mbits: SPEED_MBITS,
            ..NetworkResource::default()
        }
    }
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
