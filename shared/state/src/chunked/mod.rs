//! [`Chunked`]: a persistent vector, implemented as a radix tree with wide leaves that are shared between clones.

use std::fmt;
use std::iter::FusedIterator;
use std::mem::size_of;
use std::ops::Index;
use std::slice;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Number of rows per leaf. A write to a shared leaf copies the leaf. Measured with rows of 128 bytes: 64 makes such a write
/// a third slower; 16 makes it a tenth faster and doubles the number of branches.
pub const LEAF: usize = 32;

/// Number of children per branch. Copying a shared branch increments the reference count of every child. Measured with a
/// clone before each write: 64 is a third slower than 32; 16 makes the tree higher and reads a fifth slower.
pub const FANOUT: usize = 32;

/// Largest number of rows in a vector, so that a row number always fits into a `u32`. Checked once per leaf.
pub const ROWS_MAX: usize = u32::MAX as usize;

/// A vector. A clone costs two reference counts and does not see later changes of the original.
///
/// Full leaves are in the tree. The last, partial leaf is stored separately, so that a push rarely descends the tree. A write
/// copies the leaf and the branches above it that a clone still shares, once, and then works in place.
#[derive(Clone)]
pub struct Chunked<T> {
    root: Arc<Branch<T>>,
    /// Number of levels of branches below the root.
    height: u32,
    /// Number of rows in full leaves.
    sealed: usize,
    /// The remaining rows, fewer than [`LEAF`].
    tail: Arc<Tail<T>>,
}

type Leaf<T> = [T; LEAF];

/// Children are contiguous from the left.
#[derive(Clone)]
enum Branch<T> {
    Branches([Option<Arc<Branch<T>>>; FANOUT]),
    Leaves([Option<Arc<Leaf<T>>>; FANOUT]),
}

struct Tail<T>(Vec<T>);

impl<T: Clone> Clone for Tail<T> {
    /// Copies the tail with capacity for a whole leaf, because a tail is copied only before a push.
    fn clone(&self) -> Self {
        let mut rows = Vec::with_capacity(LEAF);
        rows.extend_from_slice(&self.0);
        Self(rows)
    }
}

impl<T: Clone> Chunked<T> {
    /// Creates an empty vector.
    pub fn new() -> Self {
        Self {
            root: Arc::new(Branch::Leaves([const { None }; FANOUT])),
            height: 0,
            sealed: 0,
            tail: Arc::new(Tail(Vec::new())),
        }
    }

    /// The number of rows. The next push gets this row number.
    pub fn len(&self) -> usize {
        self.sealed + self.tail.0.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row with number `index`, if there are that many rows.
    pub fn get(&self, index: usize) -> Option<&T> {
        if index < self.sealed {
            Some(&self.leaf(index)[index % LEAF])
        } else {
            self.tail.0.get(index - self.sealed)
        }
    }

    /// The row with number `index`, for modification. Clones do not see the change.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.len() {
            return None;
        }
        if index >= self.sealed {
            return Arc::make_mut(&mut self.tail).0.get_mut(index - self.sealed);
        }
        let (mut branch, mut level) = (&mut self.root, self.height);
        loop {
            match Arc::make_mut(branch) {
                Branch::Branches(branches) => {
                    branch = branches[child_index(index, level)]
                        .as_mut()
                        .expect("full leaves have branches above them");
                    level -= 1;
                }
                Branch::Leaves(leaves) => {
                    let leaf = leaves[child_index(index, level)]
                        .as_mut()
                        .expect("rows before the tail are in leaves");
                    return Some(&mut Arc::make_mut(leaf)[index % LEAF]);
                }
            }
        }
    }

    /// Appends `row` and returns its number.
    ///
    /// # Panics
    /// Beyond [`ROWS_MAX`] rows.
    pub fn push(&mut self, row: T) -> usize {
        let tail = &mut Arc::make_mut(&mut self.tail).0;
        let index = self.sealed + tail.len();
        tail.push(row);
        if tail.len() == LEAF {
            self.seal_tail();
        }
        index
    }

    /// All rows, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { rows: [].iter(), chunks: self.chunks() }
    }

    /// All rows in slices of up to [`LEAF`] rows, each with the number of its first row. This is the fastest way to scan.
    pub fn chunks(&self) -> Chunks<'_, T> {
        Chunks { vector: self, next: 0 }
    }

    /// Approximate heap memory in bytes. Memory shared with clones counts in full; memory that rows point to does not count.
    pub fn heap_bytes(&self) -> usize {
        const ARC_COUNTS: usize = 2 * size_of::<usize>();
        let mut nodes = self.sealed / LEAF;
        let mut bytes = nodes * (size_of::<Leaf<T>>() + ARC_COUNTS);
        for _ in 0..=self.height {
            nodes = nodes.div_ceil(FANOUT).max(1);
            bytes += nodes * (size_of::<Branch<T>>() + ARC_COUNTS);
        }
        bytes + size_of::<Tail<T>>() + ARC_COUNTS + self.tail.0.capacity() * size_of::<T>()
    }

    /// The full leaf that contains row `index`.
    fn leaf(&self, index: usize) -> &Leaf<T> {
        let (mut branch, mut level) = (&self.root, self.height);
        loop {
            match &**branch {
                Branch::Branches(branches) => {
                    branch = branches[child_index(index, level)]
                        .as_ref()
                        .expect("full leaves have branches above them");
                    level -= 1;
                }
                Branch::Leaves(leaves) => {
                    return leaves[child_index(index, level)]
                        .as_ref()
                        .expect("rows before the tail are in leaves");
                }
            }
        }
    }

    /// Moves the rows of the full tail into the tree. The tail keeps its allocation for the next rows.
    fn seal_tail(&mut self) {
        let first = self.sealed;
        assert!(first + LEAF <= ROWS_MAX, "a chunked vector holds at most {ROWS_MAX} rows");
        let rows: Arc<[T]> = Arc::make_mut(&mut self.tail).0.drain(..).collect();
        let Ok(leaf) = rows.try_into() else { unreachable!("a full tail has a leaf's length") };
        if first == LEAF * FANOUT.pow(self.height + 1) {
            self.grow();
        }
        let (mut branch, mut level) = (&mut self.root, self.height);
        loop {
            match Arc::make_mut(branch) {
                Branch::Branches(branches) => {
                    let child = &mut branches[child_index(first, level)];
                    level -= 1;
                    branch = child.get_or_insert_with(|| Arc::new(Branch::empty(level)));
                }
                Branch::Leaves(leaves) => {
                    leaves[child_index(first, level)] = Some(leaf);
                    break;
                }
            }
        }
        self.sealed += LEAF;
    }

    /// Adds a new root above the full one.
    fn grow(&mut self) {
        let mut branches = [const { None }; FANOUT];
        branches[0] = Some(Arc::clone(&self.root));
        self.root = Arc::new(Branch::Branches(branches));
        self.height += 1;
    }
}

