//! Sets of nodes with equal capacity and usage, which are ranked as one where nothing else distinguishes them. Most
//! nodes are in such sets: they are empty, full, or filled with many allocations of one size.

use std::cmp::Reverse;

use state::{NodePage, Usage};

use crate::columns::equal_nodes;
use crate::rank::{Rank, Ranking, ScoreFactors};

/// Fewer nodes of a page than this are ranked one by one.
const ALIKE_MIN: u32 = if cfg!(test) { 2 } else { 8 };
/// After this many too small sets in a page, the remaining nodes of the page are ranked one by one.
const SMALL_SETS_MAX: u32 = 2;
/// How many of the latest sets are compared; neighbouring pages mostly contain the same few sets.
const KNOWN_MAX: usize = 8;

/// Nodes of one rank: page numbers, each with the nodes of that page.
#[derive(Debug)]
pub(super) struct AlikeNodes {
    pub(super) rank: Rank,
    pub(super) pages: Vec<(usize, u64)>,
    /// CPU and memory capacity, and CPU and memory usage, of each node.
    amounts: [u32; 4],
}

/// Collects sets of equal nodes, page by page.
#[derive(Debug, Default)]
pub(super) struct AlikeCollector {
    found: Vec<AlikeNodes>,
}

impl AlikeCollector {
    /// Takes those of `nodes` that have enough equal nodes in the page, and returns the rest. Takes all nodes if
    /// `is_alike` says that all nodes of the page are equal.
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
        let (mut rest, mut small, mut small_sets) = (nodes, 0, 0);
        while rest != 0 && small_sets < SMALL_SETS_MAX {
            let bit = rest.trailing_zeros() as usize;
            let same = rest & equal_nodes(page, used, bit);
            rest &= !same;
            if same.count_ones() < ALIKE_MIN {
                small |= same;
                small_sets += 1;
            } else {
                self.add(ranking, (number, page, used), bit, same);
            }
        }
        small | rest
    }

    fn add(
        &mut self,
        ranking: &Ranking<'_>,
        (number, page, used): (usize, &NodePage, &Usage),
        bit: usize,
        nodes: u64,
    ) {
        let [has, in_use] = [page.capacity(bit), used.at(bit)];
        let amounts = [has.cpu_mhz, has.memory_mb, in_use.cpu_mhz, in_use.memory_mb];
        let mut known = self.found.iter_mut().rev().take(KNOWN_MAX);
        if let Some(alike) = known.find(|alike| alike.amounts == amounts) {
            alike.pages.push((number, nodes));
            return;
        }
        let rank = ranking
            .rank(&ScoreFactors { fit: ranking.fit_for_ask(page, bit, in_use), ..ScoreFactors::default() });
        self.found.push(AlikeNodes { rank, pages: vec![(number, nodes)], amounts });
    }

    /// All sets, best rank first.
    pub(super) fn best_first(mut self) -> Vec<AlikeNodes> {
        self.found.sort_unstable_by_key(|alike| Reverse(alike.rank));
        self.found
    }
}
