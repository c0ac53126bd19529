//! How allocations are found by id, and in what order they are listed.

use std::cmp::Ordering;
use std::ops::RangeBounds;

use model::{AllocId, Index};

use crate::btree::BTree;
use crate::layered::Layered;

/// Rows by id, and for those who list them in order.
#[derive(Debug, Clone, Default)]
pub(super) struct AllocIndex {
    by_plan: Layered<InPlanOrder, u32>,
    /// `None` where nobody asks for lists.
    lists: Option<Lists>,
}

/// An id that sorts by [`AllocId::plan_order`]: a plan touches a leaf or two instead of one for each of its allocations, and
/// so does a report of them. The order is worked out anew each time, for as a number it would take half as much room again.
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

/// The orders in which the API gives lists.
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

    /// All rows, in no order that means anything.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.by_plan.values().copied()
    }

    /// Those whose ids lie in a range, by id; none without lists.
    pub(super) fn range(&self, range: impl RangeBounds<AllocId>) -> impl DoubleEndedIterator<Item = u32> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.lists.iter().flat_map(move |lists| lists.by_id.range(range).copied())
    }

    /// In the order of their creation, and by id where that is the same; none without lists.
    pub(super) fn by_creation(
        &self,
        range: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = u32> {
        self.lists.iter().flat_map(move |lists| {
            lists.by_creation.range((range.start_bound(), range.end_bound())).map(|(_, slot)| *slot)
        })
    }

    /// Adds the row of an allocation, or returns the one that it has.
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

    /// Takes an allocation out; it is still listed until [`Self::unlist`].
    pub(super) fn remove(&mut self, id: AllocId) -> Option<u32> {
        self.by_plan.remove(&InPlanOrder(id))
    }

    /// Takes allocations out of the lists. In the order of each: what lies together is taken out together.
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
