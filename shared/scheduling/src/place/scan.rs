//! A pass over all nodes that records complete metrics: which nodes were filtered and why, which amounts were
//! exhausted, and the five best nodes (`docs/rules/scheduling.md` §6.8). It finds the same best node as the fast path of
//! [`super`].

use std::collections::{BTreeMap, BinaryHeap};

use model::Text;
use model::alloc::{AllocMetric, NodeScore};
use model::job::{JobSpec, TaskGroup};
use state::PAGE;

use super::candidates::{Candidates, NodeOffer, PlacementParams, Rejection, slots};
use super::outlooks::Outlook;
use super::world::World;
use crate::columns::bits;
use crate::feasible::{BaseNodes, Feasibility};
use crate::rank::Rank;
use crate::room::Exhausted;

/// Number of best nodes in metrics.
const BEST_NAMED: usize = 5;

/// The nodes of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Nodes {
    /// All of the base set.
    Base,
    /// One node that is preferred to all others.
    Preferred(u32),
    /// The one node that a system job's allocation is for. Its reasons are reported as if no other node had been
    /// checked.
    Own(u32),
}

/// The result of a pass.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) best: Option<(u32, NodeOffer<'a>)>,
    pub(super) metric: AllocMetric,
}

/// A node with enough free resources, and its score.
struct ScoredNode<'a> {
    key: (Rank, u64),
    slot: u32,
    node_offer: NodeOffer<'a>,
    boost: f64,
}

pub(super) fn scan<'a>(
    world: &World<'a>,
    candidates: &mut Candidates<'a>,
    feasibility: &mut Feasibility<'a>,
    (base, group): (&BaseNodes, usize),
    params: &PlacementParams<'_, 'a>,
    nodes: Nodes,
) -> Scan<'a> {
    let lowest = candidates.lowest_boost();
    let (counts, best) = (PassCounts::default(), Vec::with_capacity(BEST_NAMED + 1));
    let mut pass =
        Pass { world, candidates, feasibility, group, params, is_own: false, lowest, counts, best };
    let evaluated = match nodes {
        Nodes::Base if params.preempts => {
            pass.visit_best_first(slots(&base.words));
            base.count
        }
        Nodes::Base => {
            slots(&base.words).for_each(|slot| pass.visit(slot));
            base.count
        }
        Nodes::Preferred(slot) => {
            pass.visit(slot);
            1
        }
        Nodes::Own(slot) => {
            pass.is_own = true;
            pass.visit(slot);
            1
        }
    };
    let Pass { candidates, counts, best, .. } = pass;
    let named = best.iter().map(|node| NodeScore {
        node_id: world.room.node(node.slot).id(),
        scores: candidates.ranking.scores(&node.node_offer.factors, node.boost),
        normalized: node.key.0.sum.mean(),
    });
    let scores = named.collect();
    let metric =
        AllocMetric { scores, nodes_evaluated: evaluated, ..counts.into_metric(base, &candidates.job.spec) };
    let best = best.into_iter().next().map(|node| (node.slot, node.node_offer));
    Scan { best, metric }
}

/// A pass under way.
struct Pass<'p, 't, 'a> {
    world: &'p World<'a>,
    candidates: &'p mut Candidates<'a>,
    feasibility: &'p mut Feasibility<'a>,
    group: usize,
    params: &'p PlacementParams<'t, 'a>,
    /// Whether the only node is the one that a system job's allocation is for.
    is_own: bool,
    lowest: f64,
    counts: PassCounts,
    /// The best nodes, best first.
    best: Vec<ScoredNode<'a>>,
}

