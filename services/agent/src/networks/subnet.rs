//! Ranges of addresses, such as `172.26.64.0/20`. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    first: IpAddr,
    prefix: u8,
}

impl Subnet {
    /// Whether the range contains the address.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.first.is_ipv4() && first_of(ip, self.prefix) == self.first
    }

    /// The first address that a host can have, which CNI plugins give to a bridge. `None` if there is none.
    pub(crate) fn gateway(&self) -> Option<IpAddr> {
        let next: IpAddr = match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).checked_add(1)?).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).checked_add(1)?).into(),
        };
        self.contains(next).then_some(next)
    }

    /// Whether it is a range of IPv4 addresses.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = text.split_once('/').and_then(|(ip, prefix)| {
            let ip: IpAddr = ip.parse().ok()?;
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= bits)?;
            Some(Self { first: first_of(ip, prefix), prefix })
        });
        range.ok_or_else(|| format!("expected an address and a prefix, such as 10.0.0.0/8, not {text:?}"))
    }
}

/// The first address of the range with this prefix that an address is in.
fn first_of(ip: IpAddr, prefix: u8) -> IpAddr {
    let shift = u32::from(prefix);
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - shift).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - shift).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(subnet: &str, ip: &str) -> bool {
        subnet.parse::<Subnet>().unwrap().contains(ip.parse().unwrap())
    }

    #[test]
    fn a_range_contains_addresses_of_its_own_family() {
        assert!(contains("172.26.64.0/20", "172.26.79.255"));
        assert!(!contains("172.26.64.0/20", "172.26.80.0"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("fd00:a::/64", "fd00:a::7") && !contains("fd00:a::/64", "fd00:b::7"));
        assert!(contains("10.0.0.1/32", "10.0.0.1") && !contains("10.0.0.1/32", "10.0.0.2"));
    }

    #[test]
    fn an_address_within_the_range_names_it() {
        assert_eq!("172.26.65.7/20".parse::<Subnet>().unwrap().to_string(), "172.26.64.0/20");
        assert_eq!("fd00::7/112".parse::<Subnet>().unwrap().to_string(), "fd00::/112");
    }

    #[test]
    fn the_gateway_is_the_first_address_after_that_of_the_range() {
        let gateway = |range: &str| range.parse::<Subnet>().unwrap().gateway().map(|ip| ip.to_string());
        assert_eq!(gateway("172.26.64.0/20").as_deref(), Some("172.26.64.1"));
        assert_eq!(gateway("fd00:a::/64").as_deref(), Some("fd00:a::1"));
        assert_eq!((gateway("10.0.0.1/32"), gateway("255.255.255.255/32")), (None, None));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "10.0.0.0/x"] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}
