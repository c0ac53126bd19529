//! The agent's DNS server: names of services for programs that know nothing of the cluster
//! (`docs/architecture/dns.md`).
//!
//! `server` has the sockets, `lookup` finds instances in the directory, `forward` asks resolvers about other names. What
//! a name means is decided in `names`, which records answer a question in `answer`, who may ask in `clients`; `message` reads
//! and writes messages.

mod answer;
mod clients;
mod forward;
mod lookup;
mod message;
mod names;
mod server;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use model::NodeId;
use telemetry::chain;
use tokio::task::JoinSet;

use self::answer::Zone;
use self::clients::Clients;
use self::forward::Forwarder;
use self::lookup::Lookup;
use self::server::{Listener, Server, serve};
use crate::checks::Checks;
use crate::networks::settings::Bridge;
use crate::node::dns::DnsSettings;
use crate::services::directory::Directory;

/// The port on the bridge: a resolver's configuration cannot name another.
const BRIDGE_PORT: u16 = 53;

/// A DNS server that has its sockets, and answers once it runs.
#[derive(Debug)]
pub(crate) struct Dns {
    settings: DnsSettings,
    listeners: Vec<Listener>,
    clients: Clients,
    /// The name server for allocations on the bridge, if the server listens there.
    pub(crate) on_bridge: Option<IpAddr>,
}

impl Dns {
    /// Opens the sockets. If the one on the bridge cannot be opened, allocations there use the resolvers of the machine.
    ///
    /// # Errors
    /// If the server cannot listen on the address that the settings say.
    pub(crate) fn bind(settings: DnsSettings, bridge: &Bridge) -> anyhow::Result<Self> {
        let address = settings.address;
        let listener = Listener::bind(address, false)
            .with_context(|| format!("cannot listen on {address} for requests by DNS"))?;
        let mut listeners = vec![listener];
        let mut on_bridge = None;
        if let Some(gateway) = bridge.subnet.gateway().filter(|_| settings.bridge) {
            match Listener::bind(SocketAddr::new(gateway, BRIDGE_PORT), true) {
                Ok(listener) => {
                    listeners.push(listener);
                    on_bridge = Some(gateway);
                }
                Err(_) if includes_bridge(address) => on_bridge = Some(gateway),
                Err(error) => tracing::warn!(
                    address = %gateway, error = chain(&error),
                    "cannot listen on the bridge for requests by DNS; allocations use the machine's resolvers"
                ),
            }
        }
        let own = listeners.iter().map(|listener| listener.address.ip()).collect();
        let mut ranges = settings.allow.clone();
        ranges.push(bridge.subnet);
        ranges.extend(bridge.subnet_ipv6);
        Ok(Self { settings, listeners, clients: Clients { own, ranges }, on_bridge })
    }

    /// Answers requests in tasks of the set.
    pub(crate) fn run(
        self,
        directory: Directory,
        checks: Arc<Checks>,
        node: NodeId,
        tasks: &mut JoinSet<()>,
    ) {
        let Self { settings, listeners, clients, .. } = self;
        let own: Vec<SocketAddr> = listeners.iter().map(|listener| listener.address).collect();
        for address in &own {
            tracing::info!(%address, domain = %settings.domain, "answering requests by DNS");
        }
        let server = Arc::new(Server {
            zone: Zone { domain: settings.domain, ttl_secs: settings.ttl_secs },
            clients,
            lookup: Lookup::new(directory, checks, node),
            forwarder: Forwarder::new(settings.resolvers, own),
        });
        for listener in listeners {
            tasks.spawn(serve(Arc::clone(&server), listener));
        }
    }
}

/// Whether a server that listens on this address is also reached at the address of the bridge.
fn includes_bridge(address: SocketAddr) -> bool {
    address.ip().is_unspecified() && address.port() == BRIDGE_PORT
}
