//! Ranking: how well feasible nodes suit a group (`spec/scheduling.md` §§6.4 to 6.6, design §8).
//!
//! A score is the mean of what there is to say of a node. All of it but the spread depends on the node alone: on what it
//! has left, on how many of the group it has, on what it is. So a placement changes the score of one node, and the others'
//! stand; the spread's part is added when nodes are compared.

mod affinity;
mod power;
mod spread;

use std::cmp::Ordering;

use model::alloc::{Demand, Scorer};
use model::cluster::SchedulerAlgorithm;
use model::job::{JobSpec, JobType, TaskGroup};
use state::{NodePage, PAGE, State, Usage};

use crate::columns::{places, word_of};

use affinity::Affinities;
pub(crate) use power::ten_to;
pub(crate) use spread::{Level, Spreads};

/// The best and the worst fitness are as far apart.
const FITNESS_MAX: f64 = 18.0;
/// What a node that is full scores, and one that is empty takes from it.
const FULL: f64 = 20.0;
/// Scores are compared in steps, of which this many make one: those that differ by less are equal (design §8).
const STEPS: f64 = 1e12;
/// So few nodes of a page are rather looked at one by one.
const FEW: u32 = 8;
/// How much tightness counts beside alignment, which counts as one (`docs/architecture.md`).
const TIGHTNESS_BESIDE_ALIGNMENT: f64 = 0.2;

/// What makes a group's scores, whatever the node.
#[derive(Debug)]
pub(crate) struct Ranking<'a> {
    ask: Demand,
    count: f64,
    algorithm: SchedulerAlgorithm,
    scale: Scale,
    affinities: Option<Affinities<'a>>,
    /// Whether the job runs on every node: then little is said of each.
    is_system: bool,
}

/// What makes MHz and MB comparable: the shares that they are of what an average node of the group's has.
#[derive(Debug, Clone, Copy)]
struct Scale {
    per_mhz: f64,
    per_mb: f64,
}

/// What a node's score is made of, apart from others of the group on it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Fit {
    /// How full, or how empty, the node becomes, or how well its shape suits, by the algorithm; from 0 to 1.
    pub(crate) fitness: f64,
    /// The cosine between what the node has left and what is asked: what decides between equal scores.
    pub(crate) alignment: f64,
}

/// How well nodes of a page suit; filled for one page after the other. Alignments are not among it: few nodes come so far
/// that theirs decides.
#[derive(Debug)]
pub(crate) struct PageFits {
    fitness: [f64; PAGE],
}

impl Default for PageFits {
    fn default() -> Self {
        Self { fitness: [0.0; PAGE] }
    }
}

impl PageFits {
    /// The places where it is at least so many steps ([`Sum`]), and perhaps some where it is nearly so.
    pub(crate) fn at_least(&self, steps: i64) -> u64 {
        // Not rounded, which is done for one at a time: those that are just short of it come along.
        let least = (steps as f64 - 1.0) / STEPS;
        word_of(&self.fitness.map(|fitness| u8::from(fitness >= least)))
    }
}

/// Compute and memory: of a node, or asked.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    cpu: f64,
    memory: f64,
}

impl Amounts {
    #[inline(always)]
    fn of(demand: Demand) -> Self {
        Self { cpu: f64::from(demand.cpu_mhz), memory: f64::from(demand.memory_mb) }
    }

    /// Each axis with that of another.
    #[inline(always)]
    fn with(self, other: Self, each: impl Fn(f64, f64) -> f64) -> Self {
        Self { cpu: each(self.cpu, other.cpu), memory: each(self.memory, other.memory) }
    }

    /// The dot product.
    #[inline(always)]
    fn dot(self, other: Self) -> f64 {
        self.cpu * other.cpu + self.memory * other.memory
    }
}

/// What there is to say of a node, spread apart.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Merits {
    pub(crate) fit: Fit,
    /// How much its devices are wanted, if anything is said of that.
    pub(crate) devices: Option<f64>,
    /// How many of the group it has.
    pub(crate) others: u32,
    /// Whether a predecessor failed on it.
    pub(crate) penalised: bool,
    /// How desirable it is, between -1 and 1.
    pub(crate) affinity: f64,
    /// What it is worth that others have to make room there.
    pub(crate) preemption: Option<f64>,
}

/// A sum of scores in steps of the resolution, and how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) steps: i64,
    pub(crate) parts: u8,
}

impl Sum {
    /// The sum with one score more, which counts unless it is nothing.
    pub(crate) fn with_spread(self, boost: f64) -> Self {
        match to_steps(boost) {
            0 => self,
            steps => Self { steps: self.steps + steps, parts: self.parts + 1 },
        }
    }

    /// The mean.
    pub(crate) fn mean(self) -> f64 {
        self.steps as f64 / STEPS / f64::from(self.parts)
    }
}

/// A node's place among others: by the mean of its scores, and among equals by alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) sum: Sum,
    pub(crate) alignment: i64,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        // Each over the other's number of parts: a quotient would not be exact.
        let [left, right] = [(self, other), (other, self)];
        let over = |(of, by): (&Self, &Self)| i128::from(of.sum.steps) * i128::from(by.sum.parts);
        over(left).cmp(&over(right)).then(self.alignment.cmp(&other.alignment))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// To the nearest step; in between away from zero, as `round` does, which is a call.
