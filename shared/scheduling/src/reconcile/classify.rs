//! Classifies allocations by their own status and the status of their nodes (`docs/rules/scheduling.md` to
//!

use model::alloc::{AllocState, ClientStatus, DesiredStatus};
use model::eval::EvalTrigger;
use model::job::DisconnectStrategy;
use model::node::NodeStatus;
use model::{Nanos, Timestamp};
use state::{AllocRef, NodePage, PAGE};

use super::Context;

/// An allocation whose time as unknown ends within less than this counts as expired.
const EXPIRY_WINDOW: Nanos = Nanos::SECOND;

/// The class of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing has to be done about the allocation.
    Ignored,
    /// The node does not require a change.
    Untainted,
    /// The allocation has to migrate.
    Migrating,
    /// The allocation was lost with its node.
    Lost,
    /// The node is disconnected; the allocation may still run.
    Disconnecting,
    /// The allocation was unknown, and its node is connected again.
    Reconnecting,
    /// The allocation was unknown for too long.
    Expiring,
}

/// How a node's status concerns its allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taint {
    /// No effect. A drain has none either, because allocations that have to migrate are marked one by one.
    None,
    /// The node drains and is initializing.
    Waiting,
    /// The node was deleted.
    Missing,
    /// The node is down.
    Down,
    /// The node is disconnected.
    Disconnected,
}

impl Taint {
    /// Whether no agent will report what became of the node's allocations.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Missing | Self::Down)
    }
}

/// The taint of an allocation's node. Reads one bit for most allocations.
pub(crate) fn taint(pages: &[&NodePage], alloc: AllocRef<'_>) -> Taint {
    let slot = alloc.node_slot() as usize;
    if pages[slot / PAGE].ready >> (slot % PAGE) & 1 != 0 {
        return Taint::None;
    }
    let Some(node) = alloc.node() else { return Taint::Missing };
    let server = node.server();
    match server.status {
        NodeStatus::Down => Taint::Down,
        NodeStatus::Disconnected => Taint::Disconnected,
        NodeStatus::Initializing if server.drain.is_some() => Taint::Waiting,
        NodeStatus::Initializing | NodeStatus::Ready => Taint::None,
    }
}

/// The class of an allocation. The numbers are those of the rules in.
pub(crate) fn classify(context: Context<'_>, alloc: AllocRef<'_>) -> Class {
    let client = alloc.client_status();
    let desired = alloc.desired_status();
    let transition = alloc.transition();
    let migrates = transition.migrate == Some(true);
    let reconnects = needs_reconnect(alloc);
    if reconnects {
        // 1, 7
        match (client, desired) {
            (ClientStatus::Failed, DesiredStatus::Run) => return Class::Reconnecting,
            (ClientStatus::Failed, DesiredStatus::Stop) => return Class::Ignored,
            _ => {}
        }
    } else if desired.is_terminal() {
        // 2, 3
        let keeps_slot = transition.migrate_disable_placement == Some(true);
        return if keeps_slot { Class::Untainted } else { Class::Ignored };
    } else if client.is_terminal() {
        // 4, 5
        return if migrates && is_canary(alloc) { Class::Migrating } else { Class::Untainted };
    }
    if is_expired(context, alloc) {
        return Class::Expiring; // 6
    }
    match taint(context.pages, alloc) {
        // 8
        Taint::Disconnected => match client {
            ClientStatus::Unknown => Class::Untainted,
            ClientStatus::Pending => Class::Lost,
            ClientStatus::Running | ClientStatus::Complete | ClientStatus::Failed | ClientStatus::Lost => {
                if lost_after(alloc) > Nanos::ZERO {
                    Class::Disconnecting
                } else {
                    Class::Lost
                }
            }
        },
        _ if migrates => Class::Migrating,                // 9
        Taint::None if reconnects => Class::Reconnecting, // 10
        Taint::None | Taint::Waiting => Class::Untainted, // 10, 13
        Taint::Missing => Class::Lost,                    // 11
        // 12
        Taint::Down => match client {
            ClientStatus::Unknown if !is_replaced(alloc) => Class::Untainted,
            ClientStatus::Running if !is_replaced(alloc) => Class::Disconnecting,
            ClientStatus::Pending
            | ClientStatus::Running
            | ClientStatus::Complete
            | ClientStatus::Failed
            | ClientStatus::Lost
            | ClientStatus::Unknown => Class::Lost,
        },
    }
}

/// Whether the last recorded client status is unknown, and the present one is unknown, running or failed.
pub(crate) fn needs_reconnect(alloc: AllocRef<'_>) -> bool {
    matches!(alloc.client_status(), ClientStatus::Unknown | ClientStatus::Running | ClientStatus::Failed)
        && known_states(alloc).next() == Some(ClientStatus::Unknown)
}

/// Whether the allocation was unknown for too long. The window allows for the timeout evaluation's time, which was
/// determined before the allocation was recorded as unknown. However long that took, an allocation that is not replaced
/// while it is unknown expires with its own timeout evaluation, because no other evaluation would come later.
pub(crate) fn is_expired(context: Context<'_>, alloc: AllocRef<'_>) -> bool {
    let Context { eval, now, .. } = context;
    let is_over =
        || unknown_since(alloc).is_some_and(|since| since + lost_after(alloc) < now + EXPIRY_WINDOW);
    let is_own_timeout =
        || eval.trigger == EvalTrigger::MaxDisconnectTimeout && alloc.extra().followup_eval == Some(eval.id);
    alloc.client_status() == ClientStatus::Unknown && (is_over() || is_own_timeout() && !is_replaced(alloc))
}

/// The time at which the allocation became unknown most recently.
pub(super) fn unknown_since(alloc: AllocRef<'_>) -> Option<Timestamp> {
    let is_known = |state: &&AllocState| state.client_status.is_some_and(|is| is != ClientStatus::Unknown);
    let mut states = alloc.extra().states.iter().rev().skip_while(is_known).peekable();
    let mut since = None;
    while let Some(state) = states.next_if(|state| !is_known(state)) {
        since = state.client_status.map(|_| state.time).or(since);
    }
    since
}

/// The recorded client statuses, newest first.
fn known_states(alloc: AllocRef<'_>) -> impl Iterator<Item = ClientStatus> {
    alloc.extra().states.iter().rev().filter_map(|state| state.client_status)
}

/// Whether the allocation is a canary that was not promoted yet.
pub(super) fn is_canary(alloc: AllocRef<'_>) -> bool {
    alloc.health().is_some_and(|health| health.canary)
}

/// How long the allocation may be unknown, by the job version that it runs.
pub(super) fn lost_after(alloc: AllocRef<'_>) -> model::Nanos {
    disconnect(alloc).map_or(Nanos::ZERO, |disconnect| disconnect.lost_after)
}

/// Whether the allocation is replaced while it is unknown.
pub(super) fn is_replaced(alloc: AllocRef<'_>) -> bool {
    disconnect(alloc).is_none_or(|disconnect| disconnect.replace != Some(false))
}

pub(super) fn disconnect(alloc: AllocRef<'_>) -> Option<&DisconnectStrategy> {
    alloc.group()?.disconnect.as_ref()
}
