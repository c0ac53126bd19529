//! Many jobs of ten allocations, 32 of them in flight: how many are placed per second, and how long each takes from its
//! registration until all of it is durably placed.
//!
//! After a warm-up, the benchmark measures five intervals. The median counts, and each interval has its own p99. The
//! nodes are simulated and report every allocation running after a second, which is part of the load. Then the same is
//! measured with a deployment for each job: nodes also report that all allocations are healthy, and the deployment has
//! to be completed. `NODES`, `COUNT`, `IN_FLIGHT`, `SECONDS` (of an interval) and `STRETCHES` (the number of intervals)
//! change the sizes, `WAY` and `BINARY` what is measured. `ADDR` measures an existing cluster at that address, as its
//! clients see it. With `AGAINST`, which is another program or settings as `NAME=value`, a second cluster is measured
//! in turns with the first.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Duration;

use tests::bench::cores::Cores;
use tests::bench::table::{Line, percentile, progress, section};
use tests::bench::{Baseline, BenchCluster, Kind, Layout, Remote, Streamed, Target, run, size};

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const INTERVALS: u64 = 5;
const KINDS: [Kind; 2] = [Kind::Plain, Kind::Deployed];

fn main() {
    run(async {
        if let Some(remote) = Remote::from_env() {
            section(&format!("jobs, at {}", remote.api()));
            let mut targets = [Target::Remote(remote)];
            for kind in KINDS {
                measure(&mut targets, kind).await;
            }
            let [target] = targets;
            return target.end().await;
        }
        let (nodes, baseline) = (size("NODES", 10_000), Baseline::from_env());
        for layout in Layout::from_env() {
            section(&format!("jobs, {nodes} nodes, {layout}"));
            for kind in KINDS {
                let mut clusters = vec![BenchCluster::start_layout(BINARY, layout).await];
                if let Some(baseline) = &baseline {
                    clusters.push(BenchCluster::start_baseline(baseline, BINARY, layout).await);
                }
                let mut targets = Vec::new();
                for mut cluster in clusters {
                    cluster.spawn_nodes(nodes).await;
                    targets.push(Target::Own(Box::new(cluster)));
                }
                measure(&mut targets, kind).await;
                for target in targets {
                    target.end().await;
                }
            }
        }
    });
}

/// The measurements of one target, a value for each interval.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    medians: Vec<Duration>,
    p99s: Vec<Duration>,
    costs: Vec<f64>,
}

/// Measures targets in turns. The first one is this build, and the other is its baseline.
async fn measure(targets: &mut [Target], kind: Kind) {
    let (count, in_flight) = (size("COUNT", 10), size("IN_FLIGHT", 32));
    let length = Duration::from_secs(size("SECONDS", 6));
    let intervals = size("STRETCHES", INTERVALS);
    for target in targets.iter_mut() {
        target.set_kind(kind);
        target.stream(&format!("{kind:?}-warm-up"), count, in_flight, length / 2).await;
    }
    let mut cores = Cores::default();
    cores.sample();
    let mut measured: Vec<Measured> = targets.iter().map(|_| Measured::default()).collect();
    for interval in 0..intervals {
        progress("intervals", interval, intervals);
        for (target, measured) in targets.iter_mut().zip(&mut measured) {
            let before = target.processor_time();
            let streamed = target.stream(&format!("{kind:?}-{interval}"), count, in_flight, length).await;
            let used = target.processor_time().zip(before).map(|(after, before)| after - before);
            measured.rates.push(streamed.rate());
            let Streamed { times, .. } = streamed;
            let placed = times.len() as u64 * count;
            measured.costs.extend(used.map(|used| used.as_secs_f64() * 1e3 / placed as f64));
            measured.medians.extend(percentile(times.clone(), 50));
            measured.p99s.extend(percentile(times, 99));
            cores.sample();
        }
    }
    progress("intervals", intervals, intervals);
    let Some((ours, baselines)) = measured.split_first() else { return };
    print(ours, kind, count, in_flight);
    for baseline in baselines {
        compare(ours, baseline);
    }
    cores.print();
}

fn print(measured: &Measured, kind: Kind, count: u64, in_flight: usize) {
    let Measured { rates, medians, p99s, costs } = measured;
    let what = match kind {
        Kind::Plain => format!("jobs of {count}, {in_flight} in flight: placed (1/s)"),
        Kind::Deployed => "the same with deployments: placed (1/s)".to_owned(),
    };
    let rate = Line::of(what, rates.clone());
    let p99 = Line::millis("  each, p99 (ms)", p99s);
    let cost =
        (!costs.is_empty()).then(|| Line::of("  processor seconds for 1,000 placements", costs.clone()));
    let (rate, p99, cost) = match kind {
        Kind::Plain => (
            rate.at_least(1_500.0, 5_000.0).reference("39–46"),
            p99.at_most(100.0, 25.0).reference("1,000"),
            cost.map(|cost| cost.at_most(0.32, None).reference("3.2")),
        ),
        // The limits hold for nodes that report only that their allocations run.
        Kind::Deployed => (rate, p99, cost),
    };
    rate.print();
    Line::millis("  each, p50 (ms)", medians).print();
    p99.print();
    if let Some(cost) = cost {
        cost.print();
    }
}

/// Prints the ratios of this build to the baseline, interval by interval.
fn compare(ours: &Measured, baseline: &Measured) {
    let ratios =
        |ours: &[f64], others: &[f64]| ours.iter().zip(others).map(|(ours, other)| ours / other).collect();
    Line::of("  AGAINST: placed (1/s)", baseline.rates.clone()).print();
    Line::of("  this build, ratio of jobs per second", ratios(&ours.rates, &baseline.rates)).print();
    Line::of("  this build, ratio of processor seconds", ratios(&ours.costs, &baseline.costs)).print();
}
