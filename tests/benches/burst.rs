//! A burst: one job of 10,000 on 10,000 simulated nodes, from `job run` until its plan is durable; and how long one
//! small job takes on an idle cluster.
//!
//! PostgreSQL and NATS are private and on the same machine, and commits are flushed to the disk. The services run in
//! one process, and then each in its own (`WAY=one` or `many`). A change set is published on the feed only after its
//! commit, so an observer that follows the feed takes the times. A small job takes two commits, so the table also shows
//! how long the disk takes for one. `NODES`, `COUNT`, `ROUNDS` and `SMALL` change the sizes, and `BINARY` measures
//! another build. `ADDR` measures an existing cluster at that address, as its clients see it, with one allocation for
//! each of its nodes.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use tests::bench::table::{Line, percentile, progress, section};
use tests::bench::{BenchCluster, JobTimes, Layout, Remote, Target, run, size};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

fn main() {
    run(async {
        if let Some(remote) = Remote::from_env() {
            section(&format!("burst, at {}", remote.api()));
            let nodes = remote.nodes().await;
            return measure(Target::Remote(remote), size("COUNT", nodes), nodes).await;
        }
        let nodes = size("NODES", 10_000);
        for layout in Layout::from_env() {
            let mut cluster = BenchCluster::start_layout(BINARY, layout).await;
            section(&format!("burst, {nodes} nodes, {layout}"));
            Line::millis("8 KB written and flushed to the disk (ms)", &flushes()).print();
            let began = Instant::now();
            let ready = cluster.spawn_nodes(nodes).await;
            Line::millis(format!("{nodes} nodes registered and ready (ms)"), &[ready - began]).print();
            measure(Target::Own(Box::new(cluster)), size("COUNT", 10_000), nodes).await;
        }
    });
}

async fn measure(mut target: Target, count: u64, nodes: u64) {
    let (rounds, small) = (size("ROUNDS", 5), size("SMALL", 100));
    // One-time initialization happens during this job.
    target.place("warm-up", 1).await;
    let mut times = Vec::new();
    for round in 0..small {
        progress("small jobs", round, small);
        times.push(target.place(&format!("small-{round}"), 1).await);
    }
    progress("small jobs", small, small);
    let placed: Vec<Duration> = times.iter().map(|job| job.placed).collect();
    let registered = times.iter().map(|job| job.registered).collect();
    Line::millis("one small job: registered, p50 (ms)", &percentile(registered, 50)).print();
    let p50 = Line::millis("  placed, p50", &percentile(placed.clone(), 50)).at_most(5.0, 1.5);
    p50.reference("15").print();
    Line::millis("  placed, p99", &percentile(placed, 99)).at_most(20.0, 5.0).reference("40").print();

    let (mut large, mut costs): (Vec<JobTimes>, _) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        progress("large jobs", round, rounds);
        let before = target.processor_time();
        large.push(target.place(&format!("large-{round}"), count).await);
        costs.extend(
            target.processor_time().zip(before).map(|(after, before)| (after - before).as_secs_f64()),
        );
    }
    progress("large jobs", rounds, rounds);
    let each = |time: fn(&JobTimes) -> Duration| large.iter().map(time).collect::<Vec<_>>();
    Line::millis(format!("one job of {count}: registered (ms)"), &each(|job| job.registered)).print();
    let all = Line::millis("  placed, all of it", &each(|job| job.placed)).at_most(100.0, 10.0);
    // The reference was recorded with 10,000 nodes and 10,000 allocations.
    let is_comparable = count == 10_000 && nodes == 10_000;
    if is_comparable { all.reference("11,500–13,700") } else { all }.print();
    Line::millis("  reported running, all of it", &each(|job| job.running)).print();
    costs.iter_mut().for_each(|seconds| *seconds *= 1e3 / count as f64);
    if !costs.is_empty() {
        let cost = Line::of("  processor seconds for 1,000 placements, until they run", costs);
        cost.at_most(0.15, None).reference("1.5").print();
    }
    target.end().await;
}

/// How long the disk takes to write and flush as much as a small commit does.
fn flushes() -> Vec<Duration> {
    const TIMES: usize = 50;
    let mut file = tempfile::tempfile().expect("a temporary file can be created");
    let flush = |_| {
        let began = Instant::now();
        file.write_all(&[0; 8192]).and_then(|()| file.sync_data()).expect("the disk can be written");
        began.elapsed()
    };
    (0..TIMES).map(flush).collect()
}
