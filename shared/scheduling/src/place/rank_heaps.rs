//! Nodes in heaps by rank, so that a placement looks only at the tops of heaps and not at all nodes.
//!
//! Without spreads there is one heap for each number of scores, because means of equally many scores are ordered as
//! their sums are. With spreads, a boost is the same for all nodes of a *tuple* of values, and for all tuples of a
//! *level*. So there is one heap for each tuple, and for each level a heap of the tops of its tuples. Stale entries are
//! removed when they reach the top.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use state::PAGE;

use super::alike::AlikeNodes;
use super::tie_order::{self, PageTieOrder, TieOrder};
use crate::columns::NodeCounters;
use crate::rank::{Level, Rank, Spreads, Sum};

/// More than the number of scores that a node can have, without the spread.
const PARTS_MAX: usize = 8;

/// Heaps with fewer entries than this are not pruned, because pruning would cost more than it saves. Low in tests,
/// which have few nodes.
const PRUNE_MIN: usize = if cfg!(test) { 4 } else { 32 };

/// Nodes by rank.
#[derive(Debug)]
pub(super) struct RankHeaps {
    /// By tuple and number of scores.
    heaps: Vec<Heap>,
    /// Minimum number of entries that each heap keeps.
    kept_min: usize,
    /// Whether the best node may be one that was dropped.
    is_exhausted: bool,
    /// Number of insertions of each node; entries with an older stamp are stale.
    stamps: NodeCounters,
    levels: Option<Levels>,
}

/// Nodes of one tuple and number of scores. Of many nodes only the best are kept, because few are ever requested.
#[derive(Debug, Clone, Default)]
struct Heap {
    /// Entries before the heap is built.
    pending: Vec<Entry>,
    heap: BinaryHeap<Entry>,
    /// The best of the dropped entries.
    best_dropped: Option<Entry>,
}

impl Heap {
    fn add(&mut self, entry: Entry, kept_min: usize) {
        if self.best_dropped.is_some_and(|dropped| entry < dropped) {
            return;
        }
        if self.pending.capacity() == 0 {
            self.pending.reserve(PRUNE_MIN);
        }
        self.pending.push(entry);
        if self.pending.len() >= kept_min.saturating_mul(2).max(PRUNE_MIN) {
            let (_, dropped, _) =
                self.pending.select_nth_unstable_by(kept_min, |left, right| right.cmp(left));
            let dropped = *dropped;
            self.note_dropped(dropped);
            self.pending.truncate(kept_min);
        }
    }

    /// Notes that entries were dropped, none of them better than `best`.
    fn note_dropped(&mut self, best: Entry) {
        self.best_dropped = self.best_dropped.max(Some(best));
    }

    /// Whether entries of a rank are dropped in any case.
    fn drops_all(&self, rank: Rank) -> bool {
        self.best_dropped
            .is_some_and(|dropped| (dropped.steps, dropped.alignment) > (rank.sum.steps, rank.alignment))
    }

    fn build(&mut self) {
        self.heap = BinaryHeap::from(std::mem::take(&mut self.pending));
    }
}

/// A node in its heap, ordered by the sum of its scores, then by alignment, then by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    steps: i64,
    alignment: i64,
    tie: u64,
    slot: u32,
    stamp: u32,
}

impl Entry {
    /// An entry that is not above any entry of `rank` whose round is `round` or earlier.
    fn least_of(rank: Rank, round: u32) -> Self {
        let Rank { sum, alignment } = rank;
        Self { steps: sum.steps, alignment, tie: tie_order::least_tie(round), slot: 0, stamp: 0 }
    }
}

/// The tuples by level.
#[derive(Debug, Default)]
struct Levels {
    numbers: BTreeMap<Level, u32>,
    of_tuple: Vec<u32>,
    /// By level and number of scores: the tops of the heaps, with the tuples.
    tops: Vec<[BinaryHeap<(Entry, u32)>; PARTS_MAX]>,
    /// The levels that may have tops.
    live: Vec<u32>,
}

/// A node in a form that can be compared across heaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contender {
    rank: Rank,
    tie: u64,
    slot: u32,
}

impl Ord for Contender {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank).then((self.tie, self.slot).cmp(&(other.tie, other.slot)))
    }
}

