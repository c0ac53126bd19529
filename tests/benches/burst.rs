//! A burst: one job of 10,000 on 10,000 simulated nodes, from `job run` to the moment at which its plan is durable; and
//! how long one small job takes where nothing else happens.
//!
//! Every service is a process of its own; PostgreSQL and NATS are private and on the same machine, commits go to the
//! disk. Whoever is told of a change set on the feed knows that it is durable: an observer that follows from the first
//! one takes the times. A small job is two commits, so what the disk takes for one is shown beside it. `NODES`, `COUNT`,
//! `ROUNDS` and `SMALL` change the sizes, `BINARY` measures another build.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::io::Write as _;
use std::time::{Duration, Instant};

use tests::benched::table::{head, line};
use tests::benched::{Benched, Placed};

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const PROCESSES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system has threads to give").block_on(run());
}

async fn run() {
    let [nodes, count, rounds, small] = [("NODES", 10_000), ("COUNT", 10_000), ("ROUNDS", 5), ("SMALL", 100)]
        .map(|(name, usual)| {
            std::env::var(name).map_or(usual, |text| text.parse().expect("a size is a number"))
        });
    let mut cluster = Benched::start(BINARY, &PROCESSES).await;
    println!("burst: {nodes} simulated nodes, each service a process of its own, durable commits\n");
    println!("{}", head());
    println!("{}", line("8 KB written and flushed to the disk (ms)", flushes(), "", ""));

    let began = Instant::now();
    let ready = cluster.spawn_nodes(nodes).await;
    println!("{}", line("nodes registered and ready, all (ms)", vec![ready - began], "", ""));

    // Whatever is done for the first time only is done then.
    cluster.place("warm-up", 1, Instant::now()).await;
    let small: Vec<Placed> = placed(&mut cluster, "small", small, 1).await;
    let large: Vec<Placed> = placed(&mut cluster, "large", rounds, count).await;
    let registered = small.iter().map(|job| job.registered).collect();
    println!("{}", line("a small job: registered (ms)", registered, "", ""));
    // Half of them in 5 ms, all but a hundredth in 20 ms.
    println!("{}", line("  placed", small.iter().map(|job| job.placed).collect(), "5, 20", "1.5"));
    let what = format!("one job of {count}: registered (ms)");
    println!("{}", line(&what, large.iter().map(|job| job.registered).collect(), "", ""));
    // 200 ms are the first goal, 100 ms what a release must keep.
    println!(
        "{}",
        line("  placed, all of it", large.iter().map(|job| job.placed).collect(), "200, 100", "10")
    );
    let running = large.iter().map(|job| job.running).collect();
    println!("{}", line("  reported running, all of it", running, "", ""));
}

/// Registers jobs one after the other.
async fn placed(cluster: &mut Benched, name: &str, rounds: u64, count: u64) -> Vec<Placed> {
    let mut placed = Vec::new();
    for round in 0..rounds {
        placed.push(cluster.place(&format!("{name}-{round}"), count, Instant::now()).await);
    }
    placed
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
