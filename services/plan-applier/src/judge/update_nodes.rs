//! Nodes were heard of, or missed: which status follows from that (N-3, N-4).

use std::collections::BTreeMap;

use model::alloc::{AllocState, ClientStatus, DesiredStatus};
use model::change::{Change, NodesChanged};
use model::cluster::Singleton;
use model::node::{NodeEvent, NodeStatus};
use model::{Index, Nanos, NodeId, Timestamp};
use state::{AllocRef, NodeRef};
use wire::Refusal;
use wire::command::{Done, NodeSign, UpdateNodes};

use super::nodes::{CLUSTER, jobs_concerned};
use super::work::Work;

/// Nodes of the same status that come to the same one.
type Transition = (NodeStatus, NodeStatus);

pub(super) fn update_nodes(work: &mut Work<'_>, command: &UpdateNodes) -> Result<Done, Refusal> {
    work.check_epoch(Singleton::NodeTracker, command.epoch)?;
    let mut transitions: BTreeMap<Transition, Vec<NodeId>> = BTreeMap::new();
    let mut refused_nodes = Vec::new();
    let mut nodes = command.nodes.clone();
    nodes.sort_unstable();
    nodes.dedup();
    for id in nodes {
        let Some(node) = work.state().node(id) else {
            refused_nodes.push(id);
            continue;
        };
        let to = match command.sign {
            NodeSign::Heard => after_heard(node),
            NodeSign::Missed => after_missed(node, work.at()),
        };
        transitions.entry((node.server().status, to)).or_default().push(id);
    }
    let mut concerning = Vec::new();
    for (transition, ids) in transitions {
        if concerns_jobs(command.sign, transition) {
            concerning.extend(&ids);
        }
        move_on(work, command, transition, ids)?;
    }
    let concerned = jobs_concerned(work.state(), &concerning);
    work.evaluate_concerned(concerned)?;
    Ok(Done { refused_nodes, ..Done::default() })
}

/// A node that was away with live allocations is not ready before it has said how all of them fare (N-3.3 to N-3.7).
fn after_heard(node: NodeRef<'_>) -> NodeStatus {
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

/// A node is given time where some allocation may stay away for a while; one that was not there yet is not (N-4.7, N-4.10).
fn after_missed(node: NodeRef<'_>, now: Timestamp) -> NodeStatus {
    match node.server().status {
        NodeStatus::Ready | NodeStatus::Disconnected
            if node.allocs().any(|alloc| may_stay_away(alloc, now)) =>
        {
            NodeStatus::Disconnected
        }
        NodeStatus::Ready | NodeStatus::Disconnected | NodeStatus::Initializing | NodeStatus::Down => {
            NodeStatus::Down
        }
    }
}

fn may_stay_away(alloc: AllocRef<'_>, now: Timestamp) -> bool {
    let disconnect = alloc.group().and_then(|group| group.disconnect.as_ref());
    let lost_after = disconnect.map_or(Nanos::ZERO, |disconnect| disconnect.lost_after);
    // One that has ended needs no time: it would hold its node disconnected for ever (departs from N-4.7).
    alloc.desired_status() == DesiredStatus::Run
        && !alloc.client_status().is_terminal()
        && lost_after > Nanos::ZERO
        && unknown_since(alloc).is_none_or(|since| since + lost_after > now)
}

/// When an allocation that is unknown became so; `None` for any other (N-4.8).
fn unknown_since(alloc: AllocRef<'_>) -> Option<Timestamp> {
    if alloc.client_status() != ClientStatus::Unknown {
        return None;
    }
    let is_unknown = |state: &&AllocState| state.client_status == Some(ClientStatus::Unknown);
    alloc.extra().states.iter().rev().take_while(is_unknown).last().map(|state| state.time)
}

/// Whether jobs are to be looked at (N-3.8).
fn concerns_jobs(sign: NodeSign, transition: Transition) -> bool {
    match transition {
        // A node that is down is missed again only if its jobs should hear of it again.
        (NodeStatus::Down, NodeStatus::Down) => sign == NodeSign::Missed,
        (from, to) => from != to,
    }
}

/// Writes the nodes, unless nothing about them is new (N-3.9).
fn move_on(
    work: &mut Work<'_>,
    command: &UpdateNodes,
    (from, to): Transition,
    ids: Vec<NodeId>,
) -> Result<(), Refusal> {
    let is_moving = from != to;
    let event = match command.sign {
        // What is missed again and again is worth one event.
        NodeSign::Missed if !is_moving => return Ok(()),
        NodeSign::Missed => Some(work.node_event(CLUSTER, "Node heartbeat missed")),
        NodeSign::Heard if is_moving && from == NodeStatus::Down => {
            Some(work.node_event(CLUSTER, "Node reregistered by heartbeat"))
        }
        NodeSign::Heard => None,
    };
    let given = command.event.clone().map(|event| NodeEvent { create_index: work.index(), ..event });
    let event = given.or(event);
    if !is_moving && event.is_none() {
        return Ok(());
    }
    let last_missed_heartbeat_index = if to.is_unresponsive() && !from.is_unresponsive() {
        Some(work.index())
    } else if to == NodeStatus::Ready && from != NodeStatus::Ready {
        Some(Index::ZERO)
    } else {
        None
    };
    if is_moving && to == NodeStatus::Ready {
        ids.iter().for_each(|id| work.gain_room(*id));
    }
    work.apply(Change::NodesChanged(Box::new(NodesChanged {
        ids,
        status: is_moving.then_some(to),
        event,
        last_missed_heartbeat_index,
        last_alloc_update_index: None,
    })))
}
