//! Networks of the machine that ports can name: how they are written, and which addresses belong to them. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use api_types::ClientHostNetworkConfig;
use model::Text;
use model::node::PortRanges;

use crate::networks::subnet::Subnet;

/// The network that every node has, and that ports belong to which name none.
pub(crate) const DEFAULT: &str = "default";

/// A family of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl AddressFamily {
    /// Whether an address is of the family.
    pub(crate) fn has(self, ip: IpAddr) -> bool {
        match self {
            Self::Ipv4 => ip.is_ipv4(),
            Self::Ipv6 => ip.is_ipv6(),
        }
    }
}

impl FromStr for AddressFamily {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "ipv4" => Ok(Self::Ipv4),
            "ipv6" => Ok(Self::Ipv6),
            _ => Err(format!("expected ipv4 or ipv6, not {text:?}")),
        }
    }
}

/// A network of the machine: the addresses in a range, on an interface, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNetworkArgs {
    name: String,
    cidr: Option<Subnet>,
    interface: Option<String>,
    reserved_ports: String,
}

impl HostNetworkArgs {
    /// Checks the settings of a network.
    ///
    /// # Errors
    /// What is wrong. The message names the network.
    pub fn new(
        name: &str,
        cidr: Option<&str>,
        interface: Option<&str>,
        reserved_ports: Option<&str>,
    ) -> Result<Self, String> {
        let wrong = |why: String| Err(format!("host network {name:?}: {why}"));
        if name.is_empty() || name.contains(char::is_whitespace) {
            return wrong("a name without white space is expected".to_owned());
        }
        let cidr = match cidr.filter(|cidr| !cidr.is_empty()).map(str::parse::<Subnet>) {
            Some(Err(error)) => return wrong(format!("cidr: {error}")),
            Some(Ok(cidr)) => Some(cidr),
            None => None,
        };
        let interface = interface.filter(|interface| !interface.is_empty()).map(str::to_owned);
        if name == DEFAULT && (cidr.is_some() || interface.is_some()) {
            return wrong("network_interface determines the addresses of the default network".to_owned());
        }
        let reserved_ports = reserved_ports.unwrap_or_default().to_owned();
        if PortRanges::read(&reserved_ports).is_none() {
            return wrong(format!("reserved_ports: expected ports and ranges, not {reserved_ports:?}"));
        }
        Ok(Self { name: name.to_owned(), cidr, interface, reserved_ports })
    }
}

impl HostNetworkArgs {
    /// The network's name, and its settings as the node shows them.
    pub(crate) fn to_api(&self) -> (Text, ClientHostNetworkConfig) {
        let Self { name, cidr, interface, reserved_ports } = self;
        let settings = ClientHostNetworkConfig {
            name: Some(name.clone()),
            cidr: Some(cidr.map(|cidr| cidr.to_string()).unwrap_or_default()),
            interface: Some(interface.clone().unwrap_or_default()),
            reserved_ports: Some(reserved_ports.clone()),
        };
        (name.as_str().into(), settings)
    }
}

impl FromStr for HostNetworkArgs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut settings = BTreeMap::new();
        for part in rest.split(';').filter(|part| !part.is_empty()) {
            let pair = part
                .split_once('=')
                .filter(|(key, _)| matches!(*key, "cidr" | "interface" | "reserved_ports"));
            let Some((key, value)) = pair else {
                return Err(format!("expected cidr=, interface= or reserved_ports=, not {part:?}"));
            };
            if settings.insert(key, value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        let get = |key: &str| settings.get(key).copied();
        Self::new(name, get("cidr"), get("interface"), get("reserved_ports"))
    }
}

/// A network that an address of an interface belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alias<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Ports on the address that are not available to tasks.
    pub(crate) reserved_ports: &'a str,
}

/// The networks that an address belongs to. `is_default` says whether it is the address of the default network.
pub(crate) fn aliases<'a>(
    networks: &'a [HostNetworkArgs],
    interface: &str,
    ip: IpAddr,
    is_default: bool,
) -> Vec<Alias<'a>> {
    let reserved = |network: &&HostNetworkArgs| network.name == DEFAULT;
    let of_default = networks.iter().find(reserved).map_or("", |network| &*network.reserved_ports);
    let default = is_default.then_some(Alias { name: DEFAULT, reserved_ports: of_default });
    let others = networks.iter().filter(|network| {
        network.name != DEFAULT
            && network.cidr.is_none_or(|cidr| cidr.contains(ip))
            && network.interface.as_ref().is_none_or(|wanted| wanted == interface)
    });
    let others = others.map(|network| Alias { name: &network.name, reserved_ports: &network.reserved_ports });
    default.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> HostNetworkArgs {
        text.parse().unwrap()
    }

    fn names(networks: &[HostNetworkArgs], interface: &str, ip: &str, is_default: bool) -> Vec<String> {
        let aliases = aliases(networks, interface, ip.parse().unwrap(), is_default);
        aliases.into_iter().map(|alias| format!("{}:{}", alias.name, alias.reserved_ports)).collect()
    }

    #[test]
    fn addresses_belong_to_networks_by_their_range_and_interface() {
        let networks = [
            network("public:cidr=203.0.113.0/24;reserved_ports=22,8000-8010"),
            network("storage:interface=eth1;cidr=10.0.0.0/8"),
            network("default:reserved_ports=53"),
            network("all"),
        ];
        assert_eq!(
            names(&networks, "eth0", "203.0.113.7", true),
            ["default:53", "public:22,8000-8010", "all:"]
        );
        assert_eq!(names(&networks, "eth1", "10.0.0.7", false), ["storage:", "all:"]);
        assert_eq!(names(&networks, "eth0", "10.0.0.7", false), ["all:"]);
    }

    #[test]
    fn what_is_wrong_with_a_network_is_said() {
        for (text, expected) in [
            ("", "host network \"\": a name without white space is expected"),
            (
                "a:cidr=x",
                "host network \"a\": cidr: expected an address and a prefix, such as 10.0.0.0/8, not \"x\"",
            ),
            ("a:speed=1", "expected cidr=, interface= or reserved_ports=, not \"speed=1\""),
            ("a:interface=b;interface=c", "interface is given twice"),
            (
                "a:reserved_ports=22-",
                "host network \"a\": reserved_ports: expected ports and ranges, not \"22-\"",
            ),
            (
                "default:interface=eth0",
                "host network \"default\": network_interface determines the addresses of the default network",
            ),
        ] {
            assert_eq!(text.parse::<HostNetworkArgs>().unwrap_err(), expected);
        }
        assert!("ipv5".parse::<AddressFamily>().is_err());
        assert_eq!("IPv6".parse(), Ok(AddressFamily::Ipv6));
    }
}
