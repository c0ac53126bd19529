//! Ranking: scores of feasible nodes for a group (`docs/rules/scheduling.md` §§6.4 to 6.6, `docs/architecture/scheduling.md`).
//!
//! The score of a node is the mean of several scores. All of them except the spread's depend only on the node: on its
//! free resources, on the number of the group's allocations on it, and on its attributes. So a placement changes these
//! scores of one node only. The spread's score is added when nodes are compared.

mod affinity;
mod power;
mod spread;

use std::cmp::Ordering;

use model::alloc::{Demand, Scorer};
use model::cluster::SchedulerAlgorithm;
use model::job::{JobSpec, JobType, TaskGroup};
use state::{NodePage, PAGE, State, Usage};

use crate::columns::{bits, pack_bits};

use affinity::Affinities;
pub(crate) use power::ten_to;
pub(crate) use spread::{Level, Spreads};

/// Difference between the best and the worst fitness.
const FITNESS_MAX: f64 = 18.0;
/// Constant of the bin-packing fitness, `FULL - total`.
const FULL: f64 = 20.0;
/// Scores are compared as multiples of 1 / `STEPS`, so scores that differ by less are equal (`docs/architecture/scheduling.md`).
const STEPS: f64 = 1e12;
/// Up to this many nodes of a page are scored one by one.
const FEW_NODES: u32 = 8;
/// Weight of tightness relative to alignment, whose weight is one (`docs/architecture.md`).
const TIGHTNESS_WEIGHT: f64 = 0.2;

/// Parameters of a group's scores that do not depend on the node.
#[derive(Debug)]
pub(crate) struct Ranking<'a> {
    ask: Demand,
    count: f64,
    algorithm: SchedulerAlgorithm,
    scale: Scale,
    affinities: Option<Affinities<'a>>,
    /// Whether the job runs on every node. Such jobs have fewer scores.
    is_system: bool,
}

/// Makes CPU and memory comparable, by dividing them by those of the average feasible node of the group.
#[derive(Debug, Clone, Copy)]
struct Scale {
    per_mhz: f64,
    per_mb: f64,
}

/// The part of a node's score that follows from its amounts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Fit {
    /// How full or how empty the node becomes, or how well its shape suits, depending on the algorithm; from 0 to 1.
    pub(crate) fitness: f64,
    /// Cosine between the free and the requested amounts. It decides between equal scores.
    pub(crate) alignment: f64,
}

/// Fitness of the nodes of a page; reused for one page after the other. It does not contain alignments, because they
/// matter for few nodes.
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
    /// The set of nodes whose fitness is at least `steps` steps ([`Sum`]), and possibly some whose fitness is slightly
    /// lower.
    pub(crate) fn at_least(&self, steps: i64) -> u64 {
        // Comparing without rounding is faster, and lets through nodes that are slightly below.
        let least = (steps as f64 - 1.0) / STEPS;
        pack_bits(&self.fitness.map(|fitness| u8::from(fitness >= least)))
    }
}

/// CPU and memory, of a node or requested.
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

    /// Combines both components with those of another.
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

/// Inputs of a node's score, except for the spread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScoreFactors {
    pub(crate) fit: Fit,
    /// Affinity score of its devices; `None` if no affinities are given.
    pub(crate) devices: Option<f64>,
    /// Number of the group's allocations on it.
    pub(crate) others: u32,
    /// Whether a predecessor failed on it.
    pub(crate) penalised: bool,
    /// Affinity score, between -1 and 1.
    pub(crate) affinity: f64,
    /// Score of the preemption that is necessary, if any.
    pub(crate) preemption: Option<f64>,
}

/// Sum of scores in steps, and the number of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) steps: i64,
    pub(crate) parts: u8,
}

impl Sum {
    /// Adds the spread's score, unless it is zero.
    pub(crate) fn with_spread(self, boost: f64) -> Self {
        match to_steps(boost) {
            0 => self,
            steps => Self { steps: self.steps.saturating_add(steps), parts: self.parts + 1 },
        }
    }

