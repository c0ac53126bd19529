//! A private cluster for benchmarks: real processes, simulated nodes, durable commits, and an observer of the change
//! feed that takes the times. Dropping it ends the processes and deletes their data.

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
use super::registrar::{Kind, Registrar, idle_job, service_job};
use super::{Baseline, JobTimes, Layout, Streamed, TIMEOUT, costs};
use crate::harness;

/// How long to wait before a failed attempt is repeated.
const RETRY: Duration = Duration::from_millis(10);

/// Name of the process that simulates nodes.
const NODES: &str = "sim-nodes";
/// Name of the process that runs all services.
const SERVER: &str = "server";
/// The services, each of which can be a process of its own.
const SERVICES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// How many jobs are registered at once.
const REGISTERING: usize = 32;

/// Log level of the processes: warnings and errors, and the message that the state is loaded.
const LOGS: &str = "warn,bus::feed=info";
const LOADED: &str = "loaded the state";

/// How processes log in to NATS: with the credentials of their roles if `CREDENTIALS=1` is set in the environment.
/// Otherwise all use one password, as they did when the published figures were measured.
fn access() -> NatsAccess {
    if is_set("CREDENTIALS") { NatsAccess::default() } else { NatsAccess::Password }
}

/// Whether a variable in the environment is 1.
fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "1")
}

impl Layout {
    /// Names of the processes that run the services.
    fn processes(self) -> &'static [&'static str] {
        match self {
            Self::OneProcess => &[SERVER],
            Self::ProcessPerService => &SERVICES,
        }
    }
}

/// The program to measure: the value of `BINARY` in the environment, or else `default`.
fn binary_of(default: &str) -> String {
    std::env::var("BINARY").unwrap_or_else(|_| default.to_owned())
}

/// Resource usage of one process of a cluster and its children.
#[derive(Debug, Clone)]
pub struct Process {
    /// Name under which the process was started; `PostgreSQL` and `NATS` for the servers.
    pub name: String,
    /// Processor time used so far.
    pub processor_time: Duration,
    /// Current memory in bytes; shared memory counts once.
    pub memory: u64,
}

/// A running cluster.
pub struct BenchCluster {
    /// The cluster's NATS.
    pub nats: Nats,
    /// The cluster's database.
    pub postgres: Postgres,
    /// Observes when changes become durable.
    pub observer: Observer,
    /// The kind of the jobs that are registered.
    pub kind: Kind,
    binary: String,
    processes: BTreeMap<String, Child>,
    /// URLs of the APIs by the names of their processes.
    apis: BTreeMap<String, String>,
    client: reqwest::Client,
    /// Connections to the APIs, over which jobs are registered.
    pool: Pool,
    /// Environment variables of the processes that are started from now on.
    settings: BTreeMap<String, String>,
    /// The log of each process since its last start.
    logs: TempDir,
}

impl BenchCluster {
    /// Starts all services in the given layout, each once. There are no nodes yet.
    ///
    /// # Panics
    /// If the processes do not start.
    pub async fn start_layout(binary: &str, layout: Layout) -> Self {
        Self::start(binary, layout.processes()).await
    }

    /// Starts the services with the program and the settings of a baseline.
    ///
    /// # Panics
    /// If the processes do not start.
    pub async fn start_baseline(baseline: &Baseline, binary: &str, layout: Layout) -> Self {
        let binary = baseline.binary.clone().unwrap_or_else(|| binary_of(binary));
        Self::start_with(binary, &baseline.settings, layout.processes()).await
    }

    /// Starts one process of `binary`, or of the program that `BINARY` in the environment names, for each name
    /// ([`Self::spawn`]), and waits for the first API. The plan applier's name comes first. There are no nodes yet.
    ///
    /// # Panics
    /// If the processes do not start.
    pub async fn start(binary: &str, names: &[&str]) -> Self {
        Self::start_with(binary_of(binary), &BTreeMap::new(), names).await
    }

