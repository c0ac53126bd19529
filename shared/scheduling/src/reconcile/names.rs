//! Indexes in the names of a group's allocations: which are in use, and which come next (`docs/rules/scheduling.md` §7.9).

use std::collections::{BTreeMap, BTreeSet};

/// The indexes in use.
#[derive(Debug)]
pub(crate) struct Names {
    count: u32,
    used: NumberSet,
    /// For each index that several allocations have, how many have it beyond the first.
    duplicates: BTreeMap<u32, u32>,
    /// Indexes below the count that canaries have, and no other allocations.
    of_canaries: BTreeSet<u32>,
    /// No lower index is free.
    low: u32,
    /// The next index once all indexes below the count are in use.
    beyond: u32,
}

impl Names {
    /// The indexes of a group with `count`, whose canaries have `canaries` and whose other allocations have `numbers`.
    pub(super) fn new(count: u32, numbers: &[u32], canaries: &[u32]) -> Self {
        let used = NumberSet::with_dense((numbers.len() + canaries.len()).max(count as usize));
        let (duplicates, of_canaries) = (BTreeMap::new(), BTreeSet::new());
        let mut names = Self { count, used, duplicates, of_canaries, low: 0, beyond: 0 };
        for number in numbers {
            names.occupy(*number);
        }
        for number in canaries {
            if names.occupy(*number) && *number < count {
                names.of_canaries.insert(*number);
            }
        }
        names
    }

    /// Records that an allocation has an index. Returns whether it is the first one.
    fn occupy(&mut self, number: u32) -> bool {
        let is_first = self.used.insert(number);
        if !is_first {
            *self.duplicates.entry(number).or_default() += 1;
        }
        is_first
    }

    /// The `n` highest indexes in use, which become free.
    pub(super) fn take_highest(&mut self, n: usize) -> BTreeSet<u32> {
        let highest: BTreeSet<u32> = self.used.highest(n).into_iter().collect();
        highest.iter().for_each(|number| self.free(*number));
        highest
    }

    /// Frees an index.
    pub(super) fn free(&mut self, number: u32) {
        self.used.remove(number);
        self.of_canaries.remove(&number);
        self.low = self.low.min(number);
    }

    /// Frees an index of one allocation; the index becomes free only if no other allocation has it.
    pub(super) fn release(&mut self, number: u32) {
        match self.duplicates.get_mut(&number) {
            Some(more) if *more > 0 => *more -= 1,
            Some(_) | None => self.free(number),
        }
    }

    /// The next index: the lowest free one below the count, or else the lowest that only canaries have. If there is none,
    /// indexes start again at 0.
    pub(super) fn next(&mut self) -> u32 {
        self.unshared().unwrap_or_else(|| {
            let next = self.beyond;
            self.beyond += 1;
            next
        })
    }

    /// The lowest free index below the count, or else the lowest that only canaries have. A canary may share its index: it
    /// replaces the other allocation when it is promoted.
    fn unshared(&mut self) -> Option<u32> {
        while self.low < self.count && self.used.contains(self.low) {
            self.low += 1;
        }
        if self.low < self.count {
            self.used.insert(self.low);
            return Some(self.low);
        }
        self.of_canaries.pop_first()
    }

    /// The indexes of `n` canaries: first those of allocations that will be `replaced`, then free ones, then
    /// indexes above the count; never one that a canary already has.
    pub(super) fn next_canaries(
        &mut self,
        n: usize,
        existing: &BTreeSet<u32>,
        replaced: &BTreeSet<u32>,
    ) -> Vec<u32> {
        let count = self.count;
        let is_free = |number: &u32| !existing.contains(number);
        let of_replaced = replaced.iter().copied().filter(|number| *number < count);
        let free = (0..count).filter(|number| !replaced.contains(number) && !self.used.contains(*number));
        let mut numbers: Vec<u32> = of_replaced.chain(free).filter(is_free).take(n).collect();
        let beyond = (count..).filter(is_free).take(n - numbers.len());
        numbers.extend(beyond);
        for number in &numbers {
            if self.used.insert(*number) && *number < count {
                self.of_canaries.insert(*number);
            }
        }
        numbers
    }