#[inline(always)]
pub(crate) fn to_steps(value: f64) -> i64 {
    let steps = value * STEPS;
    (steps + 0.5_f64.copysign(steps)) as i64
}

/// The algorithm that a job's nodes are ranked by: its pool's, else the cluster's.
fn algorithm(state: &State, spec: &JobSpec) -> SchedulerAlgorithm {
    let of_pool = state.node_pool(&spec.node_pool).and_then(|pool| pool.scheduler?.algorithm);
    let of_cluster = || state.scheduler_config().and_then(|config| config.algorithm);
    of_pool.or_else(of_cluster).unwrap_or(SchedulerAlgorithm::Binpack)
}

impl<'a> Ranking<'a> {
    pub(crate) fn of(
        state: &State,
        spec: &'a JobSpec,
        group: &'a TaskGroup,
        ask: Demand,
        nodes: &[(&NodePage, u64)],
    ) -> Self {
        Self {
            ask,
            count: f64::from(group.count),
            algorithm: algorithm(state, spec),
            scale: Scale::of(nodes),
            affinities: Affinities::of(spec, group),
            is_system: matches!(spec.kind, JobType::System | JobType::SysBatch),
        }
    }

    /// The affinities, if there are any.
    pub(crate) fn affinities(&self) -> Option<&Affinities<'a>> {
        self.affinities.as_ref()
    }

    /// How well some nodes of a page suit that has `used` in use. Where they are many, in several loops over the page, so
    /// that each can be done for several nodes at once; what is then found of others says nothing.
    pub(crate) fn fit_page(&self, page: &NodePage, used: &Usage, nodes: u64, fits: &mut PageFits) {
        let PageFits { fitness } = fits;
        if nodes.count_ones() <= FEW {
            for place in places(nodes) {
                fitness[place] = self.fit_as_asked(page, place, used.at(place)).fitness;
            }
            return;
        }
        let (has, ask) = (|place| amounts_at(page, place), Amounts::of(self.ask));
        match self.algorithm {
            SchedulerAlgorithm::Align => {
                for (place, fitness) in fitness.iter_mut().enumerate() {
                    let left = left(has(place), Amounts::of(used.at(place)));
                    *fitness = self.scale.suitability(self.scale.alignment(left, ask), left, ask);
                }
            }
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Spread => {
                let (mut cpu, mut memory) = ([0.0; PAGE], [0.0; PAGE]);
                for place in 0..PAGE {
                    let free = free(has(place), Amounts::of(used.at(place)), ask);
                    (cpu[place], memory[place]) = (free.cpu, free.memory);
                }
                cpu.iter_mut().chain(&mut memory).for_each(|share| *share = ten_to(*share));
                for place in 0..PAGE {
                    fitness[place] = self.fullness(cpu[place] + memory[place]);
                }
            }
        }
    }

    /// What [`Self::fit_page`] found of one node, with its alignment.
    #[inline]
    pub(crate) fn fit_of(&self, fits: &PageFits, page: &NodePage, used: &Usage, place: usize) -> Fit {
        let left = left(amounts_at(page, place), Amounts::of(used.at(place)));
        let alignment = self.scale.alignment(left, Amounts::of(self.ask));
        Fit { fitness: fits.fitness[place], alignment }
    }

    /// The same for one node of a page that has `used` in use, to the last bit.
    pub(crate) fn fit_as_asked(&self, page: &NodePage, place: usize, used: Demand) -> Fit {
        self.fit(page, place, used, self.ask)
    }

    /// The same for what a node would give, which may be more than its group asks for.
    pub(crate) fn fit(&self, page: &NodePage, place: usize, used: Demand, ask: Demand) -> Fit {
        let (has, used, ask) = (amounts_at(page, place), Amounts::of(used), Amounts::of(ask));
        let left = left(has, used);
        let alignment = self.scale.alignment(left, ask);
        let fitness = match self.algorithm {
            SchedulerAlgorithm::Align => self.scale.suitability(alignment, left, ask),
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Spread => {
                let free = free(has, used, ask);
                self.fullness(ten_to(free.cpu) + ten_to(free.memory))
            }
        };
        Fit { fitness, alignment }
    }

    /// How full the node becomes, or how empty it stays; `total` is 10 to the power of each free share, added up.
    #[inline(always)]
    fn fullness(&self, total: f64) -> f64 {
        let fitness = match self.algorithm {
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Align => FULL - total,
            SchedulerAlgorithm::Spread => total - (FULL - FITNESS_MAX),
        };
        fitness.clamp(0.0, FITNESS_MAX) / FITNESS_MAX
    }

    /// What of a score is the algorithm's is told under this name.
    fn scorer(&self) -> Scorer {
        match self.algorithm {
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Spread => Scorer::Binpack,
            SchedulerAlgorithm::Align => Scorer::Align,
        }
    }

    /// What `others` allocations of the group on the node make of its score; 0 without any.
    fn anti_affinity(&self, others: u32) -> f64 {
        if others == 0 { 0.0 } else { -(f64::from(others) + 1.0) / self.count }
    }

    /// All that there is to say of a node, added up.
    #[inline]
    pub(crate) fn sum(&self, merits: &Merits) -> Sum {
        let (mut sum, mut parts) = (merits.fit.fitness, 1);
        let mut append = |score: f64| {
            sum += score;
            parts += 1;
        };
        if let Some(devices) = merits.devices {
            append(devices);
        }
        if !self.is_system {
            if merits.others > 0 {
                append(self.anti_affinity(merits.others));
            }
            if merits.penalised {
                append(PENALTY);
            }
            if self.affinities.is_some() {
                append(merits.affinity);
            }
            if let Some(preemption) = merits.preemption {
                append(preemption);
            }
        }
        Sum { steps: to_steps(sum), parts }
    }

    /// A node's place among others, spread apart.
    #[inline]
    pub(crate) fn rank(&self, merits: &Merits) -> Rank {
        Rank { sum: self.sum(merits), alignment: to_steps(merits.fit.alignment) }
    }

    /// The same in words, as metrics show it.
    pub(crate) fn scores(&self, merits: &Merits, boost: f64) -> Vec<(Scorer, f64)> {
        let mut scores = vec![(self.scorer(), merits.fit.fitness)];
        scores.extend(merits.devices.map(|score| (Scorer::Devices, score)));
        if self.is_system {
            return scores;
        }
        scores.extend([
            (Scorer::JobAntiAffinity, self.anti_affinity(merits.others)),
            (Scorer::ReschedulePenalty, if merits.penalised { PENALTY } else { 0.0 }),
            (Scorer::NodeAffinity, merits.affinity),
        ]);
        if to_steps(boost) != 0 {
            scores.push((Scorer::AllocationSpread, boost));
        }
        scores.extend(merits.preemption.map(|score| (Scorer::Preemption, score)));
        scores
    }
}

