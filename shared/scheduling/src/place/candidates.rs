//! The candidates of one group: its feasible nodes with their scores and offers.

use model::alloc::{AllocatedResources, Demand};
use model::eval::Evaluation;
use model::job::{Job, JobType, TaskGroup};
use model::{AllocId, Text};
use state::{AllocRef, NodePage, PAGE};

use super::alike::AlikeCollector;
use super::demand::common_share;
use super::outlooks::{Outlook, Outlooks};
use super::rank_heaps::RankHeaps;
use super::tie_order::TieOrder;
use super::world::World;
use crate::columns::{are_alike, bits, locate};
use crate::feasible::{CountChange, Distinct, PlacementVolumes, Volumes};
use crate::hash;
use crate::preempt::{self, Prospect};
use crate::rank::{PageFits, Rank, Ranking, ScoreFactors, Spreads};
use crate::room::{Ask, Exhausted, Offer};

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
    pub(super) fitting: Vec<u64>,
    /// Affinity score by slot; empty if there are no affinities.
    affinity: Vec<f64>,
    pub(super) spreads: Option<Spreads<'a>>,
    pub(super) distinct: Distinct<'a>,
    pub(super) volumes: Option<Volumes<'a>>,
    /// The order among nodes of equal rank.
    tie_order: TieOrder,
    /// Number of journal entries that were read.
    journal_read: usize,
    /// The nodes by rank; built for the first placement that uses the fast path.
    heaps: Option<RankHeaps>,
    /// Nodes whose entry holds for one placement only.
    temporary: Vec<u32>,
    /// As of the last journal entry read; filled by passes with preemption.
    outlooks: Outlooks,
}

/// Minimum number of nodes that are kept of each tuple of values. Low in tests, so that it is exceeded there, too.
const KEPT_MIN: usize = if cfg!(test) { 2 } else { 8 };
/// Allocation id for offers that do not depend on one.
pub(super) const NO_ALLOC: AllocId = AllocId::from_bytes([0; 16]);

/// Parameters of one placement that are not the same for its whole group.
#[derive(Debug)]
pub(super) struct PlacementParams<'t, 'a> {
    pub(super) id: AllocId,
    /// Slots of nodes on which predecessors failed.
    pub(super) penalised: &'t [u32],
    pub(super) volumes: Option<PlacementVolumes<'t, 'a>>,
    /// Whether to preempt.
    pub(super) preempts: bool,
}