    /// The mean of the scores.
    pub(crate) fn mean(self) -> f64 {
        self.steps as f64 / STEPS / f64::from(self.parts)
    }
}

/// Orders nodes by the mean of their scores, then by alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) sum: Sum,
    pub(crate) alignment: i64,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        // Multiplied by the other's number of parts, because a quotient would not be exact.
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

/// Rounds to the nearest step, halves away from zero, as `round` does. Written out, because `round` is a function call.
#[inline(always)]
pub(crate) fn to_steps(value: f64) -> i64 {
    let steps = value * STEPS;
    (steps + 0.5_f64.copysign(steps)) as i64
}

/// The algorithm that ranks a job's nodes. The pool's setting takes precedence over the cluster's.
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

    /// Computes the fitness of `nodes`, which are nodes of a page. For many nodes it runs several loops over the whole
    /// page, which are vectorized; the results for other nodes are then meaningless.
    pub(crate) fn fit_page(&self, page: &NodePage, used: &Usage, nodes: u64, fits: &mut PageFits) {
        let PageFits { fitness } = fits;
        if nodes.count_ones() <= FEW_NODES {
            for bit in bits(nodes) {
                fitness[bit] = self.fit_for_ask(page, bit, used.at(bit)).fitness;
            }
            return;
        }
        let (has, ask) = (|bit| amounts_at(page, bit), Amounts::of(self.ask));
        match self.algorithm {
            SchedulerAlgorithm::Align => {
                for (bit, fitness) in fitness.iter_mut().enumerate() {
                    let left = left(has(bit), Amounts::of(used.at(bit)));
                    *fitness = self.scale.suitability(self.scale.alignment(left, ask), left, ask);
                }
            }
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Spread => {
                let (mut cpu, mut memory) = ([0.0; PAGE], [0.0; PAGE]);
                for bit in 0..PAGE {
                    let free = free(has(bit), Amounts::of(used.at(bit)), ask);
                    (cpu[bit], memory[bit]) = (free.cpu, free.memory);
                }
                cpu.iter_mut().chain(&mut memory).for_each(|share| *share = ten_to(*share));
                for bit in 0..PAGE {
                    fitness[bit] = self.fullness(cpu[bit] + memory[bit]);
                }
            }
        }
    }

    /// The result of [`Self::fit_page`] for one node, with its alignment.
    #[inline]
    pub(crate) fn fit_of(&self, fits: &PageFits, page: &NodePage, used: &Usage, bit: usize) -> Fit {
        let left = left(amounts_at(page, bit), Amounts::of(used.at(bit)));
        let alignment = self.scale.alignment(left, Amounts::of(self.ask));
        Fit { fitness: fits.fitness[bit], alignment }
    }

    /// The same as [`Self::fit_page`] for one node with `used` in use, equal in every bit.
    pub(crate) fn fit_for_ask(&self, page: &NodePage, bit: usize, used: Demand) -> Fit {
        self.fit(page, bit, used, self.ask)
    }

    /// The same for the amounts of an offer, which may be more than the group asks for.
    pub(crate) fn fit(&self, page: &NodePage, bit: usize, used: Demand, ask: Demand) -> Fit {
        let (has, used, ask) = (amounts_at(page, bit), Amounts::of(used), Amounts::of(ask));
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

    /// The fitness; `total` is 10 to the power of each free share, added up.
    #[inline(always)]
    fn fullness(&self, total: f64) -> f64 {
        let fitness = match self.algorithm {
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Align => FULL - total,
            SchedulerAlgorithm::Spread => total - (FULL - FITNESS_MAX),
        };
        fitness.clamp(0.0, FITNESS_MAX) / FITNESS_MAX
    }

    /// The name of the algorithm's score in metrics.
    fn scorer(&self) -> Scorer {
        match self.algorithm {
            SchedulerAlgorithm::Binpack | SchedulerAlgorithm::Spread => Scorer::Binpack,
            SchedulerAlgorithm::Align => Scorer::Align,
        }
    }

    /// The score for `others` allocations of the group on the node; 0 without any.
    fn anti_affinity(&self, others: u32) -> f64 {
        if others == 0 { 0.0 } else { -(f64::from(others) + 1.0) / self.count }
    }

    /// The sum of all scores of a node.
    #[inline]
    pub(crate) fn sum(&self, factors: &ScoreFactors) -> Sum {
        let (mut sum, mut parts) = (factors.fit.fitness, 1);
        let mut append = |score: f64| {
            sum += score;
            parts += 1;
        };
        if let Some(devices) = factors.devices {
            append(devices);
        }
        if !self.is_system {
            if factors.others > 0 {
                append(self.anti_affinity(factors.others));
            }
            if factors.penalised {
                append(PENALTY);
            }
            if self.affinities.is_some() {
                append(factors.affinity);
            }
            if let Some(preemption) = factors.preemption {
                append(preemption);
            }
        }
        Sum { steps: to_steps(sum), parts }
    }

    /// The rank of a node, without the spread.
    #[inline]
    pub(crate) fn rank(&self, factors: &ScoreFactors) -> Rank {
        Rank { sum: self.sum(factors), alignment: to_steps(factors.fit.alignment) }
    }

    /// The scores of a node as metrics show them.
    pub(crate) fn scores(&self, factors: &ScoreFactors, boost: f64) -> Vec<(Scorer, f64)> {
        let mut scores = vec![(self.scorer(), factors.fit.fitness)];
        scores.extend(factors.devices.map(|score| (Scorer::Devices, score)));
        if self.is_system {
            return scores;
        }
        scores.extend([
            (Scorer::JobAntiAffinity, self.anti_affinity(factors.others)),
            (Scorer::ReschedulePenalty, if factors.penalised { PENALTY } else { 0.0 }),
            (Scorer::NodeAffinity, factors.affinity),
        ]);
        if to_steps(boost) != 0 {
            scores.push((Scorer::AllocationSpread, boost));
        }
        scores.extend(factors.preemption.map(|score| (Scorer::Preemption, score)));
        scores
    }
}

