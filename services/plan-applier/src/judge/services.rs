//! Consequences of changes for registrations of services: a registration ends with its allocation, or when its node is gone
//! (A-20.4, N-7.10).

use std::sync::Arc;

use model::change::{AllocChange, Change, Concern, NodeChange};
use model::node::NodeStatus;
use model::service::{ServiceKey, ServiceRegistration};
use model::{AllocId, NodeId};
use planted_bugs::{Bug, is_planted};
use state::State;

/// The registrations that end with a change. Must be called before the change is applied, because some changes delete the
/// allocations and nodes through which the registrations are found.
pub(super) fn ended_by(state: &State, change: &Change) -> Vec<ServiceKey> {
    if is_planted(Bug::KeepsEndedServices) {
        return Vec::new();
    }
    match change.concern() {
        Concern::Allocs(change) => of_allocs(state, ended_allocs(change)),
        Concern::Nodes(change) => of_nodes(state, change),
        Concern::Jobs(_)
        | Concern::JobSubmissions(_)
        | Concern::JobSummaries(_)
        | Concern::Evals(_)
        | Concern::Deployments(_)
        | Concern::SchedulerConfig(_)
        | Concern::Leases(_)
        | Concern::Unblocked(_)
        | Concern::Small(_) => Vec::new(),
    }
}

/// The allocations that end with a change: they become client-terminal, or they are deleted.
fn ended_allocs(change: AllocChange<'_>) -> &[AllocId] {
    match change {
        AllocChange::AllocsChanged(changed) => match &changed.client {
            Some((status, _)) if status.is_terminal() => &changed.ids.0,
            Some(_) | None => &[],
        },
        AllocChange::Alloc(alloc) if alloc.client_status.is_terminal() => std::slice::from_ref(&alloc.id),
        AllocChange::AllocsDeleted(ids) => &ids.0,
        AllocChange::AllocsPlaced(_) | AllocChange::Alloc(_) => &[],
    }
}

/// The registrations on nodes that are deleted or go down. A node that is disconnected may still be reached by others, so
/// its registrations stay until its allocations are lost or the node is down.
fn of_nodes(state: &State, change: NodeChange<'_>) -> Vec<ServiceKey> {
    let is_down = |status: NodeStatus| status == NodeStatus::Down;
    let nodes: &[NodeId] = match change {
        NodeChange::NodesDeleted(ids) => ids,
        NodeChange::NodesChanged(changed) if changed.status.is_some_and(is_down) => &changed.ids,
        NodeChange::Node(node) if is_down(node.server.status) => std::slice::from_ref(&node.id),
        NodeChange::NodeServerSide { id, server } if is_down(server.status) => std::slice::from_ref(id),
        NodeChange::NodesChanged(_) | NodeChange::Node(_) | NodeChange::NodeServerSide { .. } => &[],
    };
    let mut keys = Vec::new();
    for node in nodes {
        for alloc in state.allocs_of_node(*node) {
            keys.extend(state.small_objects_of(alloc.id()).map(key_of));
        }
    }
    keys.sort_unstable();
    keys
}

fn of_allocs(state: &State, allocs: &[AllocId]) -> Vec<ServiceKey> {
    allocs.iter().flat_map(|alloc| state.small_objects_of(*alloc).map(key_of)).collect()
}

fn key_of(registration: &Arc<ServiceRegistration>) -> ServiceKey {
    registration.key.clone()
}
