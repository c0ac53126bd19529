//! Property tests that compare the map, and clones of it, with `std::collections::BTreeMap`.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

impl<K: Ord + Clone, V: Clone> BTree<K, V> {
    /// Panics if the tree violates the invariants that lookups rely on.
    fn check(&self) {
        assert!(self.root.children().len() != 1, "a root with a single child is replaced by the child");
        if self.len > 0 {
            self.root.check(None, None);
        }
        assert_eq!(self.iter().count(), self.len);
        assert!(self.keys().is_sorted());
    }

    fn height(&self) -> usize {
        let mut height = 0;
        let mut node = &self.root;
        while let Some(child) = node.children().first() {
            node = child;
            height += 1;
        }
        height
    }

    /// The addresses of all nodes.
    fn nodes(&self) -> HashSet<usize> {
        fn collect<K, V>(node: &Arc<Node<K, V>>, nodes: &mut HashSet<usize>) {
            nodes.insert(Arc::as_ptr(node) as usize);
            node.children().iter().for_each(|child| collect(child, nodes));
        }
        let mut nodes = HashSet::new();
        collect(&self.root, &mut nodes);
        nodes
    }
}

impl<K, V> Node<K, V> {
    fn children(&self) -> &[Arc<Self>] {
        match self {
            Self::Branch(branch) => &branch.children,
            Self::Leaf(_) => &[],
        }
    }
}

impl<K: Ord, V> Node<K, V> {
    /// Checks the subtree, whose keys are at least `low` and less than `high`, and returns its height.
    fn check(&self, low: Option<&K>, high: Option<&K>) -> usize {
        assert!((1..=self.width_max()).contains(&self.width()), "a node of {}", self.width());
        match self {
            Self::Branch(Branch { separators, children }) => {
                assert_eq!(separators.len() + 1, children.len());
                assert!(separators.is_sorted_by(|a, b| a < b));
                let bounds: Vec<_> =
                    [low].into_iter().chain(separators.iter().map(Some)).chain([high]).collect();
                let heights: HashSet<_> = children
                    .iter()
                    .zip(bounds.windows(2))
                    .map(|(child, ends)| child.check(ends[0], ends[1]))
                    .collect();
                assert_eq!(heights.len(), 1, "all leaves have the same distance from the root");
                heights.into_iter().sum::<usize>() + 1
            }
            Self::Leaf(leaf) => {
                assert!(leaf.entries.is_sorted_by(|a, b| a.0 < b.0));
                assert!(leaf.entries.capacity() <= LEAF_MAX);
                assert!(low.is_none_or(|low| *low <= leaf.entries[0].0));
                assert!(high.is_none_or(|high| leaf.entries.last().unwrap().0 < *high));
                0
            }
        }
    }
}

/// Panics if any method that reads all of `map` differs from `model`.
fn assert_same(map: &BTree<u16, String>, model: &BTreeMap<u16, String>) {
    map.check();
    assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
    assert!(map.iter().eq(model));
    assert!(map.iter().rev().eq(model.iter().rev()));
    assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
    assert_eq!((map.first(), map.last()), (model.first_key_value(), model.last_key_value()));
    assert!(map.iter().fold(true, |same, (key, value)| same && model.get(key) == Some(value)));
}

/// The keys `start`, `start + step`, … in this order or in reverse.
#[derive(Debug, Clone)]
struct Keys {
    start: u16,
    count: u16,
    step: u16,
    descending: bool,
}

impl Keys {
    fn list(&self) -> Vec<u16> {
        let mut keys: Vec<_> =
            (0..self.count).map(|n| self.start.wrapping_add(n.wrapping_mul(self.step))).collect();
        if self.descending {
            keys.reverse();
        }
        keys
    }
}

