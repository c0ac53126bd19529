//! Many jobs of ten, 32 of them in flight: how many a second are placed, and how long each takes from when it is sent until
//! all of it is durably placed.
//!
//! Five stretches after a warm-up, of which the median counts; each has its own p99. The nodes are simulated, and report
//! everything running a second later, which is part of what the cluster has to do meanwhile. `NODES`, `COUNT`, `IN_FLIGHT`
//! and `SECONDS` (a stretch) change the sizes, `WAY` and `BINARY` what is measured; `ADDR` measures whatever speaks the API
//! there, as its clients see it.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Duration;

use tests::benched::table::{Line, percentile, section};
use tests::benched::{Benched, Remote, Streamed, Target, Way, run, size};

/// As `drover` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const STRETCHES: usize = 5;

fn main() {
    run(async {
        if let Some(remote) = Remote::wanted() {
            section(&format!("jobs, at {}", remote.api()));
            return measure(Target::Theirs(remote)).await;
        }
        let nodes = size("NODES", 10_000);
        for way in Way::wanted() {
            let mut cluster = Benched::start_in(BINARY, way).await;
            section(&format!("jobs, {nodes} nodes, {way}"));
            cluster.spawn_nodes(nodes).await;
            measure(Target::Ours(Box::new(cluster))).await;
        }
    });
}

async fn measure(mut target: Target) {
    let (count, in_flight) = (size("COUNT", 10), size("IN_FLIGHT", 32));
    let length = Duration::from_secs(size("SECONDS", 6));
    target.stream("warm-up", count, in_flight, length / 2).await;
    let (mut rates, mut middles, mut slowest, mut costs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for stretch in 0..STRETCHES {
        let before = target.cost();
        let streamed = target.stream(&format!("stretch-{stretch}"), count, in_flight, length).await;
        let used = target.cost().zip(before).map(|(after, before)| after - before);
        rates.push(streamed.rate());
        let Streamed { times, .. } = streamed;
        costs.extend(used.map(|used| used.as_secs_f64() * 1e3 / (times.len() as u64 * count) as f64));
        middles.extend(percentile(times.clone(), 50));
        slowest.extend(percentile(times, 99));
    }
    let what = format!("jobs of {count}, {in_flight} in flight: placed (1/s)");
    Line::of(what, rates).at_least(1_500.0, 5_000.0).reference("39–46").put();
    Line::millis("  each, p50 (ms)", &middles).put();
    Line::millis("  each, p99 (ms)", &slowest).at_most(100.0, 25.0).reference("1,000").put();
    if !costs.is_empty() {
        Line::of("  processor seconds for 1,000 placements", costs)
            .at_most(0.32, None)
            .reference("3.2")
            .put();
    }
    target.end().await;
}
