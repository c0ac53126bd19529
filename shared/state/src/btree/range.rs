//! Double-ended iterator over a range of a tree.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::iter::{Flatten, FusedIterator};
use std::ops::Bound;
use std::slice;
use std::sync::Arc;

use super::Node;

/// Entries of a [`BTree`](super::BTree) in the order of their keys, from either end.
pub struct Range<'a, K, V> {
    entries: Flatten<Spans<'a, K, V>>,
}

impl<'a, K: Ord + Clone, V: Clone> Range<'a, K, V> {
    /// All entries under `root`.
    pub(super) fn all(root: &'a Arc<Node<K, V>>) -> Self {
        Self::between::<K>(root, Bound::Unbounded, Bound::Unbounded)
    }

    /// The entries under `root` within the bounds.
    pub(super) fn between<Q: Ord + ?Sized>(
        root: &'a Arc<Node<K, V>>,
        start: Bound<&Q>,
        end: Bound<&Q>,
    ) -> Self
    where
        K: Borrow<Q>,
    {
        let mut spans = Spans { spans: VecDeque::new() };
        spans.add(root, start, end);
        Self { entries: spans.flatten() }
    }
}

impl<K, V> Clone for Range<'_, K, V> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone() }
    }
}

impl<'a, K, V> Iterator for Range<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }

    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        self.entries.fold(init, |folded, (key, value)| f(folded, (key, value)))
    }
}

impl<K, V> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries.next_back().map(|(key, value)| (key, value))
    }
}

impl<K, V> FusedIterator for Range<'_, K, V> {}

/// The rest of a range, in the order of the keys. A node is expanded only when an end of the iterator reaches it, so that
/// there are only a few spans per level.
struct Spans<'a, K, V> {
    spans: VecDeque<Span<'a, K, V>>,
}

enum Span<'a, K, V> {
    /// Sibling nodes with everything under them.
    Nodes(slice::Iter<'a, Arc<Node<K, V>>>),
    Entries(&'a [(K, V)]),
}

impl<'a, K: Ord + Clone, V: Clone> Spans<'a, K, V> {
    /// Appends the entries under `node` within the bounds.
    fn add<Q: Ord + ?Sized>(&mut self, node: &'a Arc<Node<K, V>>, start: Bound<&Q>, end: Bound<&Q>)
    where
        K: Borrow<Q>,
    {
        if let (Bound::Unbounded, Bound::Unbounded) = (start, end) {
            self.spans.push_back(Span::Nodes(slice::from_ref(node).iter()));
            return;
        }
        match &**node {
            Node::Branch(branch) => {
                let first = match start {
                    Bound::Included(key) | Bound::Excluded(key) => branch.child_index(key),
                    Bound::Unbounded => 0,
                };
                let last = match end {
                    Bound::Included(key) | Bound::Excluded(key) => branch.child_index(key),
                    Bound::Unbounded => branch.children.len() - 1,
                };
                let children = &branch.children;
                if first == last {
                    self.add(&children[first], start, end);
                } else if first < last {
                    self.add(&children[first], start, Bound::Unbounded);
                    self.spans.push_back(Span::Nodes(children[first + 1..last].iter()));
                    self.add(&children[last], Bound::Unbounded, end);
                }
            }
            Node::Leaf(leaf) => {
                let first = match start {
                    Bound::Included(key) => leaf.find(key).unwrap_or_else(|at| at),
                    Bound::Excluded(key) => leaf.find(key).map_or_else(|at| at, |at| at + 1),
                    Bound::Unbounded => 0,
                };
                let end = match end {
                    Bound::Included(key) => leaf.find(key).map_or_else(|at| at, |at| at + 1),
                    Bound::Excluded(key) => leaf.find(key).unwrap_or_else(|at| at),
                    Bound::Unbounded => leaf.entries.len(),
                };
                self.spans.push_back(Span::Entries(leaf.entries.get(first..end).unwrap_or_default()));
            }
        }
    }
}

impl<'a, K, V> From<&'a Node<K, V>> for Span<'a, K, V> {
    fn from(node: &'a Node<K, V>) -> Self {
        match node {
            Node::Branch(branch) => Self::Nodes(branch.children.iter()),
            Node::Leaf(leaf) => Self::Entries(&leaf.entries),
        }
    }
}

impl<K, V> Clone for Spans<'_, K, V> {
    fn clone(&self) -> Self {
        Self { spans: self.spans.clone() }
    }
}

impl<K, V> Clone for Span<'_, K, V> {
    fn clone(&self) -> Self {
        match self {
            Self::Nodes(nodes) => Self::Nodes(nodes.clone()),
            Self::Entries(entries) => Self::Entries(entries),
        }
    }
}

impl<'a, K, V> Iterator for Spans<'a, K, V> {
    type Item = &'a [(K, V)];

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.spans.pop_front()? {
                Span::Entries(entries) => return Some(entries),
                Span::Nodes(mut nodes) => {
                    if let Some(node) = nodes.next() {
                        self.spans.push_front(Span::Nodes(nodes));
                        self.spans.push_front(Span::from(&**node));
                    }
                }
            }
        }
    }
}

impl<K, V> DoubleEndedIterator for Spans<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            match self.spans.pop_back()? {
                Span::Entries(entries) => return Some(entries),
                Span::Nodes(mut nodes) => {
                    if let Some(node) = nodes.next_back() {
                        self.spans.push_back(Span::Nodes(nodes));
                        self.spans.push_back(Span::from(&**node));
                    }
                }
            }
        }
    }
}
