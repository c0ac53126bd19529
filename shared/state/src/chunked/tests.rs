//! Property tests that compare the vector, and clones of it, with `Vec`.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

impl<T: Clone> Chunked<T> {
    /// Panics if the tree violates the invariants that lookups rely on.
    fn check(&self) {
        assert!(self.tail.0.len() < LEAF, "a full tail is moved into the tree at once");
        let height_needed =
            (self.sealed / LEAF).max(1).div_ceil(FANOUT).next_power_of_two().ilog2().div_ceil(FANOUT.ilog2());
        assert_eq!(self.height, height_needed);
        assert_eq!(self.root.leaves(self.height) * LEAF, self.sealed);
    }

    /// The addresses of all nodes, including the tail.
    fn nodes(&self) -> HashSet<usize> {
        let mut nodes = HashSet::from([Arc::as_ptr(&self.tail) as usize]);
        Branch::collect_nodes(&self.root, &mut nodes);
        nodes
    }
}

impl<T> Branch<T> {
    /// Counts the leaves, which must be contiguous and `level + 1` levels below.
    fn leaves(&self, level: u32) -> usize {
        match self {
            Self::Branches(branches) => {
                assert!(level > 0 && branches.iter().is_sorted_by_key(Option::is_none));
                let leaves: Vec<_> =
                    branches.iter().flatten().map(|branch| branch.leaves(level - 1)).collect();
                let (last, full) = leaves.split_last().unwrap();
                assert!(*last > 0 && full.iter().all(|&leaves| leaves == FANOUT.pow(level)));
                leaves.iter().sum()
            }
            Self::Leaves(leaves) => {
                assert!(level == 0 && leaves.iter().is_sorted_by_key(Option::is_none));
                leaves.iter().flatten().count()
            }
        }
    }

    fn collect_nodes(branch: &Arc<Self>, nodes: &mut HashSet<usize>) {
        nodes.insert(Arc::as_ptr(branch) as usize);
        match &**branch {
            Self::Branches(branches) => {
                branches.iter().flatten().for_each(|branch| Self::collect_nodes(branch, nodes));
            }
            Self::Leaves(leaves) => {
                nodes.extend(leaves.iter().flatten().map(|leaf| Arc::as_ptr(leaf) as usize))
            }
        }
    }
}

/// Panics if any method that reads `vector` differs from `model`.
fn assert_same(vector: &Chunked<String>, model: &[String]) {
    vector.check();
    assert_eq!((vector.len(), vector.is_empty()), (model.len(), model.is_empty()));
    assert!(vector.iter().eq(model));
    assert_eq!(vector.iter().len(), model.len());
    assert!(
        vector
            .iter()
            .fold(Vec::new(), |mut rows, row| {
                rows.push(row);
                rows
            })
            .into_iter()
            .eq(model)
    );
    assert_eq!(vector.chunks().len(), model.len().div_ceil(LEAF));
    for (chunk, (number, (first, rows))) in model.chunks(LEAF).zip(vector.chunks().enumerate()) {
        assert_eq!((first, rows), (number * LEAF, chunk));
    }
    assert!((0..model.len() + 1).all(|index| vector.get(index) == model.get(index)));
    assert_eq!(vector.get(usize::MAX), None);
}

#[derive(Debug, Clone)]
enum Op {
    Push,
    Extend(usize),
    Change(prop::sample::Index),
    Snapshot,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Push),
        2 => (0..3 * LEAF).prop_map(Op::Extend),
        1 => (0..2 * LEAF * FANOUT).prop_map(Op::Extend),
        8 => any::<prop::sample::Index>().prop_map(Op::Change),
        2 => Just(Op::Snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_as_vec_and_its_clones_stay_as_they_were(ops in vec(op(), 0..120)) {
        let (mut vector, mut model) = (Chunked::new(), Vec::new());
        let mut snapshots = Vec::new();
        for (number, op) in ops.into_iter().enumerate() {
            match op {
                Op::Push => {
                    prop_assert_eq!(vector.push(format!("pushed {number}")), model.len());
                    model.push(format!("pushed {number}"));
                }
                Op::Extend(count) => {
                    let rows = (0..count).map(|row| format!("row {row} of {number}"));
                    vector.extend(rows.clone());
                    model.extend(rows);
                }
                Op::Change(at) => {
                    let index = at.index(model.len() + 1);
                    let row = vector.get_mut(index);
                    prop_assert_eq!(&row, &model.get_mut(index));
                    if let Some(row) = row {
                        *row = format!("changed {number}");
                        model[index].clone_from(row);
                    }
                }
                Op::Snapshot => snapshots.push((vector.clone(), model.clone())),
            }
        }
        snapshots.push((vector, model));
        for (vector, model) in &snapshots {
            assert_same(vector, model);
        }
    }
}

#[test]
fn grows_level_by_level() {
    let full = LEAF * FANOUT;
    for len in [0, 1, LEAF - 1, LEAF, full - 1, full, full + LEAF - 1, full + LEAF, full * FANOUT + LEAF] {
        let vector: Chunked<usize> = (0..len).collect();
        vector.check();
        assert!(vector.iter().copied().eq(0..len), "{len} rows");
        assert!((0..len).all(|index| vector[index] == index), "{len} rows");
    }
}

#[test]
fn a_write_beside_a_clone_copies_one_path_once() {
    let mut vector: Chunked<usize> = (0..LEAF * FANOUT * 3 + 5).collect();
    let before = vector.nodes();
    *vector.get_mut(100).unwrap() += 1;
    assert_eq!(vector.nodes(), before, "nothing is shared, so the write is in place");

    let clone = vector.clone();
    *vector.get_mut(100).unwrap() += 1;
    let after = vector.nodes();
    assert_eq!(after.difference(&before).count(), 3, "root, branch and leaf");
    *vector.get_mut(101).unwrap() += 1;
    assert_eq!(vector.nodes(), after, "the copies are reused");
    assert_eq!((clone[100], vector[100], clone[101], vector[101]), (101, 102, 101, 102));
}

#[test]
fn heap_bytes_adds_little_to_the_rows() {
    let rows = 100_000;
    let vector: Chunked<[u64; 16]> = (0..rows).map(|row| [row; 16]).collect();
    let per_row = vector.heap_bytes() as f64 / rows as f64;
    assert!((128.0..130.0).contains(&per_row), "{per_row} bytes per row of 128");
}

#[test]
#[should_panic(expected = "row 3 of a chunked vector of 3")]
fn index_past_the_end_panics_with_both_numbers() {
    let vector: Chunked<u8> = (0..3).collect();
    let _ = vector[3];
}
