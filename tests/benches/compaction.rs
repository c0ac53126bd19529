//! Compaction: how few machines suffice for the same work, for each algorithm (the method of the paper on Borg, EuroSys
//! 2015).
//!
//! The jobs of a cluster are placed anew, one after the other in random order, on the first machines of a random order.
//! The result for an algorithm is the smallest number of machines on which all but 0.2 % of the tasks fit. "Fresh"
//! starts from an empty cluster. "After churn" checks this after each of four rounds. In a round a quarter of the jobs
//! leaves, waiting tasks are tried again, and as much new demand arrives as left. The number is found by bisection. An
//! algorithm that fails on some number may by chance succeed on a smaller one; the benchmark does not search for those.
//! All algorithms get the same machines and jobs in the same order.
//!
//! `align` and `binpack` are the real scheduler on a real state. The sampled `binpack` exists only in this file: it
//! computes the same score for the first log2 n nodes with room in a random order (`docs/rules/scheduling.md` to
//!
//!
//! No algorithm needs fewer machines than the lower bound, whichever 0.2 % of the tasks it leaves out. For any weights
//! of cpu and memory, the machines must have as much as all tasks together ask for, without the largest 0.2 %. The
//! bound is the smallest number of machines that satisfies this for every weight. It treats tasks as divisible, and
//! ignores the order in which they arrive.
//!
//! The machines are the five most common shapes of the cluster trace that Google published in 2011, in its proportions,
//! with 64 GHz and 256 GB for 1 in the trace. The jobs are generated. Sizes are log-normal, with cpu and memory mostly
//! independent, so that many tasks need much more of one than of the other. Counts have a Pareto tail up to 500, and no
//! job asks for more than 2 % of the cluster. One job in a hundred has one to three tasks, each of which wants more
//! than half of the most common machine. Jobs are generated until they ask for 70 % of the cluster's cpu or memory,
//! whichever is reached first; both come close to it.
//!
//! `SEEDS` and `MACHINES` in the environment change the sizes.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::collections::BTreeSet;
use std::f64::consts::TAU;
use std::iter::repeat_n;
use std::sync::Arc;

use model::change::Change;
use model::cluster::{SchedulerAlgorithm, SchedulerConfig};
use model::job::Job;
use model::node::{Node, NodeReserved};
use model::{AllocId, NodeId};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use state::State;
use tests::build::{self, Ids, Log};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Cpu and memory of the machines in MHz and MB, and the number of each shape in the trace.
const SHAPES: [([u32; 2], u32); 5] = [
    ([32_000, 131_072], 6_732),
    ([32_000, 65_536], 3_863),
    ([32_000, 196_608], 1_001),
    ([64_000, 262_144], 795),
    ([16_000, 65_536], 126),
];
/// Median demand of a task, and the standard deviation of its logarithm.
const ASK: [(f64, f64); 2] = [(1_000.0, 1.0), (3_000.0, 1.2)];
/// Correlation of a task's cpu and memory.
const CORRELATION: f64 = 0.3;
/// The smallest demand of a task. Demands are multiples of it.
const ASK_STEP: [u32; 2] = [50, 64];
/// Half of the most common machine. Only large tasks ask for more.
const HALF: [f64; 2] = [16_000.0, 65_536.0];
/// Share of the jobs that have large tasks.
const LARGE: f64 = 0.01;
/// Exponent of the Pareto tail of the counts.
const TAIL: f64 = 0.9;
const COUNT_MAX: f64 = 500.0;
/// Share of the cluster that one job may ask for.
const JOB_MAX: f64 = 0.02;
/// Share of the cluster that all jobs together ask for.
const DEMAND: f64 = 0.7;
const ROUNDS: usize = 4;
/// Share of the jobs that leave in a round.
const LEAVING: f64 = 0.25;
/// Share of the tasks that may remain unplaced.
const LEFT_OUT: f64 = 0.002;
/// Number of weights of cpu against memory that the lower bound tries, less one.
const WEIGHTS: u32 = 16;

/// The limits and the aims for `align`: its machines divided by those of the sampled `binpack` and by the lower bound.
const LIMIT: [f64; 2] = [0.94, 1.04];
const AIM: [f64; 2] = [0.90, 1.02];

