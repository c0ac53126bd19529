//! [`SlotSet`]: sets of allocation slots, such as those of a job or of a node.

use std::sync::Arc;

/// A set of slots: an ascending list of four bytes per slot. Snapshots share the list until one of them changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SlotSet(Option<Arc<Vec<u32>>>);

impl SlotSet {
    pub(crate) fn as_slice(&self) -> &[u32] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(crate) fn insert(&mut self, slot: u32) {
        let slots = Arc::make_mut(self.0.get_or_insert_default());
        match slots.last() {
            Some(last) if *last >= slot => {
                if let Err(position) = slots.binary_search(&slot) {
                    slots.insert(position, slot);
                }
            }
            Some(_) | None => slots.push(slot),
        }
    }

    /// Adds many slots with a single merge, instead of moving the tail of the list for each.
    pub(crate) fn extend(&mut self, mut more: Vec<u32>) {
        more.sort_unstable();
        more.dedup();
        let slots = Arc::make_mut(self.0.get_or_insert_default());
        let in_order = slots.last().zip(more.first()).is_none_or(|(last, first)| last < first);
        slots.append(&mut more);
        if !in_order {
            // The standard sort detects the two sorted runs and merges them.
            slots.sort();
            slots.dedup();
        }
    }

    /// Removes many slots in one pass; `removed` is ascending.
    pub(crate) fn remove_all(&mut self, removed: &[u32]) {
        if let Some(slots) = &mut self.0 {
            let mut removed = removed.iter().copied().peekable();
            Arc::make_mut(slots).retain(|slot| {
                while removed.next_if(|removed| removed < slot).is_some() {}
                removed.peek() != Some(slot)
            });
        }
        self.shrink();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |slots| size_of::<Vec<u32>>() + 2 * size_of::<usize>() + slots.capacity() * 4)
    }

    /// Releases memory that the set no longer needs.
    fn shrink(&mut self) {
        let Some(slots) = &mut self.0 else { return };
        if slots.is_empty() {
            self.0 = None;
        } else if slots.len() < slots.capacity() / 4 {
            Arc::make_mut(slots).shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u32),
        Extend(Vec<u32>),
        RemoveAll(BTreeSet<u32>),
    }

    fn op() -> impl Strategy<Value = Op> {
        let slot = 0..40u32;
        prop_oneof![
            slot.clone().prop_map(Op::Insert),
            prop::collection::vec(slot.clone(), 0..10).prop_map(Op::Extend),
            prop::collection::btree_set(slot, 0..10).prop_map(Op::RemoveAll),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_an_ordered_set(ops in prop::collection::vec(op(), 0..40)) {
            let (mut slots, mut model) = (SlotSet::default(), BTreeSet::new());
            for op in ops {
                match op {
                    Op::Insert(slot) => { slots.insert(slot); model.insert(slot); }
                    Op::Extend(more) => { slots.extend(more.clone()); model.extend(more); }
                    Op::RemoveAll(removed) => {
                        slots.remove_all(&removed.iter().copied().collect::<Vec<_>>());
                        model.retain(|slot| !removed.contains(slot));
                    }
                }
                prop_assert!(slots.as_slice().iter().eq(model.iter()));
                prop_assert_eq!(slots.is_empty(), model.is_empty());
            }
        }
    }
}
