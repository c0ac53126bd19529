//! kill -9 of each service in turn: how long it takes until a new job is placed again, and runs on simulated nodes.
//!
//! Every service is a process of its own, and there are two of each; of those of which one works, the one that does is
//! killed. PostgreSQL and NATS are private and on the same machine; they have no second, so that their rows hold the
//! time in which they start again. A job is asked for in the moment after the kill, again and again until it is taken.
//! `ROUNDS` and `NODES` change the sizes, `ALLOCS` has so many allocations run there before, `BINARY` measures another
//! build.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::time::{Duration, Instant};

use tests::benched::Benched;
use tests::benched::table::{head, line};

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const SERVICES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// How many allocations a job of those has that are there before.
const ALLOCS_OF_JOB: u64 = 10_000;
/// What must hold, and what should, in milliseconds.
const HOLD: &str = "4000";
const AIM: &str = "1000";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system has threads to give").block_on(run());
}

async fn run() {
    let [rounds, nodes, allocs] = [("ROUNDS", 10), ("NODES", 5_000), ("ALLOCS", 0)].map(|(name, usual)| {
        std::env::var(name).map_or(usual, |text| text.parse::<u64>().expect("a size is a number"))
    });
    let second = |service: &str| format!("{service}@2");
    let names: Vec<String> =
        SERVICES.into_iter().flat_map(|service| [service.to_owned(), second(service)]).collect();
    let mut cluster = Benched::start(BINARY, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    cluster.spawn_nodes(nodes).await;
    for job in 0..allocs / ALLOCS_OF_JOB {
        cluster.place(&format!("before-{job}"), ALLOCS_OF_JOB, Instant::now()).await;
    }
    println!("failover: {nodes} simulated nodes, {allocs} allocations, two processes of each service\n");
    println!("{}", head());

    for service in SERVICES {
        let mut times = Times::default();
        // Whichever was active: after the first kill, which is not counted, it is the second.
        let turns = [service.to_owned(), second(service)].into_iter().cycle();
        for (round, name) in (0..=rounds).zip(turns) {
            let began = Instant::now();
            cluster.kill9(&name);
            times.note(&mut cluster, service, round, began).await;
            cluster.spawn(&name);
            cluster.until_ready(&name).await;
        }
        times.print(service, HOLD, AIM);
    }
    let mut times = Times::default();
    for round in 0..=rounds {
        let began = Instant::now();
        cluster.nats.kill9().await.expect("nats-server can be killed");
        cluster.nats.restart().await.expect("nats-server starts again");
        times.note(&mut cluster, "nats-server", round, began).await;
    }
    times.print("nats-server, started again", "", "");
    let mut times = Times::default();
    for round in 0..=rounds {
        let began = Instant::now();
        cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
        cluster.postgres.restart().await.expect("PostgreSQL starts again");
        times.note(&mut cluster, "postgres", round, began).await;
    }
    times.print("PostgreSQL, started again", "", "");
}

/// How long after each kill the next job was placed, and ran.
#[derive(Default)]
struct Times {
    placed: Vec<Duration>,
    running: Vec<Duration>,
}

impl Times {
    /// Has a job placed; the first round is not counted.
    async fn note(&mut self, cluster: &mut Benched, what: &str, round: u64, began: Instant) {
        let placed = cluster.place(&format!("after-{what}-{round}"), 1, began).await;
        if round > 0 {
            self.placed.push(placed.placed);
            self.running.push(placed.running);
        }
    }

    fn print(self, what: &str, hold: &str, aim: &str) {
        println!("{}", line(&format!("kill -9 of {what}: placing again (ms)"), self.placed, hold, aim));
        println!("{}", line("  and running, which takes a second", self.running, "", ""));
    }
}
