//! A persistent ordered map: a B+tree whose nodes are structurally shared between clones.
//! Knows nothing of what it maps; which index a table keeps, and under which key, is for the tables to say.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::mem::{replace, size_of};
use std::ops::RangeBounds;
use std::sync::Arc;

pub use range::Range;

mod range;
#[cfg(test)]
mod tests;

/// Most entries a leaf. Measured: 32 is no faster and makes the tree higher; 128 makes writes beside a clone a third
/// dearer where keys are reference-counted, since a copied leaf counts up each of them.
pub const LEAF_MAX: usize = 64;

/// Most children a branch. Measured: 32 saves a tenth where every write copies its path, but costs lookups as much;
/// 128 gains nothing, and copying a shared branch touches every child's reference count.
pub const FANOUT: usize = 64;

/// Entries by which a leaf's allocation grows. Measured: room for a whole leaf at once takes a fifth more memory.
const LEAF_STEP: usize = 16;

/// An ordered map whose clones cost one reference count and keep what they saw while the original goes on.
///
/// The interface is that of [`std::collections::BTreeMap`]. A write copies the nodes between root and leaf that a
/// clone still shares, once, and works in place after that; a write that finds nothing to change copies nothing.
#[derive(Clone)]
pub struct BTree<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

/// All leaves are equally far from the root, and none is empty unless it is the root.
#[derive(Clone)]
enum Node<K, V> {
    Branch(Branch<K, V>),
    Leaf(Leaf<K, V>),
}

/// `separators[i]` is above every key under `children[i]` and not above any under `children[i + 1]`.
#[derive(Clone)]
struct Branch<K, V> {
    separators: Vec<K>,
    children: Vec<Arc<Node<K, V>>>,
}

/// Entries in the order of their keys. Pairs, so that a lookup's last comparison has its value at hand.
struct Leaf<K, V> {
    entries: Vec<(K, V)>,
}

/// The right half of a node that had to be split, and the lowest key that belongs there.
type Split<K, V> = (K, Arc<Node<K, V>>);

