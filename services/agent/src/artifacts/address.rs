//! Addresses that nothing is fetched from: those of the link, where clouds offer the credentials of their machines. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a cloud offers metadata in IPv6 outside of link-local addresses.
const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);

/// Whether nothing is fetched from an address: 169.254.0.0/16, fe80::/10 and fd00:ec2::254, also where an IPv6 address
/// contains the IPv4 address.
pub(super) fn is_refused(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            address == METADATA
                || address.segments()[0] & 0xffc0 == 0xfe80
                || embedded(address).is_some_and(|inner| inner.is_link_local())
        }
    }
}

/// The IPv4 address in a mapped or compatible address, or in one of NAT64 (64:ff9b::/96).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let is_mapped = [a, b, c, d, e] == [0; 5] && matches!(f, 0 | 0xffff);
    let is_translated = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    if !is_mapped && !is_translated {
        return None;
    }
    let ([one, two], [three, four]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(one, two, three, four))
}

#[cfg(test)]
mod tests {
    use super::*;

    //
    #[test]
    fn nothing_is_fetched_from_the_link() {
        for refused in [
            "169.254.169.254",
            "169.254.0.1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
        ] {
            assert!(is_refused(refused.parse().unwrap()), "{refused}");
        }
        for allowed in
            ["127.0.0.1", "10.0.0.1", "::1", "fec0::1", "fd00:ec2::253", "2001:db8::1", "::ffff:1.2.3.4"]
        {
            assert!(!is_refused(allowed.parse().unwrap()), "{allowed}");
        }
    }
}
