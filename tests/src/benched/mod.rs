//! A cluster as benchmarks want it: each service a process of its own, simulated nodes, durable commits, and an observer
//! at the change feed who takes the times. Everything is gone when it is dropped.

pub mod http;
mod observer;
pub mod table;
pub mod waiting;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::JobKey;
use model::alloc::GroupSummary;
use model::job::JobStatus;
use private_servers::{Nats, Postgres, PostgresOptions};
use serde_json::{Value, json};
use state::State;
use telemetry::clock;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use self::observer::Observer;

/// How long anything may take before the benchmark gives up.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait before something that failed is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The process of the simulated nodes.
const NODES: &str = "sim-nodes";
/// How many jobs are registered at once.
const REGISTERING: usize = 32;

/// What processes log: faults, and when the state is loaded, in which words.
const LOGS: &str = "warn,bus::feed=info";
const LOADED: &str = "loaded the state";

/// How long a job took.
#[derive(Debug, Clone, Copy)]
pub struct Placed {
    /// Until the job was durable.
    pub registered: Duration,
    /// Until the last of its allocations was.
    pub placed: Duration,
    /// Until all of them were reported to run.
    pub running: Duration,
}

/// A running cluster.
pub struct Benched {
    /// Its NATS.
    pub nats: Nats,
    /// Its database.
    pub postgres: Postgres,
    /// Who sees what becomes durable, and when.
    pub observer: Observer,
    binary: String,
    processes: BTreeMap<String, Child>,
    /// By the names of their processes.
    apis: BTreeMap<String, String>,
    client: reqwest::Client,
    /// What processes that are started from now on find in their environment.
    settings: BTreeMap<String, String>,
    /// What each process says, since it was started last.
    logs: TempDir,
}

