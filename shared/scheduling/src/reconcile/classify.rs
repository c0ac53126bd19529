//! Where an allocation stands, by its own status and its node's (`spec/scheduling.md` ).

use model::alloc::{AllocState, ClientStatus};
use model::node::NodeStatus;
use state::{AllocRef, NodePage, PAGE};

use crate::unbuilt::{Unbuilt, waits_for_disconnected};

/// What is to be thought of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing more is to be done about it.
    Ignored,
    /// It stays where it is, as far as its node goes.
    Untainted,
    /// It has to move.
    Migrating,
    /// It went with its node.
    Lost,
}

/// How it stands with an allocation's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taint {
    /// Nothing that concerns the allocation; a drain does not, for what has to move is marked.
    None,
    /// It is down, or not known any more.
    Gone,
    /// It is not heard of.
    Disconnected,
}

/// Looks at one bit for most allocations.
pub(crate) fn taint(pages: &[&NodePage], alloc: AllocRef<'_>) -> Taint {
    let slot = alloc.node_slot() as usize;
    if pages[slot / PAGE].ready >> (slot % PAGE) & 1 != 0 {
        return Taint::None;
    }
    match alloc.node().map(|node| node.server().status) {
        None | Some(NodeStatus::Down) => Taint::Gone,
        Some(NodeStatus::Disconnected) => Taint::Disconnected,
        Some(NodeStatus::Initializing | NodeStatus::Ready) => Taint::None,
    }
}

/// as far as nothing has to wait for a disconnected node.
pub(super) fn classify(pages: &[&NodePage], alloc: AllocRef<'_>) -> Result<Class, Unbuilt> {
    if is_or_was_unknown(alloc) {
        return Err(Unbuilt("reconnecting"));
    }
    let transition = alloc.transition();
    let migrates = transition.migrate == Some(true);
    if alloc.desired_status().is_terminal() {
        let keeps_slot = transition.migrate_disable_placement == Some(true);
        return Ok(if keeps_slot { Class::Untainted } else { Class::Ignored });
    }
    if alloc.client_status().is_terminal() {
        return Ok(Class::Untainted);
    }
    let taint = taint(pages, alloc);
    if taint != Taint::None && alloc.group().is_some_and(waits_for_disconnected) {
        return Err(Unbuilt("disconnect"));
    }
    Ok(match taint {
        Taint::Disconnected => Class::Lost,
        Taint::None | Taint::Gone if migrates => Class::Migrating,
        Taint::None => Class::Untainted,
        Taint::Gone => Class::Lost,
    })
}

/// Whether the allocation is unknown, or its last known client status before this one was.
fn is_or_was_unknown(alloc: AllocRef<'_>) -> bool {
    match alloc.client_status() {
        ClientStatus::Unknown => true,
        ClientStatus::Running | ClientStatus::Failed => {
            let last = alloc.extra().states.iter().rev().find_map(|state: &AllocState| state.client_status);
            last == Some(ClientStatus::Unknown)
        }
        ClientStatus::Pending | ClientStatus::Complete | ClientStatus::Lost => false,
    }
}
