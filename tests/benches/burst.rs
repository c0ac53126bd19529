//! A burst: one job of 10,000 on 10,000 simulated nodes, from `job run` to the moment at which its plan is durable; and
//! how long one small job takes where nothing else happens.
//!
//! PostgreSQL and NATS are private and on the same machine, commits go to the disk; the services run in one process, and
//! then each in its own (`WAY=one` or `many`). Whoever is told of a change set on the feed knows that it is durable: an
//! observer that follows from the first one takes the times. A small job is two commits, so what the disk takes for one is
//! shown beside it. `NODES`, `COUNT`, `ROUNDS` and `SMALL` change the sizes, `BINARY` measures another build; `ADDR`
//! measures whatever speaks the API there, as its clients see it, with one allocation for each node that it has.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use tests::benched::table::{Line, percentile, progress, section};
use tests::benched::{Benched, Placed, Remote, Target, Way, run, size};

/// As `drover` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

fn main() {
    run(async {
        if let Some(remote) = Remote::wanted() {
            section(&format!("burst, at {}", remote.api()));
            let nodes = remote.nodes().await;
            return measure(Target::Theirs(remote), size("COUNT", nodes), nodes).await;
        }
        let nodes = size("NODES", 10_000);
        for way in Way::wanted() {
            let mut cluster = Benched::start_in(BINARY, way).await;
            section(&format!("burst, {nodes} nodes, {way}"));
            Line::millis("8 KB written and flushed to the disk (ms)", &flushes()).put();
            let began = Instant::now();
            let ready = cluster.spawn_nodes(nodes).await;
            Line::millis(format!("{nodes} nodes registered and ready (ms)"), &[ready - began]).put();
            measure(Target::Ours(Box::new(cluster)), size("COUNT", 10_000), nodes).await;
        }
    });
}

async fn measure(mut target: Target, count: u64, nodes: u64) {
    let (rounds, small) = (size("ROUNDS", 5), size("SMALL", 100));
    // Whatever is done for the first time only is done then.
    target.place("warm-up", 1).await;
    let mut times = Vec::new();
    for round in 0..small {
        progress("small jobs", round, small);
        times.push(target.place(&format!("small-{round}"), 1).await);
    }
    progress("small jobs", small, small);
    let placed: Vec<Duration> = times.iter().map(|job| job.placed).collect();
    let registered = times.iter().map(|job| job.registered).collect();
    Line::millis("one small job: registered, p50 (ms)", &percentile(registered, 50)).put();
    let p50 = Line::millis("  placed, p50", &percentile(placed.clone(), 50)).at_most(5.0, 1.5);
    p50.reference("15").put();
    Line::millis("  placed, p99", &percentile(placed, 99)).at_most(20.0, 5.0).reference("40").put();

    let (mut large, mut costs): (Vec<Placed>, _) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        progress("large jobs", round, rounds);
        let before = target.cost();
        large.push(target.place(&format!("large-{round}"), count).await);
        costs.extend(target.cost().zip(before).map(|(after, before)| (after - before).as_secs_f64()));
    }
    progress("large jobs", rounds, rounds);
    let each = |time: fn(&Placed) -> Duration| large.iter().map(time).collect::<Vec<_>>();
    Line::millis(format!("one job of {count}: registered (ms)"), &each(|job| job.registered)).put();
    let all = Line::millis("  placed, all of it", &each(|job| job.placed)).at_most(100.0, 10.0);
    // It was recorded with as many nodes and allocations.
    let is_comparable = count == 10_000 && nodes == 10_000;
    if is_comparable { all.reference("11,500–13,700") } else { all }.put();
    Line::millis("  reported running, all of it", &each(|job| job.running)).put();
    costs.iter_mut().for_each(|seconds| *seconds *= 1e3 / count as f64);
    if !costs.is_empty() {
        let cost = Line::of("  processor seconds for 1,000 placements, until they run", costs);
        cost.at_most(0.15, None).reference("1.5").put();
    }
    target.end().await;
}

/// How long the disk takes for what a small commit asks of it.
fn flushes() -> Vec<Duration> {
    const TIMES: usize = 50;
    let mut file = tempfile::tempfile().expect("there is room for temporary files");
    let flush = |_| {
        let began = Instant::now();
        file.write_all(&[0; 8192]).and_then(|()| file.sync_data()).expect("the disk takes it");
        began.elapsed()
    };
    (0..TIMES).map(flush).collect()
}
