//! Placing: one node after the other for the allocations of a group, each the best at its turn.
//!
//! Scores depend on a node alone, so every node is scored once and waits in a heap; a placement scores its node anew.
//! What comes out is what a full pass over all nodes for each allocation would choose.

mod demand;
mod ports;
mod room;

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use model::alloc::{Assigned, Demand, NodeScore, Scorer};
use model::eval::Evaluation;
use model::job::{JobSpec, NetworkResource, TaskGroup};
use model::{AllocId, Text};
use state::{NodePage, PAGE, State};

pub(crate) use demand::common_share;
pub(crate) use room::Room;

use crate::feasible::places;
use crate::hash;
use crate::rank::{Fit, PENALTY, PageFits, Rank, Ranking};

/// How many of the best nodes metrics name.
const BEST_NAMED: usize = 5;

/// What one allocation asks for beyond what its group does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'a> {
    /// Its id.
    pub(crate) id: AllocId,
    /// Slots of nodes on which predecessors failed.
    pub(crate) penalised: &'a [u32],
    /// Where its predecessor's data is.
    pub(crate) preferred: Option<u32>,
}

/// The node that an allocation gets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) slot: u32,
    /// What it gets of the node beyond its common share.
    pub(crate) assigned: Assigned,
}

/// What is told of a pass over the nodes.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The best of them, best first.
    pub(crate) best: Vec<NodeScore>,
    /// Whether nothing but the preferred node was looked at.
    pub(crate) only_preferred: bool,
}

/// The nodes that a group can run on, best first.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    ask: Demand,
    network: Option<&'a NetworkResource>,
    ranking: Ranking<'a>,
    seed: u64,
    /// A word for each page.
    feasible: Vec<u64>,
    /// By page; the other columns have a value for each slot.
    fits: Vec<PageFits>,
    /// Empty where nothing is preferred.
    affinity: Vec<f64>,
    /// How many allocations of the group each node has.
    others: Vec<u32>,
    /// How often each node was ranked anew; an entry of the heap from before is out of date.
    stamps: Vec<u32>,
    heap: BinaryHeap<Entry>,
}

/// A candidate as the heap orders it: by rank, and among equals by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    rank: Rank,
    tie: u64,
    slot: u32,
    stamp: u32,
}

impl<'a> Candidates<'a> {
    /// The candidates for `group`, of the nodes in `feasible`; `others` says how many of the group each has. They are
    /// not ranked yet.
    pub(crate) fn new(
        state: &State,
        eval: &Evaluation,
        (spec, group): (&'a JobSpec, &'a TaskGroup),
        ask: Demand,
        pages: &[&NodePage],
        feasible: Vec<u64>,
        others: Vec<u32>,
    ) -> Self {
        let nodes: Vec<(&NodePage, u64)> = pages.iter().copied().zip(feasible.iter().copied()).collect();
        let ranking = Ranking::of(state, spec, group, ask, &nodes);
        let mut affinity = Vec::new();
        if let Some(affinities) = ranking.affinities() {
            affinity.resize(pages.len() * PAGE, 0.0);
            let node = |slot| state.node_at(slot).expect("feasible nodes are known");
            let scores = affinities.scores(slots(&feasible).map(node), state.node_kinds());
            for (slot, score) in slots(&feasible).zip(scores) {
                affinity[slot as usize] = score;
            }
        }
        Self {
            ask,
            network: group.networks.first(),
            ranking,
            seed: hash::mix(hash::of_id(eval.id.as_bytes()) ^ state.index().0),
            affinity,
            fits: vec![PageFits::default(); pages.len()],
            stamps: vec![0; pages.len() * PAGE],
            heap: BinaryHeap::new(),
            feasible,
            others,
        }
    }

