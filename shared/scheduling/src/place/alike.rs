//! Nodes that have the same, and the same of it in use: where there is nothing else to say of them, they are ranked as one.
//! Most nodes are so, for they are empty, or full, or filled by many allocations of one size.

use std::cmp::Reverse;

use state::{NodePage, Usage};

use crate::columns::like;
use crate::rank::{Merits, Rank, Ranking};

/// So few nodes of a page are rather looked at one by one.
const ALIKE_MIN: u32 = if cfg!(test) { 2 } else { 8 };
/// After so many nodes of a page that are like few others all that are left are looked at one by one.
const ODD_MAX: u32 = 2;
/// How many kinds of nodes that were met before are looked through; those of pages side by side are the same few.
const KNOWN_MAX: usize = 8;

/// Nodes of one rank: pages by number, with the places of those that are meant.
#[derive(Debug)]
pub(super) struct Alike {
    pub(super) rank: Rank,
    pub(super) pages: Vec<(usize, u64)>,
    /// What each has of compute and memory, and has in use.
    amounts: [u32; 4],
}

/// Collects them, page after page.
#[derive(Debug, Default)]
pub(super) struct AlikeNodes {
    found: Vec<Alike>,
}

impl AlikeNodes {
    /// Takes those of a page's nodes that are like others there, and returns the rest. All are taken where it is known that
    /// the whole page is alike.
    pub(super) fn take(
        &mut self,
        ranking: &Ranking<'_>,
        (number, page, used): (usize, &NodePage, &Usage),
        nodes: u64,
        is_alike: bool,
    ) -> u64 {
        if is_alike {
            self.add(ranking, (number, page, used), 0, nodes);
            return 0;
        }
        let (mut left, mut odd, mut misses) = (nodes, 0, 0);
        while left != 0 && misses < ODD_MAX {
            let place = left.trailing_zeros() as usize;
            let same = left & like(page, used, place);
            left &= !same;
            if same.count_ones() < ALIKE_MIN {
                odd |= same;
                misses += 1;
            } else {
                self.add(ranking, (number, page, used), place, same);
            }
        }
        odd | left
    }

    fn add(
        &mut self,
        ranking: &Ranking<'_>,
        (number, page, used): (usize, &NodePage, &Usage),
        place: usize,
        nodes: u64,
    ) {
        let [has, in_use] = [page.capacity(place), used.at(place)];
        let amounts = [has.cpu_mhz, has.memory_mb, in_use.cpu_mhz, in_use.memory_mb];
        let mut known = self.found.iter_mut().rev().take(KNOWN_MAX);
        if let Some(alike) = known.find(|alike| alike.amounts == amounts) {
            alike.pages.push((number, nodes));
            return;
        }
        let rank =
            ranking.rank(&Merits { fit: ranking.fit_as_asked(page, place, in_use), ..Merits::default() });
        self.found.push(Alike { rank, pages: vec![(number, nodes)], amounts });
    }

    /// All of them, the best first.
    pub(super) fn best_first(mut self) -> Vec<Alike> {
        self.found.sort_unstable_by_key(|alike| Reverse(alike.rank));
        self.found
    }
}