impl Benched {
    /// Starts a process of `binary` for each name ([`Self::spawn`]), the plan applier's first, and waits for the first API.
    /// There are no nodes yet.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn start(binary: &str, names: &[&str]) -> Self {
        let (postgres, nats) =
            tokio::try_join!(Postgres::temporary_with(PostgresOptions::default()), Nats::temporary())
                .expect("the servers start");
        let observer = Observer::connect(&nats).await;
        let mut cluster = Self {
            nats,
            postgres,
            observer,
            binary: std::env::var("BINARY").unwrap_or_else(|_| binary.to_owned()),
            processes: BTreeMap::new(),
            apis: BTreeMap::new(),
            client: reqwest::Client::new(),
            settings: BTreeMap::new(),
            logs: tempfile::tempdir().expect("there is room for temporary files"),
        };
        names.iter().for_each(|name| cluster.spawn(name));
        cluster.observer.read_log(&cluster.postgres).await;
        let began = clock::monotonic();
        let api = cluster.apis.values().next().expect("there is an API").clone();
        while cluster.client.get(format!("{api}/v1/jobs")).send().await.is_err() {
            assert!(began.elapsed() < PATIENCE, "in vain waited for the API");
            sleep(RETRY).await;
        }
        cluster
    }

    /// Starts a process, or starts it again. Its name is a sub-command, with `@` and more where there are several.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn spawn(&mut self, name: &str) {
        let service = name.split('@').next().expect("a text has a first part");
        let mut arguments = vec![service.to_owned()];
        if service == "api" {
            let api =
                self.apis.entry(name.to_owned()).or_insert_with(|| format!("http://{}", free_address()));
            arguments.extend(["--http-addr".to_owned(), api.trim_start_matches("http://").to_owned()]);
        }
        self.spawn_as(name, &arguments);
    }

    /// Starts so many simulated nodes, and waits until all are ready. When the last of them was.
    ///
    /// # Panics
    /// If they do not become ready.
    pub async fn spawn_nodes(&mut self, count: u64) -> Instant {
        self.spawn_nodes_with(count, &[]).await
    }

    /// The same with more arguments.
    ///
    /// # Panics
    /// If they do not become ready.
    pub async fn spawn_nodes_with(&mut self, count: u64, more: &[&str]) -> Instant {
        let mut arguments = vec![NODES.to_owned(), "--count".to_owned(), count.to_string()];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        self.spawn_as(NODES, &arguments);
        self.until_all_ready(count).await
    }

    /// Waits until so many nodes are known, and all are ready. When the last of them was.
    ///
    /// # Panics
    /// If they do not become ready.
    pub async fn until_all_ready(&mut self, count: u64) -> Instant {
        let all_ready =
            |state: &State| state.node_count() as u64 == count && state.nodes().all(|node| node.is_ready());
        self.observer.until("all nodes are ready", all_ready).await
    }

    /// Has something befall the simulated nodes. When that was.
    ///
    /// # Panics
    /// If there are none.
    pub fn befall(&mut self, order: &str) -> Instant {
        let nodes = self.processes.get_mut(NODES).expect("there are simulated nodes");
        let input = nodes.stdin.as_mut().expect("their standard input is a pipe");
        let began = clock::monotonic();
        writeln!(input, "{order}").expect("they read it");
        began
    }

    /// Sets what processes that are started from now on find in their environment.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(name.to_owned(), value.to_owned());
    }

    /// How much of a processor a process has used so far.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn processor_time(&self, name: &str) -> Duration {
        processor_time(self.processes[name].id())
    }

    fn spawn_as(&mut self, name: &str, arguments: &[String]) {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env("DROVER_LOG_LEVEL", LOGS);
        command.stderr(File::create(self.log(name)).expect("there is room for logs"));
        command.env("DROVER_NATS_URL", self.nats.url()).env("DROVER_DATABASE_URL", self.postgres.url());
        command.envs(&self.settings);
        let child = command.stdin(Stdio::piped()).spawn().expect("the binary is there");
        self.processes.insert(name.to_owned(), child);
    }

    /// Waits until a process that was started again has loaded the state, to stand by or to help.
    ///
    /// # Panics
    /// If it does not come to that.
    pub async fn until_ready(&self, name: &str) {
        let began = clock::monotonic();
        while !std::fs::read_to_string(self.log(name)).is_ok_and(|log| log.contains(LOADED)) {
            assert!(began.elapsed() < PATIENCE, "in vain waited for {name} to load the state");
            sleep(RETRY).await;
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.path().join(name)
    }

    /// Somebody who registers jobs, also beside others.
    pub fn registrar(&self) -> Registrar {
        Registrar { client: self.client.clone(), apis: self.apis.values().cloned().collect() }
    }

    /// Stops a job, and waits until all of it has ended.
    ///
    /// # Panics
    /// If it does not come to that.
    pub async fn stop(&mut self, id: &str) {
        let api = self.apis.values().next().expect("there is an API");
        let stopped = self.client.delete(format!("{api}/v1/job/{id}")).send().await;
        stopped.and_then(reqwest::Response::error_for_status).expect("the job is stopped");
        let key = JobKey::new("default", id);
        let is_over = |state: &State| {
            state.job(&key).is_some_and(|job| job.status == JobStatus::Dead)
                && state.allocs_of_job(&key).all(|alloc| alloc.client_status().is_terminal())
        };
        self.observer.until("it is over", is_over).await;
    }

    /// Has everything forgotten that nobody needs any more; returns as soon as that has begun.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn collect_garbage(&self) {
        let api = self.apis.values().next().expect("there is an API");
        let begun = self.client.put(format!("{api}/v1/system/gc")).send().await;
        begun.and_then(reqwest::Response::error_for_status).expect("garbage is collected");
    }

    /// Kills a process without warning.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn kill9(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap_or_else(|| panic!("{name} does not run"));
        child.kill().and_then(|()| child.wait()).expect("one's own children can be killed");
    }

    /// Registers a job at whichever API answers, and waits until all of it runs; from the moment `since`.
    ///
    /// # Panics
    /// If it is refused, or does not come to run.
    pub async fn place(&mut self, id: &str, count: u64, since: Instant) -> Placed {
        let key = JobKey::new("default", id);
        let Registrar { client, apis } = self.registrar();
        let mut asking = tokio::spawn(register(client, apis, job(id, count)));
        let registered = tokio::select! {
            registered = self.observer.until("the job is registered", |state| state.job(&key).is_some()) => registered,
            Ok(Err(refused)) = &mut asking => panic!("the job is refused: {refused}"),
        };
        let all = |state: &State| state.live_alloc_count(&key) as u64 == count;
        let placed = self.observer.until("it is placed", all).await;
        let all_run = |state: &State| runs(state, &key, count);
        let running = self.observer.until("it runs", all_run).await;
        Placed { registered: registered - since, placed: placed - since, running: running - since }
    }

    /// Registers a job that runs nothing, or a new version of it, and waits until nothing more comes of that. When it was
    /// durable.
    ///
    /// # Panics
    /// If it is refused, or does not come to rest.
    pub async fn change(&mut self, id: &str, version: u64) -> Instant {
        let key = JobKey::new("default", id);
        let mut job = job(id, 0);
        (job["Job"]["Type"], job["Job"]["Meta"]) =
            (json!("batch"), json!({ "version": version.to_string() }));
        let Registrar { client, apis } = self.registrar();
        let asking = tokio::spawn(register(client, apis, job));
        let is_there = |state: &State| state.job(&key).is_some_and(|job| job.version == version);
        let changed = self.observer.until("the job has changed", is_there).await;
        let is_done = |state: &State| state.evals_of_job(&key).all(|eval| eval.status.is_terminal());
        self.observer.until("it is at rest", is_done).await;
        let refused = asking.await.expect("it does not panic");
        assert_eq!(refused, Ok(()), "the job is refused");
        changed
    }

    /// The address of an API, as a URL.
    ///
    /// # Panics
    /// If there is none.
    pub fn api(&self) -> &str {
        self.apis.values().next().expect("there is an API")
    }

    /// Registers jobs, and waits until all of each runs.
    ///
    /// # Panics
    /// If one is refused, or does not come to run.
    pub async fn place_all(&mut self, ids: &[String], count: u64) {
        for some in ids.chunks(REGISTERING) {
            let mut asking = JoinSet::new();
            for id in some {
                let apis = self.apis.values().cloned().collect();
                asking.spawn(register(self.client.clone(), apis, job(id, count)));
            }
            let refused = asking.join_all().await.into_iter().find_map(Result::err);
            assert_eq!(refused, None, "a job is refused");
        }
        for id in ids {
            let key = JobKey::new("default", id.as_str());
            let all_run = |state: &State| runs(state, &key, count);
            self.observer.until("the jobs run", all_run).await;
        }
    }
}