    /// The index of a new allocation that should have `wanted`: another one if several allocations have `wanted`
    /// and there is one that no other allocation than a canary has.
    pub(crate) fn assign(&mut self, wanted: u32) -> u32 {
        match self.duplicates.get_mut(&wanted) {
            Some(more) if *more > 0 => {
                *more -= 1;
                self.unshared().unwrap_or(wanted)
            }
            Some(_) | None => wanted,
        }
    }
}

/// A set of numbers, most of which are small: a bit for each small number, a tree for the others.
#[derive(Debug)]
struct NumberSet {
    dense: Vec<u64>,
    sparse: BTreeSet<u32>,
}

impl NumberSet {
    fn with_dense(numbers: usize) -> Self {
        Self { dense: vec![0; numbers.div_ceil(64)], sparse: BTreeSet::new() }
    }

    fn insert(&mut self, number: u32) -> bool {
        match self.dense.get_mut(number as usize / 64) {
            Some(word) => {
                let was = *word;
                *word |= 1 << (number % 64);
                was != *word
            }
            None => self.sparse.insert(number),
        }
    }

    fn remove(&mut self, number: u32) {
        match self.dense.get_mut(number as usize / 64) {
            Some(word) => *word &= !(1 << (number % 64)),
            None => {
                self.sparse.remove(&number);
            }
        }
    }

    fn contains(&self, number: u32) -> bool {
        match self.dense.get(number as usize / 64) {
            Some(word) => word >> (number % 64) & 1 != 0,
            None => self.sparse.contains(&number),
        }
    }

    fn highest(&self, n: usize) -> Vec<u32> {
        let of_word = |(index, word): (usize, &u64)| {
            let word = *word;
            (0..64).rev().filter(move |bit| word >> bit & 1 != 0).map(move |bit| index as u32 * 64 + bit)
        };
        let dense = self.dense.iter().enumerate().rev().filter(|(_, word)| **word != 0).flat_map(of_word);
        self.sparse.iter().rev().copied().chain(dense).take(n).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_numbers_come_first_and_then_all_from_the_beginning() {
        let mut names = Names::new(5, &[0, 2, 4], &[]);
        let next: Vec<u32> = (0..4).map(|_| names.next()).collect();
        assert_eq!(next, [1, 3, 0, 1]);
    }

    #[test]
    fn the_highest_are_free_once_they_were_taken() {
        let mut names = Names::new(3, &[0, 1, 2, 70, 4_000_000_000], &[]);
        assert_eq!(names.take_highest(3), [2, 70, 4_000_000_000].into());
        assert_eq!(names.next(), 2);
    }

    #[test]
    fn a_number_that_several_have_is_not_given_again() {
        let mut names = Names::new(3, &[0, 0, 1], &[]);
        assert_eq!((names.assign(0), names.assign(0), names.assign(1)), (2, 0, 1));

        let mut names = Names::new(3, &[0, 0, 1], &[]);
        names.release(0);
        assert_eq!((names.assign(0), names.next()), (0, 2), "one allocation still has the index");
        names.release(1);
        assert_eq!(names.next(), 1, "no allocation has the index");
    }
    #[test]
    fn numbers_of_canaries_come_before_those_of_others() {
        // The canaries have an index of their own, and one of an allocation that they are to replace.
        let mut names = Names::new(4, &[0, 1, 2], &[1, 3]);
        assert_eq!((names.next(), names.next()), (3, 0));

        let mut names = Names::new(4, &[0, 1, 2], &[]);
        assert_eq!(names.next_canaries(4, &BTreeSet::new(), &[0, 1, 2].into()), [0, 1, 2, 3]);
        assert_eq!(names.next(), 3);

        let mut names = Names::new(4, &[0, 1, 2], &[1, 3]);
        names.release(3);
        assert_eq!(names.next(), 3, "it is free");
        assert_eq!(names.next(), 0, "and not given again");
    }

    #[test]
    fn an_alloc_shares_a_canarys_number_if_no_other_is_free() {
        let mut names = Names::new(3, &[0, 1, 2], &[1]);
        assert_eq!(names.assign(1), 1);
        let mut names = Names::new(4, &[0, 1, 2], &[1]);
        assert_eq!(names.assign(1), 3);
    }
}
