//! Who comes first among nodes of one rank. A seed decides, so that schedulers at work on different evaluations do not all
//! choose the same nodes.
//!
//! Each page begins at a place of its own and goes round; first come the nodes with which the pages begin, then those next to
//! them, and so on. So those that come first are found without a look at all, and are as many of each page.

use state::PAGE;

use crate::hash;
use crate::room::locate;

/// The order of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    seed: u64,
}

/// The order within a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageTurns {
    hash: u64,
}

/// The bits that number the places of a page.
const PLACE_BITS: u32 = PAGE.trailing_zeros();
const _: () = assert!(PAGE == u64::BITS as usize, "a page's places are the bits of a word");

impl Turns {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    pub(super) fn of_page(self, page: usize) -> PageTurns {
        PageTurns { hash: hash::of_number_with(self.seed, page as u32) }
    }

    /// A node's place in the order: the higher the earlier.
    #[inline(always)]
    pub(super) fn tie(self, slot: u32) -> u64 {
        let (page, place) = locate(slot);
        self.of_page(page).tie(place)
    }
}

impl PageTurns {
    /// See [`Turns::tie`].
    #[inline(always)]
    pub(super) fn tie(self, place: usize) -> u64 {
        let round = (place as u32).wrapping_sub(self.first()) % u64::BITS;
        least_tie(round) | self.hash >> PLACE_BITS
    }

    /// A set of places by the rounds in which it is their turn.
    pub(super) fn rounds(self, places: u64) -> u64 {
        places.rotate_right(self.first())
    }

    /// Whose turn it is in a round.
    pub(super) fn place(self, round: u32) -> usize {
        ((round + self.first()) % u64::BITS) as usize
    }

    fn first(self) -> u32 {
        self.hash as u32 % u64::BITS
    }
}

/// The lowest tie of a round, which is above those of all later ones.
#[inline(always)]
pub(super) fn least_tie(round: u32) -> u64 {
    u64::from(u64::BITS - 1 - round) << (u64::BITS - PLACE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_round_comes_before_a_later_one_whatever_the_page() {
        let turns = Turns::new(7);
        for page in 0..50 {
            let of_page = turns.of_page(page);
            let set = 1 << 3 | 1 << 40 | 1 << 63;
            for round in 0..u64::BITS {
                let place = of_page.place(round);
                assert_eq!(of_page.rounds(set) >> round & 1, set >> place & 1);
                let tie = turns.tie((page * PAGE + place) as u32);
                assert_eq!(
                    (tie, tie >> (u64::BITS - PLACE_BITS)),
                    (of_page.tie(place), 63 - u64::from(round))
                );
            }
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let first = |seed| (0..10_000).max_by_key(|slot| Turns::new(seed).tie(*slot));
        let firsts: std::collections::BTreeSet<_> = (0..64).map(first).collect();
        assert!(firsts.len() > 50, "{firsts:?}");
    }
}
