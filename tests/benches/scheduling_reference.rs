//! The reference's own scheduler benchmark (`data/README.md`), reproduced: one attempt at a new job, from the snapshot
//! to the plan, and its ratio to the time that was recorded for the reference.
//!
//! One core, no database, no network. The times are medians. The reference was recorded on another machine, so only the
//! magnitude of a ratio is meaningful. `CELLS` selects the cells whose line in the record begins with its value:
//! `CELLS=10000,50,` selects all of 10,000 nodes in 50 racks.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::change::Change;
use model::job::{
    Constraint, EphemeralDisk, Job, JobSpec, NetworkResource, Operand, Resources, Spread, Task, TaskGroup,
};
use model::node::{
    Core, Driver, Node, NodeAddress, NodeNetwork, NodeReserved, NodeResources, NodeServerSide, NodeSpec,
    NodeStatus, Topology,
};
use model::{NodeId, Text};
use state::State;
use tests::build::{self, Ids, Log};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The recorded times of the reference.
const RECORDED: &str = include_str!("../data/benchmark.csv");
/// How often all cells are measured. If the machine is slow for a while, that does not affect every pass of a cell.
const PASSES: usize = 5;
/// Number of attempts for each cell in each pass.
const TIMES: usize = 11;
/// The least ratio of each cell, without and with a spread.
const LIMIT: [f64; 2] = [50.0, 500.0];

/// One cell of the recorded table.
struct Cell {
    nodes: u64,
    racks: u64,
    allocs: u32,
    has_spread: bool,
    recorded: Duration,
    placed: usize,
}

fn main() {
    println!("the reference's benchmark: one attempt at a new job\n");
    println!(
        "{:>6} {:>5} {:>6} {:>7} {:>7} {:>12} {:>12} {:>8} {:>6}",
        "nodes", "racks", "allocs", "spread", "placed", "µs", "recorded µs", "ratio", "limit"
    );
    let mut clusters: BTreeMap<(u64, u64), State> = BTreeMap::new();
    let mut ids = Ids::default();
    let prefix = std::env::var("CELLS").unwrap_or_default();
    let lines = RECORDED.lines().skip(1).filter(|line| line.starts_with(&prefix));
    let mut cells: Vec<(Cell, Vec<Duration>)> = lines.map(|line| (Cell::read(line), Vec::new())).collect();
    assert!(!cells.is_empty(), "no line of the record begins with {prefix:?}");
    for _ in 0..PASSES {
        for (cell, taken) in &mut cells {
            let state = clusters.entry((cell.nodes, cell.racks)).or_insert_with(|| cell.cluster(&mut ids));
            taken.push(cell.measure(state, &mut ids));
        }
    }
    let mut lowest = [f64::INFINITY; 2];
    for (cell, taken) in cells {
        let taken = median(taken);
        let ratio = cell.recorded.as_secs_f64() / taken.as_secs_f64();
        let kind = usize::from(cell.has_spread);
        lowest[kind] = lowest[kind].min(ratio);
        println!(
            "{:>6} {:>5} {:>6} {:>7} {:>7} {:>12.1} {:>12.0} {ratio:>8.0} {:>6}",
            cell.nodes,
            cell.racks,
            cell.allocs,
            if cell.has_spread { "yes" } else { "no" },
            cell.placed,
            taken.as_secs_f64() * 1e6,
            cell.recorded.as_secs_f64() * 1e6,
            LIMIT[kind],
        );
    }
    println!("\nlowest ratio: {:.0} plain, {:.0} with a spread", lowest[0], lowest[1]);
}

impl Cell {
    fn read(line: &str) -> Self {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |column: usize| fields[column].parse::<u64>().expect("the record holds whole numbers");
        Self {
            nodes: number(0),
            racks: number(1),
            allocs: number(2) as u32,
            has_spread: fields[3] != "no",
            recorded: Duration::from_nanos(number(4)),
            placed: number(11) as usize,
        }
    }

    fn cluster(&self, ids: &mut Ids) -> State {
        let mut log = Log::default();
        let mut state = State::default();
        for number in 0..self.nodes {
            let node = node(NodeId::from_bytes(ids.bytes()), number, self.racks);
            state
                .apply(&log.entry(vec![Change::Node(Box::new(node))]))
                .expect("the change set fits the state");
        }
        for job in [self.job(false), self.job(true)] {
            state.apply(&log.entry(vec![Change::Job(Arc::new(job))])).expect("the change set fits the state");
        }
        state
    }