    async fn start_with(binary: String, settings: &BTreeMap<String, String>, names: &[&str]) -> Self {
        let logs = tempfile::tempdir().expect("a temporary directory can be created");
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
        let api = cluster.apis.values().next().expect("the names include a process with an API").clone();
        while cluster.client.get(format!("{api}/v1/jobs")).send().await.is_err() {
            assert!(began.elapsed() < TIMEOUT, "timed out waiting for the API");
            sleep(RETRY).await;
        }
        cluster
    }

    /// Starts a process, or starts it again. Its name is a sub-command, followed by `@` and a suffix where there are
    /// several; `server` runs all services in one process.
    ///
    /// # Panics
    /// If the program does not exist.
    pub fn spawn(&mut self, name: &str) {
        let service = name.split('@').next().expect("split yields at least one item");
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

    /// Writes the configuration file of a process that runs all services. Returns the file's path.
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
        std::fs::write(&file, text).expect("the configuration can be written");
        file.display().to_string()
    }

    /// Starts `count` simulated nodes and waits until all are ready. Returns when the last of them became ready.
    ///
    /// # Panics
    /// If they do not become ready.
    pub async fn spawn_nodes(&mut self, count: u64) -> Instant {
        self.spawn_nodes_with(count, &[]).await
    }

    /// The same with further command-line arguments.
    ///
    /// # Panics
    /// If they do not become ready.
    pub async fn spawn_nodes_with(&mut self, count: u64, more: &[&str]) -> Instant {
        let mut arguments = vec![NODES.to_owned(), "--count".to_owned(), count.to_string()];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        self.spawn_as(NODES, &arguments);
        self.wait_until_all_ready(count).await
    }

    /// Waits until `count` nodes are registered and all are ready. Returns when the last of them became ready.
    ///
    /// # Panics
    /// If they do not become ready.
    pub async fn wait_until_all_ready(&mut self, count: u64) -> Instant {
        let all_ready =
            |state: &State| state.node_count() as u64 == count && state.nodes().all(|node| node.is_ready());
        self.observer.wait_until("all nodes are ready", all_ready).await
    }

    /// Sends a command to the process of the simulated nodes, such as `fail 5%`. Returns when it was sent.
    ///
    /// # Panics
    /// If there are no simulated nodes.
    pub fn control_nodes(&mut self, command: &str) -> Instant {
        let nodes = self.processes.get_mut(NODES).expect("simulated nodes have been started");
        let input = nodes.stdin.as_mut().expect("the standard input of the nodes is a pipe");
        let began = clock::monotonic();
        writeln!(input, "{command}").expect("the nodes read their standard input");
        began
    }

    /// Sets an environment variable of the processes that are started from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Returns how much processor time a process has used so far.
    ///
    /// # Panics
    /// If there is no process of that name.
    pub fn processor_time(&self, name: &str) -> Duration {
        costs::processor_time(self.processes[name].id())
    }

    /// Returns the processor time that the whole cluster has used so far: services, PostgreSQL and NATS, without nodes.
    ///
    /// # Panics
    /// If a part of it does not run.
    pub fn total_processor_time(&self) -> Duration {
        let servers = [self.postgres.pid(), self.nats.pid()].map(|pid| pid.expect("the server runs"));
        let of_servers = servers.into_iter().map(costs::processor_time_of_tree);
        self.services().map(costs::processor_time).chain(of_servers).sum()
    }

    /// Returns the current and the peak memory of the services, in bytes.
    ///
    /// # Panics
    /// If a service does not run.
    pub fn memory(&self) -> [u64; 2] {
        let each = self.services().map(costs::memory);
        each.reduce(|[now, peak], [its_now, its_peak]| [now + its_now, peak + its_peak]).unwrap_or_default()
    }

    /// Returns the usage of each process: services, PostgreSQL and NATS, but not the simulated nodes.
    ///
    /// # Panics
    /// If one of them is not running.
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

