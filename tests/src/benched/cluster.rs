//! A cluster of our own: real processes, simulated nodes, durable commits, and an observer at the change feed who takes the
//! times. Everything is gone when it is dropped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::JobKey;
use model::alloc::GroupSummary;
use model::job::JobStatus;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use private_servers::{Nats, NatsAccess, NatsOptions, Postgres, PostgresOptions};
use state::State;
use telemetry::clock;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::http::Pool;
use super::observer::Observer;
use super::registrar::{Kind, Registrar, idle, service};
use super::{PATIENCE, Placed, Rival, Streamed, Way, costs};
use crate::harness;

/// How long to wait before something that failed is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The process of the simulated nodes.
const NODES: &str = "sim-nodes";
/// The process that is all services.
const SERVER: &str = "server";
/// The services, each a process of its own.
const SERVICES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// How many jobs are registered at once.
const REGISTERING: usize = 32;

/// What processes log: faults, and when the state is loaded, in which words.
const LOGS: &str = "warn,bus::feed=info";
const LOADED: &str = "loaded the state";

/// Whether processes have credentials at NATS: with `CREDENTIALS=1` in the environment. Without, a password lets all in, as
/// when the figures were taken that are compared with.
fn access() -> NatsAccess {
    if is_set("CREDENTIALS") { NatsAccess::default() } else { NatsAccess::Password }
}

/// Whether a variable in the environment is 1.
fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "1")
}

impl Way {
    /// The processes that the services are.
    fn processes(self) -> &'static [&'static str] {
        match self {
            Self::OneProcess => &[SERVER],
            Self::Many => &SERVICES,
        }
    }
}

/// The program that is measured: that which `BINARY` in the environment names, or this one.
fn binary_of(usual: &str) -> String {
    std::env::var("BINARY").unwrap_or_else(|_| usual.to_owned())
}

/// What one process of a cluster costs, with those that it started.
#[derive(Debug, Clone)]
pub struct Process {
    /// As it was started; `PostgreSQL` and `NATS` are servers.
    pub name: String,
    /// How much of a processor it has used so far.
    pub processor_time: Duration,
    /// What it takes of the memory now, in bytes; memory that processes share counts once.
    pub memory: u64,
}

/// A running cluster.
pub struct Benched {
    /// Its NATS.
    pub nats: Nats,
    /// Its database.
    pub postgres: Postgres,
    /// Who sees what becomes durable, and when.
    pub observer: Observer,
    /// What jobs it is given.
    pub kind: Kind,
    binary: String,
    processes: BTreeMap<String, Child>,
    /// By the names of their processes.
    apis: BTreeMap<String, String>,
    client: reqwest::Client,
    /// Connections to the APIs, over which jobs are registered.
    pool: Pool,
    /// What processes that are started from now on find in their environment.
    settings: BTreeMap<String, String>,
    /// What each process says, since it was started last.
    logs: TempDir,
}

impl Benched {
    /// Starts all services in one of two ways, each once. There are no nodes yet.
    ///
    /// # Panics
    /// If they do not come up.
    pub async fn start_in(binary: &str, way: Way) -> Self {
        Self::start(binary, way.processes()).await
    }

    /// The same of a build or settings that these are measured against.
    ///
    /// # Panics
    /// If they do not come up.
    pub async fn start_rival(rival: &Rival, binary: &str, way: Way) -> Self {
        let binary = rival.binary.clone().unwrap_or_else(|| binary_of(binary));
        Self::start_set(binary, &rival.settings, way.processes()).await
    }

