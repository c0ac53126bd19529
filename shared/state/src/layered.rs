//! A persistent map in two layers: a small tree that takes what is new, and a large one that gets all of it at once.
//!
//! A write to a tree that a clone shares copies the path to its leaf, and each branch on it counts up as many children as it
//! has: cache misses where the tree is large and keys lie all over it. In a small tree everything is at hand, and what then
//! comes at once comes in order, many keys a branch.

use std::ops::RangeBounds;

use crate::btree::{BTree, Range};

/// So many entries are new at most.
const NEW_MAX: usize = 4_096;

/// A map whose clones cost two reference counts and keep what they saw. A key is in one of the layers.
#[derive(Debug, Clone)]
pub(crate) struct Layered<K: Ord + Clone, V: Clone> {
    new: BTree<K, V>,
    settled: BTree<K, V>,
}

impl<K: Ord + Clone, V: Clone> Layered<K, V> {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.new.len() + self.settled.len()
    }

    /// The value under `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.new.get(key).or_else(|| self.settled.get(key))
    }

    /// Sets the value under `key` and returns the one it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.settled.contains_key(&key) {
            return self.settled.insert(key, value);
        }
        self.insert_new(key, value)
    }

    /// The same where `key` is known not to have settled, which need not be looked up then: that is the larger part of it.
    pub(crate) fn insert_new(&mut self, key: K, value: V) -> Option<V> {
        debug_assert!(!self.settled.contains_key(&key), "a key is in one of the layers");
        let replaced = self.new.insert(key, value);
        if self.new.len() >= NEW_MAX {
            let new = std::mem::take(&mut self.new);
            self.settled.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        replaced
    }

    /// Takes the entry under `key` out and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.new.remove(key).or_else(|| self.settled.remove(key))
    }

    /// All values in the order of their keys.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        Merged::of(self.new.iter(), self.settled.iter()).map(|(_, value)| value)
    }

    /// The values with keys in `range`, in order.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = &V> {
        let range = (range.start_bound(), range.end_bound());
        Merged::of(self.new.range(range), self.settled.range(range)).map(|(_, value)| value)
    }

    /// Roughly the heap this map takes in bytes, as [`BTree::heap_bytes`].
    pub(crate) fn heap_bytes(&self) -> usize {
        self.new.heap_bytes() + self.settled.heap_bytes()
    }
}

impl<K: Ord + Clone, V: Clone> Default for Layered<K, V> {
    fn default() -> Self {
        Self { new: BTree::default(), settled: BTree::default() }
    }
}

/// The entries of both layers in one order.
struct Merged<'a, K, V> {
    new: Ends<'a, K, V>,
    settled: Ends<'a, K, V>,
}

/// A layer's entries, of which the next at each end may have been looked at.
struct Ends<'a, K, V> {
    between: Range<'a, K, V>,
    front: Option<(&'a K, &'a V)>,
    back: Option<(&'a K, &'a V)>,
}

impl<'a, K, V> Ends<'a, K, V> {
    /// The next entry from the front, which stays there.
    fn front(&mut self) -> Option<(&'a K, &'a V)> {
        if self.front.is_none() {
            self.front = self.between.next().or_else(|| self.back.take());
        }
        self.front
    }

    /// The next entry from the back, which stays there.
    fn back(&mut self) -> Option<(&'a K, &'a V)> {
        if self.back.is_none() {
            self.back = self.between.next_back().or_else(|| self.front.take());
        }
        self.back
    }
}

impl<'a, K, V> Merged<'a, K, V> {
    fn of(new: Range<'a, K, V>, settled: Range<'a, K, V>) -> Self {
        let ends = |between| Ends { between, front: None, back: None };
        Self { new: ends(new), settled: ends(settled) }
    }
}

impl<'a, K: Ord, V> Iterator for Merged<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.new.front(), self.settled.front()) {
            (Some((new, _)), Some((settled, _))) if new > settled => self.settled.front.take(),
            (Some(_), _) => self.new.front.take(),
            (None, _) => self.settled.front.take(),
        }
    }
}

impl<K: Ord, V> DoubleEndedIterator for Merged<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match (self.new.back(), self.settled.back()) {
            (Some((new, _)), Some((settled, _))) if new < settled => self.settled.back.take(),
            (Some(_), _) => self.new.back.take(),
            (None, _) => self.settled.back.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u16),
        /// So many keys at once, far apart.
        InsertMany(u16),
        Remove(u16),
        Clone,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => any::<u16>().prop_map(Op::Insert),
            1 => (1..3_000u16).prop_map(Op::InsertMany),
            3 => any::<u16>().prop_map(Op::Remove),
            1 => Just(Op::Clone),
        ]
    }

    fn same(layered: &Layered<u16, u32>, model: &BTreeMap<u16, u32>) -> Result<(), TestCaseError> {
        prop_assert_eq!(layered.len(), model.len());
        prop_assert!(layered.values().eq(model.values()));
        prop_assert!(layered.values().rev().eq(model.values().rev()));
        prop_assert!(layered.range(100..=60_000).eq(model.range(100..=60_000).map(|(_, value)| value)));
        // From both ends until they meet.
        let (mut ours, mut theirs) = (layered.values(), model.values());
        loop {
            let ends = (ours.next(), ours.next_back());
            prop_assert_eq!(ends, (theirs.next(), theirs.next_back()));
            if ends.1.is_none() {
                return Ok(());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_as_one_ordered_map_and_clones_stay_as_they_were(ops in prop::collection::vec(op(), 0..20)) {
            let (mut layered, mut model, mut value) = (Layered::default(), BTreeMap::new(), 0);
            let mut clones = Vec::new();
            for op in ops {
                value += 1;
                match op {
                    Op::Insert(key) => prop_assert_eq!(layered.insert(key, value), model.insert(key, value)),
                    Op::InsertMany(count) => for key in (0..count).map(|n| n.wrapping_mul(40_503)) {
                        prop_assert_eq!(layered.insert(key, value), model.insert(key, value));
                    },
                    Op::Remove(key) => {
                        let key = model.range(key..).next().map_or(key, |(key, _)| *key);
                        prop_assert_eq!(layered.get(&key), model.get(&key));
                        prop_assert_eq!(layered.remove(&key), model.remove(&key));
                    }
                    Op::Clone => clones.push((layered.clone(), model.clone())),
                }
                prop_assert!(layered.new.len() < NEW_MAX);
            }
            clones.push((layered, model));
            for (layered, model) in &clones {
                same(layered, model)?;
            }
        }
    }

    #[test]
    fn what_is_new_settles() {
        let mut layered = Layered::default();
        for key in 0..10 * NEW_MAX {
            layered.insert(key, key);
        }
        assert_eq!((layered.new.len(), layered.settled.len()), (0, 10 * NEW_MAX));
        layered.insert(3, 0);
        assert_eq!((layered.get(&3), layered.new.len()), (Some(&0), 0), "where it is");
    }
}
