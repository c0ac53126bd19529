//! The resources that an allocation of a group takes, except those that differ from node to node.

use model::Text;
use model::alloc::{AllocatedResources, PortMapping, TaskResources};
use model::job::{JobSpec, NetworkResource, Port, TaskGroup};
use state::{NodeRef, State};

use crate::feasible::host_network;

/// Whether tasks may use more memory than they reserve. The pool's setting takes precedence over the cluster's.
fn may_oversubscribe(state: &State, spec: &JobSpec) -> bool {
    let of_pool = state.node_pool(&spec.node_pool).and_then(|pool| pool.scheduler?.memory_oversubscription);
    of_pool.unwrap_or_else(|| state.scheduler_config().is_some_and(|config| config.memory_oversubscription))
}

/// The common share of a group's allocations. Addresses and port numbers are not set.
pub(crate) fn common_share(state: &State, spec: &JobSpec, group: &TaskGroup) -> AllocatedResources {
    let oversubscribe = may_oversubscribe(state, spec);
    let tasks = group.tasks.iter().map(|task| {
        let requested = &task.resources;
        let memory_max_mb = match requested.memory_max_mb {
            limit if limit > 0 => limit.saturating_add(requested.secrets_mb.into()),
            none => none,
        };
        TaskResources {
            name: Text::clone(&task.name),
            lifecycle: task.lifecycle,
            cpu_mhz: requested.cpu_mhz,
            memory_mb: requested.memory_mb.saturating_add(requested.secrets_mb),
            memory_max_mb: if oversubscribe { memory_max_mb } else { 0 },
            networks: requested.networks.first().cloned().into_iter().collect(),
            ..TaskResources::default()
        }
    });
    let networks = group.networks.iter().take(1);
    let ports =
        networks.clone().flat_map(|network| network.reserved_ports.iter().chain(&network.dynamic_ports));
    let ports = ports.map(|port| PortMapping {
        label: Text::clone(&port.label),
        ignore_collision: port.ignore_collision,
        ..PortMapping::default()
    });
    let share = AllocatedResources {
        tasks: tasks.collect(),
        disk_mb: group.ephemeral_disk.size_mb,
        ports: ports.collect(),
        networks: networks.cloned().collect(),
    };
    share.split().0
}

/// The networks of a group's allocation on a node: templates of host networks, such as `${meta.network}`, are replaced
/// by the node's values. `None` if there are none, so that the common share applies as it is.
pub(crate) fn networks_on(share: &AllocatedResources, node: NodeRef<'_>) -> Option<Vec<NetworkResource>> {
    let is_template = |port: &Port| port.host_network.starts_with("${");
    let has_template = |network: &NetworkResource| {
        network.reserved_ports.iter().chain(&network.dynamic_ports).any(is_template)
    };
    if !share.networks.iter().any(has_template) {
        return None;
    }
    let mut networks = share.networks.clone();
    for network in &mut networks {
        for port in network.reserved_ports.iter_mut().chain(&mut network.dynamic_ports) {
            let alias = host_network(port, node).map(|alias| Text::from(&*alias));
            if let Some(alias) = alias.filter(|_| is_template(port)) {
                port.host_network = alias;
            }
        }
    }
    Some(networks)
}
