//! Networks and their ports.

use api_types::{CniConfig, DnsConfig, NetworkResource, Port};

use super::block::Block;

pub(super) fn network(block: &mut Block<'_>) -> NetworkResource {
    // A port with a static number is reserved; others get a number when they are placed.
    let ports = block.labelled("port", port).unwrap_or_default();
    let is_static = |port: &Port| port.value.is_some_and(|value| value > 0);
    let (mut reserved, dynamic): (Vec<Port>, Vec<Port>) = ports.into_iter().partition(is_static);
    reserved.extend(block.labelled("reserved_ports", port).unwrap_or_default());
    NetworkResource {
        mode: block.text_or_empty("mode"),
        device: block.text_or_empty("device"),
        cidr: block.text_or_empty("cidr"),
        ip: block.text_or_empty("ip"),
        hostname: block.text_or_empty("hostname"),
        mbits: block.int("mbits"),
        dns: block.one("dns", |block| DnsConfig {
            servers: block.texts("servers"),
            searches: block.texts("searches"),
            options: block.texts("options"),
        }),
        reserved_ports: (!reserved.is_empty()).then_some(reserved),
        dynamic_ports: (!dynamic.is_empty()).then_some(dynamic),
        cni: block.one("cni", |block| CniConfig { args: block.text_map_attribute("args") }),
    }
}

fn port(block: &mut Block<'_>) -> Port {
    Port {
        label: block.label(),
        value: block.int_or_zero("static"),
        to: block.int_or_zero("to"),
        host_network: block.text_or_empty("host_network"),
        ignore_collision: block.flag_or_false("ignore_collision"),
    }
}
