//! Settings of networks in configuration files, parsed. Pure.

use std::str::FromStr;

use agent::{AddressFamily, HostNetworkArgs, Subnet};

use super::settings::{Client, HostNetwork};

/// The settings of networks that files contain.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Networks {
    pub(crate) preferred_address_family: Option<AddressFamily>,
    pub(crate) bridge_subnet: Option<Subnet>,
    pub(crate) bridge_subnet_ipv6: Option<Subnet>,
    pub(crate) host_networks: Vec<HostNetworkArgs>,
}

/// Parses the settings of networks.
///
/// # Errors
/// The first value that is invalid, and why.
pub(crate) fn networks(client: &Client) -> Result<Networks, String> {
    let network = |(name, network): (&String, &HostNetwork)| {
        let HostNetwork { cidr, interface, reserved_ports } = network;
        HostNetworkArgs::new(name, cidr.as_deref(), interface.as_deref(), reserved_ports.as_deref())
            .map_err(|text| format!("client.host_network: {text}"))
    };
    Ok(Networks {
        preferred_address_family: parsed("preferred_address_family", &client.preferred_address_family)?,
        bridge_subnet: parsed("bridge_network_subnet", &client.bridge_network_subnet)?,
        bridge_subnet_ipv6: parsed("bridge_network_subnet_ipv6", &client.bridge_network_subnet_ipv6)?,
        host_networks: client.host_networks.iter().map(network).collect::<Result<_, _>>()?,
    })
}

/// The value of a setting. An empty text is as none.
fn parsed<T: FromStr<Err = String>>(key: &str, setting: &Option<String>) -> Result<Option<T>, String> {
    let text = setting.as_deref().filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|error| format!("client.{key}: {error}"))).transpose()
}

#[cfg(test)]
mod tests {
    use super::super::of_text;
    use super::*;

    fn read(client: &str) -> Result<Networks, String> {
        networks(&of_text(format!("client {{\n{client}\n}}\n")).settings.client)
    }

    #[test]
    fn networks_of_the_machine_are_blocks_with_labels() {
        let found = read(
            "host_network \"public\" {\n cidr = \"203.0.113.0/24\"\n reserved_ports = \"22,80\"\n}\n\
             host_network \"lan\" { interface = \"eth1\" }\nbridge_network_subnet = \"10.1.0.0/16\"\n\
             bridge_network_subnet_ipv6 = \"fd00::/64\"\npreferred_address_family = \"ipv6\"",
        )
        .unwrap();
        let networks = ["lan:interface=eth1", "public:cidr=203.0.113.0/24;reserved_ports=22,80"];
        assert_eq!(found.host_networks, networks.map(|text| text.parse::<HostNetworkArgs>().unwrap()));
        assert_eq!(found.bridge_subnet.map(|subnet| subnet.to_string()).as_deref(), Some("10.1.0.0/16"));
        assert_eq!(found.bridge_subnet_ipv6.map(|subnet| subnet.to_string()).as_deref(), Some("fd00::/64"));
        assert_eq!(found.preferred_address_family, Some(AddressFamily::Ipv6));
    }

    #[test]
    fn values_that_are_no_networks_are_refused_by_their_keys() {
        for (text, expected) in [
            ("preferred_address_family = \"v6\"", "client.preferred_address_family: expected ipv4 or ipv6"),
            (
                "bridge_network_subnet = \"10.0.0.1\"",
                "client.bridge_network_subnet: expected an address and a prefix",
            ),
            (
                "host_network \"a b\" {}",
                "client.host_network: host network \"a b\": a name without white space",
            ),
            (
                "host_network \"a\" { cidr = \"x\" }",
                "client.host_network: host network \"a\": cidr: expected",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(read(""), Ok(Networks::default()));
    }
}