    /// The job without indexes. The state keeps one job for all cells of a cluster.
    fn job(&self, has_spread: bool) -> Job {
        let constraint = |left: &str, operand, right: &str| Constraint {
            l_target: left.into(),
            operand,
            r_target: right.into(),
        };
        let racks: Vec<String> = (0..self.racks / 2).map(|rack| format!("r{rack}")).collect();
        let consul = constraint("${attr.consul.version}", Operand::Semver, ">= 1.8.0");
        let task = Task {
            name: "web".into(),
            driver: "exec".into(),
            constraints: vec![consul.clone()],
            resources: Resources { cpu_mhz: 6_000, memory_mb: 6_000, ..Resources::default() },
            ..Task::default()
        };
        let group = TaskGroup {
            name: "web".into(),
            count: self.allocs,
            constraints: vec![consul],
            tasks: vec![task],
            ephemeral_disk: EphemeralDisk { size_mb: 150, ..EphemeralDisk::default() },
            ..TaskGroup::default()
        };
        let spread = Spread { attribute: "${meta.rack}".into(), weight: 50, targets: Vec::new() };
        let spec = JobSpec {
            namespace: "default".into(),
            id: job_id(has_spread),
            name: job_id(has_spread),
            priority: 50,
            datacenters: vec!["dc-1".into(), "dc-2".into()],
            node_pool: "default".into(),
            constraints: vec![constraint("${meta.rack}", Operand::SetContainsAny, &racks.join(","))],
            spreads: has_spread.then_some(spread).into_iter().collect(),
            task_groups: vec![group].into(),
            ..JobSpec::default()
        };
        Job { spec: Arc::new(spec), ..Job::default() }
    }

    /// The median of several attempts, each of which must place as many allocations as the reference did.
    fn measure(&self, state: &mut State, ids: &mut Ids) -> Duration {
        let mut log = Log::from(state.index());
        let index = log.next_index();
        let job = Job {
            create_index: index,
            modify_index: index,
            job_modify_index: index,
            ..self.job(self.has_spread)
        };
        state
            .apply(&log.entry(vec![Change::Job(Arc::new(job.clone()))]))
            .expect("the change set fits the state");
        let attempts = (0..TIMES).map(|_| {
            let begin = Instant::now();
            let proposal = build::attempt(state, &job, ids);
            let taken = begin.elapsed();
            let placed: usize = proposal.plan.placements.iter().map(|placements| placements.len()).sum();
            assert_eq!(placed, self.placed, "as many allocations as the reference placed");
            drop(black_box(proposal));
            taken
        });
        median(attempts.collect())
    }
}

fn median(mut taken: Vec<Duration>) -> Duration {
    taken.sort_unstable();
    taken[taken.len() / 2]
}

fn job_id(has_spread: bool) -> Text {
    if has_spread { "spread".into() } else { "plain".into() }
}

fn node(id: NodeId, number: u64, racks: u64) -> Node {
    let pair = |(key, value): (&str, &str)| (Text::from(key), Text::from(value));
    let driver = Driver { detected: true, healthy: true, ..Driver::default() };
    let address = NodeAddress {
        family: "ipv4".into(),
        alias: "default".into(),
        address: "192.168.0.100".into(),
        reserved_ports: "22".into(),
        ..NodeAddress::default()
    };
    let device: Text = "eth0".into();
    let rack = format!("r{}", number % racks);
    let mut attributes: BTreeMap<Text, Text> = [
        ("kernel.name", "linux"),
        ("arch", "x86"),
        ("nomad.version", "0.5.0"),
        ("consul.version", "1.11.4"),
        ("driver.exec", "1"),
        ("driver.mock_driver", "1"),
    ]
    .map(pair)
    .into();
    let advertised = format!("192.168.{}.{}", number % 10, number % 120);
    attributes.insert("unique.advertise.address".into(), advertised.into());
    let core = |id| Core { id, base_mhz: 3_500, ..Core::default() };
    let spec = NodeSpec {
        name: format!("node-{number}").into(),
        datacenter: if number.is_multiple_of(2) { "dc-1" } else { "dc-2" }.into(),
        node_pool: "default".into(),
        node_class: "linux-medium-pci".into(),
        computed_class: format!("v1:{}{rack}", number % 2).into(),
        attributes,
        meta: [("rack".into(), rack.into())].into(),
        resources: NodeResources {
            processors: Topology { cores: (0..4).map(core).collect(), ..Topology::default() },
            memory_mb: 32_000,
            disk_mb: 102_400,
            networks: vec![NetworkResource {
                mode: "host".into(),
                device: device.clone(),
                cidr: "192.168.0.100/32".into(),
                mbits: 1_000,
                ..NetworkResource::default()
            }],
            node_networks: vec![NodeNetwork {
                mode: "host".into(),
                device,
                addresses: vec![address],
                ..NodeNetwork::default()
            }],
            ..NodeResources::default()
        },
        reserved: NodeReserved { cpu_mhz: 100, memory_mb: 256, disk_mb: 4_096, ..NodeReserved::default() },
        drivers: [("exec".into(), driver.clone()), ("mock_driver".into(), driver)].into(),
        ..NodeSpec::default()
    };
    let server = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
    Node { id, spec: Arc::new(spec), server }
}
