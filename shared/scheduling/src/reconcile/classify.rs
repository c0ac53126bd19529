//! Where an allocation stands, by its own status and its node's (`spec/scheduling.md` ).

use model::alloc::{AllocState, ClientStatus, DesiredStatus};
use model::job::DisconnectStrategy;
use model::node::NodeStatus;
use model::{Nanos, Timestamp};
use state::{AllocRef, NodePage, PAGE};

use super::Context;

/// What has been out of sight for its time, but for less than this, has been so for long enough.
const EXPIRY_WINDOW: Nanos = Nanos::SECOND;

/// What is to be thought of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing more is to be done about it.
    Ignored,
    /// It stays where it is, as far as its node goes.
    Untainted,
    /// It has to move.
    Migrating,
    /// It went with its node.
    Lost,
    /// Its node is out of sight; it may still run.
    Disconnecting,
    /// It was out of sight and is heard of again.
    Reconnecting,
    /// It was out of sight for too long.
    Expiring,
}

/// How it stands with an allocation's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taint {
    /// Nothing that concerns the allocation; a drain does not, for what has to move is marked.
    None,
    /// It drains and was not heard of yet.
    Waiting,
    /// It is not known any more.
    Missing,
    /// It is down.
    Down,
    /// It is not heard of.
    Disconnected,
}

impl Taint {
    /// Whether nobody will say any more what became of the node's allocations.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Missing | Self::Down)
    }
}

/// Looks at one bit for most allocations.
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

/// the numbers are those of its rules.
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
    if is_expired(alloc, context.now) {
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

/// Whether an allocation is out of sight, or was when something was last written of how it fares.
pub(crate) fn needs_reconnect(alloc: AllocRef<'_>) -> bool {
    matches!(alloc.client_status(), ClientStatus::Unknown | ClientStatus::Running | ClientStatus::Failed)
        && known_states(alloc).next() == Some(ClientStatus::Unknown)
}

/// a moment early: what says that the time is over was told before the allocation was out of sight, perhaps by
/// another clock.
pub(crate) fn is_expired(alloc: AllocRef<'_>, now: Timestamp) -> bool {
    alloc.client_status() == ClientStatus::Unknown
        && unknown_since(alloc).is_some_and(|since| since + lost_after(alloc) < now + EXPIRY_WINDOW)
}

/// When it went out of sight the last time.
pub(super) fn unknown_since(alloc: AllocRef<'_>) -> Option<Timestamp> {
    let is_known = |state: &&AllocState| state.client_status.is_some_and(|is| is != ClientStatus::Unknown);
    let mut states = alloc.extra().states.iter().rev().skip_while(is_known).peekable();
    let mut since = None;
    while let Some(state) = states.next_if(|state| !is_known(state)) {
        since = state.client_status.map(|_| state.time).or(since);
    }
    since
}

/// The client statuses that were written down, the newest first.
fn known_states(alloc: AllocRef<'_>) -> impl Iterator<Item = ClientStatus> {
    alloc.extra().states.iter().rev().filter_map(|state| state.client_status)
}

/// Whether it is a canary that was not promoted yet.
pub(super) fn is_canary(alloc: AllocRef<'_>) -> bool {
    alloc.health().is_some_and(|health| health.canary)
}

/// How long it may be out of sight, by its own version of the job.
pub(super) fn lost_after(alloc: AllocRef<'_>) -> model::Nanos {
    disconnect(alloc).map_or(Nanos::ZERO, |disconnect| disconnect.lost_after)
}

/// Whether another is placed while it is out of sight.
pub(super) fn is_replaced(alloc: AllocRef<'_>) -> bool {
    disconnect(alloc).is_none_or(|disconnect| disconnect.replace != Some(false))
}

pub(super) fn disconnect(alloc: AllocRef<'_>) -> Option<&DisconnectStrategy> {
    alloc.group()?.disconnect.as_ref()
}
