//! No acknowledged change may be lost when a process is killed while jobs are registered, changed, stopped and purged.
//! Everything that was requested must come to run, nothing may run twice, and no running task may stop.
//!
//! Each service in turn, PostgreSQL with all its children, and nats-server are killed by SIGKILL. With `VICTIM` in the
//! environment, only that one is killed. If a service has two processes of which one is active, both are killed one
//! after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt as _;
use tests::harness::{Cluster, invariants};

use crate::stream::StreamStats;
use crate::world::{AGENTS, PROCESSES, RoundResult, World};
use crate::{BINARY, rounds, seed};

/// The processes that are killed in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// Both processes of a service of which one is active.
    Both(&'static str),
    /// One of several processes.
    OneOf(&'static [&'static str]),
    Postgres,
    Nats,
}

const VICTIMS: [Victim; 9] = [
    Victim::Both("plan-applier"),
    Victim::Both("eval-broker"),
    Victim::Both("node-tracker"),
    Victim::Both("deployment-watcher"),
    Victim::OneOf(&["scheduler@1", "scheduler@2", "scheduler@3"]),
    Victim::OneOf(&["api", "api@2"]),
    Victim::OneOf(&AGENTS),
    Victim::Postgres,
    Victim::Nats,
];

impl Victim {
    /// Whether `VICTIM` names this one, or none.
    fn is_selected(self) -> bool {
        std::env::var("VICTIM").ok().is_none_or(|name| name.is_empty() || name == self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Both(service) => service,
            Self::OneOf(names) => names[0].split('@').next().expect("split yields at least one item"),
            Self::Postgres => "postgres",
            Self::Nats => "nats-server",
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_whatever_is_killed() {
    let seed = seed();
    let cluster = Cluster::start_processes(BINARY, &World::environment(), &PROCESSES).await;
    let mut world = World::begin(cluster, seed).await;
    let mut totals = BTreeMap::<Victim, Totals>::new();
    let rounds = rounds().unwrap_or(1);
    let victims: Vec<Victim> = VICTIMS.into_iter().filter(|victim| victim.is_selected()).collect();
    for round in 1..=rounds {
        for victim in victims.iter().copied() {
            let result = play(&mut world, victim).await;
            println!(
                "{round}/{rounds} {:<13} {:>4} writes, {:>4} retries, silent for {:.1} s, settled after {:.1} s",
                victim.name(),
                result.stats.acknowledged,
                result.stats.failed,
                result.stats.silence.as_secs_f64(),
                result.settled.as_secs_f64(),
            );
            totals.entry(victim).or_default().add(result);
        }
    }
    println!(
        "\n{:<13} {:>6} {:>7} {:>6} {:>9} {:>9}",
        "killed", "rounds", "writes", "retries", "silent s", "settled s"
    );
    for victim in victims {
        let Totals { rounds, stats: StreamStats { acknowledged, failed, silence }, settled } =
            totals[&victim];
        let (silence, settled) = (silence.as_secs_f64(), settled.as_secs_f64());
        println!(
            "{:<13} {rounds:>6} {acknowledged:>7} {failed:>6} {silence:>9.1} {settled:>9.1}",
            victim.name()
        );
    }
    invariants::assert_rebuild_agrees(&world.cluster).await;
    println!("Times are maxima. {} change sets were checked.", world.history.state().index());
}

/// The results of all rounds with one victim.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    rounds: usize,
    stats: StreamStats,
    settled: Duration,
}

impl Totals {
    fn add(&mut self, result: RoundResult) {
        self.rounds += 1;
        self.stats.acknowledged += result.stats.acknowledged;
        self.stats.failed += result.stats.failed;
        self.stats.silence = self.stats.silence.max(result.stats.silence);
        self.settled = self.settled.max(result.settled);
    }
}

/// Kills the victim while the stream runs, and checks that everything is as acknowledged.
async fn play(world: &mut World, victim: Victim) -> RoundResult {
    let running = world.start_stream().await;
    match victim {
        Victim::Both(service) => {
            for name in [service.to_owned(), format!("{service}@2")] {
                world.cluster.kill9(&name);
                world.wait_for_writes(&running).await;
                world.cluster.spawn_connected(&name).await;
            }
        }
        Victim::OneOf(names) => {
            let name = names[world.rng.random_range(0..names.len())];
            world.cluster.kill9(name);
            world.wait_for_writes(&running).await;
            world.cluster.spawn_connected(name).await;
        }
        Victim::Postgres => {
            world.cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
            world.cluster.postgres.restart().await.expect("PostgreSQL starts again");
        }
        Victim::Nats => {
            world.cluster.nats.kill9().await.expect("nats-server can be killed");
            world.cluster.nats.restart().await.expect("nats-server starts again");
        }
    }
    world.finish_stream(running).await
}