impl<T> Branch<T> {
    /// A branch without children, `level` levels above the parents of leaves.
    fn empty(level: u32) -> Self {
        if level == 0 {
            Self::Leaves([const { None }; FANOUT])
        } else {
            Self::Branches([const { None }; FANOUT])
        }
    }
}

/// Index of the child that leads to row `index`, in a branch that is `level` levels above the parents of leaves.
fn child_index(index: usize, level: u32) -> usize {
    (index / LEAF) >> (level * FANOUT.ilog2()) & (FANOUT - 1)
}

const _: () = assert!(LEAF.is_power_of_two() && FANOUT.is_power_of_two());

impl<T: Clone> Default for Chunked<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Extend<T> for Chunked<T> {
    /// Appends rows one leaf at a time.
    ///
    /// # Panics
    /// Beyond [`ROWS_MAX`] rows.
    fn extend<I: IntoIterator<Item = T>>(&mut self, rows: I) {
        let mut rows = rows.into_iter();
        loop {
            let tail = &mut Arc::make_mut(&mut self.tail).0;
            tail.extend(rows.by_ref().take(LEAF - tail.len()));
            if tail.len() < LEAF {
                return;
            }
            self.seal_tail();
        }
    }
}

impl<T: Clone> FromIterator<T> for Chunked<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut vector = Self::new();
        vector.extend(rows);
        vector
    }
}

impl<T: Clone> Index<usize> for Chunked<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).unwrap_or_else(|| panic!("row {index} of a chunked vector of {}", self.len()))
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for Chunked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a, T: Clone> IntoIterator for &'a Chunked<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Iterator of [`Chunked::chunks`]. Its items are `(number of the first row, rows)`.
#[derive(Clone)]
pub struct Chunks<'a, T> {
    vector: &'a Chunked<T>,
    next: usize,
}

impl<'a, T: Clone> Iterator for Chunks<'a, T> {
    type Item = (usize, &'a [T]);

    fn next(&mut self) -> Option<Self::Item> {
        let (vector, first) = (self.vector, self.next);
        if first >= vector.len() {
            return None;
        }
        let rows = if first < vector.sealed { vector.leaf(first).as_slice() } else { &vector.tail.0 };
        self.next += rows.len();
        Some((first, rows))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.vector.len() - self.next).div_ceil(LEAF);
        (left, Some(left))
    }
}

impl<T: Clone> ExactSizeIterator for Chunks<'_, T> {}
impl<T: Clone> FusedIterator for Chunks<'_, T> {}

/// Iterator of [`Chunked::iter`].
#[derive(Clone)]
pub struct Iter<'a, T> {
    rows: slice::Iter<'a, T>,
    chunks: Chunks<'a, T>,
}

impl<'a, T: Clone> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if let Some(row) = self.rows.next() {
            return Some(row);
        }
        self.rows = self.chunks.next()?.1.iter();
        self.rows.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rows.len() + (self.chunks.vector.len() - self.chunks.next);
        (left, Some(left))
    }

    fn fold<B, F: FnMut(B, &'a T) -> B>(self, init: B, mut f: F) -> B {
        let init = self.rows.fold(init, &mut f);
        self.chunks.fold(init, |folded, (_, rows)| rows.iter().fold(folded, &mut f))
    }
}

impl<T: Clone> ExactSizeIterator for Iter<'_, T> {}
impl<T: Clone> FusedIterator for Iter<'_, T> {}