    /// Runs a query. Returns a line for each row, with columns separated by `|`.
    ///
    /// # Panics
    /// If the database refuses it.
    pub fn sql(&self, query: &str) -> Vec<String> {
        harness::sql(&self.postgres, query).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    fn spawn_as(&mut self, name: &str, arguments: &[String]) {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env("DROVER_LOG_LEVEL", LOGS);
        command.stderr(File::create(self.log(name)).expect("the log file can be created"));
        command.env("DROVER_NATS_URL", self.nats.url()).env("DROVER_DATABASE_URL", self.postgres.url());
        command.envs(harness::identity(&self.nats, name));
        command.envs(self.nats.ca().map(|ca| ("DROVER_NATS_CA", ca)));
        command.envs(&self.settings);
        // The process dies with the thread that spawns it, which is the main thread in a benchmark.
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
        let child = command.stdin(Stdio::piped()).spawn().expect("the binary can be started");
        self.processes.insert(name.to_owned(), child);
    }

    /// Waits until a process that was started again has loaded the state.
    ///
    /// # Panics
    /// If it does not load the state.
    pub async fn wait_until_ready(&self, name: &str) {
        let began = clock::monotonic();
        while !std::fs::read_to_string(self.log(name)).is_ok_and(|log| log.contains(LOADED)) {
            assert!(began.elapsed() < TIMEOUT, "timed out waiting for {name} to load the state");
            sleep(RETRY).await;
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.path().join(name)
    }

    /// Returns a registrar, which can register jobs concurrently with others.
    pub fn registrar(&self) -> Registrar {
        Registrar::new(self.pool.clone(), self.apis.values().cloned().collect()).with_kind(self.kind)
    }

    /// Stops a job, and waits until all of its allocations are terminal.
    ///
    /// # Panics
    /// If they do not become terminal.
    pub async fn stop(&mut self, id: &str) {
        self.registrar().stop(id).await;
        let key = JobKey::new("default", id);
        let is_stopped = |state: &State| {
            state.job(&key).is_some_and(|job| job.status == JobStatus::Dead)
                && state.allocs_of_job(&key).all(|alloc| alloc.client_status().is_terminal())
        };
        self.observer.wait_until("the job is stopped", is_stopped).await;
    }

    /// Starts a garbage collection, and returns when it has begun.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn collect_garbage(&self) {
        let begun = self.client.put(format!("{}/v1/system/gc", self.api())).send().await;
        begun.and_then(reqwest::Response::error_for_status).expect("the garbage collection is accepted");
    }

    /// Kills a process by SIGKILL.
    ///
    /// # Panics
    /// If there is no process of that name.
    pub fn kill9(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap_or_else(|| panic!("{name} does not run"));
        child.kill().and_then(|()| child.wait()).expect("a child process can be killed");
    }

    /// Registers a job at an API that answers, and waits until all of its allocations run. Times are counted from
    /// `since`.
    ///
    /// # Panics
    /// If the job is refused, or does not run in time.
    pub async fn place(&mut self, id: &str, count: u64, since: Instant) -> JobTimes {
        let key = JobKey::new("default", id);
        let (registrar, job) = (self.registrar(), service_job(id, count, self.kind));
        let mut registration = tokio::spawn(async move { registrar.try_register(&job).await });
        let registered = tokio::select! {
            registered = self.observer.wait_until("the job is registered", |state| state.job(&key).is_some()) => registered,
            Ok(Err(refused)) = &mut registration => panic!("the job is refused: {refused}"),
        };
        let all = |state: &State| state.live_alloc_count(&key) as u64 == count;
        let placed = self.observer.wait_until("the job is placed", all).await;
        let all_run = |state: &State| runs(state, &key, count);
        let running = self.observer.wait_until("the job runs", all_run).await;
        JobTimes { registered: registered - since, placed: placed - since, running: running - since }
    }

    /// Registers a job without allocations, or a new version of it, and waits until its evaluations are done. Returns
    /// when the registration was durable.
    ///
    /// # Panics
    /// If the job is refused, or its evaluations do not end in time.
    pub async fn change(&mut self, id: &str, version: u64) -> Instant {
        let key = JobKey::new("default", id);
        let (registrar, job) = (self.registrar(), idle_job(id, version));
        let registration = tokio::spawn(async move { registrar.try_register(&job).await });
        let is_registered = |state: &State| state.job(&key).is_some_and(|job| job.version == version);
        let observed = async { Ok(self.observer.wait_until("the job has changed", is_registered).await) };
        let answered = async { registration.await.expect("the registration does not panic") };
        let (changed, ()) = tokio::try_join!(observed, answered)
            .unwrap_or_else(|refused: String| panic!("the job is refused: {refused}"));
        let is_done = |state: &State| state.evals_of_job(&key).all(|eval| eval.status.is_terminal());
        self.observer.wait_until("the job's evaluations are done", is_done).await;
        changed
    }

    /// Keeps `in_flight` jobs in flight for the given length of time; a job is in flight from its registration until
    /// all of it is placed. From then on the observer only counts placements.
    ///
    /// # Panics
    /// If a job is refused, or is not placed in time.
    pub async fn stream(&mut self, name: &str, count: u64, in_flight: usize, length: Duration) -> Streamed {
        self.observer.count_placements();
        let began = clock::monotonic();
        let (mut registrations, mut waiting) = (JoinSet::new(), BTreeMap::new());
        let mut numbers = 0_u64..;
        let mut times = Vec::new();
        loop {
            while waiting.len() < in_flight && began.elapsed() < length {
                let id = format!("{name}-{}", numbers.next().expect("the range is unbounded"));
                let registrar = self.registrar();
                waiting.insert(JobKey::new("default", id.as_str()), clock::monotonic());
                registrations.spawn(async move { registrar.register(&id, count).await });
            }
            if waiting.is_empty() {
                registrations.join_all().await;
                return Streamed { times, elapsed: began.elapsed() };
            }
            let received = self.observer.receive().await;
            let observer = &self.observer;
            for (_, sent) in waiting.extract_if(.., |job, _| observer.placed(job) >= count) {
                times.push(received - sent);
            }
            let longest = waiting.values().map(Instant::elapsed).max().unwrap_or_default();
            assert!(longest < TIMEOUT, "timed out waiting for a job to be placed");
            while let Some(result) = registrations.try_join_next() {
                result.expect("the jobs are accepted");
            }
        }
    }

    /// The URL of an API.
    ///
    /// # Panics
    /// If there is no API.
    pub fn api(&self) -> &str {
        self.apis.values().next().expect("a process with an API was started")
    }

    /// Registers jobs, and waits until all allocations of each run.
    ///
    /// # Panics
    /// If a job is refused, or does not run in time.
    pub async fn place_all(&mut self, ids: &[String], count: u64) {
        for chunk in ids.chunks(REGISTERING) {
            let mut registrations = JoinSet::new();
            for id in chunk {
                let (registrar, id) = (self.registrar(), id.clone());
                registrations.spawn(async move { registrar.register(&id, count).await });
            }
            registrations.join_all().await;
        }
        for id in ids {
            let key = JobKey::new("default", id.as_str());
            let all_run = |state: &State| runs(state, &key, count);
            self.observer.wait_until("the jobs run", all_run).await;
        }
    }
}

/// Whether `count` allocations of each group of a job run.
fn runs(state: &State, job: &JobKey, count: u64) -> bool {
    let runs = |group: &GroupSummary| u64::from(group.running) == count;
    state.job_summary(job).is_some_and(|summary| summary.groups.values().all(runs))
}

impl Drop for BenchCluster {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            // A process that has already exited cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    listener.and_then(|listener| listener.local_addr()).expect("a free port exists").to_string()
}
