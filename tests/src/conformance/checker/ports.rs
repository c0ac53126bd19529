//! Checks that ports are unique per address, match the request, and lie in the allowed range.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use model::alloc::AllocatedResources;
use state::NodeRef;

use super::{NewAlloc, PlanCheck};

/// The default range of dynamic ports of a node.
const DYNAMIC: (u16, u16) = (20_000, 32_000);

pub(super) fn faults(check: &PlanCheck<'_>, faults: &mut Vec<String>) {
    let mut touched: BTreeSet<NodeId> = BTreeSet::new();
    for new in check.new_allocs() {
        let Some(node) = check.after.node(new.alloc.node_id()) else { continue };
        touched.insert(node.id());
        requested_ports(&new, node, faults);
    }
    for node in touched {
        let mut owners: BTreeMap<(String, u16), Vec<model::AllocId>> = BTreeMap::new();
        for alloc in check.holders(node) {
            for port in used_ports(&alloc.resources()) {
                owners.entry(port).or_default().push(alloc.id());
            }
        }
        for ((address, port), owners) in owners {
            if owners.len() > 1 && owners.iter().any(|owner| check.is_new(*owner)) {
                faults.push(format!("{node}: port {address}:{port} is assigned twice"));
            }
        }
    }
}

/// The ports that an allocation uses, by address.
fn used_ports(resources: &AllocatedResources) -> Vec<(String, u16)> {
    if !resources.ports.is_empty() {
        let ports = resources.ports.iter().filter(|port| !port.ignore_collision && port.value > 0);
        return ports.map(|port| (port.host_ip.to_string(), port.value)).collect();
    }
    let of_tasks = resources.tasks.iter().flat_map(|task| task.networks.iter().take(1));
    let networks = resources.networks.iter().take(1).chain(of_tasks);
    networks
        .flat_map(|network| {
            let ports = network.reserved_ports.iter().chain(&network.dynamic_ports);
            let ports = ports.filter(|port| !port.ignore_collision && port.value > 0);
            ports.map(|port| (network.ip.to_string(), port.value)).collect::<Vec<_>>()
        })
        .collect()
}

/// Checks that each port of the group is open: static ports with their number, dynamic ports within the node's range.
fn requested_ports(new: &NewAlloc<'_>, node: NodeRef<'_>, faults: &mut Vec<String>) {
    let Some(asked) = new.group().networks.first() else { return };
    let got = new.alloc.resources();
    let of_label = |label: &str| got.ports.iter().find(|port| *port.label == *label);
    for port in &asked.reserved_ports {
        if of_label(&port.label).is_none_or(|got| got.value != port.value) {
            faults.push(new.fault(format_args!("port {} is not open as {}", port.label, port.value)));
        }
    }
    let resources = &node.spec().resources;
    let or = |own: u16, other: u16| if own > 0 { own } else { other };
    let range = or(resources.dynamic_port_min, DYNAMIC.0)..=or(resources.dynamic_port_max, DYNAMIC.1);
    for port in &asked.dynamic_ports {
        if of_label(&port.label).is_none_or(|got| !range.contains(&got.value)) {
            faults.push(new.fault(format_args!("dynamic port {} is not within {range:?}", port.label)));
        }
    }
}
