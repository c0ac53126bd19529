//! The candidates of one group: its feasible nodes with their scores and offers.

use model::alloc::{AllocatedResources, Demand};
use model::eval::Evaluation;
use model::job::{Job, JobType, TaskGroup};
use model::{AllocId, Text};
use state::{AllocRef, NodePage, PAGE};

use super::alike::AlikeNodes;
use super::demand::common_share;
use super::standings::RankHeaps;
use super::turns::TieOrder;
use super::world::World;
use crate::columns::{are_alike, places};
use crate::feasible::{PlacementVolumes, Counted, Distinct, Volumes};
use crate::hash;
use crate::preempt;
use crate::rank::{ScoreFactors, PageFits, Rank, Ranking, Spreads};
use crate::room::{Ask, Exhausted, Offer, locate};

/// The feasible nodes of one group.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    pub(super) job: &'a Job,
    pub(super) group: &'a TaskGroup,
    /// The group's number in the [`World`].
    pub(super) number: u32,
    pub(super) share: AllocatedResources,
    pub(super) ask: Ask<'a>,
    pub(super) ranking: Ranking<'a>,
    /// A word for each page.
    pub(super) feasible: Vec<u64>,
    /// The feasible nodes with enough of each amount, as of the last journal entry read; set once the heaps are built.
    pub(super) roomy: Vec<u64>,
    /// Affinity score by slot; empty if there are no affinities.
    affinity: Vec<f64>,
    pub(super) spreads: Option<Spreads<'a>>,
    pub(super) distinct: Distinct<'a>,
    pub(super) volumes: Option<Volumes<'a>>,
    /// The order among nodes of equal rank.
    turns: TieOrder,
    /// Number of journal entries that were read.
    seen: usize,
    /// The nodes by rank; built for the first placement that uses the fast path.
    standings: Option<RankHeaps>,
    /// Nodes whose entry holds for one placement only.
    unsettled: Vec<u32>,
}

/// Minimum number of nodes that are kept of each tuple of values. Low in tests, so that it is exceeded there, too.
const LINED_UP_MIN: usize = if cfg!(test) { 2 } else { 8 };
/// Allocation id for offers that do not depend on one.
pub(super) const NO_ALLOC: AllocId = AllocId::from_bytes([0; 16]);

/// Parameters of one placement that are not the same for its whole group.
#[derive(Debug)]
pub(super) struct Turn<'t, 'a> {
    pub(super) id: AllocId,
    /// Slots of nodes on which predecessors failed.
    pub(super) penalised: &'t [u32],
    pub(super) volumes: Option<PlacementVolumes<'t, 'a>>,
    /// Whether to preempt.
    pub(super) preempts: bool,
}

/// What a node would give, with its score factors.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) offer: Offer,
    pub(super) victims: Vec<AllocRef<'a>>,
    pub(super) merits: ScoreFactors,
}

/// Why a node cannot take an allocation.
#[derive(Debug)]
pub(super) enum Rejection {
    Filtered(Text),
    Exhausted(Text),
}

impl<'a> Candidates<'a> {
    /// The candidates among the nodes in `feasible`.
    pub(super) fn new(
        world: &mut World<'a>,
        eval: &Evaluation,
        (job, group): (&'a Job, &'a TaskGroup),
        feasible: Vec<u64>,
    ) -> Self {
        let (state, pages) = (world.state, world.pages);
        let share = common_share(state, &job.spec, group);
        let ask = Ask::of(group, &share);
        let nodes: Vec<(&NodePage, u64)> = pages.iter().copied().zip(feasible.iter().copied()).collect();
        let ranking = Ranking::of(state, &job.spec, group, ask.demand, &nodes);
        let mut affinity = Vec::new();
        if let Some(affinities) = ranking.affinities() {
            affinity.resize(pages.len() * PAGE, 0.0);
            let node = |slot| state.node_at(slot).expect("feasible nodes are known");
            let scores = affinities.scores(slots(&feasible).map(node), state.node_kinds());
            for (slot, score) in slots(&feasible).zip(scores) {
                affinity[slot as usize] = score;
            }
        }
        let mut spreads = Spreads::of(state, pages, job, group, &world.allocs);
        if let Some(spreads) = &mut spreads {
            spreads.welcome(&feasible);
        }
        Self {
            job,
            group,
            number: world.group(&group.name),
            ranking,
            affinity,
            spreads,
            distinct: Distinct::of(state, pages, job, group, &world.allocs),
            volumes: Volumes::of(state, &job.spec, group),
            turns: TieOrder::new(hash::mix(hash::of_id(eval.id.as_bytes()) ^ state.index().0)),
            seen: 0,
            standings: None,
            unsettled: Vec::new(),
            share,
            ask,
            feasible,
            roomy: Vec::new(),
        }
    }

