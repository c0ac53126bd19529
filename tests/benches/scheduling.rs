//! Scheduling alone: how long one attempt takes, from the snapshot to the plan.
//!
//! Prints one table with the measured values and their limits. 10,000 nodes of ten classes, which other jobs have
//! filled unevenly. One core, no database, no network.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::change::{Change, NodesChanged};
use model::cluster::{Preemption, SchedulerConfig};
use model::job::{Affinity, Constraint, Job, JobSpec, JobType, NetworkResource, Operand, Port, Spread};
use model::node::NodeStatus;
use model::{AllocId, EvalId, NodeId};
use scheduling::Proposal;
use state::State;
use tests::build::{self, Ids, Log};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: u64 = 10_000;
/// Number of other jobs, and the number of allocations of each.
const OTHERS: u64 = 20;
const ALLOCS_OF_OTHERS: u32 = 5_000;
/// Number of attempts for each line, of which the fastest and the median are printed. Long attempts are repeated less
/// often.
const TIMES: usize = 50;
const TIMES_MIN: usize = 3;
const LONG: Duration = Duration::from_secs(2);

fn main() {
    let mut cluster = Cluster::new();
    println!("scheduling: one attempt on {NODES} nodes\n");
    println!("{:<52} {:>10} {:>10} {:>10}", "", "ms, best", "median", "limit");
    cluster.line("1 placement", 1, "", |_| {});
    cluster.line("1,000 placements", 1_000, "2", |_| {});
    cluster.line("10,000 placements", 10_000, "", |_| {});
    cluster.line("1,000 placements, constraints and an affinity", 1_000, "5", |spec| {
        spec.constraints = vec![constraint("${attr.attribute.number.7}", Operand::Regexp, "^value [0-9]+$")];
        spec.affinities = vec![Affinity {
            l_target: "${node.datacenter}".into(),
            r_target: "dc1".into(),
            weight: 50,
            ..Affinity::default()
        }];
    });
    let spread = |attribute: &str| Spread { attribute: attribute.into(), weight: 50, targets: Vec::new() };
    cluster.line("1,000 placements, spread over datacenters", 1_000, "5", |spec| {
        spec.spreads = vec![spread("${node.datacenter}")];
    });
    cluster.line("1,000 placements, spread over nodes", 1_000, "", |spec| {
        spec.spreads = vec![spread("${node.unique.id}")];
    });
    cluster.line("1,000 placements, one per node", 1_000, "", |spec| {
        spec.constraints = vec![constraint("", Operand::DistinctHosts, "")];
    });
    cluster.line("10,000 placements, one per node", 10_000, "", |spec| {
        spec.constraints = vec![constraint("", Operand::DistinctHosts, "")];
    });
    cluster.line("a system job", 1, "", |spec| spec.kind = JobType::System);
    cluster.line("1,000 placements, a constraint on single nodes", 1_000, "", |spec| {
        spec.constraints = vec![constraint("${attr.unique.hostname}", Operand::NotEqual, "node-7")];
    });
    cluster.line("1,000 placements with two dynamic ports", 1_000, "", |spec| {
        let port = |label: &str| Port { label: label.into(), ..Port::default() };
        let network =
            NetworkResource { dynamic_ports: vec![port("http"), port("rpc")], ..Default::default() };
        spec.task_groups[0].networks = vec![network];
    });
    cluster.line("1,000 placements of which none fits", 1_000, "", |spec| {
        spec.task_groups[0].tasks[0].resources.memory_mb = 10_000_000;
    });
    cluster.running(50_000);
    cluster.lost(40_000);
    Cluster::new().preempting(10);
}

fn constraint(left: &str, operand: Operand, right: &str) -> Constraint {
    Constraint { l_target: left.into(), operand, r_target: right.into() }
}

