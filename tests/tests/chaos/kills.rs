//! Is anything that was acknowledged lost when a process is killed while jobs are registered, changed, stopped and purged?
//! Does everything that was asked for come to run, nothing twice, and nothing that runs stop?
//!
//! Each service in turn (with `VICTIM` in the environment, only that one), PostgreSQL with all its children, and nats-server are killed without warning. Of a doubled
//! service both are, one after the other, so that the active one is among them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use telemetry::clock;
use tests::harness::invariants::{self, History};
use tests::harness::{Cluster, wait_until};

use crate::steady::Steady;
use crate::stream::{ALL_MEMORY_MB, Flowed, Flowing, MEMORY_MB_MAX, Stream};
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
/// How many writes are acknowledged before a kill, and after it, before it is enough.
const WRITES: usize = 20;
/// What the tasks that are always there take of each node, in MB, and what may be left over on it.
const BESIDE_MB: u32 = 10 + MEMORY_MB_MAX;

/// What is killed in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// Both processes of a service of which one works.
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
    /// Whether it is the one to look at, where one is named.
    fn is_asked_for(self) -> bool {
        std::env::var("VICTIM").ok().is_none_or(|name| name.is_empty() || name == self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Both(service) => service,
            Self::OneOf(names) => names[0].split('@').next().expect("a text has a first part"),
            Self::Postgres => "postgres",
            Self::Nats => "nats-server",
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_whatever_is_killed() {
    let mut world = World::start(seed()).await;
    let mut sums = BTreeMap::<Victim, Sum>::new();
    let rounds = rounds().unwrap_or(1);
    let victims: Vec<Victim> = VICTIMS.into_iter().filter(|victim| victim.is_asked_for()).collect();
    for round in 1..=rounds {
        for victim in victims.iter().copied() {
            let came = world.round(victim).await;
            println!(
                "{round}/{rounds} {:<13} {:>4} writes, {:>4} again, silent for {:.1} s, as it should be after {:.1} s",
                victim.name(),
                came.flowed.acknowledged,
                came.flowed.failed,
                came.flowed.silence.as_secs_f64(),
                came.settled.as_secs_f64(),
            );
            sums.entry(victim).or_default().add(came);
        }
    }
    println!(
        "\n{:<13} {:>6} {:>7} {:>6} {:>9} {:>9}",
        "killed", "rounds", "writes", "again", "silent s", "settled s"
    );
    for victim in victims {
        let Sum { rounds, flowed: Flowed { acknowledged, failed, silence }, settled } = sums[&victim];
        let (silence, settled) = (silence.as_secs_f64(), settled.as_secs_f64());
        println!(
            "{:<13} {rounds:>6} {acknowledged:>7} {failed:>6} {silence:>9.1} {settled:>9.1}",
            victim.name()
        );
    }
    invariants::assert_rebuild_agrees(&world.cluster).await;
    println!("Times are the longest. {} change sets, each looked at.", world.history.state().index());
}

/// What came of one round.
struct Came {
    flowed: Flowed,
    settled: Duration,
}

/// What came of all rounds with one victim.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    rounds: usize,
    flowed: Flowed,
    settled: Duration,
}

impl Sum {
    fn add(&mut self, came: Came) {
        self.rounds += 1;
        self.flowed.acknowledged += came.flowed.acknowledged;
        self.flowed.failed += came.flowed.failed;
        self.flowed.silence = self.flowed.silence.max(came.flowed.silence);
        self.settled = self.settled.max(came.settled);
    }
}

struct World {
    cluster: Cluster,
    steady: Steady,
    history: History,
    /// None while it flows.
    stream: Option<Stream>,
    chance: StdRng,
}

impl World {
    async fn start(seed: u64) -> Self {
        // All fits somehow, but not onto one node.
        let memory = ALL_MEMORY_MB / AGENTS.len() as u32 + BESIDE_MB;
        let sizes =
            [("DROVER_MEMORY_TOTAL_MB", memory.to_string()), ("DROVER_CPU_TOTAL_COMPUTE", "4000".into())];
        let cluster = Cluster::start_processes(BINARY, &sizes, &PROCESSES).await;
        let steady = Steady::start(&cluster, &AGENTS).await;
        let history = History::new(&cluster).await;
        let stream = Some(Stream::new(&cluster.apis(), seed));
        Self { cluster, steady, history, stream, chance: StdRng::seed_from_u64(seed) }
    }

    /// Kills while it flows, lets all come to rest, and looks whether everything is as it should be.
    async fn round(&mut self, victim: Victim) -> Came {
        let flowing = self.stream.take().expect("it rests between the rounds").flow();
        self.more(&flowing).await;
        match victim {
            Victim::Both(service) => {
                for name in [service.to_owned(), format!("{service}@2")] {
                    self.cluster.kill9(&name);
                    self.more(&flowing).await;
                    self.cluster.spawn_connected(&name).await;
                }
            }
            Victim::OneOf(names) => {
                let name = names[self.chance.random_range(0..names.len())];
                self.cluster.kill9(name);
                self.more(&flowing).await;
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
        self.more(&flowing).await;
        let (stream, flowed) = flowing.rest().await;
        let settled = self.settle(&stream).await;
        self.stream = Some(stream);
        self.history.assert_one_writer(&self.cluster);
        self.history.assert_tables(&self.cluster).await;
        invariants::assert_apis_agree_with_sql(&self.cluster).await;
        self.steady.assert_never_stopped(&self.cluster).await;
        self.cluster.assert_alive();
        Came { flowed, settled }
    }

    /// Waits until some more writes are acknowledged.
    async fn more(&self, flowing: &Flowing) {
        let enough = flowing.acknowledged() + WRITES;
        let is_enough = async |_: &Cluster| (flowing.acknowledged() >= enough).then_some(());
        self.cluster.wait_until("more is acknowledged", is_enough).await;
    }

    /// Waits until all is as it was acknowledged; looks at all change sets on the way there. How long that took.
    async fn settle(&mut self, stream: &Stream) -> Duration {
        let begun = clock::monotonic();
        let wrong = Mutex::new(String::new());
        let history = tokio::sync::Mutex::new(&mut self.history);
        let is_right = async || {
            let mut history = history.lock().await;
            history.follow().await;
            match stream.still_wanting(history.state()) {
                Ok(()) => Some(()),
                Err(why) => {
                    *wrong.lock().expect("nobody panics with it") = why;
                    None
                }
            }
        };
        let explain = || {
            let wrong = wrong.lock().expect("nobody panics with it");
            format!("{wrong}\n{}", self.cluster.log_tails())
        };
        wait_until("all is as it was acknowledged", is_right, explain).await;
        begun.elapsed()
    }
}
