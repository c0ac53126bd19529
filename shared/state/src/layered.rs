//! [`Layered`]: a persistent map in two layers. New entries go into a small tree, which is merged into a large tree when it
//! is full.
//!
//! A write to a shared tree copies the path to its leaf, and copying a branch increments the reference counts of all its
//! children. If the tree is large and the keys are random, these are cache misses. The small tree fits into the cache. The
//! merge inserts keys in order, so that many keys share a branch.

use std::ops::RangeBounds;

use crate::btree::{BTree, Range};

/// Number of recent entries that triggers a merge.
const RECENT_MAX: usize = 4_096;

/// An ordered map. A clone costs two reference counts and does not see later changes of the original. A key is in one of the
/// layers only.
#[derive(Debug, Clone)]
pub struct Layered<K: Ord + Clone, V: Clone> {
    recent: BTree<K, V>,
    merged: BTree<K, V>,
}

impl<K: Ord + Clone, V: Clone> Layered<K, V> {
    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.recent.len() + self.merged.len()
    }

    /// The value under `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.recent.get(key).or_else(|| self.merged.get(key))
    }

    /// Sets the value under `key` and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.merged.contains_key(&key) {
            return self.merged.insert(key, value);
        }
        self.insert_new(key, value)
    }

    /// Inserts like [`Self::insert`], but `key` must not be in the large tree. This saves the lookup there, which is most of
    /// the cost of an insertion.
    pub fn insert_new(&mut self, key: K, value: V) -> Option<V> {
        debug_assert!(!self.merged.contains_key(&key), "a key is in one of the layers only");
        let replaced = self.recent.insert(key, value);
        if self.recent.len() >= RECENT_MAX {
            let recent = std::mem::take(&mut self.recent);
            self.merged.extend(recent.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        replaced
    }

    /// Removes the entry under `key` and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.recent.remove(key).or_else(|| self.merged.remove(key))
    }

    /// All values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        MergeIter::new(self.recent.iter(), self.merged.iter()).map(|(_, value)| value)
    }

    /// The values with keys in `range`, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = &V> {
        let range = (range.start_bound(), range.end_bound());
        MergeIter::new(self.recent.range(range), self.merged.range(range)).map(|(_, value)| value)
    }

    /// Approximate heap memory in bytes, as [`BTree::heap_bytes`].
    pub fn heap_bytes(&self) -> usize {
        self.recent.heap_bytes() + self.merged.heap_bytes()
    }
}

impl<K: Ord + Clone, V: Clone> Default for Layered<K, V> {
    fn default() -> Self {
        Self { recent: BTree::default(), merged: BTree::default() }
    }
}

/// Iterates over the entries of both layers in the order of their keys.
struct MergeIter<'a, K, V> {
    recent: PeekableRange<'a, K, V>,
    merged: PeekableRange<'a, K, V>,
}

/// A range that can be peeked at both ends.
struct PeekableRange<'a, K, V> {
    rest: Range<'a, K, V>,
    /// The next entry at the front, if it was peeked at.
    front: Option<(&'a K, &'a V)>,
    /// The next entry at the back, if it was peeked at.
    back: Option<(&'a K, &'a V)>,
}

impl<'a, K, V> PeekableRange<'a, K, V> {
    /// Peeks at the next entry from the front.
    fn peek_front(&mut self) -> Option<(&'a K, &'a V)> {
        if self.front.is_none() {
            self.front = self.rest.next().or_else(|| self.back.take());
        }
        self.front
    }

    /// Peeks at the next entry from the back.
    fn peek_back(&mut self) -> Option<(&'a K, &'a V)> {
        if self.back.is_none() {
            self.back = self.rest.next_back().or_else(|| self.front.take());
        }
        self.back
    }
}

impl<'a, K, V> MergeIter<'a, K, V> {
    fn new(recent: Range<'a, K, V>, merged: Range<'a, K, V>) -> Self {
        let peekable = |rest| PeekableRange { rest, front: None, back: None };
        Self { recent: peekable(recent), merged: peekable(merged) }
    }
}

impl<'a, K: Ord, V> Iterator for MergeIter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.recent.peek_front(), self.merged.peek_front()) {
            (Some((recent, _)), Some((merged, _))) if recent > merged => self.merged.front.take(),
            (Some(_), _) => self.recent.front.take(),
            (None, _) => self.merged.front.take(),
        }
    }
}

impl<K: Ord, V> DoubleEndedIterator for MergeIter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match (self.recent.peek_back(), self.merged.peek_back()) {
            (Some((recent, _)), Some((merged, _))) if recent < merged => self.merged.back.take(),
            (Some(_), _) => self.recent.back.take(),
            (None, _) => self.merged.back.take(),
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
        /// Inserts this many keys, which are far apart.
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
        // Reads from both ends until they meet.
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
                prop_assert!(layered.recent.len() < RECENT_MAX);
            }
            clones.push((layered, model));
            for (layered, model) in &clones {
                same(layered, model)?;
            }
        }
    }

    #[test]
    fn recent_entries_are_merged() {
        let mut layered = Layered::default();
        for key in 0..10 * RECENT_MAX {
            layered.insert(key, key);
        }
        assert_eq!((layered.recent.len(), layered.merged.len()), (0, 10 * RECENT_MAX));
        layered.insert(3, 0);
        assert_eq!(
            (layered.get(&3), layered.recent.len()),
            (Some(&0), 0),
            "the value is replaced in its layer"
        );
    }
}