/// Whether so many allocations of each group of a job run.
fn runs(state: &State, job: &JobKey, count: u64) -> bool {
    let runs = |group: &GroupSummary| u64::from(group.running) == count;
    state.job_summary(job).is_some_and(|summary| summary.groups.values().all(runs))
}

impl Drop for Benched {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            // One that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How much of a processor a process has used so far.
///
/// # Panics
/// If there is no such process.
pub fn processor_time(pid: u32) -> Duration {
    /// What Linux counts in, whatever it runs on.
    const TICKS_A_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(") ").expect("a process has a name");
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_A_SECOND)
}

/// Somebody who registers jobs.
#[derive(Debug, Clone)]
pub struct Registrar {
    client: reqwest::Client,
    apis: Vec<String>,
}

impl Registrar {
    /// Registers a service at whichever API answers; returns when it is acknowledged.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn register(&self, id: &str, count: u64) {
        let registered = register(self.client.clone(), self.apis.clone(), job(id, count)).await;
        registered.unwrap_or_else(|refused| panic!("the job is refused: {refused}"));
    }
}

/// Asks one API after the other, until one of them takes the job or refuses it.
async fn register(client: reqwest::Client, apis: Vec<String>, job: Value) -> Result<(), String> {
    for api in apis.iter().cycle() {
        match client.put(format!("{api}/v1/jobs")).json(&job).send().await {
            Ok(answer) if answer.status().is_success() => break,
            Ok(answer) if !answer.status().is_server_error() => {
                return Err(answer.text().await.unwrap_or_default());
            }
            Ok(_) | Err(_) => sleep(RETRY).await,
        }
    }
    Ok(())
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

fn free_address() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    listener.and_then(|listener| listener.local_addr()).expect("a port is free").to_string()
}
