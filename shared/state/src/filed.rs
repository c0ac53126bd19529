//! A persistent map by ids that mean nothing: where an entry lies follows from when it came, and a tree from id to place
//! finds it.
//!
//! Ids of one moment lie all over a tree. Were the entries in its leaves, each write would copy a leaf of entries that were
//! made long ago, and count up and down what they refer to, which is in no cache any more. So the leaves have numbers only,
//! and what is written lies beside what was written last.

use std::ops::RangeBounds;

use crate::layered::Layered;
use crate::places::Places;

/// A map whose clones cost a few reference counts and keep what they saw.
#[derive(Debug, Clone)]
pub(crate) struct Filed<K: Ord + Clone, V: Clone> {
    numbers: Layered<K, u32>,
    values: Places<V>,
}

impl<K: Ord + Clone, V: Clone> Filed<K, V> {
    /// The value under `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.numbers.get(key).map(|number| &self.values[*number])
    }

    /// The value under `key`, to be changed here and in no clone.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let number = *self.numbers.get(key)?;
        Some(self.values.get_mut(number))
    }

    /// Sets the value under `key`.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.get_mut(&key) {
            Some(old) => *old = value,
            None => {
                let number = self.values.insert(value);
                self.numbers.insert_new(key, number);
            }
        }
    }

    /// Takes the entry under `key` out and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.numbers.remove(key).map(|number| self.values.take(number))
    }

    /// All values in the order of their keys.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.numbers.values().map(|number| &self.values[*number])
    }

    /// The values with keys in `range`, in order.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = &V> {
        self.numbers.range(range).map(|number| &self.values[*number])
    }
}

impl<K: Ord + Clone, V: Clone> Default for Filed<K, V> {
    fn default() -> Self {
        Self { numbers: Layered::default(), values: Places::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u8, u16),
        Change(u8, u16),
        Remove(u8),
        Clone,
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = 0..60u8;
        prop_oneof![
            4 => (key.clone(), any::<u16>()).prop_map(|(key, value)| Op::Insert(key, value)),
            1 => (key.clone(), any::<u16>()).prop_map(|(key, value)| Op::Change(key, value)),
            2 => key.prop_map(Op::Remove),
            1 => Just(Op::Clone),
        ]
    }

    fn same(filed: &Filed<u8, u16>, model: &BTreeMap<u8, u16>) -> Result<(), TestCaseError> {
        prop_assert!(filed.values().eq(model.values()));
        prop_assert!(filed.range(10..=40).rev().eq(model.range(10..=40).rev().map(|(_, value)| value)));
        for key in 0..60 {
            prop_assert_eq!(filed.get(&key), model.get(&key));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn behaves_as_an_ordered_map_and_clones_stay_as_they_were(ops in prop::collection::vec(op(), 0..120)) {
            let (mut filed, mut model) = (Filed::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for op in ops {
                match op {
                    Op::Insert(key, value) => {
                        filed.insert(key, value);
                        model.insert(key, value);
                    }
                    Op::Change(key, value) => {
                        let (ours, expected) = (filed.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(&ours, &expected);
                        ours.into_iter().chain(expected).for_each(|place| *place = value);
                    }
                    Op::Remove(key) => prop_assert_eq!(filed.remove(&key), model.remove(&key)),
                    Op::Clone => clones.push((filed.clone(), model.clone())),
                }
                same(&filed, &model)?;
            }
            for (filed, model) in &clones {
                same(filed, model)?;
            }
        }
    }
}
