//! Addresses of listeners, as other processes on this machine use them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address at which other processes on this machine reach a listener on `address`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}