struct Cluster {
    state: State,
    log: Log,
    ids: Ids,
    jobs: u64,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self { state: State::default(), log: Log::default(), ids: Ids::default(), jobs: 0 };
        let nodes: Vec<NodeId> = (0..NODES).map(|_| NodeId::from_bytes(cluster.ids.bytes())).collect();
        for (number, id) in (0..).zip(&nodes) {
            cluster.apply(vec![Change::Node(Box::new(build::node(*id, number)))]);
        }
        for other in 1..=OTHERS {
            let job = cluster.register(build::job(cluster.jobs, ALLOCS_OF_OTHERS));
            // Each job is spread over a larger part of the nodes, so that they are filled unevenly.
            let part = NODES * other / OTHERS;
            let eval = EvalId::from_bytes(cluster.ids.bytes());
            let on = (0..ALLOCS_OF_OTHERS).map(|_| nodes[(cluster.ids.number() % part) as usize]);
            let on: Vec<NodeId> = on.collect();
            let placed = build::placements(build::common(&job, eval), on, &mut cluster.ids);
            cluster.apply(vec![Change::AllocsPlaced(Box::new(placed))]);
        }
        cluster
    }

    fn apply(&mut self, changes: Vec<Change>) {
        self.state.apply(&self.log.entry(changes)).expect("the change set fits the state");
    }

    fn register(&mut self, job: Job) -> Job {
        let index = self.log.next_index();
        let job = Job { create_index: index, modify_index: index, job_modify_index: index, ..job };
        self.apply(vec![Change::Job(Arc::new(job.clone()))]);
        self.jobs += 1;
        job
    }

    /// Measures a new job with a count.
    fn line(&mut self, what: &str, count: u32, limit: &str, edit: impl FnOnce(&mut JobSpec)) {
        let mut job = build::job(self.jobs, count);
        edit(Arc::make_mut(&mut job.spec));
        let job = self.register(job);
        self.measure(what, &job, limit);
    }

    /// Registers a job and places its allocations. Returns the job and their ids.
    fn placed(&mut self, job: Job) -> (Job, Vec<AllocId>) {
        let job = self.register(job);
        let mut ids = Vec::new();
        for placements in self.attempt(&job).plan.placements {
            ids.extend(&placements.ids.0);
            self.apply(vec![Change::AllocsPlaced(Box::new(placements))]);
        }
        (job, ids)
    }

    /// Measures a running job of `count` when a twentieth of the nodes goes down, with at most four of its allocations
    /// on a node.
    fn lost(&mut self, count: u32) {
        let mut job = build::job(self.jobs, count);
        Arc::make_mut(&mut job.spec).task_groups[0].tasks[0].resources.memory_mb = 40_000;
        let (job, ids) = self.placed(job);
        self.apply(vec![Change::AllocsChanged(Box::new(build::running(&ids)))]);
        let down = self.state.nodes().map(|node| node.id()).take(NODES as usize / 20).collect();
        let status = Some(NodeStatus::Down);
        self.apply(vec![Change::NodesChanged(Box::new(NodesChanged {
            ids: down,
            status,
            ..Default::default()
        }))]);
        let moved: usize = self.attempt(&job).plan.placements.iter().map(|set| set.ids.0.len()).sum();
        self.measure(&format!("5% of nodes down under {} placed, {moved} lost", ids.len()), &job, "50");
    }

    /// Measures placements of high priority that must preempt: every node is full of allocations of lower priority.
    fn preempting(&mut self, count: u32) {
        let config = SchedulerConfig {
            preemption: Preemption { service: true, ..Preemption::default() },
            ..SchedulerConfig::default()
        };
        self.apply(vec![Change::SchedulerConfig(config)]);
        let mut filler = build::job(self.jobs, NODES as u32);
        let spec = Arc::make_mut(&mut filler.spec);
        spec.priority = 20;
        spec.constraints = vec![constraint("", Operand::DistinctHosts, "")];
        spec.task_groups[0].tasks[0].resources.memory_mb = 150_000;
        self.placed(filler);
        self.line(&format!("{count} placements that preempt, all nodes full"), count, "", |spec| {
            spec.priority = 80;
            spec.task_groups[0].tasks[0].resources.memory_mb = 150_000;
        });
    }

    /// Measures a job of which `count` allocations already run.
    fn running(&mut self, count: u32) {
        let (job, _) = self.placed(build::job(self.jobs, count));
        self.measure(&format!("{count} running, nothing to do"), &job, "1");
        let mut newer = Job { version: 1, ..job };
        Arc::make_mut(&mut newer.spec).task_groups[0].tasks[0].env.insert("a".into(), "b".into());
        let index = self.log.next_index();
        newer.job_modify_index = index;
        self.apply(vec![Change::Job(Arc::new(newer.clone()))]);
        self.measure(&format!("{count} running, all to be replaced"), &newer, "");
    }

    fn measure(&mut self, what: &str, job: &Job, limit: &str) {
        drop(black_box(self.attempt(job)));
        let (whole, mut taken) = (Instant::now(), Vec::new());
        while taken.len() < TIMES && (taken.len() < TIMES_MIN || whole.elapsed() < LONG) {
            let begin = Instant::now();
            let proposal = self.attempt(job);
            taken.push(begin.elapsed());
            drop(black_box(proposal));
        }
        taken.sort_unstable();
        let ms = |taken: Duration| format!("{:.3}", taken.as_secs_f64() * 1e3);
        println!("{what:<52} {:>10} {:>10} {limit:>10}", ms(taken[0]), ms(taken[taken.len() / 2]));
    }

    fn attempt(&mut self, job: &Job) -> Proposal {
        build::attempt(&self.state, job, &mut self.ids)
    }
}
