//! Compares a pass that preempts with one that chooses victims on every node.

use std::cmp::Reverse;

use model::alloc::NodeScore;

use super::*;
use crate::place::candidates::slots;
use crate::preempt;
use crate::rank::{Rank, ScoreFactors};
use crate::room::{Exhausted, Offer};

use cluster::TestAlloc;

/// The result of a pass.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    filtered: u32,
    exhausted: BTreeMap<Text, u32>,
    scores: Vec<NodeScore>,
    /// The best node, its offer, and the victims there.
    best: Option<(u32, Offer, Vec<AllocId>)>,
}

fn ids(allocs: &[AllocRef<'_>]) -> Vec<AllocId> {
    allocs.iter().map(|alloc| alloc.id()).collect()
}

impl Outcome {
    fn of(scan: Scan<'_>) -> Self {
        let Scan { best, metric } = scan;
        assert_eq!(metric.nodes_exhausted, metric.dimension_exhausted.values().sum::<u32>());
        Self {
            filtered: metric.nodes_filtered,
            exhausted: metric.dimension_exhausted,
            scores: metric.scores,
            best: best.map(|(slot, node)| (slot, node.offer, ids(&node.victims))),
        }
    }

    /// The outcome of a pass that takes every step on every node.
    fn step_by_step<'a>(
        world: &World<'a>,
        candidates: &mut Candidates<'a>,
        base: &BaseNodes,
        params: &PlacementParams<'_, 'a>,
    ) -> Self {
        let mut outcome = Self::default();
        let mut found: Vec<(Rank, u64, u32, ScoreFactors, f64, preempt::Preemption<'a>)> = Vec::new();
        let lowest = candidates.lowest_boost();
        for slot in slots(&base.words) {
            if !candidates.is_feasible(slot) || candidates.first_failure(world, slot, params).is_some() {
                outcome.filtered += 1;
                continue;
            }
            let made =
                preempt::make_room_step_by_step(world, slot, &candidates.ask, params.id, candidates.job);
            match made {
                Err(Exhausted(dimension)) => *outcome.exhausted.entry(dimension).or_default() += 1,
                Ok(made) => {
                    let factors = ScoreFactors {
                        preemption: (!made.victims.is_empty()).then(|| preempt::score(&made.victims)),
                        penalised: params.penalised.contains(&slot),
                        ..candidates.factors(world, slot, made.used, &made.offer)
                    };
                    let boost = candidates.boost(slot, lowest);
                    let rank = candidates.rank(&factors, boost);
                    found.push((rank, candidates.tie(slot), slot, factors, boost, made));
                }
            }
        }
        found.sort_by_key(|(rank, tie, ..)| Reverse((*rank, *tie)));
        let named = found.iter().take(5).map(|(rank, _, slot, factors, boost, _)| NodeScore {
            node_id: world.room.node(*slot).id(),
            scores: candidates.ranking.scores(factors, *boost),
            normalized: rank.sum.mean(),
        });
        outcome.scores = named.collect();
        let best = found.into_iter().next();
        outcome.best = best.map(|(.., slot, _, _, made)| (slot, made.offer, ids(&made.victims)));
        outcome
    }
}

/// A cluster in which most nodes are full of other jobs' allocations, and most groups ask for amounts only.
fn crowded(dice: &mut Dice) -> Cluster {
    let mut cluster = match dice.once_in(4) {
        true => Cluster::of_whole_pages(dice),
        false => Cluster::random(dice),
    };
    cluster.preempts = true;
    cluster.priority = 30 + 10 * dice.roll(5) as u16;
    let larger = 1 + dice.roll(5) as u32;
    for group in &mut cluster.groups {
        (group.cpu_mhz, group.memory_mb) = (group.cpu_mhz * larger, group.memory_mb * larger);
        if !dice.once_in(4) {
            (group.dynamic_ports, group.static_port, group.gpus, group.cores) = (0, None, 0, 0);
        }
    }
    for _ in 0..dice.roll(100) {
        let alloc = TestAlloc::random(dice, &cluster);
        cluster.allocs.push(alloc);
    }
    cluster
}

fn check_passes(dice: &mut Dice, cluster: &Cluster) -> Result<(), TestCaseError> {
    let steps = steps(dice, cluster);
    let (state, eval) = (cluster.state(), evaluation());
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let mut run = Run::new(cluster, &state, &pages, &eval);
    for (number, step) in (0u32..).zip(&steps) {
        match *step {
            Step::Stop(of) => run.placer.stop(run.alloc(of)),
            Step::Update(of) => drop(run.update(of)),
            Step::Place { group, previous, replaces } => {
                let request = run.request(number, group, previous, replaces, false);
                run.placer.candidates(run.version, group);
                let Preferences { penalised, .. } = run.placer.preferences(&request);
                let pass = Outcome::of(run.placer.pass(&request, &penalised, Nodes::Base, true));
                let expected = run.placer.with_candidates(
                    &request,
                    &penalised,
                    true,
                    |world, candidates, _, base, params| {
                        Outcome::step_by_step(world, candidates, base, params)
                    },
                );
                prop_assert_eq!(pass, expected, "{:#?}\n{:?}", cluster, steps);
                drop(run.placer.place(&request));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn choosing_victims_on_few_nodes_finds_what_choosing_them_on_all_nodes_finds(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = crowded(&mut dice);
        check_passes(&mut dice, &cluster)?;
    }

    #[test]
    fn the_short_way_preempts_what_a_look_at_all_nodes_preempts(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = crowded(&mut dice);
        check_fast_path(&mut dice, &cluster)?;
    }
}
