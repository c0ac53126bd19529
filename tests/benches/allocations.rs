//! A million allocations in the state alone: how fast they are applied, how much memory they take, and what a snapshot
//! costs.
//!
//! Prints one table with the measured values and their limits. One core, no database, no network.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::change::{Change, ChangeSet};
use model::job::Job;
use model::{AllocId, EvalId, NodeId};
use state::{Replica, State};
use tests::build::{self, Ids, Log};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: u64 = 5_000;
const JOBS: u64 = 1_000;
const ALLOCS_PER_JOB: u32 = 1_000;
const ALLOCS: u64 = JOBS * ALLOCS_PER_JOB as u64;
/// Number of allocations in one report, as the node-tracker batches them.
const REPORT: usize = 500;

fn main() {
    let (mut ids, mut log) = (Ids::default(), Log::default());
    let nodes: Vec<NodeId> = (0..NODES).map(|_| NodeId::from_bytes(ids.bytes())).collect();
    let mut state = State::default();
    let start = rss();
    for (number, id) in (0..).zip(&nodes) {
        apply(&mut state, &log.entry(vec![Change::Node(Box::new(build::node(*id, number)))]));
    }
    let nodes_bytes = rss() - start;

    // Change sets are encoded beforehand, as they would arrive.
    let placed: Vec<Vec<u8>> =
        (0..JOBS).map(|number| encode(&placed(number, &nodes, &mut ids, &mut log))).collect();
    let allocs: Vec<AllocId> = placed.iter().flat_map(|set| placed_ids(&decode(set))).collect();
    let reports = allocs.chunks(REPORT).map(|ids| encode(&log.entry(vec![running(ids)])));
    let reports: Vec<Vec<u8>> = reports.collect();
    assert_eq!(allocs.len() as u64, ALLOCS);

    let before = rss();
    let placing = Timed::apply(&mut state, &placed);
    let placed_bytes = rss() - before;
    let reporting = Timed::apply(&mut state, &reports);
    let running_bytes = rss() - before;

    println!("state: {ALLOCS} allocations of {JOBS} jobs on {NODES} nodes\n");
    println!("{:<52} {:>14} {:>14}", "", "measured", "limit");
    line("placed, decoded and applied (allocations a second)", per_second(placing.total()), "500,000");
    line("  applied alone", per_second(placing.apply), "");
    line("reported running, decoded and applied (a second)", per_second(reporting.total()), "500,000");
    line("  applied alone", per_second(reporting.apply), "");
    line("memory, placed (MB)", number(placed_bytes as f64 / 1e6), "500");
    line("memory, running with three events each (MB)", number(running_bytes as f64 / 1e6), "500");
    line("bytes an allocation, placed", each(placed_bytes), "");
    line("bytes an allocation, running", each(running_bytes), "");
    line("  of that, rows, indexes and task states", each(state.alloc_heap_bytes()), "");
    line("bytes an allocation in the log, placed", each(placed.iter().map(Vec::len).sum()), "");
    line("bytes an allocation in the log, reported running", each(reports.iter().map(Vec::len).sum()), "");
    line("a job, decoded (µs)", micros(decoding_a_job()), "");
    line("bytes a node", number(nodes_bytes as f64 / NODES as f64), "");
    with_ports(&mut state, &nodes, &mut ids, &mut log);
    readers_and_writers(Replica::new(state), &allocs, &mut log);
}

fn decoding_a_job() -> Duration {
    const TIMES: u32 = 10_000;
    let bytes = rmp_serde::to_vec_named(&build::job(0, 1)).expect("plain data can be encoded");
    let begin = Instant::now();
    for _ in 0..TIMES {
        let job: Job = rmp_serde::from_slice(&bytes).expect("encoded data can be decoded");
        drop(std::hint::black_box(job));
    }
    begin.elapsed() / TIMES
}

/// Applies jobs whose allocations have a dynamic port each.
fn with_ports(state: &mut State, nodes: &[NodeId], ids: &mut Ids, log: &mut Log) {
    const PORT_JOBS: u64 = 100;
    let sets = (JOBS..JOBS + PORT_JOBS).map(|number| {
        let job = Job { create_index: log.next_index(), ..build::job(number, ALLOCS_PER_JOB) };
        let common = build::common_with_port(&job, EvalId::from_bytes(ids.bytes()));
        let on: Vec<usize> = (0..ALLOCS_PER_JOB).map(|_| ids.number() as usize % nodes.len()).collect();
        let port = |row: u32| {
            build::port(on[row as usize] as u64, 20_000 + ((number as u32 * 97 + row) % 12_000) as u16)
        };
        let placements = build::placements_with(common, on.iter().map(|node| nodes[*node]), ids, port);
        encode(&log.entry(vec![Change::Job(Arc::new(job)), Change::AllocsPlaced(Box::new(placements))]))
    });
    let sets: Vec<Vec<u8>> = sets.collect();
    let before = rss();
    let placing = Timed::apply(state, &sets);
    let allocs = (PORT_JOBS * u64::from(ALLOCS_PER_JOB)) as f64;
    let taken = (rss() - before) as f64;
    line(
        "with a port each, decoded and applied (a second)",
        number(allocs / placing.total().as_secs_f64()),
        "",
    );
    line("  bytes an allocation", number(taken / allocs), "");
    let logged: usize = sets.iter().map(Vec::len).sum();
    line("  bytes an allocation in the log", number(logged as f64 / allocs), "");
}

