//! [`SlabMap`]: a persistent map for random ids. A slab stores the values, and a tree maps each id to the slot of its value.
//!
//! Random ids that are inserted at the same time are spread all over a tree. If the tree contained the values, each write
//! would copy a leaf of old values and update the reference counts of the objects they point to, which are no longer in any
//! cache. So the leaves contain only slots, and the values that are written at the same time are next to each other.

use std::ops::RangeBounds;

use crate::layered::Layered;
use crate::slab::Slab;

/// An ordered map. A clone costs a few reference counts and does not see later changes of the original.
#[derive(Debug, Clone)]
pub(crate) struct SlabMap<K: Ord + Clone, V: Clone> {
    slots: Layered<K, u32>,
    values: Slab<V>,
}

impl<K: Ord + Clone, V: Clone> SlabMap<K, V> {
    /// The value under `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.slots.get(key).map(|slot| &self.values[*slot])
    }

    /// The value under `key`, for modification. Clones do not see the change.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let slot = *self.slots.get(key)?;
        Some(self.values.get_mut(slot))
    }

    /// Sets the value under `key`.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.get_mut(&key) {
            Some(old) => *old = value,
            None => {
                let slot = self.values.insert(value);
                self.slots.insert_new(key, slot);
            }
        }
    }

    /// Removes the entry under `key` and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.slots.remove(key).map(|slot| self.values.remove(slot))
    }

    /// All values in the order of their keys.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.slots.values().map(|slot| &self.values[*slot])
    }

    /// The values with keys in `range`, in order.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = &V> {
        self.slots.range(range).map(|slot| &self.values[*slot])
    }
}

impl<K: Ord + Clone, V: Clone> Default for SlabMap<K, V> {
    fn default() -> Self {
        Self { slots: Layered::default(), values: Slab::default() }
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

    fn same(map: &SlabMap<u8, u16>, model: &BTreeMap<u8, u16>) -> Result<(), TestCaseError> {
        prop_assert!(map.values().eq(model.values()));
        prop_assert!(map.range(10..=40).rev().eq(model.range(10..=40).rev().map(|(_, value)| value)));
        for key in 0..60 {
            prop_assert_eq!(map.get(&key), model.get(&key));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn behaves_as_an_ordered_map_and_clones_stay_as_they_were(ops in prop::collection::vec(op(), 0..120)) {
            let (mut map, mut model) = (SlabMap::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for op in ops {
                match op {
                    Op::Insert(key, value) => {
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                    Op::Change(key, value) => {
                        let (ours, expected) = (map.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(&ours, &expected);
                        ours.into_iter().chain(expected).for_each(|old| *old = value);
                    }
                    Op::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    Op::Clone => clones.push((map.clone(), model.clone())),
                }
                same(&map, &model)?;
            }
            for (map, model) in &clones {
                same(map, model)?;
            }
        }
    }
}