impl PartialOrd for Contender {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Contender {
    fn of(entry: Entry, parts: usize, boost: f64) -> Self {
        let sum = Sum { steps: entry.steps, parts: parts as u8 }.with_spread(boost);
        Self { rank: Rank { sum, alignment: entry.alignment }, tie: entry.tie, slot: entry.slot }
    }
}

impl RankHeaps {
    /// No nodes yet; at least the best `most` of each heap will be kept.
    pub(super) fn new(pages: usize, tuples: usize, kept_min: usize) -> Self {
        let heaps = vec![Heap::default(); tuples * PARTS_MAX];
        Self {
            heaps,
            kept_min: kept_min.max(1),
            is_exhausted: false,
            stamps: NodeCounters::new(pages),
            levels: None,
        }
    }

    /// Adds a node before the heaps are built: building them at once takes less time than inserting nodes one by one.
    pub(super) fn add(&mut self, slot: u32, tuple: u32, rank: Rank, tie: u64) {
        let entry = Entry { steps: rank.sum.steps, alignment: rank.alignment, tie, slot, stamp: 0 };
        self.heaps[heap_index(tuple, rank.sum.parts.into())].add(entry, self.kept_min);
    }

    /// The sum of scores, in steps, below which a node with a single score is dropped; only where there are no tuples.
    pub(super) fn least_steps(&self) -> i64 {
        self.heaps[heap_index(0, 1)].best_dropped.map_or(i64::MIN, |dropped| dropped.steps)
    }

    /// Adds nodes of one rank, round by round, until each tuple has as many as are kept.
    pub(super) fn add_alike(
        &mut self,
        alike: &AlikeNodes,
        order: TieOrder,
        tuple: &mut impl FnMut(u32) -> u32,
    ) {
        let rank = alike.rank;
        let of = |tuple: usize| heap_index(tuple as u32, rank.sum.parts.into());
        // By tuple: number of nodes added; `None` if the tuple needs no more.
        let count = |tuple| (!self.heaps[of(tuple)].drops_all(rank)).then_some(0);
        let mut added: Vec<Option<usize>> = (0..self.heaps.len() / PARTS_MAX).map(count).collect();
        let by_page = alike.pages.iter().map(|(number, word)| {
            let order = order.of_page(*number);
            (*number, order, order.rounds(*word))
        });
        let pages: Vec<(usize, PageTieOrder, u64)> = by_page.collect();
        for round in 0..u64::BITS {
            if added.iter().all(Option::is_none) {
                break;
            }
            for (number, order, _) in pages.iter().filter(|(.., rounds)| rounds >> round & 1 != 0) {
                let bit = order.bit(round);
                let slot = (number * PAGE + bit) as u32;
                let tuple = tuple(slot);
                if let Some(count) = &mut added[tuple as usize] {
                    *count += 1;
                    self.add(slot, tuple, rank, order.tie(bit));
                }
            }
            for (tuple, count) in added.iter_mut().enumerate() {
                if count.is_some_and(|count| count >= self.kept_min) {
                    *count = None;
                    self.heaps[of(tuple)].note_dropped(Entry::least_of(rank, round));
                }
            }
        }
    }

    /// Builds the heaps; from now on [`Self::best`] can be called.
    pub(super) fn build(&mut self, spreads: Option<&Spreads<'_>>) {
        self.heaps.iter_mut().for_each(Heap::build);
        if let Some(spreads) = spreads {
            self.levels = Some(Levels::default());
            (0..spreads.tuples() as u32).for_each(|tuple| self.set_level(spreads, tuple));
        }
    }

    /// Inserts a node, or replaces its entry.
    pub(super) fn insert(&mut self, slot: u32, tuple: u32, rank: Rank, tie: u64) {
        self.remove(slot);
        let parts = usize::from(rank.sum.parts);
        let index = heap_index(tuple, parts);
        if self.heaps.len() <= index {
            self.heaps.resize_with((tuple as usize + 1) * PARTS_MAX, Heap::default);
        }
        let entry = Entry {
            steps: rank.sum.steps,
            alignment: rank.alignment,
            tie,
            slot,
            stamp: self.stamps.at(slot),
        };
        let heap = &mut self.heaps[index].heap;
        heap.push(entry);
        if let Some(levels) = &mut self.levels
            && heap.peek() == Some(&entry)
        {
            levels.push(tuple, parts, entry);
        }
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, slot: u32) {
        *self.stamps.at_mut(slot) += 1;
    }

