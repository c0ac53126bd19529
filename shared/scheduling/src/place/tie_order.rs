//! The order among nodes of equal rank. A seed determines it, so that schedulers that work on different evaluations do
//! not all choose the same nodes.
//!
//! Each page has its own first bit and continues cyclically from it. Round 0 consists of the first node of each page,
//! round 1 of the nodes next to those, and so on. So the first nodes are found without computing ties, and are spread
//! over all pages.

use state::PAGE;

use crate::columns::locate;
use crate::hash;

/// The order of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct TieOrder {
    seed: u64,
}

/// The order within a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageTieOrder {
    hash: u64,
}

/// Number of bits that the index of a node in its page takes.
const INDEX_BITS: u32 = PAGE.trailing_zeros();
const _: () = assert!(PAGE == u64::BITS as usize, "a page has one node for each bit of a word");

impl TieOrder {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    pub(super) fn of_page(self, page: usize) -> PageTieOrder {
        PageTieOrder { hash: hash::of_number_with(self.seed, page as u32) }
    }

    /// The key of a node in the order; higher keys come first.
    #[inline(always)]
    pub(super) fn tie(self, slot: u32) -> u64 {
        let (page, bit) = locate(slot);
        self.of_page(page).tie(bit)
    }
}

impl PageTieOrder {
    /// See [`TieOrder::tie`].
    #[inline(always)]
    pub(super) fn tie(self, bit: usize) -> u64 {
        let round = (bit as u32).wrapping_sub(self.first()) % u64::BITS;
        least_tie(round) | self.hash >> INDEX_BITS
    }

    /// A set of nodes, with bit `n` for the node of round `n`.
    pub(super) fn rounds(self, nodes: u64) -> u64 {
        nodes.rotate_right(self.first())
    }

    /// Index of the node of a round.
    pub(super) fn bit(self, round: u32) -> usize {
        ((round + self.first()) % u64::BITS) as usize
    }

    fn first(self) -> u32 {
        self.hash as u32 % u64::BITS
    }
}

/// The lowest tie of a round, which is above all ties of later rounds.
#[inline(always)]
pub(super) fn least_tie(round: u32) -> u64 {
    u64::from(u64::BITS - 1 - round) << (u64::BITS - INDEX_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_round_comes_before_a_later_one_whatever_the_page() {
        let order = TieOrder::new(7);
        for page in 0..50 {
            let of_page = order.of_page(page);
            let set = 1 << 3 | 1 << 40 | 1 << 63;
            for round in 0..u64::BITS {
                let bit = of_page.bit(round);
                assert_eq!(of_page.rounds(set) >> round & 1, set >> bit & 1);
                let tie = order.tie((page * PAGE + bit) as u32);
                assert_eq!((tie, tie >> (u64::BITS - INDEX_BITS)), (of_page.tie(bit), 63 - u64::from(round)));
            }
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let first = |seed| (0..10_000).max_by_key(|slot| TieOrder::new(seed).tie(*slot));
        let firsts: std::collections::BTreeSet<_> = (0..64).map(first).collect();
        assert!(firsts.len() > 50, "{firsts:?}");
    }
}