impl Pass<'_, '_, '_> {
    fn visit(&mut self, slot: u32) {
        if !self.is_ruled_out(slot) {
            self.evaluate(slot);
        }
    }

    /// Visits nodes, but chooses victims only on nodes that may be among the best. The result is the same as that of
    /// [`Self::visit`] for each node.
    fn visit_best_first(&mut self, slots: impl Iterator<Item = u32>) {
        // The greatest possible key of each node, and the node.
        let mut waiting: Vec<(Rank, u64, u32)> = Vec::new();
        for slot in slots {
            if self.is_ruled_out(slot) {
                continue;
            }
            let outlook = self.candidates.outlook(self.world, slot, self.params);
            if outlook == Outlook::Unknown {
                self.evaluate(slot);
            } else if let Some(reason) = self.candidates.first_failure(self.world, slot, self.params) {
                self.reject(slot, Rejection::Filtered(reason));
            } else if let Outlook::Exhausted(dimension) = outlook {
                self.reject(slot, Rejection::Exhausted(dimension.as_str().into()));
            } else if let Outlook::RankMax(rank) = outlook {
                let boost = self.candidates.boost(slot, self.lowest);
                let rank = Rank { sum: rank.sum.with_spread(boost), ..rank };
                waiting.push((rank, self.candidates.tie(slot), slot));
            }
        }
        let mut waiting = BinaryHeap::from(waiting);
        while let Some((rank, tie, slot)) = waiting.pop() {
            if self.best.get(BEST_NAMED - 1).is_some_and(|last| last.key > (rank, tie)) {
                break;
            }
            self.evaluate(slot);
        }
    }

    /// Whether a node is infeasible; then it is counted with its reason.
    fn is_ruled_out(&mut self, slot: u32) -> bool {
        let node = || self.world.room.node(slot);
        // Node registrations are probably not in the cache, so they are read for infeasible nodes only.
        let reason = match self.is_own {
            true => self.feasibility.own_reason(self.group, node()),
            false if self.candidates.is_feasible(slot) => None,
            false => self.feasibility.reason(self.group, node()),
        };
        let is_ruled_out = reason.is_some();
        reason.into_iter().for_each(|reason| self.reject(slot, Rejection::Filtered(reason)));
        is_ruled_out
    }

    /// Finds what a feasible node offers.
    fn evaluate(&mut self, slot: u32) {
        match self.candidates.evaluate(self.world, slot, self.params) {
            Err(rejection) => self.reject(slot, rejection),
            Ok(node_offer) => {
                let boost = self.candidates.boost(slot, self.lowest);
                let key = (self.candidates.rank(&node_offer.factors, boost), self.candidates.tie(slot));
                let better = self.best.partition_point(|other| other.key > key);
                if better < BEST_NAMED {
                    self.best.insert(better, ScoredNode { key, slot, node_offer, boost });
                    self.best.truncate(BEST_NAMED);
                }
            }
        }
    }

    fn reject(&mut self, slot: u32, rejection: Rejection) {
        let class = class(self.world, slot);
        match rejection {
            Rejection::Filtered(reason) => self.counts.filter(reason, class, 1),
            Rejection::Exhausted(dimension) => self.counts.exhaust(dimension, class),
        }
    }
}

/// The metrics of a pass over the base set whose best node was found by the fast path. Only for groups whose nodes are
/// rejected solely for infeasibility and amounts ([`Candidates::has_simple_metrics`]).
pub(super) fn fast_metrics<'a>(
    world: &World<'a>,
    candidates: &mut Candidates<'a>,
    feasibility: &mut Feasibility<'a>,
    (base, group): (&BaseNodes, usize),
    params: &PlacementParams<'_, 'a>,
) -> AllocMetric {
    let state = world.state;
    let mut counts = PassCounts::default();
    let by_kind = !feasibility.group_escapes_class(group);
    // By kind: number of infeasible nodes, and the slot of the first.
    let mut ruled_out: Vec<(u32, u32)> = vec![(0, 0); state.node_kinds()];
    let mut classes: Vec<Option<&'a Text>> = vec![None; state.node_kinds()];
    for number in 0..base.words.len() {
        let page = world.pages[number];
        let (all, feasible) = (base.words[number], candidates.feasible[number]);
        let mut class = |bit: usize, slot: u32| {
            let node = || state.node_at(slot).expect("the base set contains existing nodes only");
            *classes[page.kind[bit] as usize].get_or_insert_with(|| &node().spec().node_class)
        };
        for bit in bits(all & !feasible) {
            let slot = (number * PAGE + bit) as u32;
            if by_kind {
                let (count, first) = &mut ruled_out[page.kind[bit] as usize];
                if *count == 0 {
                    *first = slot;
                }
                *count += 1;
            } else {
                let reason = feasibility.reason(group, world.room.node(slot));
                counts.filter(reason.unwrap_or_default(), class(bit, slot), 1);
            }
        }
        let exhausted = feasible & !candidates.fitting[number];
        for bit in bits(exhausted | feasible & (page.special | page.invalid_ports)) {
            let slot = (number * PAGE + bit) as u32;
            let class = class(bit, slot);
            if let Err(Exhausted(dimension)) = world.room.offer(slot, &candidates.ask, params.id) {
                counts.exhaust(dimension, class);
            }
        }
    }
    // In the order of the nodes: the first node of a class reports the reason of the class.
    ruled_out.retain(|(count, _)| *count > 0);
    ruled_out.sort_unstable_by_key(|(_, first)| *first);
    for (count, first) in ruled_out {
        let node = world.room.node(first);
        let reason = feasibility.reason(group, node).unwrap_or_default();
        counts.filter(reason, &node.spec().node_class, 1);
        counts.filter(feasibility.class_ineligible(), &node.spec().node_class, count - 1);
    }
    let lowest = candidates.lowest_boost();
    let mut scores = Vec::with_capacity(BEST_NAMED);
    for (slot, node_offer) in candidates.best_of(world, params, BEST_NAMED) {
        let boost = candidates.boost(slot, lowest);
        scores.push(NodeScore {
            node_id: world.room.node(slot).id(),
            scores: candidates.ranking.scores(&node_offer.factors, boost),
            normalized: candidates.rank(&node_offer.factors, boost).sum.mean(),
        });
    }
    AllocMetric { scores, nodes_evaluated: base.count, ..counts.into_metric(base, &candidates.job.spec) }
}

