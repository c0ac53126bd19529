//! A burst: one job of 10,000 on 10,000 simulated nodes, from `job run` to the moment at which its plan is durable; and
//! how long one small job takes where nothing else happens.
//!
//! Every service is a process of its own; PostgreSQL and NATS are private and on the same machine, commits go to the
//! disk. Whoever is told of a change set on the feed knows that it is durable: an observer that follows from the first
//! one takes the times. A small job is two commits, so what the disk takes for one is shown beside it. `NODES`, `COUNT`,
//! `ROUNDS` and `SMALL` change the sizes, `BINARY` measures another build.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Bus, Requests};
use model::change::ChangeSet;
use model::{Index, JobKey};
use private_servers::{Nats, Postgres, PostgresOptions};
use serde_json::{Value, json};
use state::State;
use store::{Database, LogRow, Tail};
use wire::feed::Changes;
use wire::{Subject, Wire as _};

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of the log that are read at once where the feed has lost something.
const PAGE_BYTES: usize = 8 << 20;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system has threads to give").block_on(run());
}

async fn run() {
    let [nodes, count, rounds, small] = [("NODES", 10_000), ("COUNT", 10_000), ("ROUNDS", 5), ("SMALL", 100)]
        .map(|(name, usual)| {
            std::env::var(name).map_or(usual, |text| text.parse().expect("a size is a number"))
        });
    let mut cluster = Cluster::start().await;
    println!("burst: {nodes} simulated nodes, each service a process of its own, durable commits\n");
    header();
    line("8 KB written and flushed to the disk (ms)", flushes(), "", "");

    let began = Instant::now();
    cluster.spawn(&["sim-nodes", "--count", &nodes.to_string()]);
    let all_ready =
        |state: &State| state.node_count() as u64 == nodes && state.nodes().all(|node| node.is_ready());
    let ready = cluster.observer.until("all nodes are ready", all_ready).await;
    line("nodes registered and ready, all (ms)", vec![ready - began], "", "");

    // Whatever is done for the first time only is done then.
    cluster.place("warm-up", 1).await;
    let small: Vec<Placed> = placed(&mut cluster, "small", small, 1).await;
    let large: Vec<Placed> = placed(&mut cluster, "large", rounds, count).await;
    line("a small job: registered (ms)", small.iter().map(|job| job.registered).collect(), "", "");
    // Half of them in 5 ms, all but a hundredth in 20 ms.
    line("  placed", small.iter().map(|job| job.placed).collect(), "5, 20", "1.5");
    let what = format!("one job of {count}: registered (ms)");
    line(&what, large.iter().map(|job| job.registered).collect(), "", "");
    // 200 ms are the first goal, 100 ms what a release must keep.
    line("  placed, all of it", large.iter().map(|job| job.placed).collect(), "200, 100", "10");
    line("  reported running, all of it", large.iter().map(|job| job.running).collect(), "", "");
}

/// Registers jobs one after the other.
async fn placed(cluster: &mut Cluster, name: &str, rounds: u64, count: u64) -> Vec<Placed> {
    let mut placed = Vec::new();
    for round in 0..rounds {
        placed.push(cluster.place(&format!("{name}-{round}"), count).await);
    }
    placed
}

/// How long a job took, from the moment its registration was sent.
struct Placed {
    /// Until the job was durable.
    registered: Duration,
    /// Until the last of its allocations was.
    placed: Duration,
    /// Until all of them were reported to run.
    running: Duration,
}

/// A running cluster without nodes. Everything is gone when it is dropped.
struct Cluster {
    processes: Vec<Child>,
    nats: Nats,
    postgres: Postgres,
    api: String,
    client: reqwest::Client,
    observer: Observer,
}

