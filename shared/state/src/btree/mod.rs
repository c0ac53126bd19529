//! [`BTree`]: a persistent ordered map, implemented as a B+tree whose nodes are shared between clones.

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

/// Largest number of entries per leaf. Measured: 32 is not faster and makes the tree higher. 128 makes writes to a shared
/// tree a third slower if keys are reference-counted, because copying a leaf increments each count.
pub const LEAF_MAX: usize = 64;

/// Largest number of children per branch. Measured: 32 makes writes that copy their path a tenth faster, but slows down
/// lookups by the same amount. 128 gains nothing, and copying a shared branch increments the reference count of every child.
pub const FANOUT: usize = 64;

/// Number of entries by which the capacity of a leaf grows. Measured: allocating whole leaves takes a fifth more memory.
const LEAF_STEP: usize = 16;

/// An ordered map. A clone costs one reference count and does not see later changes of the original.
///
/// The interface is that of [`std::collections::BTreeMap`]. A write copies the nodes on its path that a clone still shares,
/// once, and then works in place. A write that changes nothing copies nothing.
#[derive(Clone)]
pub struct BTree<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

/// All leaves have the same distance from the root, and none is empty unless it is the root.
#[derive(Clone)]
enum Node<K, V> {
    Branch(Branch<K, V>),
    Leaf(Leaf<K, V>),
}

/// `separators[i]` is greater than every key under `children[i]`, and not greater than any key under `children[i + 1]`.
#[derive(Clone)]
struct Branch<K, V> {
    separators: Vec<K>,
    children: Vec<Arc<Node<K, V>>>,
}

/// Entries in the order of their keys. Keys and values are stored in pairs, so that the value is next to the key that a
/// lookup compares last.
struct Leaf<K, V> {
    entries: Vec<(K, V)>,
}

/// The right half of a node that was split, with the lowest key in it.
type Split<K, V> = (K, Arc<Node<K, V>>);

impl<K: Ord + Clone, V: Clone> BTree<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Leaf { entries: Vec::new() })), len: 0 }
    }

    /// The number of entries.
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
                Node::Branch(branch) => node = &branch.children[branch.child_index(key)],
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

    /// The value under `key`, for modification. Clones do not see the change.
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
                    let child_index = branch.child_index(key);
                    node = &mut branch.children[child_index];
                }
                Node::Leaf(leaf) => return leaf.find(key).ok().map(|at| &mut leaf.entries[at].1),
            }
        }
    }

    /// Sets the value under `key` and returns the previous one. If there was one, the existing key is kept.
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

    /// Removes the entry under `key` and returns its value.
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

    /// All entries in the order of their keys. Use `rev()` for descending order.
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

    /// The entries with keys in `range`, in order. Use `rev()` for descending order.
    /// A range whose start is greater than its end is empty; `std` panics for it.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        Range::between(&self.root, range.start_bound(), range.end_bound())
    }

    /// Approximate heap memory in bytes. Memory shared with clones counts in full; memory that keys and values point to does
    /// not count. Visits all nodes.
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
            let child_index = branch.child_index(&key);
            let (replaced, split) = insert_under(&mut branch.children[child_index], key, value);
            (replaced, split.and_then(|(separator, right)| branch.insert(child_index, separator, right)))
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
            let child_index = branch.child_index(key);
            let removed = remove_under(&mut branch.children[child_index], key);
            branch.rebalance(child_index);
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
    /// Number of entries or children, which [`LEAF_MAX`] and [`FANOUT`] limit.
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
    /// Index of the child whose range contains `key`.
    fn child_index<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        search(&self.separators, |separator| separator.borrow().cmp(key)).map_or_else(|at| at, |at| at + 1)
    }

    /// Inserts `right` after the child at `child_index`. Returns the right half if the branch had to be split.
    fn insert(&mut self, child_index: usize, separator: K, right: Arc<Node<K, V>>) -> Option<Split<K, V>> {
        self.separators.insert(child_index, separator);
        self.children.insert(child_index + 1, right);
        if self.children.len() <= FANOUT {
            return None;
        }
        let at = split_point(child_index + 1, FANOUT);
        let children = self.children.split_off(at);
        let separators = self.separators.split_off(at);
        let separator = self.separators.pop().expect("the left half has more than one child");
        Some((separator, Arc::new(Node::Branch(Self { separators, children }))))
    }

    /// Rebalances after a removal under the child at `child_index`. An empty child is dropped. A child that is less than a
    /// quarter full is merged with a sibling if the result is at most three quarters full, so that the next insertion does
    /// not split it again.
    fn rebalance(&mut self, child_index: usize) {
        let child = &self.children[child_index];
        let (width, max) = (child.width(), child.width_max());
        if width == 0 {
            self.children.remove(child_index);
            if !self.separators.is_empty() {
                self.separators.remove(child_index.saturating_sub(1));
            }
        } else if width < max / 4 {
            let fits = |other: &Arc<Node<K, V>>| other.width() + width <= max / 4 * 3;
            if child_index > 0 && fits(&self.children[child_index - 1]) {
                self.merge_with_next(child_index - 1);
            } else if self.children.get(child_index + 1).is_some_and(fits) {
                self.merge_with_next(child_index);
            }
        }
    }

    /// Merges the children at `child_index` and `child_index + 1`.
    fn merge_with_next(&mut self, child_index: usize) {
        let separator = self.separators.remove(child_index);
        let next = Arc::unwrap_or_clone(self.children.remove(child_index + 1));
        match (Arc::make_mut(&mut self.children[child_index]), next) {
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
                unreachable!("all leaves have the same distance from the root")
            }
        }
    }
}

impl<K: Ord, V> Leaf<K, V> {
    /// The position of `key`, or the position where it would be inserted.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        search(&self.entries, |(other, _)| other.borrow().cmp(key))
    }

    /// Inserts a new entry at position `at`. Returns the right half if the leaf had to be split.
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
    /// Copies the leaf with capacity for another entry, because a leaf is copied only before a change.
    fn clone(&self) -> Self {
        let mut entries = Vec::with_capacity(leaf_capacity(self.entries.len() + 1));
        entries.extend_from_slice(&self.entries);
        Self { entries }
    }
}

/// Binary search: the position of the element for which `order` returns `Equal`, or the position where it would be inserted.
///
/// `binary_search_by` is branchless, so each probe waits for the memory access of the previous one. Here the processor
/// predicts the branches and prefetches, which makes lookups a third faster once the tree is larger than the cache.
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

/// Capacity to allocate for `len` entries.
fn leaf_capacity(len: usize) -> usize {
    len.next_multiple_of(LEAF_STEP).min(LEAF_MAX)
}

/// Position at which a full node of width `max` is split to insert an element at `at`. This is the middle, or the end if the
/// element is inserted at the end, so that ascending insertions leave full nodes.
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