    /// Ranks all candidates by what `room` has.
    pub(crate) fn rank_all(&mut self, room: &Room<'_>) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        for (number, word) in self.feasible.iter().enumerate().filter(|(_, word)| **word != 0) {
            self.fits[number] = self.ranking.fit_page(room.pages[number], room.used(number));
            for place in places(word & room.fitting(number, self.ask)) {
                entries.push(self.entry(room.pages[number], (number * PAGE + place) as u32));
            }
        }
        self.heap = entries.into();
    }

    /// Takes an allocation of the group that stops off its node.
    pub(crate) fn leave(&mut self, room: &Room<'_>, slot: u32) {
        self.others[slot as usize] -= 1;
        self.rank_anew(room, slot);
    }

    /// Takes that back.
    pub(crate) fn stay(&mut self, room: &Room<'_>, slot: u32) {
        self.others[slot as usize] += 1;
        self.rank_anew(room, slot);
    }

    /// The best node, which is then taken; `None` if there is no room anywhere.
    pub(crate) fn choose(&mut self, room: &mut Room<'_>, wish: Wish<'_>) -> Option<Chosen> {
        if let Some(chosen) = wish.preferred.and_then(|slot| self.choose_preferred(room, slot, wish.id)) {
            return Some(chosen);
        }
        let mut aside = Vec::new();
        let chosen = loop {
            let Some((slot, is_top)) = self.best(room, wish, &mut aside) else { break None };
            if let Ok(assigned) = self.offer(room, slot, wish.id) {
                self.take(room, slot, &assigned, is_top);
                break Some(Chosen { slot, assigned });
            }
            // Nothing of this group has ports there before something leaves the node.
            match is_top {
                true => drop(self.heap.pop()),
                false => aside.retain(|entry: &Entry| entry.slot != slot),
            }
        };
        let taken = chosen.as_ref().map(|chosen| chosen.slot);
        self.heap.extend(aside.into_iter().filter(|entry| Some(entry.slot) != taken));
        chosen
    }

    /// What there is to tell of the pass that [`choose`](Self::choose) is going to make: the best nodes.
    pub(crate) fn survey(&mut self, room: &mut Room<'_>, wish: Wish<'_>) -> Survey {
        if let Some(slot) = wish.preferred
            && self.is_candidate(room, slot)
            && self.offer(room, slot, wish.id).is_ok()
        {
            let penalised = wish.penalised.contains(&slot);
            return Survey { best: vec![self.node_score(room, slot, penalised)], only_preferred: true };
        }
        let mut popped = Vec::new();
        while popped.len() < BEST_NAMED + wish.penalised.len()
            && let Some(entry) = self.heap.pop()
        {
            if self.is_fresh(&entry) && self.offer(room, entry.slot, wish.id).is_ok() {
                popped.push(entry);
            }
        }
        let mut best: Vec<(Rank, u64, NodeScore)> = popped
            .iter()
            .map(|entry| {
                let penalised = wish.penalised.contains(&entry.slot);
                let rank = self.rank(entry.slot, penalised);
                (rank, entry.tie, self.node_score(room, entry.slot, penalised))
            })
            .collect();
        best.sort_by_key(|(rank, tie, _)| std::cmp::Reverse((*rank, *tie)));
        best.truncate(BEST_NAMED);
        self.heap.extend(popped);
        Survey { best: best.into_iter().map(|(_, _, score)| score).collect(), only_preferred: false }
    }

    /// What each feasible node lacks, by its slot.
    pub(crate) fn shortages(&self, room: &mut Room<'_>, id: AllocId) -> Vec<(u32, Text)> {
        let shortage = |slot| match self.offer(room, slot, id) {
            Err(no_ports) => Some((slot, format!("network: {}", no_ports.0).into())),
            Ok(_) => room.short(slot, self.ask).map(|short| (slot, short.as_str().into())),
        };
        slots(&self.feasible).filter_map(shortage).collect()
    }

    fn choose_preferred(&mut self, room: &mut Room<'_>, slot: u32, id: AllocId) -> Option<Chosen> {
        let is_candidate = self.is_candidate(room, slot);
        let assigned = is_candidate.then(|| self.offer(room, slot, id).ok())??;
        self.take(room, slot, &assigned, false);
        Some(Chosen { slot, assigned })
    }

    /// The best candidate, and whether it is on top of the heap; else it is one that was put aside, because it is
    /// penalised and the heap ranks it too high.
    fn best(&mut self, room: &Room<'_>, wish: Wish<'_>, aside: &mut Vec<Entry>) -> Option<(u32, bool)> {
        let top = loop {
            let Some(entry) = self.heap.peek().copied() else { break None };
            if !self.is_fresh(&entry) {
                self.heap.pop();
            } else if wish.penalised.contains(&entry.slot) {
                aside.extend(self.heap.pop());
            } else {
                break Some(entry);
            }
        };
        debug_assert!(top.is_none_or(|top| room.short(top.slot, self.ask).is_none()));
        let penalised = aside.iter().map(|entry| Entry { rank: self.rank(entry.slot, true), ..*entry }).max();
        match (top, penalised) {
            (Some(top), Some(penalised)) if penalised > top => Some((penalised.slot, false)),
            (Some(top), _) => Some((top.slot, true)),
            (None, penalised) => penalised.map(|entry| (entry.slot, false)),
        }
    }

    fn offer(&self, room: &mut Room<'_>, slot: u32, id: AllocId) -> Result<Assigned, ports::NoPorts> {
        room.offer(slot, self.network, id)
    }

    fn take(&mut self, room: &mut Room<'_>, slot: u32, assigned: &Assigned, is_top: bool) {
        room.take(slot, self.ask);
        if let Some(ask) = self.network {
            room.take_ports(slot, ask, assigned);
        }
        self.others[slot as usize] += 1;
        let entry = self.renew(room, slot);
        if is_top && let Some(mut top) = self.heap.peek_mut() {
            match entry {
                Some(entry) => *top = entry,
                None => drop(PeekMut::pop(top)),
            }
        } else {
            self.heap.extend(entry);
        }
    }

    fn rank_anew(&mut self, room: &Room<'_>, slot: u32) {
        if self.is_feasible(slot) {
            let entry = self.renew(room, slot);
            self.heap.extend(entry);
        }
    }

    /// The candidate as it ranks now; `None` if it has no room left. What the heap has of it is out of date.
    fn renew(&mut self, room: &Room<'_>, slot: u32) -> Option<Entry> {
        let (page, place) = (slot as usize / PAGE, slot as usize % PAGE);
        self.stamps[slot as usize] += 1;
        let fit = self.ranking.fit(room.pages[page], room.used(page), place);
        self.fits[page].set(place, fit);
        room.short(slot, self.ask).is_none().then(|| self.entry(room.pages[page], slot))
    }

    #[inline]
    fn entry(&self, page: &NodePage, slot: u32) -> Entry {
        let tie = hash::of_id_with(self.seed, page.ids[slot as usize % PAGE].as_bytes());
        Entry { rank: self.rank(slot, false), tie, slot, stamp: self.stamps[slot as usize] }
    }

    #[inline]
    fn rank(&self, slot: u32, penalised: bool) -> Rank {
        Rank::of(self.score(slot, penalised), self.fit(slot).alignment)
    }

    #[inline]
    fn score(&self, slot: u32, penalised: bool) -> f64 {
        let affinity = self.affinity.get(slot as usize).copied().unwrap_or_default();
        self.ranking.score(self.fit(slot), self.others[slot as usize], affinity, penalised)
    }

    #[inline]
    fn fit(&self, slot: u32) -> Fit {
        self.fits[slot as usize / PAGE].at(slot as usize % PAGE)
    }

    fn node_score(&self, room: &Room<'_>, slot: u32, penalised: bool) -> NodeScore {
        let place = slot as usize;
        NodeScore {
            node_id: room.node(slot).id(),
            scores: vec![
                (self.ranking.scorer(), self.fit(slot).fitness),
                (Scorer::JobAntiAffinity, self.ranking.anti_affinity(self.others[place])),
                (Scorer::ReschedulePenalty, if penalised { PENALTY } else { 0.0 }),
                (Scorer::NodeAffinity, self.affinity.get(place).copied().unwrap_or_default()),
            ],
            normalized: self.score(slot, penalised),
        }
    }

    fn is_fresh(&self, entry: &Entry) -> bool {
        entry.stamp == self.stamps[entry.slot as usize]
    }

    fn is_candidate(&self, room: &Room<'_>, slot: u32) -> bool {
        self.is_feasible(slot) && room.short(slot, self.ask).is_none()
    }

    fn is_feasible(&self, slot: u32) -> bool {
        self.feasible[slot as usize / PAGE] >> (slot as usize % PAGE) & 1 != 0
    }
}

/// The slots of a set of nodes, ascending.
fn slots(words: &[u64]) -> impl Iterator<Item = u32> {
    let of_page =
        |(number, word): (usize, &u64)| places(*word).map(move |place| (number * PAGE + place) as u32);
    words.iter().enumerate().flat_map(of_page)
}

#[cfg(test)]
mod tests;