impl Cluster {
    async fn start() -> Self {
        let (postgres, nats) =
            tokio::try_join!(Postgres::temporary_with(PostgresOptions::default()), Nats::temporary())
                .expect("the servers start");
        let address = nats.url().parse().expect("a URL of ours");
        let bus = Bus::connect(&bus::Args { servers: vec![address], credentials: None }, "observer").await;
        let bus = bus.expect("nats-server is there");
        let feed = bus.serve(Subject::Changes.to_string()).await.expect("the feed can be listened to");

        let http = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let http = http.expect("a port is free").to_string();
        let args = store::Args {
            database_url: postgres.url(),
            database_wait_secs: PATIENCE.as_secs() as u32,
            applier_lease_ms: 3_000,
        };
        let mut processes = Vec::new();
        for service in ["plan-applier", "eval-broker", "node-tracker", "scheduler"] {
            processes.push(process(&nats, &postgres, &[service]));
        }
        processes.push(process(&nats, &postgres, &["api", "--http-addr", &http]));
        let database = Database::connect(&args).await.expect("the applier makes the schema");
        let observer = Observer { feed, database, state: State::default() };
        let client = reqwest::Client::new();
        let cluster = Self { processes, nats, postgres, api: format!("http://{http}"), client, observer };
        let began = Instant::now();
        while cluster.client.get(format!("{}/v1/jobs", cluster.api)).send().await.is_err() {
            assert!(began.elapsed() < PATIENCE, "in vain waited for the API");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cluster
    }

    fn spawn(&mut self, arguments: &[&str]) {
        self.processes.push(process(&self.nats, &self.postgres, arguments));
    }

    /// Registers a job and waits until all of it runs.
    async fn place(&mut self, id: &str, count: u64) -> Placed {
        let key = JobKey::new("default", id);
        let request = self.client.put(format!("{}/v1/jobs", self.api)).json(&job(id, count));
        let sent = Instant::now();
        let mut answer = tokio::spawn(answered(request));
        let registered = tokio::select! {
            registered = self.observer.until("the job is registered", |state| state.job(&key).is_some()) => registered,
            Ok(Err(refused)) = &mut answer => panic!("the job is refused: {refused}"),
        };
        let all = |state: &State| state.live_alloc_count(&key) as u64 == count;
        let placed = self.observer.until("it is placed", all).await;
        let all_run = |state: &State| {
            let summary = state.job_summary(&key);
            summary
                .is_some_and(|summary| summary.groups.values().all(|group| u64::from(group.running) == count))
        };
        let running = self.observer.until("it runs", all_run).await;
        Placed { registered: registered - sent, placed: placed - sent, running: running - sent }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn answered(request: reqwest::RequestBuilder) -> Result<(), String> {
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let is_good = answer.status().is_success();
    let text = answer.text().await.map_err(|error| error.to_string())?;
    if is_good { Ok(()) } else { Err(text) }
}

fn process(nats: &Nats, postgres: &Postgres, arguments: &[&str]) -> Child {
    let binary = std::env::var("BINARY");
    let mut command = Command::new(binary.as_deref().unwrap_or(env!("CARGO_BIN_EXE_drover-under-test")));
    command.args(arguments).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env("DROVER_LOG_LEVEL", "warn");
    command.env("DROVER_NATS_URL", nats.url()).env("DROVER_DATABASE_URL", postgres.url());
    command.stdin(Stdio::null()).spawn().expect("the binary is there")
}

fn job(id: &str, count: u64) -> Value {
    let task = json!({
        "Name": "task",
        "Driver": "mock_driver",
        "Config": { "run_for": "1h" },
        "Resources": { "CPU": 100, "MemoryMB": 64 },
    });
    let group = json!({ "Name": "group", "Count": count, "Tasks": [task] });
    json!({ "Job": { "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"], "TaskGroups": [group] } })
}

/// Follows the feed from its beginning.
struct Observer {
    feed: Requests,
    database: Database,
    state: State,
}

impl Observer {
    /// Waits until something is so in the state, and tells when the message came by which it became so.
    async fn until(&mut self, what: &str, is_so: impl Fn(&State) -> bool) -> Instant {
        let mut came = Instant::now();
        while !is_so(&self.state) {
            let request = tokio::time::timeout(PATIENCE, self.feed.next()).await;
            let request = request.unwrap_or_else(|_| panic!("in vain waited until {what}"));
            came = Instant::now();
            let changes = request.expect("NATS is there").body().expect("a message of the feed");
            self.take(changes).await;
        }
        came
    }

    async fn take(&mut self, changes: Changes) {
        for (index, set) in (changes.first.0..).map(Index).zip(changes.sets) {
            match set {
                _ if index <= self.state.index() => {}
                Some(set) if index == self.state.index().next() => self.apply(&set),
                _ => self.catch_up(index).await,
            }
        }
    }

    /// Reads from the log what the feed has lost, or was too small for.
    async fn catch_up(&mut self, target: Index) {
        while self.state.index() < target {
            let tail = self.database.changes_after(self.state.index(), PAGE_BYTES).await;
            let Tail::Page { rows, .. } = tail.expect("the log can be read") else {
                panic!("the log was trimmed while it was followed")
            };
            rows.iter().for_each(|LogRow { bytes, .. }| self.apply(bytes));
        }
    }

    fn apply(&mut self, bytes: &[u8]) {
        let set = wire::decode::<ChangeSet>(ChangeSet::KIND, ChangeSet::VERSION, bytes);
        let set = Arc::new(set.expect("a change set of the log"));
        self.state.apply(&set).expect("the log fits together");
    }
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

fn header() {
    let [median, min, p99, max, hold, aim] = ["median", "min", "p99", "max", "hold", "aim"];
    println!("{:<44} {median:>8} {min:>8} {p99:>8} {max:>8} {hold:>9} {aim:>5}", "");
}

fn line(what: &str, mut times: Vec<Duration>, hold: &str, aim: &str) {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
    let millis = |time: Option<&Duration>| {
        time.map_or_else(String::new, |time| format!("{:.1}", time.as_secs_f64() * 1e3))
    };
    let [median, min, p99, max] = [at(50), at(0), at(99), at(100)].map(millis);
    println!("{what:<44} {median:>8} {min:>8} {p99:>8} {max:>8} {hold:>9} {aim:>5}");
}
