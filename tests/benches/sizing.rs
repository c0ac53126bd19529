//! How many of what a cluster of some size needs: what each process takes of memory and processors, at rest and while jobs
//! are placed, with 10, 100, 1,000 and 10,000 nodes of ten allocations each. `docs/operations/sizing.md` has the figures.
//!
//! Every service is a process of its own, with a second one of each that works one at a time; PostgreSQL and NATS are private
//! and on the same machine. `SIZES` names other numbers of nodes (`SIZES=10,100`), `SECONDS` how long each state lasts.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tests::benched::table::{Line, percentile, remark, section};
use tests::benched::{Benched, Process, run, size};
use tokio::time::sleep;

/// As `drover` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const PROCESSES: [&str; 10] = [
    "plan-applier",
    "plan-applier@2",
    "eval-broker",
    "eval-broker@2",
    "node-tracker",
    "node-tracker@2",
    "deployment-watcher",
    "deployment-watcher@2",
    "scheduler",
    "api",
];
/// What an allocation asks for of a node, in MHz and MiB.
const ALLOC_SIZE: u64 = 100;
/// Room for so many more allocations, for what is placed while it is measured.
const ROOM: u64 = 100_000;
const ALLOCS_OF_NODE: u64 = 10;
const ALLOCS_OF_JOB: u64 = 10;
/// How many jobs are placed at once.
const IN_FLIGHT: usize = 32;
/// Jobs settle for so long before anything is measured: the tables have followed then.
const SETTLE: Duration = Duration::from_secs(5);

fn main() {
    let sizes = std::env::var("SIZES").unwrap_or_else(|_| "10,100,1000,10000".to_owned());
    let sizes = sizes.split(',').map(|size| size.parse().expect("SIZES are numbers, parted by commas"));
    let sizes: Vec<u64> = sizes.collect();
    let length = Duration::from_secs(size("SECONDS", 20));
    run(async {
        for nodes in sizes {
            measure(nodes, length).await;
        }
    });
}

async fn measure(nodes: u64, length: Duration) {
    section(&format!("sizing: {nodes} nodes, {} allocations", nodes * ALLOCS_OF_NODE));
    let mut cluster = Benched::start(BINARY, &PROCESSES).await;
    let node_size = (ALLOC_SIZE * (ALLOCS_OF_NODE + ROOM.div_ceil(nodes))).to_string();
    cluster.spawn_nodes_with(nodes, &["--cpu", &node_size, "--memory", &node_size]).await;
    let jobs = (nodes * ALLOCS_OF_NODE / ALLOCS_OF_JOB).max(1);
    let jobs: Vec<String> = (0..jobs).map(|number| format!("job-{number}")).collect();
    cluster.place_all(&jobs, ALLOCS_OF_JOB).await;
    sleep(SETTLE).await;

    let before = Usage::of(&cluster);
    sleep(length).await;
    let at_rest = Usage::of(&cluster).since(&before);

    let (before, began) = (Usage::of(&cluster), Instant::now());
    let placed = cluster.stream("more", 1, IN_FLIGHT, length).await;
    let (busy, elapsed) = (Usage::of(&cluster).since(&before), began.elapsed());
    Line::of("jobs of one allocation placed (1/s)", vec![placed.rate()]).put();
    Line::millis("  until placed, p99 (ms)", &percentile(placed.times, 99)).put();
    remark(&format!("{:<24} {:>8} {:>14} {:>14}", "process", "MB", "% of a core", "while placing"));
    let (mut sum, share) =
        ([0.0; 3], |used: Duration, of: Duration| 100.0 * used.as_secs_f64() / of.as_secs_f64());
    for Process { name, memory, .. } in cluster.processes() {
        let row = [memory as f64 / 1e6, share(at_rest.0[&name], length), share(busy.0[&name], elapsed)];
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        put_row(&name, row);
    }
    put_row("all of it", sum);
    let bytes = cluster.sql("select pg_database_size(current_database())");
    let bytes: f64 = bytes[0].parse().expect("a size is a number");
    Line::of("the database on disk (MB)", vec![bytes / 1e6]).put();
}

fn put_row(name: &str, [memory, at_rest, placing]: [f64; 3]) {
    remark(&format!("{name:<24} {memory:>8.1} {at_rest:>14.2} {placing:>14.1}"));
}

/// What each process has used of processors.
struct Usage(BTreeMap<String, Duration>);

impl Usage {
    fn of(cluster: &Benched) -> Self {
        Self(cluster.processes().into_iter().map(|process| (process.name, process.processor_time)).collect())
    }

    fn since(&self, before: &Self) -> Self {
        Self(self.0.iter().map(|(name, used)| (name.clone(), *used - before.0[name])).collect())
    }
}