    /// Starts a process of `binary`, or of that which `BINARY` in the environment names, for each name ([`Self::spawn`]), the
    /// plan applier's first, and waits for the first API. There are no nodes yet.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn start(binary: &str, names: &[&str]) -> Self {
        Self::start_set(binary_of(binary), &BTreeMap::new(), names).await
    }

    async fn start_set(binary: String, settings: &BTreeMap<String, String>, names: &[&str]) -> Self {
        let logs = tempfile::tempdir().expect("there is room for temporary files");
        let tls = is_set("TLS").then(|| harness::certificates::make(logs.path()));
        let nats_options = NatsOptions { access: access(), tls, ..NatsOptions::default() };
        let (postgres, nats) = tokio::try_join!(
            Postgres::temporary_with(PostgresOptions::default()),
            Nats::temporary_with(nats_options)
        )
        .expect("the servers start");
        let observer = Observer::connect(&nats).await;
        let mut cluster = Self {
            nats,
            postgres,
            observer,
            kind: Kind::default(),
            binary,
            processes: BTreeMap::new(),
            apis: BTreeMap::new(),
            client: reqwest::Client::new(),
            pool: Pool::default(),
            settings: settings.clone(),
            logs,
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

    /// Starts a process, or starts it again. Its name is a sub-command, with `@` and more where there are several; `server`
    /// is all services in one.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn spawn(&mut self, name: &str) {
        let service = name.split('@').next().expect("a text has a first part");
        let has_api = matches!(service, SERVER | "api");
        let address = has_api.then(|| {
            let api =
                self.apis.entry(name.to_owned()).or_insert_with(|| format!("http://{}", free_address()));
            api.trim_start_matches("http://").to_owned()
        });
        let arguments = match (service, address) {
            (SERVER, Some(address)) => {
                vec!["agent".to_owned(), "--config".to_owned(), self.server_config(&address)]
            }
            (_, Some(address)) => vec![service.to_owned(), "--http-addr".to_owned(), address],
            (_, None) => vec![service.to_owned()],
        };
        self.spawn_as(name, &arguments);
    }

    /// Writes what all services in one process are told, and says where.
    fn server_config(&self, address: &str) -> String {
        let dir = self.logs.path().display();
        let port = address.rsplit(':').next().expect("an address has a port");
        let (nats, postgres) = (self.nats.url(), self.postgres.url());
        let credentials = harness::identity(&self.nats, SERVER)
            .map_or_else(String::new, |(_, file)| format!("\n credentials = \"{}\"\n", file.display()));
        let text = format!(
            "data_dir = \"{dir}/data\"\nbind_addr = \"127.0.0.1\"\nports {{ http = {port} }}\nserver {{ enabled = true }}\n\
             nats {{ url = \"{nats}\"{credentials} }}\npostgres {{ url = \"{postgres}\" }}\n"
        );
        let file = self.logs.path().join("server.hcl");
        std::fs::write(&file, text).expect("there is room for a file");
        file.display().to_string()
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
        costs::processor_time(self.processes[name].id())
    }

    /// What the whole cluster has used of processors so far: services, PostgreSQL and NATS, but no nodes.
    ///
    /// # Panics
    /// If a part of it does not run.
    pub fn cost(&self) -> Duration {
        let servers = [self.postgres.pid(), self.nats.pid()].map(|pid| pid.expect("it runs"));
        let of_servers = servers.into_iter().map(costs::processor_time_of_tree);
        self.services().map(costs::processor_time).chain(of_servers).sum()
    }

    /// What the services take of the memory now, and have taken at most, in bytes.
    ///
    /// # Panics
    /// If one of them does not run.
    pub fn memory(&self) -> [u64; 2] {
        let each = self.services().map(costs::memory);
        each.reduce(|[now, most], [its, its_most]| [now + its, most + its_most]).unwrap_or_default()
    }

    /// What each process has used and takes: services, PostgreSQL and NATS, but no nodes.
    ///
    /// # Panics
    /// If one of them does not run.
    pub fn processes(&self) -> Vec<Process> {
        let services = self.processes.iter().filter(|(name, _)| *name != NODES);
        let services = services.map(|(name, child)| (name.as_str(), child.id()));
        let servers = [("PostgreSQL", self.postgres.pid()), ("NATS", self.nats.pid())];
        let servers = servers.map(|(name, pid)| (name, pid.expect("it runs")));
        let process = |(name, pid): (&str, u32)| Process {
            name: name.to_owned(),
            processor_time: costs::processor_time_of_tree(pid),
            memory: costs::memory_of_tree(pid),
        };
        services.chain(servers).map(process).collect()
    }

    fn services(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().filter(|(name, _)| *name != NODES).map(|(_, child)| child.id())
    }

    /// What the database answers, a line a row, columns parted by `|`.
    ///
    /// # Panics
    /// If it refuses.
    pub fn sql(&self, query: &str) -> Vec<String> {
        harness::sql(&self.postgres, query).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    fn spawn_as(&mut self, name: &str, arguments: &[String]) {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env("DROVER_LOG_LEVEL", LOGS);
        command.stderr(File::create(self.log(name)).expect("there is room for logs"));
        command.env("DROVER_NATS_URL", self.nats.url()).env("DROVER_DATABASE_URL", self.postgres.url());
        command.envs(harness::identity(&self.nats, name));
        command.envs(self.nats.ca().map(|ca| ("DROVER_NATS_CA", ca)));
        command.envs(&self.settings);
        // It dies with the thread that spawns it, which for a benchmark is the main one.
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
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
        Registrar::new(self.pool.clone(), self.apis.values().cloned().collect()).of(self.kind)
    }

    /// Stops a job, and waits until all of it has ended.
    ///
    /// # Panics
    /// If it does not come to that.
    pub async fn stop(&mut self, id: &str) {
        self.registrar().stop(id).await;
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
        let begun = self.client.put(format!("{}/v1/system/gc", self.api())).send().await;
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
        let (registrar, job) = (self.registrar(), service(id, count, self.kind));
        let mut asking = tokio::spawn(async move { registrar.try_register(&job).await });
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
        let (registrar, job) = (self.registrar(), idle(id, version));
        let asking = tokio::spawn(async move { registrar.try_register(&job).await });
        let is_there = |state: &State| state.job(&key).is_some_and(|job| job.version == version);
        let observed = async { Ok(self.observer.until("the job has changed", is_there).await) };
        let answered = async { asking.await.expect("it does not panic") };
        let (changed, ()) = tokio::try_join!(observed, answered)
            .unwrap_or_else(|refused: String| panic!("the job is refused: {refused}"));
        let is_done = |state: &State| state.evals_of_job(&key).all(|eval| eval.status.is_terminal());
        self.observer.until("it is at rest", is_done).await;
        changed
    }

    /// Has so many jobs in flight, from when they are sent until all of each is placed, for as long as it is to last. The
    /// observer sees nothing else from then on.
    ///
    /// # Panics
    /// If one is refused, or does not come to be placed.
    pub async fn stream(&mut self, name: &str, count: u64, in_flight: usize, length: Duration) -> Streamed {
        self.observer.count_placements();
        let began = clock::monotonic();
        let (mut asking, mut waiting) = (JoinSet::new(), BTreeMap::new());
        let mut numbers = 0_u64..;
        let mut times = Vec::new();
        loop {
            while waiting.len() < in_flight && began.elapsed() < length {
                let id = format!("{name}-{}", numbers.next().expect("numbers do not end"));
                let registrar = self.registrar();
                waiting.insert(JobKey::new("default", id.as_str()), clock::monotonic());
                asking.spawn(async move { registrar.register(&id, count).await });
            }
            if waiting.is_empty() {
                asking.join_all().await;
                return Streamed { times, elapsed: began.elapsed() };
            }
            let came = self.observer.hear().await;
            let observer = &self.observer;
            for (_, sent) in waiting.extract_if(.., |job, _| observer.placed(job) >= count) {
                times.push(came - sent);
            }
            let longest = waiting.values().map(Instant::elapsed).max().unwrap_or_default();
            assert!(longest < PATIENCE, "in vain waited until a job is placed");
            while let Some(asked) = asking.try_join_next() {
                asked.expect("the jobs are taken");
            }
        }
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
                let (registrar, id) = (self.registrar(), id.clone());
                asking.spawn(async move { registrar.register(&id, count).await });
            }
            asking.join_all().await;
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

fn free_address() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    listener.and_then(|listener| listener.local_addr()).expect("a port is free").to_string()
}
