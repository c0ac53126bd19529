//! Updates the status of nodes after a heartbeat or a missed heartbeat (N-3, N-4).

use std::collections::BTreeMap;

use model::alloc::{AllocState, ClientStatus, DesiredStatus};
use model::change::{Change, NodesChanged};
use model::cluster::Singleton;
use model::node::NodeStatus;
use model::{Index, Nanos, NodeId, Timestamp};
use state::{AllocRef, NodeRef};
use wire::Refusal;
use wire::command::{Done, Handler, NodeLiveness, UpdateNodes};

use super::nodes::{CLUSTER, affected_jobs};
use super::work::Work;

/// The old and the new status of nodes.
type Transition = (NodeStatus, NodeStatus);

impl Handler<UpdateNodes> for Work<'_> {
    fn handle(&mut self, command: UpdateNodes) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::NodeTracker, command.epoch)?;
        let mut transitions: BTreeMap<Transition, Vec<NodeId>> = BTreeMap::new();
        let mut refused_nodes = Vec::new();
        let mut nodes = command.nodes.clone();
        nodes.sort_unstable();
        nodes.dedup();
        for id in nodes {
            let Some(node) = self.state().node(id) else {
                refused_nodes.push(id);
                continue;
            };
            let to = match command.sign {
                NodeLiveness::Alive => status_after_heartbeat(node),
                NodeLiveness::Missed => status_after_miss(node, self.at()),
            };
            transitions.entry((node.server().status, to)).or_default().push(id);
        }
        let mut with_affected_jobs = Vec::new();
        for (transition, ids) in transitions {
            if affects_jobs(command.sign, transition) {
                with_affected_jobs.extend(&ids);
            }
            write_transition(self, command.sign, transition, ids)?;
        }
        let affected = affected_jobs(self.state(), &with_affected_jobs);
        self.evaluate_affected(affected)?;
        Ok(Done { refused_nodes, ..Done::default() })
    }
}

/// A disconnected node with live allocations becomes ready only after it has reported the status of all of them (N-3.3 to
/// N-3.7).
fn status_after_heartbeat(node: NodeRef<'_>) -> NodeStatus {
    match node.server().status {
        NodeStatus::Initializing if must_report_first(node) => NodeStatus::Initializing,
        NodeStatus::Disconnected => NodeStatus::Initializing,
        NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Down => NodeStatus::Ready,
    }
}

fn must_report_first(node: NodeRef<'_>) -> bool {
    let server = node.server();
    let is_over =
        |alloc: AllocRef<'_>| alloc.desired_status().is_terminal() && alloc.client_status().is_terminal();
    server.last_alloc_update_index <= server.last_missed_heartbeat_index && !node.allocs().all(is_over)
}

/// A node becomes disconnected if one of its allocations may stay disconnected for a while, unless it was still
/// initializing (N-4.7, N-4.10).
fn status_after_miss(node: NodeRef<'_>, now: Timestamp) -> NodeStatus {
    match node.server().status {
        NodeStatus::Ready | NodeStatus::Disconnected
            if node.allocs().any(|alloc| may_stay_disconnected(alloc, now)) =>
        {
            NodeStatus::Disconnected
        }
        NodeStatus::Ready | NodeStatus::Disconnected | NodeStatus::Initializing | NodeStatus::Down => {
            NodeStatus::Down
        }
    }
}

fn may_stay_disconnected(alloc: AllocRef<'_>, now: Timestamp) -> bool {
    let disconnect = alloc.group().and_then(|group| group.disconnect.as_ref());
    let lost_after = disconnect.map_or(Nanos::ZERO, |disconnect| disconnect.lost_after);
    // An allocation that has ended is excluded: it would keep its node disconnected forever (departs from N-4.7).
    alloc.desired_status() == DesiredStatus::Run
        && !alloc.client_status().is_terminal()
        && lost_after > Nanos::ZERO
        && unknown_since(alloc).is_none_or(|since| since + lost_after > now)
}

/// When an unknown allocation became unknown; `None` for other allocations (N-4.8).
fn unknown_since(alloc: AllocRef<'_>) -> Option<Timestamp> {
    if alloc.client_status() != ClientStatus::Unknown {
        return None;
    }
    let is_unknown = |state: &&AllocState| state.client_status == Some(ClientStatus::Unknown);
    alloc.extra().states.iter().rev().take_while(is_unknown).last().map(|state| state.time)
}

/// Whether a transition requires evaluations of jobs (N-3.8).
fn affects_jobs(sign: NodeLiveness, transition: Transition) -> bool {
    match transition {
        // A repeated miss of a node that is down only serves to evaluate its jobs again.
        (NodeStatus::Down, NodeStatus::Down) => sign == NodeLiveness::Missed,
        (from, to) => from != to,
    }
}

/// Writes the nodes, unless their status stays the same (N-3.9).
fn write_transition(
    work: &mut Work<'_>,
    sign: NodeLiveness,
    (from, to): Transition,
    ids: Vec<NodeId>,
) -> Result<(), Refusal> {
    if from == to {
        return Ok(());
    }
    let message = match sign {
        NodeLiveness::Missed => Some("Node heartbeat missed"),
        NodeLiveness::Alive if from == NodeStatus::Down => Some("Node reregistered by heartbeat"),
        NodeLiveness::Alive => None,
    };
    let event = message.map(|message| work.node_event(CLUSTER, message));
    let last_missed_heartbeat_index = if to.is_unresponsive() && !from.is_unresponsive() {
        Some(work.index())
    } else if to == NodeStatus::Ready {
        Some(Index::ZERO)
    } else {
        None
    };
    if to == NodeStatus::Ready {
        ids.iter().for_each(|id| work.unblock_node(*id));
    }
    work.apply(Change::NodesChanged(Box::new(NodesChanged {
        ids,
        status: Some(to),
        event,
        last_missed_heartbeat_index,
        last_alloc_update_index: None,
    })))
}