fn readers_and_writers(replica: Replica, allocs: &[AllocId], log: &mut Log) {
    line("snapshot of a replica (ns)", nanos(|| drop(std::hint::black_box(replica.snapshot()))), "10,000");
    let snapshot = replica.snapshot();
    line(
        "overlay: clone of a state (ns)",
        nanos(|| drop(std::hint::black_box(State::clone(&snapshot)))),
        "10,000",
    );

    let reports = allocs.iter().step_by(97).map(|id| log.entry(vec![running(&[*id])]));
    let reports = build::shared(reports.take(10_000));
    let count = reports.len() as u32;
    let begin = Instant::now();
    reports.into_iter().for_each(|set| replica.apply(vec![set]).expect("the change set follows the state"));
    line("one report, applied and published by itself (µs)", micros(begin.elapsed() / count), "");

    let begin = Instant::now();
    let roomy = snapshot.node_pages().map(|page| {
        let free = |bit: usize| page.cpu_mhz[bit].saturating_sub(page.held.cpu_mhz[bit]);
        (0..state::PAGE).filter(|bit| page.ready >> bit & 1 != 0 && free(*bit) >= 500).count()
    });
    assert!(roomy.sum::<usize>() <= NODES as usize);
    line("scan of the nodes' columns (µs)", micros(begin.elapsed()), "");

    let begin = Instant::now();
    assert_eq!(snapshot.allocs().filter(|alloc| !alloc.is_terminal()).count(), snapshot.alloc_count());
    line("walk over all allocations by id (ms)", millis(begin.elapsed()), "");

    let collected = log.entry(vec![Change::AllocsDeleted(allocs[..100_000].iter().copied().collect())]);
    let begin = Instant::now();
    replica.apply(build::shared([collected])).expect("the change set follows the state");
    line("100,000 allocations collected at once (ms)", millis(begin.elapsed()), "");
}

/// How long decoding and applying a series of change sets took.
#[derive(Default)]
struct Timed {
    decode: Duration,
    apply: Duration,
}

impl Timed {
    fn total(&self) -> Duration {
        self.decode + self.apply
    }

    fn apply(state: &mut State, sets: &[Vec<u8>]) -> Self {
        let mut timed = Self::default();
        for bytes in sets {
            let begin = Instant::now();
            let set = decode(bytes);
            let decoded = Instant::now();
            apply(state, &set);
            timed.apply += decoded.elapsed();
            let applied = Instant::now();
            drop(set);
            timed.decode += decoded - begin + applied.elapsed();
        }
        timed
    }
}

fn placed(job: u64, nodes: &[NodeId], ids: &mut Ids, log: &mut Log) -> ChangeSet {
    let job = Job { create_index: log.next_index(), ..build::job(job, ALLOCS_PER_JOB) };
    let common = build::common(&job, EvalId::from_bytes(ids.bytes()));
    let on: Vec<NodeId> = (0..ALLOCS_PER_JOB).map(|_| nodes[ids.number() as usize % nodes.len()]).collect();
    let placements = build::placements(common, on, ids);
    log.entry(vec![Change::Job(Arc::new(job)), Change::AllocsPlaced(Box::new(placements))])
}

fn placed_ids(set: &ChangeSet) -> Vec<AllocId> {
    let [_, Change::AllocsPlaced(placements)] = &set.changes[..] else {
        panic!("the change set holds a job and its allocations")
    };
    placements.ids.0.clone()
}

fn running(ids: &[AllocId]) -> Change {
    Change::AllocsChanged(Box::new(build::running(ids)))
}

fn apply(state: &mut State, set: &ChangeSet) {
    state.apply(set).expect("the change set follows the state and refers to existing objects");
}

fn encode(set: &ChangeSet) -> Vec<u8> {
    rmp_serde::to_vec_named(set).expect("plain data can be encoded")
}

fn decode(bytes: &[u8]) -> ChangeSet {
    rmp_serde::from_slice(bytes).expect("encoded data can be decoded")
}

fn line(what: &str, measured: String, limit: &str) {
    println!("{what:<52} {measured:>14} {limit:>14}");
}

fn nanos(mut work: impl FnMut()) -> String {
    const TIMES: u32 = 100_000;
    let begin = Instant::now();
    (0..TIMES).for_each(|_| work());
    number(begin.elapsed().as_nanos() as f64 / f64::from(TIMES))
}

fn micros(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e6)
}

fn millis(time: Duration) -> String {
    number(time.as_secs_f64() * 1e3)
}

fn per_second(time: Duration) -> String {
    number(ALLOCS as f64 / time.as_secs_f64())
}

fn each(bytes: usize) -> String {
    number(bytes as f64 / ALLOCS as f64)
}

fn number(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits"));
    groups.collect::<Vec<_>>().join(",")
}

/// Resident memory of this process, in bytes.
fn rss() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status can be read");
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the status has such a line");
    let kib = resident.trim().trim_end_matches(" kB").parse::<usize>().expect("the value is a number of kB");
    kib * 1024
}
