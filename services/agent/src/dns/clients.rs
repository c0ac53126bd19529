//! Who may ask: the machine itself, allocations on its bridge, and whom the operator allows. A server that answers everyone
//! can be used to send large answers to others. Pure.

use std::net::IpAddr;

use crate::networks::subnet::Subnet;

/// The clients that get answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Clients {
    /// The addresses on which the server listens: what comes from there comes from this machine.
    pub(crate) own: Vec<IpAddr>,
    /// Ranges of addresses: those of the bridge, and those that the operator allows.
    pub(crate) ranges: Vec<Subnet>,
}

impl Clients {
    /// Whether a client gets answers.
    pub(crate) fn allow(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        client.is_loopback()
            || self.own.contains(&client)
            || self.ranges.iter().any(|range| range.contains(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machine_and_its_bridge_get_answers() {
        let ranges = ["172.26.64.0/20", "fd00:a::/64"].map(|range| range.parse().unwrap()).to_vec();
        let clients = Clients { own: vec!["10.0.0.5".parse().unwrap()], ranges };
        for (client, is_allowed) in [
            ("127.0.0.1", true),
            ("127.3.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("172.26.64.7", true),
            ("::ffff:172.26.64.7", true),
            ("fd00:a::7", true),
            ("10.0.0.5", true),
            ("10.0.0.6", false),
            ("172.26.80.1", false),
            ("8.8.8.8", false),
            ("fd00:b::7", false),
        ] {
            assert_eq!(clients.allow(client.parse().unwrap()), is_allowed, "{client}");
        }
    }
}