/// Score of a node on which a predecessor failed.
const PENALTY: f64 = -1.0;

#[inline(always)]
fn amounts_at(page: &NodePage, bit: usize) -> Amounts {
    Amounts { cpu: f64::from(page.cpu_mhz[bit]), memory: f64::from(page.memory_mb[bit]) }
}

/// Free amounts of a node; zero where more is used than the node has.
#[inline(always)]
fn left(has: Amounts, used: Amounts) -> Amounts {
    has.with(used, |has, used| (has - used).max(0.0))
}

/// The share of each amount that is free after placing an allocation.
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
            // Without branches, so that the loop is vectorized.
            for bit in 0..PAGE {
                let counts = u64::from(word >> bit & 1 != 0);
                mhz += u64::from(page.cpu_mhz[bit]) * counts;
                mb += u64::from(page.memory_mb[bit]) * counts;
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

    /// The cosine between the free and the requested amounts; 0 where either is zero.
    #[inline(always)]
    fn alignment(&self, left: Amounts, ask: Amounts) -> f64 {
        let (left, ask) = (self.scaled(left), self.scaled(ask));
        let lengths = (left.dot(left) * ask.dot(ask)).sqrt();
        left.dot(ask) / lengths.max(f64::MIN_POSITIVE)
    }

    /// How well a node suits by its shape, and among nodes of one shape, by how little is left on it afterwards. So
    /// large blocks of free capacity remain for large requests.
    #[inline(always)]
    fn suitability(&self, alignment: f64, left: Amounts, ask: Amounts) -> f64 {
        let rest = self.scaled(left.with(ask, |left, ask| (left - ask).max(0.0)));
        let tightness = 1.0 / (1.0 + rest.cpu.max(rest.memory));
        (alignment + TIGHTNESS_WEIGHT * tightness) / (1.0 + TIGHTNESS_WEIGHT)
    }
}

#[cfg(test)]
mod tests;
