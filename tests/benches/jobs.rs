//! Many jobs of ten, 32 of them in flight: how many a second are placed, and how long each takes from when it is sent until
//! all of it is durably placed.
//!
//! Five stretches after a warm-up, of which the median counts; each has its own p99. The nodes are simulated, and report
//! everything running a second later, which is part of what the cluster has to do meanwhile; then the same with a deployment
//! for each job, which takes as many reports again, that all is healthy, and an end of its own. `NODES`, `COUNT`,
//! `IN_FLIGHT` and `SECONDS` (a stretch) change the sizes, `WAY` and `BINARY` what is measured; `ADDR` measures whatever
//! speaks the API there, as its clients see it.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Duration;

use tests::benched::table::{Line, percentile, progress, section};
use tests::benched::{Benched, Kind, Remote, Streamed, Target, Way, run, size};

/// As `drover` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const STRETCHES: u64 = 5;
const KINDS: [Kind; 2] = [Kind::Plain, Kind::Deployed];

fn main() {
    run(async {
        if let Some(remote) = Remote::wanted() {
            section(&format!("jobs, at {}", remote.api()));
            let mut theirs = Target::Theirs(remote);
            for kind in KINDS {
                measure(&mut theirs, kind).await;
            }
            return theirs.end().await;
        }
        let nodes = size("NODES", 10_000);
        for way in Way::wanted() {
            section(&format!("jobs, {nodes} nodes, {way}"));
            for kind in KINDS {
                let mut cluster = Benched::start_in(BINARY, way).await;
                cluster.spawn_nodes(nodes).await;
                let mut ours = Target::Ours(Box::new(cluster));
                measure(&mut ours, kind).await;
                ours.end().await;
            }
        }
    });
}

async fn measure(target: &mut Target, kind: Kind) {
    target.set_kind(kind);
    let (count, in_flight) = (size("COUNT", 10), size("IN_FLIGHT", 32));
    let length = Duration::from_secs(size("SECONDS", 6));
    target.stream(&format!("{kind:?}-warm-up"), count, in_flight, length / 2).await;
    let (mut rates, mut middles, mut slowest, mut costs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for stretch in 0..STRETCHES {
        progress("stretches", stretch, STRETCHES);
        let before = target.cost();
        let streamed = target.stream(&format!("{kind:?}-{stretch}"), count, in_flight, length).await;
        let used = target.cost().zip(before).map(|(after, before)| after - before);
        rates.push(streamed.rate());
        let Streamed { times, .. } = streamed;
        costs.extend(used.map(|used| used.as_secs_f64() * 1e3 / (times.len() as u64 * count) as f64));
        middles.extend(percentile(times.clone(), 50));
        slowest.extend(percentile(times, 99));
    }
    progress("stretches", STRETCHES, STRETCHES);
    let what = match kind {
        Kind::Plain => format!("jobs of {count}, {in_flight} in flight: placed (1/s)"),
        Kind::Deployed => "the same with deployments: placed (1/s)".to_owned(),
    };
    let rate = Line::of(what, rates);
    let slowest = Line::millis("  each, p99 (ms)", &slowest);
    let cost = (!costs.is_empty()).then(|| Line::of("  processor seconds for 1,000 placements", costs));
    let (rate, slowest, cost) = match kind {
        Kind::Plain => (
            rate.at_least(1_500.0, 5_000.0).reference("39–46"),
            slowest.at_most(100.0, 25.0).reference("1,000"),
            cost.map(|cost| cost.at_most(0.32, None).reference("3.2")),
        ),
        // The budgets are of nodes that report nothing but that their allocations run.
        Kind::Deployed => (rate, slowest, cost),
    };
    rate.put();
    Line::millis("  each, p50 (ms)", &middles).put();
    slowest.put();
    if let Some(cost) = cost {
        cost.put();
    }
}