/// The offer of a node, with its score factors.
#[derive(Debug, Clone)]
pub(super) struct NodeOffer<'a> {
    pub(super) offer: Offer,
    pub(super) victims: Vec<AllocRef<'a>>,
    pub(super) factors: ScoreFactors,
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
            let node = |slot| state.node_at(slot).expect("feasible nodes exist");
            let scores = affinities.scores(slots(&feasible).map(node), state.node_kinds());
            for (slot, score) in slots(&feasible).zip(scores) {
                affinity[slot as usize] = score;
            }
        }
        let mut spreads = Spreads::of(state, pages, job, group, &world.allocs);
        if let Some(spreads) = &mut spreads {
            spreads.set_candidates(&feasible);
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
            tie_order: TieOrder::new(hash::mix(hash::of_id(eval.id.as_bytes()) ^ state.index().0)),
            journal_read: 0,
            heaps: None,
            temporary: Vec::new(),
            outlooks: Outlooks::default(),
            share,
            ask,
            feasible,
            fitting: Vec::new(),
        }
    }

    /// Reads the new entries of the journal.
    pub(super) fn catch_up(&mut self, world: &World<'a>) {
        let from = std::mem::replace(&mut self.journal_read, world.journal.len());
        let mut changed = std::mem::take(&mut self.temporary);
        for event in &world.journal[from..] {
            changed.push(event.slot);
            self.outlooks.drop_at(event.slot);
            let Some((group, change)) = event.counted else { continue };
            self.distinct.note(event.slot, world.group_name(group), change);
            if change != CountChange::Proposed && self.distinct.counts_values() {
                // Other nodes with the value may have been rejected because of it.
                self.heaps = None;
            }
            if group == self.number
                && let Some(spreads) = &mut self.spreads
            {
                let tuples = spreads.note(event.slot, change);
                if let Some(heaps) = &mut self.heaps {
                    heaps.update_levels(spreads, &tuples);
                }
            }
        }
        if self.heaps.is_some() {
            changed.sort_unstable();
            changed.dedup();
            changed.into_iter().for_each(|slot| self.update_node(world, slot, false));
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
        params: &PlacementParams<'_, 'a>,
        count: usize,
    ) -> Vec<(u32, NodeOffer<'a>)> {
        let mut best = Vec::with_capacity(count);
        while best.len() < count
            && let Some((slot, node_offer)) = self.best_without(world, params, &best)
        {
            if let Some(heaps) = &mut self.heaps {
                heaps.remove(slot);
            }
            best.push((slot, node_offer));
        }
        self.temporary.extend(best.iter().map(|(slot, _)| *slot));
        best
    }

    /// Prepares for a placement that uses the fast path.
    pub(super) fn prepare(&mut self, world: &World<'a>, params: &PlacementParams<'_, 'a>) {
        if self.heaps.is_none() {
            let tuples = self.spreads.as_ref().map_or(1, Spreads::tuples);
            self.build_heaps(world, KEPT_MIN.max(2 * self.group.count as usize / tuples.max(1)));
        }
        self.penalise(world, params);
    }

    fn penalise(&mut self, world: &World<'a>, params: &PlacementParams<'_, 'a>) {
        for slot in params.penalised {
            self.update_node(world, *slot, true);
            self.temporary.push(*slot);
        }
    }

    /// The best node for a placement without preemption.
    pub(super) fn best(
        &mut self,
        world: &World<'a>,
        params: &PlacementParams<'_, 'a>,
    ) -> Option<(u32, NodeOffer<'a>)> {
        self.best_without(world, params, &[])
    }

    /// The best node except for those in `found`.
    fn best_without(
        &mut self,
        world: &World<'a>,
        params: &PlacementParams<'_, 'a>,
        found: &[(u32, NodeOffer<'a>)],
    ) -> Option<(u32, NodeOffer<'a>)> {
        loop {
            let best = self.heaps.as_mut()?.best(self.spreads.as_ref());
            if self.heaps.as_ref()?.is_exhausted() {
                self.build_heaps(world, usize::MAX);
                self.penalise(world, params);
                let heaps = self.heaps.as_mut()?;
                found.iter().for_each(|(slot, _)| heaps.remove(*slot));
                continue;
            }
            let slot = best?;
            match self.evaluate(world, slot, params) {
                Ok(node_offer) => return Some((slot, node_offer)),
                // The node is removed until something changes there.
                Err(_) => self.heaps.as_mut()?.remove(slot),
            }
        }
    }

    /// Builds the heaps from the nodes with enough of each amount, or from at least the best `most` of each tuple.
    fn build_heaps(&mut self, world: &World<'a>, kept_min: usize) {
        let tuples = self.spreads.as_ref().map_or(1, Spreads::tuples);
        let mut heaps = RankHeaps::new(world.pages.len(), tuples, kept_min);
        let others = world.group_counts(self.number);
        let needs_offer = self.ask.decides_score();
        let mut fits = PageFits::default();
        let mut alike = AlikeCollector::default();
        self.fitting.resize(self.feasible.len(), 0);
        for number in 0..self.feasible.len() {
            let (page, used) = (world.pages[number], world.room.used(number));
            let is_alike = are_alike(page, used);
            let word = self.feasible[number] & world.room.fitting(number, self.ask.demand, is_alike);
            self.fitting[number] = word;
            if word == 0 {
                continue;
            }
            let ranks_by_amounts = !needs_offer && self.affinity.is_empty() && others.is_zero(number);
            let mut nodes = match ranks_by_amounts {
                true => alike.take(&self.ranking, (number, page, used), word, is_alike),
                false => word,
            };
            if nodes == 0 {
                continue;
            }
            if !needs_offer {
                self.ranking.fit_page(page, used, nodes, &mut fits);
            }
            if ranks_by_amounts && self.spreads.is_none() {
                // Most nodes are rejected by their score alone, all of a page at once.
                nodes &= fits.at_least(heaps.least_steps());
            }
            let tuples = self.spreads.as_mut().map_or([0; PAGE], |spreads| spreads.tuples_of(number, nodes));
            let order = self.tie_order.of_page(number);
            for bit in bits(nodes) {
                let slot = (number * PAGE + bit) as u32;
                let factors = match needs_offer {
                    true => self.offer_factors(world, slot),
                    false => {
                        let fit = self.ranking.fit_of(&fits, page, used, bit);
                        Some(ScoreFactors { fit, ..self.fixed_factors(world, slot) })
                    }
                };
                let Some(factors) = factors else { continue };
                heaps.add(slot, tuples[bit], self.ranking.rank(&factors), order.tie(bit));
            }
        }
        let spreads = &mut self.spreads;
        let mut tuple = |slot| spreads.as_mut().map_or(0, |spreads| spreads.tuple(slot));
        for alike in alike.best_first() {
            heaps.add_alike(&alike, self.tie_order, &mut tuple);
        }
        heaps.build(self.spreads.as_ref());
        self.heaps = Some(heaps);
        self.temporary.clear();
    }

    /// Updates one node's entry.
    fn update_node(&mut self, world: &World<'a>, slot: u32, penalised: bool) {
        if !self.is_feasible(slot) {
            return;
        }
        let (page, bit) = locate(slot);
        let lacks_amount = world.room.shortage(slot, self.ask.demand).is_some();
        self.fitting[page] = self.fitting[page] & !(1 << bit) | u64::from(!lacks_amount) << bit;
        let factors = if lacks_amount {
            None
        } else if self.ask.decides_score() {
            self.offer_factors(world, slot)
        } else {
            let used = world.room.used(page).at(bit);
            let fit = self.ranking.fit(world.pages[page], bit, used, self.ask.demand);
            Some(ScoreFactors { fit, ..self.fixed_factors(world, slot) })
        };
        let tuple = self.spreads.as_mut().map_or(0, |spreads| spreads.tuple(slot));
        let tie = self.tie(slot);
        let rank = factors.map(|factors| self.ranking.rank(&ScoreFactors { penalised, ..factors }));
        if let Some(heaps) = &mut self.heaps {
            match rank {
                Some(rank) => heaps.insert(slot, tuple, rank, tie),
                None => heaps.remove(slot),
            }
        }
    }

    /// Score factors that do not depend on the node's offer.
    fn fixed_factors(&self, world: &World<'a>, slot: u32) -> ScoreFactors {
        ScoreFactors {
            others: world.group_counts(self.number).at(slot),
            affinity: self.affinity.get(slot as usize).copied().unwrap_or_default(),
            ..ScoreFactors::default()
        }
    }

    /// All score factors, for groups whose score depends on the node's offer.
    fn offer_factors(&self, world: &World<'a>, slot: u32) -> Option<ScoreFactors> {
        let (page, bit) = locate(slot);
        let used = world.room.used(page).at(bit);
        let offer = world.room.offer(slot, &self.ask, NO_ALLOC).ok()?;
        Some(self.factors(world, slot, used, &offer))
    }

    /// The node's offer at a placement, with its score factors; or why the node is rejected.
    pub(super) fn evaluate(
        &mut self,
        world: &World<'a>,
        slot: u32,
        params: &PlacementParams<'_, 'a>,
    ) -> Result<NodeOffer<'a>, Rejection> {
        self.first_failure(world, slot, params).map_or(Ok(()), |reason| Err(Rejection::Filtered(reason)))?;
        let exhausted = |exhausted: Exhausted| Rejection::Exhausted(exhausted.0);
        let (page, bit) = locate(slot);
        let (offer, used, victims) = if params.preempts {
            let option =
                preempt::make_room(world, slot, &self.ask, params.id, self.job).map_err(exhausted)?;
            (option.offer, option.used, option.victims)
        } else {
            let offer = world.room.offer(slot, &self.ask, params.id).map_err(exhausted)?;
            (offer, world.room.used(page).at(bit), Vec::new())
        };
        let preemption = (!victims.is_empty()).then(|| preempt::score(&victims));
        let penalised = params.penalised.contains(&slot);
        let factors = ScoreFactors { preemption, penalised, ..self.factors(world, slot, used, &offer) };
        Ok(NodeOffer { offer, victims, factors })
    }

    /// What is known of a node's offer at a placement that preempts, without choosing victims.
    pub(super) fn outlook(
        &mut self,
        world: &World<'a>,
        slot: u32,
        params: &PlacementParams<'_, 'a>,
    ) -> Outlook {
        if params.penalised.contains(&slot) {
            return Outlook::Unknown;
        }
        if let Some(known) = self.outlooks.at(slot) {
            return known;
        }
        let outlook = match preempt::prospect(world, slot, &self.ask, self.job) {
            Prospect::Exhausted(dimension) => Outlook::Exhausted(dimension),
            Prospect::Unknown => Outlook::Unknown,
            Prospect::Victims { score_max } => {
                let (page, bit) = locate(slot);
                // The amounts in use still include those of the victims.
                let fit = self.ranking.fit_for_ask(world.pages[page], bit, world.room.used_on(slot));
                let fixed = self.fixed_factors(world, slot);
                let factors = ScoreFactors { fit, preemption: Some(score_max), ..fixed };
                Outlook::RankMax(self.ranking.rank(&factors))
            }
        };
        self.outlooks.keep(slot, outlook, world.pages.len() * PAGE);
        outlook
    }

    /// Why a node is rejected, apart from its free resources.
    pub(super) fn first_failure(
        &mut self,
        world: &World<'a>,
        slot: u32,
        params: &PlacementParams<'_, 'a>,
    ) -> Option<Text> {
        self.failures(world, slot, params).next()
    }

    /// All reasons for which a node is rejected, apart from its free resources.
    pub(super) fn failures(
        &mut self,
        world: &World<'a>,
        slot: u32,
        params: &PlacementParams<'_, 'a>,
    ) -> impl Iterator<Item = Text> {
        let node = || world.room.node(slot);
        let volumes = params.volumes.as_ref().and_then(|volumes| volumes.failure(&world.room, node()));
        let is_system = matches!(self.job.spec.kind, JobType::System | JobType::SysBatch);
        let neighbours = world.neighbours(slot, self.number);
        volumes.into_iter().chain(self.distinct.failures(slot, neighbours, is_system))
    }

    pub(super) fn factors(&self, world: &World<'a>, slot: u32, used: Demand, offer: &Offer) -> ScoreFactors {
        let (page, bit) = locate(slot);
        ScoreFactors {
            fit: self.ranking.fit(world.pages[page], bit, used, offer.demand),
            devices: offer.devices,
            ..self.fixed_factors(world, slot)
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
    pub(super) fn rank(&self, factors: &ScoreFactors, boost: f64) -> Rank {
        let rank = self.ranking.rank(factors);
        Rank { sum: rank.sum.with_spread(boost), ..rank }
    }

    /// The node's key among nodes of equal rank.
    pub(super) fn tie(&self, slot: u32) -> u64 {
        self.tie_order.tie(slot)
    }

    pub(super) fn is_feasible(&self, slot: u32) -> bool {
        let (page, bit) = locate(slot);
        self.feasible[page] >> bit & 1 != 0
    }
}

/// The slots of a set of nodes, ascending.
pub(super) fn slots(words: &[u64]) -> impl Iterator<Item = u32> {
    let of_page = |(number, word): (usize, &u64)| bits(*word).map(move |bit| (number * PAGE + bit) as u32);
    words.iter().enumerate().flat_map(of_page)
}