fn main() {
    let size = |name: &str, default: usize| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a size is a number"))
    };
    let (seeds, machines) = (size("SEEDS", 11), size("MACHINES", 1_000));
    let workloads: Vec<Workload> = (1..=seeds as u64).map(|seed| Workload::new(seed, machines)).collect();
    println!("compaction: machines needed of {machines}, medians of {seeds} seeds\n");
    println!("{:<28} {:>8} {:>12} {:>12}", "", "machines", "of sampled", "of bound");
    for (when, churns) in [("fresh", false), ("after churn", true)] {
        let bounds: Vec<usize> = workloads.iter().map(|workload| workload.bound(churns)).collect();
        let needed = |packing: Packing| -> Vec<usize> {
            workloads
                .iter()
                .zip(&bounds)
                .map(|(workload, bound)| workload.need(packing, churns, *bound))
                .collect()
        };
        let sampled = needed(Packing::Sampled);
        let line = |what: &str, needed: &[usize], beside: &str| {
            let of = |others: &[usize]| {
                let ratios = needed.iter().zip(others).map(|(needed, other)| *needed as f64 / *other as f64);
                median(ratios.collect())
            };
            let machines = median(needed.iter().map(|needed| *needed as f64).collect());
            let what = format!("{when}: {what}");
            println!("{what:<28} {machines:>8} {:>12.3} {:>12.3}{beside}", of(&sampled), of(&bounds));
        };
        let beside = format!("   limit {} and {}, aim {} and {}", LIMIT[0], LIMIT[1], AIM[0], AIM[1]);
        line("align", &needed(Packing::By(SchedulerAlgorithm::Align)), &beside);
        line("binpack", &needed(Packing::By(SchedulerAlgorithm::Binpack)), "");
        line("binpack, sampled", &sampled, "");
        line("lower bound", &bounds, "");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The algorithm that places.
#[derive(Debug, Clone, Copy)]
enum Packing {
    By(SchedulerAlgorithm),
    Sampled,
}

/// Cpu and memory of each task of a job, and the number of its tasks.
#[derive(Debug, Clone, Copy)]
struct Ask {
    each: [u32; 2],
    count: u32,
}

/// The jobs that leave and those that arrive in one round.
#[derive(Debug, Default)]
struct Round {
    leave: BTreeSet<usize>,
    come: Vec<usize>,
}

/// The machines and jobs that every algorithm gets.
#[derive(Debug)]
struct Workload {
    machines: Vec<[u32; 2]>,
    jobs: Vec<Ask>,
    /// The first round fills the empty cluster.
    rounds: Vec<Round>,
}

impl Workload {
    fn new(seed: u64, machines: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let all: u32 = SHAPES.iter().map(|(_, number)| number).sum();
        let mut machines: Vec<[u32; 2]> = SHAPES
            .iter()
            .flat_map(|(shape, number)| {
                let share = f64::from(*number) / f64::from(all);
                repeat_n(*shape, (share * machines as f64).round() as usize)
            })
            .collect();
        machines.shuffle(&mut random);
        let total = [0, 1].map(|axis| machines.iter().map(|machine| f64::from(machine[axis])).sum());
        let mut workload = Self { machines, jobs: Vec::new(), rounds: Vec::new() };
        for _ in 0..=ROUNDS {
            let present = workload.present(workload.rounds.len());
            let leave: BTreeSet<usize> =
                present.iter().copied().filter(|_| random.random::<f64>() < LEAVING).collect();
            let stays = present.into_iter().filter(|job| !leave.contains(job));
            let come = workload.fill(&mut random, total, stays.collect());
            workload.rounds.push(Round { leave, come });
        }
        workload
    }

    /// Generates jobs until they ask for enough of the cluster, including the jobs that are present.
    fn fill(&mut self, random: &mut StdRng, total: [f64; 2], present: Vec<usize>) -> Vec<usize> {
        let mut asked = [0, 1].map(|axis| {
            let ask = |job: &usize| f64::from(self.jobs[*job].each[axis]) * f64::from(self.jobs[*job].count);
            present.iter().map(ask).sum::<f64>()
        });
        let mut come = Vec::new();
        loop {
            let mut ask = Ask::new(random);
            let fitting = |share: f64, asked: [f64; 2]| {
                let of = |axis: usize| (share * total[axis] - asked[axis]) / f64::from(ask.each[axis]);
                of(0).min(of(1)).max(0.0) as u32
            };
            ask.count = ask.count.min(fitting(JOB_MAX, [0.0; 2]));
            let rest = fitting(DEMAND, asked);
            let is_last = rest < ask.count;
            ask.count = ask.count.min(rest);
            if ask.count > 0 {
                asked = [0, 1].map(|axis| asked[axis] + f64::from(ask.each[axis]) * f64::from(ask.count));
                come.push(self.jobs.len());
                self.jobs.push(ask);
            }
            if is_last {
                return come;
            }
        }
    }

    /// Returns the jobs that are present after some rounds, in order of arrival.
    fn present(&self, rounds: usize) -> Vec<usize> {
        let mut present = Vec::new();
        for round in &self.rounds[..rounds] {
            present.retain(|job| !round.leave.contains(job));
            present.extend(&round.come);
        }
        present
    }

    fn tasks(&self, jobs: &[usize]) -> usize {
        jobs.iter().map(|job| self.jobs[*job].count as usize).sum()
    }

    /// The lower bound, as defined at the top of this file.
    fn bound(&self, churns: bool) -> usize {
        let rounds = if churns { 2..=self.rounds.len() } else { 1..=1 };
        let weights = || (0..=WEIGHTS).map(|weight| f64::from(weight) / f64::from(WEIGHTS));
        let of = |jobs: Vec<usize>| {
            let of_weight = |weight: f64| self.bound_weighing(&jobs, [weight, 1.0 - weight]);
            weights().map(of_weight).max().unwrap_or(0)
        };
        rounds.map(|rounds| of(self.present(rounds))).max().unwrap_or(0)
    }

    fn bound_weighing(&self, jobs: &[usize], weights: [f64; 2]) -> usize {
        // Whole numbers, so that a sum does not depend on the order of its terms.
        let total =
            [0, 1].map(|axis| self.machines.iter().map(|machine| f64::from(machine[axis])).sum::<f64>());
        let per = [0, 1].map(|axis| weights[axis] * 1e15 / total[axis]);
        let size = |of: [u32; 2]| (f64::from(of[0]) * per[0] + f64::from(of[1]) * per[1]) as u64;
        let of_job = |job: &usize| repeat_n(size(self.jobs[*job].each), self.jobs[*job].count as usize);
        let mut sizes: Vec<u64> = jobs.iter().flat_map(of_job).collect();
        sizes.sort_unstable();
        sizes.truncate(sizes.len() - may_wait(sizes.len()));
        let asked: u64 = sizes.iter().sum();
        let mut has = 0;
        let is_short = |machine: &&[u32; 2]| {
            let short = has < asked;
            has += size(**machine);
            short
        };
        self.machines.iter().take_while(is_short).count()
    }

    /// The fewest machines that suffice. Assumes that all machines do.
    fn need(&self, packing: Packing, churns: bool, bound: usize) -> usize {
        let (mut too_few, mut enough) = (bound.saturating_sub(1), self.machines.len());
        // Most results are close to the bound.
        let mut step = (bound / 32).max(1);
        while too_few + step < enough {
            if self.fits(packing, churns, too_few + step) {
                enough = too_few + step;
            } else {
                too_few += step;
                step *= 2;
            }
        }
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            if self.fits(packing, churns, middle) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        enough
    }

    /// Whether this number of machines suffices.
    fn fits(&self, packing: Packing, churns: bool, machines: usize) -> bool {
        let machines = &self.machines[..machines];
        match packing {
            Packing::By(algorithm) => self.fit(Scheduled::new(machines, algorithm), churns),
            Packing::Sampled => self.fit(Sampled::new(machines), churns),
        }
    }

    fn fit(&self, mut cluster: impl Cluster, churns: bool) -> bool {
        let mut placed = vec![0; self.jobs.len()];
        let rounds = if churns { self.rounds.len() } else { 1 };
        for (number, round) in (1..=rounds).zip(&self.rounds) {
            for job in &round.leave {
                cluster.leave(*job);
            }
            let present = self.present(number);
            for job in &present {
                let ask = self.jobs[*job];
                if placed[*job] < ask.count {
                    placed[*job] += cluster.place(*job, ask);
                }
            }
            let tasks = self.tasks(&present);
            let running: usize = present.iter().map(|job| placed[*job] as usize).sum();
            let is_checked = number > 1 || !churns;
            if is_checked && tasks - running > may_wait(tasks) {
                return false;
            }
        }
        true
    }
}

fn may_wait(tasks: usize) -> usize {
    (tasks as f64 * LEFT_OUT) as usize
}

impl Ask {
    fn new(random: &mut StdRng) -> Self {
        let [one, other] = [normal(random), normal(random)];
        let deviations = [one, CORRELATION * one + (1.0 - CORRELATION * CORRELATION).sqrt() * other];
        let mut each = [0, 1].map(|axis| {
            let (median, deviation) = ASK[axis];
            (median * (deviation * deviations[axis]).exp()).min(HALF[axis])
        });
        // From 1 to infinity.
        let tail = (1.0 - random.random::<f64>()).powf(-1.0 / TAIL);
        let mut count = tail.min(COUNT_MAX) as u32;
        if random.random::<f64>() < LARGE {
            let axis = usize::from(random.random::<bool>());
            each[axis] = HALF[axis] * random.random_range(1.0..1.9);
            count = random.random_range(1..=3);
        }
        let in_steps = |axis: usize| {
            let step = f64::from(ASK_STEP[axis]);
            ((each[axis] / step).round().max(1.0) * step) as u32
        };
        Self { each: [in_steps(0), in_steps(1)], count }
    }
}

/// Draws from the standard normal distribution.
fn normal(random: &mut StdRng) -> f64 {
    let [radius, angle]: [f64; 2] = [random.random(), random.random()];
    (-2.0 * (1.0 - radius).ln()).sqrt() * (TAU * angle).cos()
}

/// Machines on which jobs are placed.
trait Cluster {
    /// Places the missing tasks of a job. Returns how many were placed.
    fn place(&mut self, job: usize, ask: Ask) -> u32;

    /// Removes a job.
    fn leave(&mut self, job: usize);
}

/// The real scheduler on a real state.
struct Scheduled {
    state: State,
    log: Log,
    ids: Ids,
    /// The jobs that are present, by number.
    jobs: Vec<Option<(Job, Vec<AllocId>)>>,
}

impl Scheduled {
    fn new(machines: &[[u32; 2]], algorithm: SchedulerAlgorithm) -> Self {
        let mut cluster =
            Self { state: State::default(), log: Log::default(), ids: Ids::default(), jobs: Vec::new() };
        let config = SchedulerConfig { algorithm: Some(algorithm), ..SchedulerConfig::default() };
        let nodes = (0..).zip(machines).map(|(number, machine)| {
            Change::Node(Box::new(node(NodeId::from_bytes(cluster.ids.bytes()), number, *machine)))
        });
        let changes = nodes.chain([Change::SchedulerConfig(config)]).collect();
        cluster.apply(changes);
        cluster
    }

    fn apply(&mut self, changes: Vec<Change>) {
        self.state.apply(&self.log.entry(changes)).expect("the change set fits the state");
    }

    fn register(&mut self, number: usize, ask: Ask) -> Job {
        let index = self.log.next_index();
        let job = build::job(number as u64, ask.count);
        let mut job = Job { create_index: index, modify_index: index, job_modify_index: index, ..job };
        let resources = &mut Arc::make_mut(&mut job.spec).task_groups[0].tasks[0].resources;
        [resources.cpu_mhz, resources.memory_mb] = ask.each;
        self.apply(vec![Change::Job(Arc::new(job.clone()))]);
        job
    }
}

impl Cluster for Scheduled {
    fn place(&mut self, number: usize, ask: Ask) -> u32 {
        if self.jobs.len() <= number {
            self.jobs.resize(number + 1, None);
        }
        let (job, mut allocs) = match self.jobs[number].take() {
            Some(known) => known,
            None => (self.register(number, ask), Vec::new()),
        };
        let plan = build::attempt(&self.state, &job, &mut self.ids).plan;
        let before = allocs.len();
        allocs.extend(plan.placements.iter().flat_map(|placements| &placements.ids.0));
        let placed = allocs.len() - before;
        self.jobs[number] = Some((job, allocs));
        self.apply(
            plan.placements.into_iter().map(|placed| Change::AllocsPlaced(Box::new(placed))).collect(),
        );
        placed as u32
    }

    fn leave(&mut self, number: usize) {
        if let Some((job, allocs)) = self.jobs[number].take() {
            let gone = Change::AllocsDeleted(allocs.into_iter().collect());
            self.apply(vec![gone, Change::JobDeleted(job.key())]);
        }
    }
}

fn node(id: NodeId, number: u64, [cpu_mhz, memory_mb]: [u32; 2]) -> Node {
    let mut node = build::node(id, number);
    let spec = Arc::make_mut(&mut node.spec);
    spec.resources.processors.override_total_mhz = cpu_mhz;
    spec.resources.cpu.cpu_mhz = cpu_mhz;
    spec.resources.memory_mb = memory_mb;
    spec.reserved = NodeReserved::default();
    node
}

/// Best fit among a few nodes in random order, as in the reference.
struct Sampled {
    machines: Vec<[u32; 2]>,
    left: Vec<[u32; 2]>,
    random: StdRng,
    /// The demand of a task of each job, and the nodes of its tasks, by number.
    jobs: Vec<([u32; 2], Vec<usize>)>,
}

/// How many nodes without a positive score are set aside at first.
const SET_ASIDE_MAX: usize = 3;

impl Sampled {
    fn new(machines: &[[u32; 2]]) -> Self {
        let machines = machines.to_vec();
        Self { left: machines.clone(), machines, random: StdRng::seed_from_u64(0), jobs: Vec::new() }
    }

    /// The score of a node with room that already has `others` tasks of the group.
    fn score(&self, node: usize, ask: Ask, others: usize) -> Option<f64> {
        let (has, left) = (self.machines[node], self.left[node]);
        if left[0] < ask.each[0] || left[1] < ask.each[1] {
            return None;
        }
        let free = |axis: usize| f64::from(left[axis] - ask.each[axis]) / f64::from(has[axis]);
        let fitness = (20.0 - 10f64.powf(free(0)) - 10f64.powf(free(1))).clamp(0.0, 18.0) / 18.0;
        let anti_affinity = -(others as f64 + 1.0) / f64::from(ask.count);
        Some(if others > 0 { f64::midpoint(fitness, anti_affinity) } else { fitness })
    }

    /// Chooses the best of the next nodes of the ring.
    fn choose(&self, ring: &mut impl Iterator<Item = usize>, ask: Ask, others: &[usize]) -> Option<usize> {
        let nodes = self.machines.len();
        let limit = (nodes as f64).log2().ceil().max(2.0) as usize;
        let (mut options, mut set_aside) = (Vec::new(), Vec::new());
        for node in ring.take(nodes) {
            match self.score(node, ask, others[node]) {
                None => continue,
                Some(score) if score <= 0.0 && set_aside.len() < SET_ASIDE_MAX => {
                    set_aside.push((score, node));
                }
                Some(score) => options.push((score, node)),
            }
            if options.len() == limit {
                break;
            }
        }
        let options = options.into_iter().chain(set_aside).take(limit);
        // The first of equal scores wins.
        let better = |best: (f64, usize), next: (f64, usize)| if next.0 > best.0 { next } else { best };
        options.reduce(better).map(|(_, node)| node)
    }
}

impl Cluster for Sampled {
    fn place(&mut self, number: usize, ask: Ask) -> u32 {
        if self.jobs.len() <= number {
            self.jobs.resize(number + 1, ([0; 2], Vec::new()));
        }
        let mut order: Vec<usize> = (0..self.machines.len()).collect();
        order.shuffle(&mut self.random);
        let mut ring = order.into_iter().cycle();
        let mut on = std::mem::take(&mut self.jobs[number].1);
        let mut others = vec![0; self.machines.len()];
        on.iter().for_each(|node| others[*node] += 1);
        let before = on.len();
        while on.len() < ask.count as usize
            && let Some(node) = self.choose(&mut ring, ask, &others)
        {
            self.left[node] = [0, 1].map(|axis| self.left[node][axis] - ask.each[axis]);
            others[node] += 1;
            on.push(node);
        }
        let placed = on.len() - before;
        self.jobs[number] = (ask.each, on);
        placed as u32
    }

    fn leave(&mut self, number: usize) {
        let (each, on) = std::mem::take(&mut self.jobs[number]);
        for node in on {
            self.left[node] = [0, 1].map(|axis| self.left[node][axis] + each[axis]);
        }
    }
}
