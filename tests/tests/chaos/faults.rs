//! Faults of hosts and networks while jobs are registered, changed, stopped and purged: clocks jump, disks are full,
//! processes pause, packets are lost, all of them in one direction or some of them, and processes run another version.
//!
//! Each fault lasts for a moment, and is then undone. No acknowledged change may be lost, nothing may run twice, no
//! running task may stop, and once the stream of writes ends, every job must have its count again within [`TIMEOUT`].
//! No fault lasts longer than a node may be silent, because its tasks would rightly be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use rand::RngExt as _;
use store::roles::Role;
use telemetry::clock;
use tests::harness::network::{Direction, Link};
use tests::harness::{self, TIMEOUT, invariants, pause};

use crate::kinds::Kind;
use crate::means::Means;
use crate::world::{AGENTS, PROCESSES, World};
use crate::{rounds, seed};

/// How many faults happen in each round of `make chaos`, after which everything must settle: 20 rounds have 320.
const FAULTS_PER_ROUND: usize = 16;
/// How long a fault lasts, in milliseconds.
const FAULT_MS: std::ops::Range<u64> = 200..3_000;
/// By how much a clock jumps, in seconds. It must be less than the time for which the stream's tasks run.
const JUMP_SECS: std::ops::Range<i64> = 30..1_800;
/// The servers, among the names of processes.
const POSTGRES: &str = "postgres";
const NATS: &str = "nats-server";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_whatever_hosts_and_networks_do() {
    let seed = seed();
    let (means, cluster) = Means::start_cluster().await;
    let mut scene = Scene { world: World::begin(cluster, seed).await, means };
    let mut counts = BTreeMap::<Kind, usize>::new();
    let rounds = rounds();
    for round in 1..=rounds.unwrap_or(1) {
        let running = scene.world.start_stream().await;
        let kinds = match rounds {
            Some(_) => (0..FAULTS_PER_ROUND).map(|_| scene.choose_kind()).collect(),
            None => scene.means.kinds.clone(),
        };
        for kind in kinds {
            let what = scene.fault(kind).await;
            println!("{round} {}: {what}", kind.name());
            *counts.entry(kind).or_default() += 1;
            scene.world.wait_for_writes(&running).await;
        }
        let result = scene.world.finish_stream(running).await;
        println!(
            "{round}/{} {:>4} writes, {:>4} retries, silent for {:.1} s, settled after {:.1} s",
            rounds.unwrap_or(1),
            result.stats.acknowledged,
            result.stats.failed,
            result.stats.silence.as_secs_f64(),
            result.settled.as_secs_f64(),
        );
    }
    invariants::assert_rebuild_agrees(&scene.world.cluster).await;
    for (kind, count) in &counts {
        println!("{:<24} {count:>4}", kind.name());
    }
    let (faults, sets) = (counts.values().sum::<usize>(), scene.world.history.state().index());
    println!("SEED={seed}: {faults} faults. {sets} change sets were checked.");
}

/// The cluster, and what it has for faults. The disks go after the servers that use them.
struct Scene {
    world: World,
    means: Means,
}