impl<K: Ord + Clone, V: Clone> BTree<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Leaf { entries: Vec::new() })), len: 0 }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value under `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &self.root;
        loop {
            match &**node {
                Node::Branch(branch) => node = &branch.children[branch.slot(key)],
                Node::Leaf(leaf) => return leaf.find(key).ok().map(|at| &leaf.entries[at].1),
            }
        }
    }

    /// Whether there is an entry under `key`.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The value under `key`, to be changed here and in no clone.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let mut node = &mut self.root;
        loop {
            match Arc::make_mut(node) {
                Node::Branch(branch) => {
                    let slot = branch.slot(key);
                    node = &mut branch.children[slot];
                }
                Node::Leaf(leaf) => return leaf.find(key).ok().map(|at| &mut leaf.entries[at].1),
            }
        }
    }

    /// Sets the value under `key` and returns the one it replaces, whose key stays.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (replaced, split) = insert_under(&mut self.root, key, value);
        if let Some((separator, right)) = split {
            let left = Arc::clone(&self.root);
            self.root =
                Arc::new(Node::Branch(Branch { separators: vec![separator], children: vec![left, right] }));
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Takes the entry under `key` out and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let removed = remove_under(&mut self.root, key);
        while let Node::Branch(Branch { children, .. }) = &*self.root
            && let [only] = children.as_slice()
        {
            self.root = Arc::clone(only);
        }
        self.len -= 1;
        removed
    }

    /// The entry with the lowest key.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry with the highest key.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// All entries in the order of their keys; `rev()` for the other way round.
    pub fn iter(&self) -> Range<'_, K, V> {
        Range::all(&self.root)
    }

    /// All keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// All values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The entries with keys in `range`, in order; `rev()` for the other way round.
    /// A range whose start is above its end is empty, not a panic as in `std`.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        Range::between(&self.root, range.start_bound(), range.end_bound())
    }

    /// Roughly the heap this map takes in bytes, shared nodes in full, what keys and values point to not at all.
    /// Walks all nodes.
    pub fn heap_bytes(&self) -> usize {
        heap_bytes_under(&self.root)
    }
}

fn insert_under<K: Ord + Clone, V: Clone>(
    node: &mut Arc<Node<K, V>>,
    key: K,
    value: V,
) -> (Option<V>, Option<Split<K, V>>) {
    match Arc::make_mut(node) {
        Node::Branch(branch) => {
            let slot = branch.slot(&key);
            let (replaced, split) = insert_under(&mut branch.children[slot], key, value);
            (replaced, split.and_then(|(separator, right)| branch.insert(slot, separator, right)))
        }
        Node::Leaf(leaf) => match leaf.find(&key) {
            Ok(at) => (Some(replace(&mut leaf.entries[at].1, value)), None),
            Err(at) => (None, leaf.insert(at, key, value)),
        },
    }
}

fn remove_under<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(
    node: &mut Arc<Node<K, V>>,
    key: &Q,
) -> Option<V> {
    match Arc::make_mut(node) {
        Node::Branch(branch) => {
            let slot = branch.slot(key);
            let removed = remove_under(&mut branch.children[slot], key);
            branch.mend(slot);
            removed
        }
        Node::Leaf(leaf) => leaf.find(key).ok().map(|at| leaf.entries.remove(at).1),
    }
}

fn heap_bytes_under<K, V>(node: &Node<K, V>) -> usize {
    const ARC_COUNTS: usize = 2 * size_of::<usize>();
    let contents = match node {
        Node::Branch(Branch { separators, children }) => {
            separators.capacity() * size_of::<K>()
                + children.capacity() * size_of::<Arc<Node<K, V>>>()
                + children.iter().map(|child| heap_bytes_under(child)).sum::<usize>()
        }
        Node::Leaf(leaf) => leaf.entries.capacity() * size_of::<(K, V)>(),
    };
    ARC_COUNTS + size_of::<Node<K, V>>() + contents
}

impl<K, V> Node<K, V> {
    /// Entries or children: what [`LEAF_MAX`] and [`FANOUT`] bound.
    fn width(&self) -> usize {
        match self {
            Self::Branch(branch) => branch.children.len(),
            Self::Leaf(leaf) => leaf.entries.len(),
        }
    }

    fn width_max(&self) -> usize {
        match self {
            Self::Branch(_) => FANOUT,
            Self::Leaf(_) => LEAF_MAX,
        }
    }
}

impl<K: Ord + Clone, V: Clone> Branch<K, V> {
    /// Which child covers `key`.
    fn slot<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        search(&self.separators, |separator| separator.borrow().cmp(key)).map_or_else(|at| at, |at| at + 1)
    }

    /// Puts `right` after the child at `slot`.
    fn insert(&mut self, slot: usize, separator: K, right: Arc<Node<K, V>>) -> Option<Split<K, V>> {
        self.separators.insert(slot, separator);
        self.children.insert(slot + 1, right);
        if self.children.len() <= FANOUT {
            return None;
        }
        let at = split_point(slot + 1, FANOUT);
        let children = self.children.split_off(at);
        let separators = self.separators.split_off(at);
        let separator = self.separators.pop().expect("the left part has more than one child");
        Some((separator, Arc::new(Node::Branch(Self { separators, children }))))
    }

    /// After a removal under the child at `slot`: drops it if it is empty, and merges it with a neighbour if it is
    /// less than a quarter full and both together leave a quarter free, so that the next insert does not split again.
    fn mend(&mut self, slot: usize) {
        let child = &self.children[slot];
        let (width, max) = (child.width(), child.width_max());
        if width == 0 {
            self.children.remove(slot);
            if !self.separators.is_empty() {
                self.separators.remove(slot.saturating_sub(1));
            }
        } else if width < max / 4 {
            let fits = |other: &Arc<Node<K, V>>| other.width() + width <= max / 4 * 3;
            if slot > 0 && fits(&self.children[slot - 1]) {
                self.merge_with_next(slot - 1);
            } else if self.children.get(slot + 1).is_some_and(fits) {
                self.merge_with_next(slot);
            }
        }
    }

    /// Makes one child of the children at `slot` and `slot + 1`.
    fn merge_with_next(&mut self, slot: usize) {
        let separator = self.separators.remove(slot);
        let next = Arc::unwrap_or_clone(self.children.remove(slot + 1));
        match (Arc::make_mut(&mut self.children[slot]), next) {
            (Node::Branch(left), Node::Branch(right)) => {
                left.separators.push(separator);
                left.separators.extend(right.separators);
                left.children.extend(right.children);
            }
            (Node::Leaf(left), Node::Leaf(right)) => {
                left.entries.reserve_exact(right.entries.len());
                left.entries.extend(right.entries);
            }
            (Node::Branch(_), Node::Leaf(_)) | (Node::Leaf(_), Node::Branch(_)) => {
                unreachable!("all leaves are equally far from the root")
            }
        }
    }
}

impl<K: Ord, V> Leaf<K, V> {
    /// Where `key` is, or else belongs.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        search(&self.entries, |(other, _)| other.borrow().cmp(key))
    }

    /// Puts a new entry at `at`.
    fn insert(&mut self, at: usize, key: K, value: V) -> Option<Split<K, V>>
    where
        K: Clone,
    {
        if self.entries.len() < LEAF_MAX {
            let len = self.entries.len();
            self.entries.reserve_exact(leaf_capacity(len + 1) - len);
            self.entries.insert(at, (key, value));
            return None;
        }
        let middle = split_point(at, LEAF_MAX);
        let mut right = Self { entries: Vec::with_capacity(leaf_capacity(LEAF_MAX + 1 - middle)) };
        right.entries.extend(self.entries.drain(middle..));
        self.entries.shrink_to(leaf_capacity(middle));
        let (half, at) = if at < middle { (self, at) } else { (&mut right, at - middle) };
        half.insert(at, key, value);
        Some((right.entries[0].0.clone(), Arc::new(Node::Leaf(right))))
    }
}

impl<K: Clone, V: Clone> Clone for Leaf<K, V> {
    /// Copies with room for another entry: a leaf is copied in order to be changed.
    fn clone(&self) -> Self {
        let mut entries = Vec::with_capacity(leaf_capacity(self.entries.len() + 1));
        entries.extend_from_slice(&self.entries);
        Self { entries }
    }
}

/// Where in `sorted` the element is that `order` finds equal, or else would belong.
///
/// Not `binary_search_by`: that one has no branches, so each probe waits for the memory of the one before. Here the
/// processor guesses and fetches ahead, which takes a third off a lookup once the tree has outgrown the cache.
fn search<T>(sorted: &[T], order: impl Fn(&T) -> Ordering) -> Result<usize, usize> {
    let (mut low, mut high) = (0, sorted.len());
    while low < high {
        let middle = low.midpoint(high);
        match order(&sorted[middle]) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

/// What to allocate for `len` entries.
fn leaf_capacity(len: usize) -> usize {
    len.next_multiple_of(LEAF_STEP).min(LEAF_MAX)
}

/// Where a node that is full with `max` is split for a newcomer at `at`: in the middle, but at the end if it goes
/// there, so that ascending inserts leave full nodes behind.
fn split_point(at: usize, max: usize) -> usize {
    if at == max { max } else { max / 2 }
}

impl<K: Ord + Clone, V: Clone> Default for BTree<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for BTree<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for BTree<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord + Clone + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for BTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'a, K: Ord + Clone, V: Clone> IntoIterator for &'a BTree<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Range<'a, K, V>;

    fn into_iter(self) -> Range<'a, K, V> {
        self.iter()
    }
}
