//! Many jobs of ten, 32 of them in flight: how many a second are placed, and how long each takes from when it is sent until
//! all of it is durably placed.
//!
//! Five stretches after a warm-up, of which the median counts; each has its own p99. The nodes are simulated, and report
//! everything running a second later, which is part of what the cluster has to do meanwhile; then the same with a deployment
//! for each job, which takes as many reports again, that all is healthy, and an end of its own. `NODES`, `COUNT`,
//! `IN_FLIGHT`, `SECONDS` (a stretch) and `STRETCHES` change the sizes, `WAY` and `BINARY` what is measured; `ADDR` measures
//! whatever speaks the API there, as its clients see it. `AGAINST`, another program or settings as `NAME=value`, has a second
//! cluster measured in turns with the first.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Duration;

use tests::benched::cores::Cores;
use tests::benched::table::{Line, percentile, progress, section};
use tests::benched::{Benched, Kind, Remote, Rival, Streamed, Target, Way, run, size};

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
            let mut theirs = [Target::Theirs(remote)];
            for kind in KINDS {
                measure(&mut theirs, kind).await;
            }
            let [theirs] = theirs;
            return theirs.end().await;
        }
        let (nodes, rival) = (size("NODES", 10_000), Rival::wanted());
        for way in Way::wanted() {
            section(&format!("jobs, {nodes} nodes, {way}"));
            for kind in KINDS {
                let mut clusters = vec![Benched::start_in(BINARY, way).await];
                if let Some(rival) = &rival {
                    clusters.push(Benched::start_rival(rival, BINARY, way).await);
                }
                let mut targets = Vec::new();
                for mut cluster in clusters {
                    cluster.spawn_nodes(nodes).await;
                    targets.push(Target::Ours(Box::new(cluster)));
                }
                measure(&mut targets, kind).await;
                for target in targets {
                    target.end().await;
                }
            }
        }
    });
}

/// What was measured of one target, a figure for each stretch.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    middles: Vec<Duration>,
    slowest: Vec<Duration>,
    costs: Vec<f64>,
}

/// Measures targets in turns: the first is what this is about, and the other whom it is compared with.
async fn measure(targets: &mut [Target], kind: Kind) {
    let (count, in_flight) = (size("COUNT", 10), size("IN_FLIGHT", 32));
    let length = Duration::from_secs(size("SECONDS", 6));
    let stretches = size("STRETCHES", STRETCHES);
    for target in targets.iter_mut() {
        target.set_kind(kind);
        target.stream(&format!("{kind:?}-warm-up"), count, in_flight, length / 2).await;
    }
    let mut cores = Cores::default();
    cores.look();
    let mut measured: Vec<Measured> = targets.iter().map(|_| Measured::default()).collect();
    for stretch in 0..stretches {
        progress("stretches", stretch, stretches);
        for (target, measured) in targets.iter_mut().zip(&mut measured) {
            let before = target.cost();
            let streamed = target.stream(&format!("{kind:?}-{stretch}"), count, in_flight, length).await;
            let used = target.cost().zip(before).map(|(after, before)| after - before);
            measured.rates.push(streamed.rate());
            let Streamed { times, .. } = streamed;
            let placed = times.len() as u64 * count;
            measured.costs.extend(used.map(|used| used.as_secs_f64() * 1e3 / placed as f64));
            measured.middles.extend(percentile(times.clone(), 50));
            measured.slowest.extend(percentile(times, 99));
            cores.look();
        }
    }
    progress("stretches", stretches, stretches);
    let Some((ours, others)) = measured.split_first() else { return };
    put(ours, kind, count, in_flight);
    for theirs in others {
        compare(ours, theirs);
    }
    cores.put();
}

fn put(measured: &Measured, kind: Kind, count: u64, in_flight: usize) {
    let Measured { rates, middles, slowest, costs } = measured;
    let what = match kind {
        Kind::Plain => format!("jobs of {count}, {in_flight} in flight: placed (1/s)"),
        Kind::Deployed => "the same with deployments: placed (1/s)".to_owned(),
    };
    let rate = Line::of(what, rates.clone());
    let slowest = Line::millis("  each, p99 (ms)", slowest);
    let cost =
        (!costs.is_empty()).then(|| Line::of("  processor seconds for 1,000 placements", costs.clone()));
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
    Line::millis("  each, p50 (ms)", middles).put();
    slowest.put();
    if let Some(cost) = cost {
        cost.put();
    }
}

/// How much faster it is than whom it was measured against, and how much less it costs: stretch by stretch.
fn compare(ours: &Measured, theirs: &Measured) {
    let ratios =
        |ours: &[f64], theirs: &[f64]| ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    Line::of("  AGAINST: placed (1/s)", theirs.rates.clone()).put();
    Line::of("  this one, times as many", ratios(&ours.rates, &theirs.rates)).put();
    Line::of("  this one, times the processor seconds", ratios(&ours.costs, &theirs.costs)).put();
}
