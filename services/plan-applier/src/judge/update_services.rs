//! Sets which services of allocations are registered.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::change::Change;
use model::cluster::Singleton;
use model::service::{ServiceKey, ServiceRegistration};
use model::{AllocId, JobKey, NodeId, Text};
use state::State;
use wire::Refusal;
use wire::command::{Done, Handler, NodeServices, UpdateServices};
use wire::services::{AllocServices, ServiceInstance};

use super::work::Work;

/// A node registers services of its own allocations only, and only of those that have not ended.
impl Handler<UpdateServices> for Work<'_> {
    fn handle(&mut self, command: UpdateServices) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::NodeTracker, command.epoch)?;
        let (mut refused_nodes, mut refused_allocs) = (Vec::new(), Vec::new());
        for NodeServices { node, boot, allocs } in command.nodes {
            if !is_admitted(self.state(), node, boot) {
                refused_nodes.push(node);
                continue;
            }
            for services in allocs {
                if may_register(self.state(), node, &services) {
                    set_services(self, node, services)?;
                } else {
                    refused_allocs.push(services.alloc);
                }
            }
        }
        Ok(Done { refused_nodes, refused_allocs, ..Done::default() })
    }
}

/// Whether a node may register services: as for reports (N-7.3), it must have sent a heartbeat, and this boot of its agent
/// must have registered the node.
fn is_admitted(state: &State, node: NodeId, boot: u32) -> bool {
    state.node(node).is_some_and(|node| node.spec().boot == boot && !node.server().status.is_unresponsive())
}

/// Whether the set may be registered. An empty set is accepted of an ended allocation too: there is nothing to do.
fn may_register(state: &State, node: NodeId, services: &AllocServices) -> bool {
    state.alloc(services.alloc).is_some_and(|alloc| {
        alloc.node_id() == node && (services.services.is_empty() || !alloc.client_status().is_terminal())
    })
}

/// Writes the difference between the registrations of an allocation and those that are wanted.
fn set_services(work: &mut Work<'_>, node: NodeId, services: AllocServices) -> Result<(), Refusal> {
    let alloc = services.alloc;
    let mut wanted = wanted(work.state(), node, services);
    let known: Vec<Arc<ServiceRegistration>> = work.state().small_objects_of(alloc).cloned().collect();
    for known in known {
        match wanted.get_mut(&known.key) {
            None => work.apply(Change::ServiceRegistrationDeleted(known.key.clone()))?,
            Some(registration) => {
                registration.create_index = known.create_index;
                let as_known =
                    ServiceRegistration { modify_index: known.modify_index, ..registration.clone() };
                if as_known == *known {
                    wanted.remove(&known.key);
                }
            }
        }
    }
    wanted.into_values().try_for_each(|one| work.apply(Change::ServiceRegistration(Box::new(one))))
}

/// The registrations of an allocation as they are wanted, by key.
fn wanted(
    state: &State,
    node: NodeId,
    AllocServices { alloc, services }: AllocServices,
) -> BTreeMap<ServiceKey, ServiceRegistration> {
    let Some((job, datacenter)) = job_and_datacenter(state, node, alloc) else { return BTreeMap::new() };
    let index = state.index().next();
    let registration = |service: ServiceInstance| {
        let key = ServiceKey { namespace: job.namespace.clone(), name: service.name, id: service.id };
        let registration = ServiceRegistration {
            key: key.clone(),
            node_id: node,
            datacenter: datacenter.clone(),
            job_id: job.id.clone(),
            alloc_id: alloc,
            tags: service.tags,
            address: service.address,
            port: service.port,
            create_index: index,
            modify_index: index,
        };
        (key, registration)
    };
    services.into_iter().map(registration).collect()
}

fn job_and_datacenter(state: &State, node: NodeId, alloc: AllocId) -> Option<(JobKey, Text)> {
    let job = state.alloc(alloc)?.job_key().clone();
    Some((job, state.node(node)?.spec().datacenter.clone()))
}