    /// Reads the new entries of the journal.
    pub(super) fn catch_up(&mut self, world: &World<'a>) {
        let from = std::mem::replace(&mut self.seen, world.journal.len());
        let mut moved = std::mem::take(&mut self.unsettled);
        for event in &world.journal[from..] {
            moved.push(event.slot);
            let Some((group, change)) = event.counted else { continue };
            self.distinct.note(event.slot, world.group_name(group), change);
            if change != Counted::Proposed && self.distinct.counts_values() {
                // Other nodes with the value may have been rejected because of it.
                self.standings = None;
            }
            if group == self.number
                && let Some(spreads) = &mut self.spreads
            {
                let tuples = spreads.note(event.slot, change);
                if let Some(standings) = &mut self.standings {
                    standings.recount(spreads, &tuples);
                }
            }
        }
        if self.standings.is_some() {
            moved.sort_unstable();
            moved.dedup();
            moved.into_iter().for_each(|slot| self.stand(world, slot, false));
        }
    }

    /// Whether offers of a node depend on the placement, so that each placement has to scan all nodes.
    pub(super) fn differ_by_placement(&self) -> bool {
        self.volumes.as_ref().is_some_and(Volumes::differ_by_placement)
    }

    /// Whether nodes are rejected solely for infeasibility and amounts; then metrics are recorded without checking each
    /// node.
    pub(super) fn has_simple_metrics(&self) -> bool {
        self.ask.is_plain() && self.volumes.is_none() && self.distinct.is_empty()
    }

    /// The best nodes in order, at most `count`.
    pub(super) fn best_of(
        &mut self,
        world: &World<'a>,
        turn: &Turn<'_, 'a>,
        count: usize,
    ) -> Vec<(u32, Place<'a>)> {
        let mut best = Vec::with_capacity(count);
        while best.len() < count
            && let Some((slot, place)) = self.best_without(world, turn, &best)
        {
            if let Some(standings) = &mut self.standings {
                standings.leave(slot);
            }
            best.push((slot, place));
        }
        self.unsettled.extend(best.iter().map(|(slot, _)| *slot));
        best
    }

    /// Prepares for a placement that uses the fast path.
    pub(super) fn get_ready(&mut self, world: &World<'a>, turn: &Turn<'_, 'a>) {
        if self.standings.is_none() {
            let tuples = self.spreads.as_ref().map_or(1, Spreads::tuples);
            self.line_up(world, LINED_UP_MIN.max(2 * self.group.count as usize / tuples.max(1)));
        }
        self.penalise(world, turn);
    }

    fn penalise(&mut self, world: &World<'a>, turn: &Turn<'_, 'a>) {
        for slot in turn.penalised {
            self.stand(world, *slot, true);
            self.unsettled.push(*slot);
        }
    }

    /// The best node for a placement without preemption.
    pub(super) fn best(&mut self, world: &World<'a>, turn: &Turn<'_, 'a>) -> Option<(u32, Place<'a>)> {
        self.best_without(world, turn, &[])
    }