    /// Recomputes the levels of some tuples after the counts of their values changed.
    pub(super) fn update_levels(&mut self, spreads: &Spreads<'_>, tuples: &[u32]) {
        tuples.iter().for_each(|tuple| self.set_level(spreads, *tuple));
    }

    /// Whether the last result of [`Self::best`] may be wrong because a better node was dropped; more nodes have to be
    /// added.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// The best node of those that were kept.
    pub(super) fn best(&mut self, spreads: Option<&Spreads<'_>>) -> Option<u32> {
        let best = match (spreads, self.levels.take()) {
            (Some(spreads), Some(mut levels)) => {
                let best = self.best_of_levels(spreads, &mut levels);
                self.levels = Some(levels);
                best
            }
            _ => {
                let tops = (0..PARTS_MAX).filter_map(|parts| {
                    let top = self.top(heap_index(0, parts))?;
                    Some(Contender::of(top, parts, 0.0))
                });
                tops.max()
            }
        };
        best.map(|contender| contender.slot)
    }

    fn best_of_levels(&mut self, spreads: &Spreads<'_>, levels: &mut Levels) -> Option<Contender> {
        let lowest = spreads.lowest();
        let mut best: Option<Contender> = None;
        let Levels { of_tuple, tops, live, .. } = levels;
        live.retain(|level| {
            let mut any = false;
            for (parts, tops) in tops[*level as usize].iter_mut().enumerate() {
                while let Some((entry, tuple)) = tops.peek().copied() {
                    let is_here = of_tuple[tuple as usize] == *level;
                    let now = if is_here { self.top(heap_index(tuple, parts)) } else { None };
                    if now == Some(entry) {
                        any = true;
                        let contender = Contender::of(entry, parts, spreads.boost(tuple, lowest));
                        best = best.max(Some(contender));
                        break;
                    }
                    tops.pop();
                    tops.extend(now.map(|entry| (entry, tuple)));
                }
            }
            any
        });
        best
    }

    /// The best entry of a heap that is not stale.
    fn top(&mut self, index: usize) -> Option<Entry> {
        let Heap { heap, best_dropped, .. } = self.heaps.get_mut(index)?;
        while let Some(entry) = heap.peek() {
            if entry.stamp == self.stamps.at(entry.slot) {
                break;
            }
            heap.pop();
        }
        let top = heap.peek().copied();
        self.is_exhausted |= *best_dropped > top;
        top
    }

    fn set_level(&mut self, spreads: &Spreads<'_>, tuple: u32) {
        let Some(mut levels) = self.levels.take() else { return };
        if levels.assign(tuple, spreads.level(tuple)) {
            for parts in 0..PARTS_MAX {
                if let Some(top) = self.top(heap_index(tuple, parts)) {
                    levels.push(tuple, parts, top);
                }
            }
        }
        self.levels = Some(levels);
    }
}

fn heap_index(tuple: u32, parts: usize) -> usize {
    tuple as usize * PARTS_MAX + parts
}

/// Level of a tuple that has none yet.
const NO_LEVEL: u32 = u32::MAX;

impl Levels {
    /// Sets the level of a tuple. Returns whether it changed.
    fn assign(&mut self, tuple: u32, level: Level) -> bool {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(level).or_insert(next);
        if number == next {
            self.tops.push(std::array::from_fn(|_| BinaryHeap::new()));
        }
        let index = tuple as usize;
        if self.of_tuple.len() <= index {
            self.of_tuple.resize(index + 1, NO_LEVEL);
        }
        std::mem::replace(&mut self.of_tuple[index], number) != number
    }

    fn push(&mut self, tuple: u32, parts: usize, entry: Entry) {
        let level = self.of_tuple[tuple as usize];
        if !self.live.contains(&level) {
            self.live.push(level);
        }
        self.tops[level as usize][parts].push((entry, tuple));
    }
}