impl Scene {
    fn choose_kind(&mut self) -> Kind {
        self.means.kinds[self.world.rng.random_range(0..self.means.kinds.len())]
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.world.rng.random_range(0..from.len())]
    }

    /// Lets something of a kind happen, and undoes it. Returns what happened.
    async fn fault(&mut self, kind: Kind) -> String {
        let lasting = Duration::from_millis(self.world.rng.random_range(FAULT_MS));
        let what = match kind {
            Kind::ClockJump => self.jump(lasting).await,
            Kind::PostgresDiskFull => self.fill_disk_of_postgres(lasting).await,
            Kind::NatsDiskFull => {
                let disk = self.means.nats_disk.as_ref().expect("the kind is possible");
                disk.fill();
                tokio::time::sleep(lasting).await;
                disk.free();
                NATS.to_owned()
            }
            Kind::AgentDiskFull => {
                let agent = self.choose(&AGENTS);
                let disk = self.world.cluster.placement(agent).disk.as_ref().expect("the kind is possible");
                disk.fill();
                tokio::time::sleep(lasting).await;
                disk.free();
                agent.to_owned()
            }
            Kind::Pause => self.pause(lasting).await,
            Kind::OneWayPartition => self.cut(lasting).await,
            Kind::PacketLoss => self.lose_packets(lasting).await,
            Kind::OtherVersion => self.run_other_version(lasting).await,
            Kind::Kill => {
                let name = self.choose(&PROCESSES);
                self.world.cluster.kill9(name);
                tokio::time::sleep(lasting).await;
                self.world.cluster.spawn_connected(name).await;
                name.to_owned()
            }
        };
        format!("{what} for {:.1} s", lasting.as_secs_f64())
    }

    /// The wall clock of a process jumps, and jumps back.
    async fn jump(&mut self, lasting: Duration) -> String {
        let name = self.choose(&PROCESSES);
        let by = self.world.rng.random_range(JUMP_SECS) * self.choose(&[1, -1]);
        let clock = self.world.cluster.placement(name).clock.as_ref().expect("the kind is possible");
        clock.set(by);
        tokio::time::sleep(lasting).await;
        clock.set(0);
        format!("{name} by {by} s")
    }

    /// PostgreSQL cannot write. It may have ended because of that, and is then started again as an operator would.
    async fn fill_disk_of_postgres(&mut self, lasting: Duration) -> String {
        let disk = self.means.postgres_disk.as_ref().expect("the kind is possible");
        disk.fill();
        tokio::time::sleep(lasting).await;
        disk.free();
        let (begun, postgres) = (clock::monotonic(), &mut self.world.cluster.postgres);
        let mut has_ended = false;
        while let Err(error) = harness::sql(postgres, "select 1") {
            assert!(begun.elapsed() < TIMEOUT, "PostgreSQL does not answer after its disk was full: {error}");
            if postgres.pid().is_none() {
                has_ended = true;
                postgres.restart().await.expect("PostgreSQL starts again");
            }
            pause().await;
        }
        format!("{POSTGRES}{}", if has_ended { ", which ended," } else { "" })
    }

    /// A process or a server is stopped, and goes on with its old view.
    async fn pause(&mut self, lasting: Duration) -> String {
        let choice = self.world.rng.random_range(0..PROCESSES.len() + 2);
        let cluster = &self.world.cluster;
        if let Some(name) = PROCESSES.get(choice) {
            cluster.signal(name, Signal::SIGSTOP);
            tokio::time::sleep(lasting).await;
            cluster.signal(name, Signal::SIGCONT);
            return (*name).to_owned();
        }
        let is_postgres = choice == PROCESSES.len();
        let paused = if is_postgres { cluster.postgres.pause() } else { cluster.nats.pause() };
        tokio::time::sleep(lasting).await;
        drop(paused);
        let name = if is_postgres { POSTGRES } else { NATS };
        name.to_owned()
    }

    /// Chooses a process and one of its links to a server.
    fn choose_link(&mut self) -> (&'static str, Link) {
        let name = self.choose(&PROCESSES);
        let service = name.split('@').next().unwrap_or(name);
        let has_database = Role::of_service(service).is_some();
        let link = if has_database { self.choose(&[Link::Nats, Link::Database]) } else { Link::Nats };
        (name, link)
    }

    /// All packets between a process and a server are lost in one direction.
    async fn cut(&mut self, lasting: Duration) -> String {
        let (name, link) = self.choose_link();
        let direction = self.choose(&[Direction::Out, Direction::In]);
        let network = self.world.cluster.placement(name).network.as_ref().expect("the kind is possible");
        network.cut(link, direction);
        tokio::time::sleep(lasting).await;
        network.mend(link, direction);
        format!("{name}, {link:?}, {direction:?}")
    }

    /// Some packets between a process and a server are lost, in both directions.
    async fn lose_packets(&mut self, lasting: Duration) -> String {
        let (name, link) = self.choose_link();
        let network = self.world.cluster.placement(name).network.as_ref().expect("the kind is possible");
        let loss = network.lose_packets(link).expect("the kind is possible");
        tokio::time::sleep(lasting).await;
        network.lose_none(link, loss);
        format!("{name}, {link:?}")
    }

    /// A process is replaced by one of the older binary, and that again by one of this one.
    async fn run_other_version(&mut self, lasting: Duration) -> String {
        let name = self.choose(&PROCESSES);
        for binary in [self.means.before.clone(), None] {
            let is_older = binary.is_some();
            self.world.cluster.kill9(name);
            self.world.cluster.placement(name).binary = binary;
            self.world.cluster.spawn_connected(name).await;
            if is_older {
                tokio::time::sleep(lasting).await;
            }
        }
        name.to_owned()
    }
}
