//! A pass over all nodes that records complete metrics: which nodes were filtered and why, which amounts were
//! exhausted, and the five best nodes (`docs/rules/scheduling.md` §6.8). It finds the same best node as the fast path of
//! [`super`].

use std::collections::BTreeMap;

use model::Text;
use model::alloc::{AllocMetric, NodeScore};
use model::job::{JobSpec, TaskGroup};
use state::PAGE;

use super::candidates::{Candidates, NodeOffer, PlacementParams, Rejection, slots};
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
    let mut counts = PassCounts::default();
    let mut best: Vec<ScoredNode<'a>> = Vec::with_capacity(BEST_NAMED + 1);
    let lowest = candidates.lowest_boost();
    let mut evaluate = |slot: u32| {
        let is_feasible = candidates.is_feasible(slot);
        // Node registrations are probably not in the cache, so they are read for infeasible nodes only.
        let ruled_out = match nodes {
            Nodes::Base | Nodes::Preferred(_) if is_feasible => None,
            Nodes::Base | Nodes::Preferred(_) => feasibility.reason(group, world.room.node(slot)),
            Nodes::Own(_) => feasibility.own_reason(group, world.room.node(slot)),
        };
        if let Some(reason) = ruled_out {
            return counts.filter(reason, class(world, slot), 1);
        }
        match candidates.evaluate(world, slot, params) {
            Err(Rejection::Filtered(reason)) => counts.filter(reason, class(world, slot), 1),
            Err(Rejection::Exhausted(dimension)) => counts.exhaust(dimension, class(world, slot)),
            Ok(node_offer) => {
                let boost = candidates.boost(slot, lowest);
                let key = (candidates.rank(&node_offer.factors, boost), candidates.tie(slot));
                let better = best.partition_point(|other| other.key > key);
                if better < BEST_NAMED {
                    best.insert(better, ScoredNode { key, slot, node_offer, boost });
                    best.truncate(BEST_NAMED);
                }
            }
        }
    };
    let evaluated = match nodes {
        Nodes::Base => {
            slots(&base.words).for_each(&mut evaluate);
            base.count
        }
        Nodes::Preferred(slot) | Nodes::Own(slot) => {
            evaluate(slot);
            1
        }
    };
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