    /// The best node except for those in `found`.
    fn best_without(
        &mut self,
        world: &World<'a>,
        turn: &Turn<'_, 'a>,
        found: &[(u32, Place<'a>)],
    ) -> Option<(u32, Place<'a>)> {
        loop {
            let best = self.standings.as_mut()?.best(self.spreads.as_ref());
            if self.standings.as_ref()?.is_exhausted() {
                self.line_up(world, usize::MAX);
                self.penalise(world, turn);
                let standings = self.standings.as_mut()?;
                found.iter().for_each(|(slot, _)| standings.leave(*slot));
                continue;
            }
            let slot = best?;
            match self.look_at(world, slot, turn) {
                Ok(place) => return Some((slot, place)),
                // The node is removed until something changes there.
                Err(_) => self.standings.as_mut()?.leave(slot),
            }
        }
    }

    /// Builds the heaps from the nodes with enough of each amount, or from at least the best `most` of each tuple.
    fn line_up(&mut self, world: &World<'a>, most: usize) {
        let tuples = self.spreads.as_ref().map_or(1, Spreads::tuples);
        let mut standings = RankHeaps::new(world.pages.len(), tuples, most);
        let others = world.of_group(self.number);
        let is_offered = self.ask.decides_score();
        let mut fits = PageFits::default();
        let mut alike = AlikeNodes::default();
        self.roomy.resize(self.feasible.len(), 0);
        for number in 0..self.feasible.len() {
            let (page, used) = (world.pages[number], world.room.used(number));
            let is_alike = are_alike(page, used);
            let word = self.feasible[number] & world.room.fitting(number, self.ask.demand, is_alike);
            self.roomy[number] = word;
            if word == 0 {
                continue;
            }
            let is_bare = !is_offered && self.affinity.is_empty() && others.is_zero(number);
            let mut nodes = match is_bare {
                true => alike.take(&self.ranking, (number, page, used), word, is_alike),
                false => word,
            };
            if nodes == 0 {
                continue;
            }
            if !is_offered {
                self.ranking.fit_page(page, used, nodes, &mut fits);
            }
            if is_bare && self.spreads.is_none() {
                // Most nodes are rejected by their score alone, all of a page at once.
                nodes &= fits.at_least(standings.least_steps());
            }
            let tuples = self.spreads.as_mut().map_or([0; PAGE], |spreads| spreads.tuples_of(number, nodes));
            let turns = self.turns.of_page(number);
            for place in places(nodes) {
                let slot = (number * PAGE + place) as u32;
                let merits = match is_offered {
                    true => self.offered_merits(world, slot),
                    false => {
                        let fit = self.ranking.fit_of(&fits, page, used, place);
                        Some(ScoreFactors { fit, ..self.standing_merits(world, slot) })
                    }
                };
                let Some(merits) = merits else { continue };
                standings.line_up(slot, tuples[place], self.ranking.rank(&merits), turns.tie(place));
            }
        }
        let spreads = &mut self.spreads;
        let mut tuple = |slot| spreads.as_mut().map_or(0, |spreads| spreads.tuple(slot));
        for alike in alike.best_first() {
            standings.line_up_alike(&alike, self.turns, &mut tuple);
        }
        standings.open(self.spreads.as_ref());
        self.standings = Some(standings);
        self.unsettled.clear();
    }

    /// Updates one node's entry.
    fn stand(&mut self, world: &World<'a>, slot: u32, penalised: bool) {
        if !self.is_feasible(slot) {
            return;
        }
        let (page, place) = locate(slot);
        let is_short = world.room.short(slot, self.ask.demand).is_some();
        self.roomy[page] = self.roomy[page] & !(1 << place) | u64::from(!is_short) << place;
        let merits = if is_short {
            None
        } else if self.ask.decides_score() {
            self.offered_merits(world, slot)
        } else {
            let used = world.room.used(page).at(place);
            let fit = self.ranking.fit(world.pages[page], place, used, self.ask.demand);
            Some(ScoreFactors { fit, ..self.standing_merits(world, slot) })
        };
        let tuple = self.spreads.as_mut().map_or(0, |spreads| spreads.tuple(slot));
        let tie = self.tie(slot);
        let rank = merits.map(|merits| self.ranking.rank(&ScoreFactors { penalised, ..merits }));
        if let Some(standings) = &mut self.standings {
            match rank {
                Some(rank) => standings.enter(slot, tuple, rank, tie),
                None => standings.leave(slot),
            }
        }
    }

    /// Score factors that do not depend on the node's offer.
    fn standing_merits(&self, world: &World<'a>, slot: u32) -> ScoreFactors {
        ScoreFactors {
            others: world.of_group(self.number).at(slot),
            affinity: self.affinity.get(slot as usize).copied().unwrap_or_default(),
            ..ScoreFactors::default()
        }
    }

    /// All score factors, for groups whose score depends on the node's offer.
    fn offered_merits(&self, world: &World<'a>, slot: u32) -> Option<ScoreFactors> {
        let (page, place) = locate(slot);
        let used = world.room.used(page).at(place);
        let offer = world.room.offer(slot, &self.ask, NO_ALLOC).ok()?;
        Some(self.merits(world, slot, used, &offer))
    }

    /// The node's offer at a placement, with its score factors; or why the node is rejected.
    pub(super) fn look_at(
        &mut self,
        world: &World<'a>,
        slot: u32,
        turn: &Turn<'_, 'a>,
    ) -> Result<Place<'a>, Rejection> {
        self.check(world, slot, turn).map_or(Ok(()), |reason| Err(Rejection::Filtered(reason)))?;
        let exhausted = |exhausted: Exhausted| Rejection::Exhausted(exhausted.0);
        let (page, place) = locate(slot);
        let (offer, used, victims) = if turn.preempts {
            let option = preempt::make_room(world, slot, &self.ask, turn.id, self.job).map_err(exhausted)?;
            (option.offer, option.used, option.victims)
        } else {
            let offer = world.room.offer(slot, &self.ask, turn.id).map_err(exhausted)?;
            (offer, world.room.used(page).at(place), Vec::new())
        };
        let preemption = (!victims.is_empty()).then(|| preempt::score(&victims));
        let penalised = turn.penalised.contains(&slot);
        let merits = ScoreFactors { preemption, penalised, ..self.merits(world, slot, used, &offer) };
        Ok(Place { offer, victims, merits })
    }

    /// Why a node is rejected, apart from its free resources.
    fn check(&mut self, world: &World<'a>, slot: u32, turn: &Turn<'_, 'a>) -> Option<Text> {
        self.failures(world, slot, turn).next()
    }

    /// All reasons for which a node is rejected, apart from its free resources.
    pub(super) fn failures(
        &mut self,
        world: &World<'a>,
        slot: u32,
        turn: &Turn<'_, 'a>,
    ) -> impl Iterator<Item = Text> {
        let node = || world.room.node(slot);
        let volumes = turn.volumes.as_ref().and_then(|volumes| volumes.failure(&world.room, node()));
        let is_system = matches!(self.job.spec.kind, JobType::System | JobType::SysBatch);
        let neighbours = world.neighbours(slot, self.number);
        volumes.into_iter().chain(self.distinct.failures(slot, neighbours, is_system))
    }

    fn merits(&self, world: &World<'a>, slot: u32, used: Demand, offer: &Offer) -> ScoreFactors {
        let (page, place) = locate(slot);
        ScoreFactors {
            fit: self.ranking.fit(world.pages[page], place, used, offer.demand),
            devices: offer.devices,
            ..self.standing_merits(world, slot)
        }
    }

    /// The spread's boost of a node.
    pub(super) fn boost(&mut self, slot: u32, lowest: f64) -> f64 {
        self.spreads.as_mut().map_or(0.0, |spreads| {
            let tuple = spreads.tuple(slot);
            spreads.boost(tuple, lowest)
        })
    }

    /// See [`Spreads::lowest`].
    pub(super) fn lowest_boost(&self) -> f64 {
        self.spreads.as_ref().map_or(0.0, Spreads::lowest)
    }

    /// The rank of a node, including the spread.
    pub(super) fn rank(&self, merits: &ScoreFactors, boost: f64) -> Rank {
        let rank = self.ranking.rank(merits);
        Rank { sum: rank.sum.with_spread(boost), ..rank }
    }

    /// The node's key among nodes of equal rank.
    pub(super) fn tie(&self, slot: u32) -> u64 {
        self.turns.tie(slot)
    }

    pub(super) fn is_feasible(&self, slot: u32) -> bool {
        let (page, place) = locate(slot);
        self.feasible[page] >> place & 1 != 0
    }
}

/// The slots of a set of nodes, ascending.
pub(super) fn slots(words: &[u64]) -> impl Iterator<Item = u32> {
    let of_page =
        |(number, word): (usize, &u64)| places(*word).map(move |place| (number * PAGE + place) as u32);
    words.iter().enumerate().flat_map(of_page)
}
