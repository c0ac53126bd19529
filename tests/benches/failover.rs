//! `kill -9` of each service in turn: how long it takes until a new job is placed again, and runs on simulated nodes.
//!
//! Every service has two processes. If only one of them is active, the benchmark kills that one. PostgreSQL and NATS
//! are private, on the same machine, and have no standby, so their rows include the time of their restart. A job is
//! registered right after the kill, and the registration is repeated until it is accepted. `ROUNDS` and `NODES` change
//! the sizes, `ALLOCS` sets how many allocations run beforehand, and `BINARY` measures another build.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use tests::bench::table::{Line, section};
use tests::bench::{BenchCluster, run, size};

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const SERVICES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// Number of allocations of each job that runs beforehand.
const ALLOCS_OF_JOB: u64 = 10_000;
/// The limit and the aim, in milliseconds.
const LIMIT: f64 = 4_000.0;
const AIM: f64 = 1_000.0;

fn main() {
    run(measure());
}

async fn measure() {
    let [rounds, nodes, allocs] =
        [("ROUNDS", 10), ("NODES", 5_000), ("ALLOCS", 0)].map(|(name, default)| size(name, default));
    let second = |service: &str| format!("{service}@2");
    let names: Vec<String> =
        SERVICES.into_iter().flat_map(|service| [service.to_owned(), second(service)]).collect();
    let mut cluster =
        BenchCluster::start(BINARY, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    cluster.spawn_nodes(nodes).await;
    for job in 0..allocs / ALLOCS_OF_JOB {
        cluster.place(&format!("before-{job}"), ALLOCS_OF_JOB, Instant::now()).await;
    }
    section(&format!("kill -9, {nodes} nodes, {allocs} allocations, two processes of each service"));

    for service in SERVICES {
        let mut times = Times::default();
        // After the first kill, which is not counted, the second process is active.
        let turns = [service.to_owned(), second(service)].into_iter().cycle();
        for (round, name) in (0..=rounds).zip(turns) {
            let began = Instant::now();
            cluster.kill9(&name);
            times.note(&mut cluster, service, round, began).await;
            cluster.spawn(&name);
            cluster.wait_until_ready(&name).await;
        }
        times.print(service, true);
    }
    let mut times = Times::default();
    for round in 0..=rounds {
        let began = Instant::now();
        cluster.nats.kill9().await.expect("nats-server can be killed");
        cluster.nats.restart().await.expect("nats-server starts again");
        times.note(&mut cluster, "nats-server", round, began).await;
    }
    times.print("nats-server, started again", false);
    let mut times = Times::default();
    for round in 0..=rounds {
        let began = Instant::now();
        cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
        cluster.postgres.restart().await.expect("PostgreSQL starts again");
        times.note(&mut cluster, "postgres", round, began).await;
    }
    times.print("PostgreSQL, started again", false);
}

/// How long after each kill the next job was placed, and ran.
#[derive(Default)]
struct Times {
    placed: Vec<Duration>,
    running: Vec<Duration>,
}

impl Times {
    /// Places a job and records its times. The first round is not counted.
    async fn note(&mut self, cluster: &mut BenchCluster, what: &str, round: u64, began: Instant) {
        let placed = cluster.place(&format!("after-{what}-{round}"), 1, began).await;
        if round > 0 {
            self.placed.push(placed.placed);
            self.running.push(placed.running);
        }
    }

    fn print(self, what: &str, is_limited: bool) {
        let placed = Line::millis(format!("kill -9 of {what}: placing again (ms)"), &self.placed);
        if is_limited { placed.at_most(LIMIT, AIM) } else { placed }.print();
        Line::millis("  and running, which takes a second", &self.running).print();
    }
}