fn class<'a>(world: &World<'a>, slot: u32) -> &'a Text {
    &world.room.node(slot).spec().node_class
}

/// Counters of a pass.
#[derive(Debug, Default)]
struct PassCounts {
    filtered: u32,
    by_reason: Tally,
    class_filtered: Tally,
    exhausted: u32,
    by_dimension: Tally,
    class_exhausted: Tally,
}

impl PassCounts {
    /// Counts nodes that were filtered.
    fn filter(&mut self, reason: Text, class: &Text, count: u32) {
        if count == 0 {
            return;
        }
        self.filtered += count;
        self.by_reason.add(&reason, count);
        if !class.is_empty() {
            self.class_filtered.add(class, count);
        }
    }

    /// Counts a node without enough of a resource.
    fn exhaust(&mut self, dimension: Text, class: &Text) {
        self.exhausted += 1;
        self.by_dimension.add(&dimension, 1);
        if !class.is_empty() {
            self.class_exhausted.add(class, 1);
        }
    }

    fn into_metric(self, base: &BaseNodes, spec: &JobSpec) -> AllocMetric {
        AllocMetric {
            nodes_filtered: self.filtered,
            nodes_in_pool: base.count,
            node_pool: Text::clone(&spec.node_pool),
            nodes_available: base.by_datacenter.clone(),
            class_filtered: self.class_filtered.into_counts(),
            constraint_filtered: self.by_reason.into_counts(),
            nodes_exhausted: self.exhausted,
            class_exhausted: self.class_exhausted.into_counts(),
            dimension_exhausted: self.by_dimension.into_counts(),
            ..AllocMetric::default()
        }
    }
}

/// Counts names. Optimized for runs of the same name.
#[derive(Debug, Default)]
struct Tally {
    last: Option<(Text, u32)>,
    counts: BTreeMap<Text, u32>,
}

impl Tally {
    fn add(&mut self, name: &Text, more: u32) {
        match &mut self.last {
            Some((last, count)) if last == name => *count += more,
            _ => {
                self.flush();
                self.last = Some((Text::clone(name), more));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((name, count)) = self.last.take() {
            *self.counts.entry(name).or_default() += count;
        }
    }

    fn into_counts(mut self) -> BTreeMap<Text, u32> {
        self.flush();
        self.counts
    }
}

/// Adds the resources that each task of a group requested and did not get.
pub(crate) fn add_exhausted_resources(metric: &mut AllocMetric, group: &TaskGroup) {
    let [cpu, memory] = ["cpu", "memory"].map(|dimension| metric.dimension_exhausted.contains_key(dimension));
    if !cpu && !memory {
        return;
    }
    for task in &group.tasks {
        let resources = metric.resources_exhausted.entry(Text::clone(&task.name)).or_default();
        if cpu {
            resources.cpu_mhz = resources.cpu_mhz.saturating_add(task.resources.cpu_mhz);
        }
        if memory {
            resources.memory_mb = resources.memory_mb.saturating_add(task.resources.memory_mb);
        }
    }
}
