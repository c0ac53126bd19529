//! [`AllocIndex`]: finds the slots of allocations by id, and lists them in the orders of the API.

use std::cmp::Ordering;
use std::ops::RangeBounds;

use model::{AllocId, Index};

use crate::btree::BTree;
use crate::layered::Layered;

/// Slots of allocations by id, and the indexes for sorted lists.
#[derive(Debug, Clone, Default)]
pub(super) struct AllocIndex {
    by_plan: Layered<InPlanOrder, u32>,
    /// `None` if lists are out of scope.
    lists: Option<Lists>,
}

/// An id that sorts by [`AllocId::plan_order`], so that a plan, or a report of its allocations, touches one or two leaves
/// instead of one per allocation. The sort key is computed for each comparison; storing it would take half as much memory
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InPlanOrder(AllocId);

impl Ord for InPlanOrder {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.plan_order().cmp(&other.0.plan_order())
    }
}

impl PartialOrd for InPlanOrder {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The orders in which the API lists allocations.
#[derive(Debug, Clone, Default)]
struct Lists {
    by_id: Layered<AllocId, u32>,
    by_creation: BTree<(Index, AllocId), u32>,
}

impl AllocIndex {
    pub(super) fn new(with_lists: bool) -> Self {
        Self { by_plan: Layered::default(), lists: with_lists.then(Lists::default) }
    }

    pub(super) fn len(&self) -> usize {
        self.by_plan.len()
    }

    pub(super) fn get(&self, id: AllocId) -> Option<u32> {
        self.by_plan.get(&InPlanOrder(id)).copied()
    }

    /// All slots, in no defined order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.by_plan.values().copied()
    }

    /// The slots of allocations whose ids are in `range`, by id. Empty if lists are out of scope.
    pub(super) fn range(&self, range: impl RangeBounds<AllocId>) -> impl DoubleEndedIterator<Item = u32> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.lists.iter().flat_map(move |lists| lists.by_id.range(range).copied())
    }

    /// The slots by create index, then id. Empty if lists are out of scope.
    pub(super) fn by_creation(
        &self,
        range: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = u32> {
        self.lists.iter().flat_map(move |lists| {
            lists.by_creation.range((range.start_bound(), range.end_bound())).map(|(_, slot)| *slot)
        })
    }

    /// Adds the slot of an allocation. Returns the slot that the allocation had before, if any.
    pub(super) fn insert(&mut self, id: AllocId, created: Index, slot: u32) -> Option<u32> {
        let replaced = self.by_plan.insert(InPlanOrder(id), slot);
        if replaced.is_none()
            && let Some(lists) = &mut self.lists
        {
            lists.by_id.insert_new(id, slot);
            lists.by_creation.insert((created, id), slot);
        }
        replaced
    }

    /// Removes an allocation. It stays in the lists until [`Self::unlist`].
    pub(super) fn remove(&mut self, id: AllocId) -> Option<u32> {
        self.by_plan.remove(&InPlanOrder(id))
    }

    /// Removes allocations from the lists. Removes them in the order of each list, so that neighbouring entries are removed
    /// together.
    pub(super) fn unlist(&mut self, mut removed: Vec<(Index, AllocId)>) {
        let Some(lists) = &mut self.lists else { return };
        removed.sort_unstable_by_key(|(_, id)| *id);
        for (_, id) in &removed {
            lists.by_id.remove(id);
        }
        removed.sort_unstable();
        for key in &removed {
            lists.by_creation.remove(key);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self.lists.as_ref();
        let lists = lists.map(|lists| lists.by_id.heap_bytes() + lists.by_creation.heap_bytes());
        self.by_plan.heap_bytes() + lists.unwrap_or_default()
    }
}