fn keys() -> impl Strategy<Value = Keys> {
    let count = prop_oneof![4 => 1..4u16, 2 => 1..600u16, 1 => 1..6_000u16];
    (any::<u16>(), count, prop_oneof![Just(1), Just(3), any::<u16>()], any::<bool>())
        .prop_map(|(start, count, step, descending)| Keys { start, count, step, descending })
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Keys),
    Remove(Keys),
    Change(Keys),
    Snapshot,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => keys().prop_map(Op::Insert),
        3 => keys().prop_map(Op::Remove),
        2 => keys().prop_map(Op::Change),
        1 => Just(Op::Snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_as_std_and_its_clones_stay_as_they_were(ops in vec(op(), 0..60)) {
        let (mut map, mut model) = (BTree::new(), BTreeMap::new());
        let mut snapshots = Vec::new();
        for (number, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(keys) => for key in keys.list() {
                    let value = format!("inserted by {number}");
                    prop_assert_eq!(map.insert(key, value.clone()), model.insert(key, value));
                },
                Op::Remove(keys) => for key in keys.list() {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                },
                Op::Change(keys) => for key in keys.list() {
                    prop_assert_eq!(map.contains_key(&key), model.contains_key(&key));
                    let value = map.get_mut(&key);
                    prop_assert_eq!(&value, &model.get_mut(&key));
                    if let Some(value) = value {
                        *value = format!("changed by {number}");
                        model.insert(key, value.clone());
                    }
                    prop_assert_eq!(map.get(&key), model.get(&key));
                },
                Op::Snapshot => snapshots.push((map.clone(), model.clone())),
            }
        }
        snapshots.push((map, model));
        for (map, model) in &snapshots {
            assert_same(map, model);
        }
    }

    #[test]
    fn ranges_are_those_of_std(
        keys in keys(),
        bounds in vec((bound(), bound()), 1..40),
        ends in vec(any::<bool>(), 0..200),
    ) {
        let map: BTree<u16, u16> = keys.list().into_iter().map(|key| (key, key)).collect();
        let model: BTreeMap<u16, u16> = keys.list().into_iter().map(|key| (key, key)).collect();
        for range in bounds {
            let expected: Vec<_> = model.iter().filter(|(key, _)| range.contains(*key)).collect();
            prop_assert!(map.range(range).eq(expected.iter().copied()));
            prop_assert!(map.range(range).rev().eq(expected.iter().rev().copied()));

            let (mut range, mut expected) = (map.range(range), expected.into_iter());
            for &back in &ends {
                if back {
                    prop_assert_eq!(range.next_back(), expected.next_back());
                } else {
                    prop_assert_eq!(range.next(), expected.next());
                }
            }
            prop_assert!(range.clone().eq(expected.clone()));
            prop_assert!(range.rev().eq(expected.rev()));
        }
    }
}

fn bound() -> impl Strategy<Value = Bound<u16>> {
    prop_oneof![
        any::<u16>().prop_map(Bound::Included),
        any::<u16>().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

#[test]
fn ascending_inserts_leave_full_nodes() {
    let count = LEAF_MAX * FANOUT * 3;
    let map: BTree<usize, ()> = (0..count).map(|key| (key, ())).collect();
    map.check();
    assert_eq!(map.height(), 2);
    assert_eq!(map.nodes().len(), 1 + 3 + 3 * FANOUT);
}

#[test]
fn emptied_in_any_order_the_tree_shrinks_with_its_entries() {
    // Each stride is coprime to `count`, so that it visits every key once.
    let count = 50_000;
    for stride in [1, count - 1, 7_919, 20_011] {
        let order = |n: usize| n * stride % count;
        let mut map: BTree<usize, usize> = (0..count).map(|n| (order(n), n)).collect();
        for n in 0..count {
            assert_eq!(map.remove(&order(n)), Some(n));
            if n % 5_000 == 0 {
                map.check();
                let nodes_max = 3 + 5 * map.len() / LEAF_MAX;
                assert!(
                    map.nodes().len() <= nodes_max,
                    "{} nodes for {} entries",
                    map.nodes().len(),
                    map.len()
                );
            }
        }
        assert_eq!((map.len(), map.height(), map.first()), (0, 0, None));
    }
}

#[test]
fn a_write_beside_a_clone_copies_one_path_once() {
    let mut map: BTree<usize, usize> = (0..20_000).map(|key| (key, key)).collect();
    let before = map.nodes();
    *map.get_mut(&100).unwrap() += 1;
    assert_eq!(map.nodes(), before, "nothing is shared, so the write is in place");

    let clone = map.clone();
    assert!(map.get_mut(&20_000).is_none() && map.remove(&20_000).is_none());
    assert_eq!(map.nodes(), before, "nothing changed, so nothing is copied");

    map.insert(100, 7);
    let after = map.nodes();
    assert_eq!(after.difference(&before).count(), map.height() + 1);
    map.insert(101, 8);
    assert_eq!(map.nodes(), after, "the copies are reused");
    let both = |key| (clone.get(&key), map.get(&key));
    assert_eq!((both(100), both(101)), ((Some(&101), Some(&7)), (Some(&101), Some(&8))));
}

#[test]
fn looks_up_by_what_its_keys_borrow_as() {
    let mut map: BTree<String, u8> =
        [("b", 2), ("a", 1), ("c", 3)].map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
    assert_eq!(map.remove("b"), Some(2));
    assert_eq!((map.get("a"), map.contains_key("b")), (Some(&1), false));
    assert_eq!(
        map.range::<str>((Bound::Excluded("a"), Bound::Unbounded)).next(),
        Some((&"c".to_owned(), &3))
    );
    assert_eq!(format!("{map:?}"), r#"{"a": 1, "c": 3}"#);
}

#[test]
fn heap_bytes_of_ids_to_rows_stays_small() {
    let count = 100_000u64;
    let id = |n: u64| u128::from(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes();
    let map: BTree<[u8; 16], u32> = (0..count).map(|n| (id(n), 0)).collect();
    let per_entry = map.heap_bytes() as f64 / count as f64;
    assert!((20.0..32.0).contains(&per_entry), "{per_entry} bytes per entry of 20");
}
