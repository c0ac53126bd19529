//! What is known, for each node, of a placement that preempts; kept from one placement of an attempt to the next.

use crate::rank::Rank;
use crate::room::Dimension;

/// What is known of a node before victims are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outlook {
    /// Preemption cannot make room; the amount that is exhausted.
    Exhausted(Dimension),
    /// Preemption makes room. The node's rank, without the spread, is at most this one.
    RankMax(Rank),
    /// Only an attempt to make room tells.
    Unknown,
}

/// The outlooks by slot. They are valid until the plan changes something on the node.
#[derive(Debug, Default)]
pub(super) struct Outlooks {
    /// Empty until the first outlook is kept.
    by_slot: Vec<Option<Outlook>>,
}

impl Outlooks {
    pub(super) fn at(&self, slot: u32) -> Option<Outlook> {
        self.by_slot.get(slot as usize).copied().flatten()
    }

    /// Keeps the outlook of one of `slots` nodes.
    pub(super) fn keep(&mut self, slot: u32, outlook: Outlook, slots: usize) {
        if self.by_slot.is_empty() {
            self.by_slot.resize(slots, None);
        }
        self.by_slot[slot as usize] = Some(outlook);
    }

    /// Drops the outlook of a node on which something changed.
    pub(super) fn drop_at(&mut self, slot: u32) {
        if let Some(outlook) = self.by_slot.get_mut(slot as usize) {
            *outlook = None;
        }
    }
}