/// What a node is worth on which a predecessor failed.
const PENALTY: f64 = -1.0;

#[inline(always)]
fn amounts_at(page: &NodePage, place: usize) -> Amounts {
    Amounts { cpu: f64::from(page.cpu_mhz[place]), memory: f64::from(page.memory_mb[place]) }
}

/// What a node has left; nothing where more is used than it has.
#[inline(always)]
fn left(has: Amounts, used: Amounts) -> Amounts {
    has.with(used, |has, used| (has - used).max(0.0))
}

/// Which shares of a node are free once it has what is asked.
#[inline(always)]
fn free(has: Amounts, used: Amounts, ask: Amounts) -> Amounts {
    let used = used.with(ask, |used, ask| used + ask);
    has.with(used, |has, used| 1.0 - used / has.max(1.0))
}

impl Scale {
    fn of(nodes: &[(&NodePage, u64)]) -> Self {
        let (mut mhz, mut mb, mut number) = (0u64, 0u64, 0u64);
        for (page, word) in nodes {
            if page.is_even() {
                let count = u64::from(word.count_ones());
                (mhz, mb) =
                    (mhz + u64::from(page.cpu_mhz[0]) * count, mb + u64::from(page.memory_mb[0]) * count);
                number += count;
                continue;
            }
            // Without branches, so that several nodes are added at once.
            for place in 0..PAGE {
                let counts = u64::from(word >> place & 1 != 0);
                mhz += u64::from(page.cpu_mhz[place]) * counts;
                mb += u64::from(page.memory_mb[place]) * counts;
            }
            number += u64::from(word.count_ones());
        }
        let [per_mhz, per_mb] = [mhz, mb].map(|total| number as f64 / total.max(1) as f64);
        Self { per_mhz, per_mb }
    }

    #[inline(always)]
    fn scaled(&self, amounts: Amounts) -> Amounts {
        Amounts { cpu: amounts.cpu * self.per_mhz, memory: amounts.memory * self.per_mb }
    }

    /// The cosine between what is left and what is asked; 0 where nothing is left or nothing is asked.
    #[inline(always)]
    fn alignment(&self, left: Amounts, ask: Amounts) -> f64 {
        let (left, ask) = (self.scaled(left), self.scaled(ask));
        let lengths = (left.dot(left) * ask.dot(ask)).sqrt();
        left.dot(ask) / lengths.max(f64::MIN_POSITIVE)
    }

    /// How well a node suits by its shape, and among those of one shape by how little is left of it then, so that what is
    /// left stays in one piece for those that ask for much.
    #[inline(always)]
    fn suitability(&self, alignment: f64, left: Amounts, ask: Amounts) -> f64 {
        let rest = self.scaled(left.with(ask, |left, ask| (left - ask).max(0.0)));
        let tightness = 1.0 / (1.0 + rest.cpu.max(rest.memory));
        (alignment + TIGHTNESS_BESIDE_ALIGNMENT * tightness) / (1.0 + TIGHTNESS_BESIDE_ALIGNMENT)
    }
}

#[cfg(test)]
mod tests;
