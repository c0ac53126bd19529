//! No acknowledged change may be lost when a process is killed while jobs are registered, changed, stopped and purged.
//! Everything that was requested must come to run, nothing may run twice, and no running task may stop.
//!
//! Each service in turn, PostgreSQL with all its children, and nats-server are killed by SIGKILL. With `VICTIM` in the
//! environment, only that one is killed. If a service has two processes of which one is active, both are killed one
//! after the other.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use telemetry::clock;
use tests::harness::invariants::{self, History};
use tests::harness::steady::SteadyTasks;
use tests::harness::{Cluster, wait_until};

use crate::stream::{ALL_MEMORY_MB, MEMORY_MB_MAX, RunningStream, Stream, StreamStats};
use crate::{BINARY, rounds, seed};

const PROCESSES: [&str; 16] = [
    "plan-applier",
    "plan-applier@2",
    "eval-broker",
    "eval-broker@2",
    "node-tracker",
    "node-tracker@2",
    "deployment-watcher",
    "deployment-watcher@2",
    "scheduler@1",
    "scheduler@2",
    "scheduler@3",
    "api",
    "api@2",
    "agent@1",
    "agent@2",
    "agent@3",
];
const AGENTS: [&str; 3] = ["agent@1", "agent@2", "agent@3"];
/// How many writes must be acknowledged before the next step of a round.
const WRITES: usize = 20;
/// Memory of a node for the steady tasks, in MB, and the part that may remain unused.
const OTHER_MEMORY_MB: u32 = 10 + MEMORY_MB_MAX;

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
    let mut world = World::start(seed()).await;
    let mut totals = BTreeMap::<Victim, Totals>::new();
    let rounds = rounds().unwrap_or(1);
    let victims: Vec<Victim> = VICTIMS.into_iter().filter(|victim| victim.is_selected()).collect();
    for round in 1..=rounds {
        for victim in victims.iter().copied() {
            let result = world.round(victim).await;
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

/// The results of one round.
struct RoundResult {
    stats: StreamStats,
    settled: Duration,
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

struct World {
    cluster: Cluster,
    steady: SteadyTasks,
    history: History,
    /// `None` while the stream runs.
    stream: Option<Stream>,
    rng: StdRng,
}

impl World {
    async fn start(seed: u64) -> Self {
        // All jobs fit, but not onto one node.
        let memory = ALL_MEMORY_MB / AGENTS.len() as u32 + OTHER_MEMORY_MB;
        let sizes =
            [("DROVER_MEMORY_TOTAL_MB", memory.to_string()), ("DROVER_CPU_TOTAL_COMPUTE", "4000".into())];
        let cluster = Cluster::start_processes(BINARY, &sizes, &PROCESSES).await;
        let steady = SteadyTasks::start(&cluster, &AGENTS).await;
        let history = History::new(&cluster).await;
        let stream = Some(Stream::new(&cluster.apis(), seed));
        Self { cluster, steady, history, stream, rng: StdRng::seed_from_u64(seed) }
    }

    /// Kills the victim while the stream runs, waits until the cluster has settled, and checks that everything is as
    /// acknowledged.
    async fn round(&mut self, victim: Victim) -> RoundResult {
        let running = self.stream.take().expect("the stream does not run between the rounds").start();
        self.wait_for_writes(&running).await;
        match victim {
            Victim::Both(service) => {
                for name in [service.to_owned(), format!("{service}@2")] {
                    self.cluster.kill9(&name);
                    self.wait_for_writes(&running).await;
                    self.cluster.spawn_connected(&name).await;
                }
            }
            Victim::OneOf(names) => {
                let name = names[self.rng.random_range(0..names.len())];
                self.cluster.kill9(name);
                self.wait_for_writes(&running).await;
                self.cluster.spawn_connected(name).await;
            }
            Victim::Postgres => {
                self.cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
                self.cluster.postgres.restart().await.expect("PostgreSQL starts again");
            }
            Victim::Nats => {
                self.cluster.nats.kill9().await.expect("nats-server can be killed");
                self.cluster.nats.restart().await.expect("nats-server starts again");
            }
        }
        self.wait_for_writes(&running).await;
        let (stream, stats) = running.finish().await;
        let settled = self.settle(&stream).await;
        self.stream = Some(stream);
        self.history.assert_one_writer(&self.cluster);
        self.history.assert_tables(&self.cluster).await;
        invariants::assert_apis_agree_with_sql(&self.cluster).await;
        self.steady.assert_never_stopped(&self.cluster).await;
        self.cluster.assert_alive();
        RoundResult { stats, settled }
    }

    /// Waits until some more writes are acknowledged.
    async fn wait_for_writes(&self, running: &RunningStream) {
        let enough = running.acknowledged() + WRITES;
        let is_enough = async |_: &Cluster| (running.acknowledged() >= enough).then_some(());
        self.cluster.wait_until("more writes are acknowledged", is_enough).await;
    }

    /// Waits until everything is as acknowledged, and checks all change sets up to then. Returns how long that took.
    async fn settle(&mut self, stream: &Stream) -> Duration {
        let begun = clock::monotonic();
        let difference = Mutex::new(String::new());
        let history = tokio::sync::Mutex::new(&mut self.history);
        let has_settled = async || {
            let mut history = history.lock().await;
            history.follow().await;
            match stream.check_converged(history.state()) {
                Ok(()) => Some(()),
                Err(reason) => {
                    *difference.lock().expect("no thread panics while it holds the lock") = reason;
                    None
                }
            }
        };
        let explain = || {
            let difference = difference.lock().expect("no thread panics while it holds the lock");
            format!("{difference}\n{}", self.cluster.log_tails())
        };
        wait_until("everything is as acknowledged", has_settled, explain).await;
        begun.elapsed()
    }
}
