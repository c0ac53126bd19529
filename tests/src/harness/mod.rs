//! A whole Drover in real processes: a private database and nats-server, one process for each service, and agents.
//! Dropping it ends everything, including tasks, and deletes its data.

pub mod api;
pub mod certificates;
pub mod host_clock;
pub mod invariants;
pub mod jobs;
pub mod mounts;
pub mod network;
pub mod otlp;
pub mod placement;
pub mod processes;
pub mod raw_nats;
pub mod small_disk;
pub mod steady;
pub mod waterfall;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bus::Bus;
use clap::Parser as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use private_servers::{Nats, NatsOptions, Postgres, PostgresOptions};
use serde_json::Value;
use store::Database;
use store::roles::{self, Passwords, script};
use tempfile::TempDir;
use wire::Role;

use self::api::{Api, array, text};
use self::network::Link;
use self::placement::Placement;

/// How long a condition may take to become true before the test fails.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// The control services: all services except the agent.
pub const SERVICES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// The name of a cluster's agent.
pub const AGENT: &str = "agent";
/// Ports for APIs. The range lies below the ports of servers and tasks and below those of outgoing connections, because
/// a port must remain free while its API is down.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
/// The line in a log that precedes the output of a process.
const STARTED: &str = "--- started";
/// Lines of each process's log that a failed test prints.
const LOG_TAIL_LINES: usize = 15;

/// A running cluster: one or several processes for each service, and agents.
pub struct Cluster {
    /// The API, or the first one if there are several.
    pub api: Api,
    /// The other APIs by the names of their processes.
    further_apis: BTreeMap<String, Api>,
    /// The cluster's database.
    pub postgres: Postgres,
    /// The cluster's NATS.
    pub nats: Nats,
    binary: PathBuf,
    environment: Vec<(String, String)>,
    processes: BTreeMap<String, Child>,
    /// What processes have of their own, by their names.
    placements: BTreeMap<String, Placement>,
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster of `binary` with these environment variables in every process, and waits until its node is
    /// ready.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn start(binary: &str, environment: &[(&str, String)]) -> Self {
        let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
        Self::start_processes(binary, environment, &names).await
    }

    /// The same with the given processes ([`Self::spawn`]).
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn start_processes(binary: &str, environment: &[(&str, String)], names: &[&str]) -> Self {
        Self::start_with(binary, environment, names, NatsOptions::default()).await
    }

    /// The same with the given processes and options of NATS.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn start_with(
        binary: &str,
        environment: &[(&str, String)],
        names: &[&str],
        nats: NatsOptions,
    ) -> Self {
        let postgres = PostgresOptions { survives_power_loss: false, ..PostgresOptions::default() };
        let mut cluster = Self::without_processes(binary, environment, postgres, nats).await;
        cluster.start_all(names).await;
        cluster
    }

    /// Starts the servers of a cluster.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn without_processes(
        binary: &str,
        environment: &[(&str, String)],
        postgres: PostgresOptions,
        nats: NatsOptions,
    ) -> Self {
        let (postgres, nats) = tokio::join!(Postgres::temporary_with(postgres), Nats::temporary_with(nats));
        let cluster = Self {
            api: Api::new(free_address()),
            further_apis: BTreeMap::new(),
            postgres: postgres.expect("PostgreSQL starts"),
            nats: nats.expect("nats-server starts"),
            binary: binary.into(),
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            processes: BTreeMap::new(),
            placements: BTreeMap::new(),
            dir: tempfile::tempdir().expect("a temporary directory can be created"),
        };
        cluster.make_roles().await;
        cluster
    }

    /// Starts processes, and waits until all nodes are ready.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn start_all(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.spawn(name));
        let agents = names.iter().filter(|name| service_of(name) == AGENT).count();
        if names.iter().any(|name| service_of(name) == "api") {
            self.wait_until("all nodes are ready", async |cluster| {
                let nodes = cluster.api.try_get("/v1/nodes").await.ok()?;
                let is_ready = |node: &&Value| text(node, "Status") == "ready";
                (array(&nodes).iter().filter(is_ready).count() == agents).then_some(())
            })
            .await;
        }
    }

    /// Gives a process something of its own. It must not run yet.
    ///
    /// # Panics
    /// If the network's relays cannot listen, or the process runs.
    pub async fn place(&mut self, name: &str, mut placement: Placement) {
        assert!(!self.processes.contains_key(name), "{name} is already running");
        if let Some(network) = &mut placement.network {
            let ports = [(Link::Nats, port_of(&self.nats.url())), (Link::Database, self.postgres.port())];
            for (link, port) in ports {
                network.relay(link, port).await.expect("the relay can listen");
            }
            let api = Api::new(format!("{}:{}", network.far(Link::Clients), free_port()));
            if name == "api" {
                self.api = api;
            } else if service_of(name) == "api" {
                self.further_apis.insert(name.to_owned(), api);
            }
        }
        self.placements.insert(name.to_owned(), placement);
    }

    /// What a process has of its own. Another binary takes effect when the process is started again.
    ///
    /// # Panics
    /// If it was not placed.
    pub fn placement(&mut self, name: &str) -> &mut Placement {
        self.placements.get_mut(name).unwrap_or_else(|| panic!("{name} has nothing of its own"))
    }

    /// Creates the database's roles, and a file with the password of each.
    async fn make_roles(&self) {
        let passwords = Passwords::random();
        let made = self.postgres.run_script(script("postgres", &passwords)).await;
        made.expect("the roles can be made");
        for role in roles::Role::ALL {
            let password = passwords.of(role).expect("every role has a password");
            std::fs::write(self.password_file(role), password).expect("the password file can be written");
        }
    }

    fn password_file(&self, role: roles::Role) -> PathBuf {
        self.path(&format!("{}.password", role.name()))
    }

    /// Environment variables of a process that uses the database with the rights of a role.
    pub fn login(&self, role: roles::Role) -> [(&'static str, String); 3] {
        let file = self.password_file(role);
        [
            ("DROVER_DATABASE_URL", self.postgres.url_as(role.name())),
            ("DROVER_DATABASE_PASSWORD_FILE", file.display().to_string()),
            // The server does not flush what it writes.
            ("DROVER_ALLOW_UNSAFE_DATABASE", "true".to_owned()),
        ]
    }

    /// Starts a process, or starts it again. Its name is a sub-command, followed by `@` and a suffix where there are
    /// several.
    ///
    /// # Panics
    /// If the program does not exist.
    pub fn spawn(&mut self, name: &str) {
        self.spawn_with(name, &[]);
    }

    /// The same with further environment variables.
    ///
    /// # Panics
    /// If the program does not exist.
    pub fn spawn_with(&mut self, name: &str, environment: &[(&str, String)]) {
        let service = service_of(name);
        let shared = Placement::default();
        let placement = self.placements.get(name).unwrap_or(&shared);
        let mut command = placement.command(&self.binary);
        command.arg(service).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.env("DROVER_NATS_URL", placement.url(Link::Nats, self.nats.url()));
        if let Some(role) = roles::Role::of_service(service) {
            let login = self.login(role).into_iter();
            command.envs(login.map(|(name, value)| (name, placement.url(Link::Database, value))));
        }
        let has_identity = environment.iter().any(|(variable, _)| *variable == "DROVER_NATS_CREDENTIALS");
        command.envs(identity(&self.nats, name).filter(|_| !has_identity));
        command.envs(self.nats.ca().map(|ca| ("DROVER_NATS_CA", ca)));
        match service {
            "api" if name == service => drop(command.args(["--http-addr", self.api.host()])),
            "api" => {
                let api = self.further_apis.entry(name.to_owned());
                let api = api.or_insert_with(|| Api::new(free_address()));
                command.args(["--http-addr", api.host()]);
            }
            AGENT => {
                let disk = placement.disk.as_ref().map(|disk| disk.path().join(name));
                let data = disk.unwrap_or_else(|| self.path(name));
                command.arg("--agent-data-dir").arg(data).args(["--node-name", name]);
                command.args(["--raw-exec", "--mock-driver", "--first-heartbeat-within-ms", "1"]);
                // A full disk of the machine does not remove what has ended.
                command.env("DROVER_GC_DISK_PERCENT_MAX", "100");
            }
            _ => {}
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let log = File::options().create(true).append(true).open(self.log(name));
        let mut log = log.expect("the log can be opened");
        writeln!(log, "{STARTED}").expect("the log can be written");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("the binary can be started");
        let before = self.processes.insert(name.to_owned(), child);
        assert!(before.is_none(), "{name} is already running");
    }

    /// Starts a process, and waits until it is connected as a standby or a helper.
    ///
    /// # Panics
    /// If it does not connect.
    pub async fn spawn_connected(&mut self, name: &str) {
        self.spawn(name);
        self.wait_until_connected(name).await;
    }

    /// Waits until a process is connected as a standby or a helper.
    ///
    /// # Panics
    /// If it does not connect.
    pub async fn wait_until_connected(&self, name: &str) {
        self.wait_until(&format!("{name} has connected"), async |cluster| {
            let log = std::fs::read_to_string(cluster.log(name)).unwrap_or_default();
            // The log also holds the output of the earlier process.
            let own = log.rsplit(STARTED).next().unwrap_or_default();
            own.contains("connected to NATS").then_some(())
        })
        .await;
    }

    /// Kills a process by SIGKILL, and waits until it is dead.
    ///
    /// # Panics
    /// If there is no process of that name.
    pub fn kill9(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap_or_else(|| panic!("{name} is not running"));
        child.kill().expect("a child process can be killed");
        child.wait().expect("a child process can be waited for");
        host_clock::forget(&child);
    }

    /// Sends SIGTERM to a process, and waits until it exits. Returns its status, and how long it took.
    ///
    /// # Panics
    /// If it does not exit in time.
    pub async fn terminate(&mut self, name: &str) -> (ExitStatus, Duration) {
        self.signal(name, Signal::SIGTERM);
        let begun = now();
        let mut child = self.processes.remove(name).unwrap_or_else(|| panic!("{name} is not running"));
        loop {
            if let Some(status) = child.try_wait().expect("the status of a child process can be read") {
                return (status, begun.elapsed());
            }
            if begun.elapsed() > TIMEOUT {
                // If the process cannot be killed, it has already exited.
                let _ = child.kill();
                panic!("timed out waiting until {name} has exited\n{}", self.log_tails());
            }
            pause().await;
        }
    }

    /// Sends a signal to a process.
    ///
    /// # Panics
    /// If there is no process of that name.
    pub fn signal(&self, name: &str, signal: Signal) {
        kill(self.pid(name), signal).expect("a child process can be signalled");
    }

    /// Waits until a process is stopped by a signal.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn wait_until_stopped(&self, name: &str) {
        let is_stopped = async |cluster: &Self| cluster.is_stopped(name).then_some(());
        self.wait_until(&format!("{name} is stopped"), is_stopped).await;
    }

    /// Whether a process is stopped by a signal.
    ///
    /// # Panics
    /// If there is no process of that name.
    pub fn is_stopped(&self, name: &str) -> bool {
        processes::is_stopped(self.pid(name))
    }

    /// The process id of a process.
    ///
    /// # Panics
    /// If there is no process of that name.
    pub fn pid(&self, name: &str) -> Pid {
        let child = self.processes.get(name).unwrap_or_else(|| panic!("{name} is not running"));
        Pid::from_raw(child.id().cast_signed())
    }

    /// The names and ids of the processes that run, or have exited by themselves.
    pub fn process_ids(&self) -> Vec<(String, u32)> {
        self.processes.iter().map(|(name, child)| (name.clone(), child.id())).collect()
    }

    /// All APIs of the cluster.
    pub fn apis(&self) -> Vec<Api> {
        std::iter::once(&self.api).chain(self.further_apis.values()).cloned().collect()
    }

    /// Asserts that no process has exited by itself.
    ///
    /// # Panics
    /// If one has.
    pub fn assert_alive(&mut self) {
        for (name, child) in &mut self.processes {
            let ended = child.try_wait().expect("the status of a child process can be read");
            assert!(ended.is_none(), "{name} has exited: {ended:?}");
        }
    }

    /// A path in the cluster's directory, which is deleted with it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The log of a process.
    pub fn log_text(&self, name: &str) -> String {
        std::fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    /// Waits until the log of a process contains `words`.
    ///
    /// # Panics
    /// If it does not in time.
    pub async fn wait_until_logged(&self, name: &str, words: &str) {
        let has_logged = async |cluster: &Self| cluster.log_text(name).contains(words).then_some(());
        self.wait_until(&format!("{name} logs {words:?}"), has_logged).await;
    }

    /// The path of a process's log.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }

    /// A connection to the database as its administrator.
    ///
    /// # Panics
    /// If the database cannot be reached.
    pub async fn database(&self) -> Database {
        let args = Settings::of(self).store;
        Database::connect(&args).await.expect("the database accepts connections")
    }

    /// A connection to the cluster's NATS with all permissions.
    ///
    /// # Panics
    /// If the connection fails.
    pub async fn bus(&self) -> Bus {
        self.bus_as(Role::Observer).await
    }

    /// A connection to the cluster's NATS with the credentials of a role.
    ///
    /// # Panics
    /// If the connection fails.
    pub async fn bus_as(&self, role: Role) -> Bus {
        connect(&self.nats, role).await
    }

    /// Runs a query. Returns a line for each row, with columns separated by `|`.
    ///
    /// # Panics
    /// If the database refuses it.
    pub fn sql(&self, query: &str) -> Vec<String> {
        sql(&self.postgres, query).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// Changes a table. Retries until the statements succeed, because a deadlock with other users of the table may make
    /// them fail.
    ///
    /// # Panics
    /// If they do not succeed in time.
    pub async fn alter(&self, statements: &str) {
        self.wait_until(statements, async |cluster| sql(&cluster.postgres, statements).ok()).await;
    }

    /// Waits until the projection has reached the current head.
    ///
    /// # Panics
    /// If it does not in time.
    pub async fn wait_until_projected(&self) {
        let head = self.sql("select index from head");
        let has = format!("select projected_index >= {} from projection", head[0]);
        self.wait_until("the tables have reached the head", async |cluster| {
            (cluster.sql(&has) == ["t"]).then_some(())
        })
        .await;
    }

    /// The allocations of a job, as the API lists them.
    ///
    /// # Panics
    /// If the API does not answer.
    pub async fn allocs(&self, job: &str) -> Vec<Value> {
        let allocs = self.api.get(&format!("/v1/job/{job}/allocations")).await;
        allocs.as_array().expect("the response is a list").clone()
    }

    /// Waits until a job has exactly one allocation, with the given client status. Returns the allocation in full.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn wait_for_alloc(&self, job: &str, status: &str) -> Value {
        self.wait_until(&format!("the allocation of {job} is {status}"), async |cluster| {
            let path = format!("/v1/job/{job}/allocations");
            let allocs = cluster.api.try_get(&path).await.ok()?;
            let [alloc] = array(&allocs) else { return None };
            let alloc = cluster.api.try_get(&format!("/v1/allocation/{}", text(alloc, "ID"))).await.ok()?;
            (text(&alloc, "ClientStatus") == status).then_some(alloc)
        })
        .await
    }

    /// Waits until `look` returns a value.
    ///
    /// # Panics
    /// If it does not in time. The message has the end of each process's log.
    pub async fn wait_until<T>(&self, what: &str, look: impl AsyncFn(&Self) -> Option<T>) -> T {
        wait_until(what, async || look(self).await, || self.log_tails()).await
    }

    /// The last lines of each process's log.
    pub fn log_tails(&self) -> String {
        let files = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten();
        let logs: BTreeSet<PathBuf> = files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        let tails = logs.iter().map(|path| {
            let log = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n"))
        });
        tails.collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            // A process that has already exited cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
            host_clock::forget(child);
        }
        // Tasks outlive their agent by design. The tasks of a test must end with it.
        processes::kill_processes_of(self.dir.path());
        mounts::unmount_below(self.dir.path());
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            // The logs and allocations remain for the investigation of a failed test.
            let _ = writeln!(std::io::stderr(), "the cluster's files are in {}", self.dir.path().display());
        }
    }
}

/// Waits until `look` returns a value.
///
/// # Panics
/// If it does not in time. The message has the result of `explain`.
pub async fn wait_until<T>(what: &str, look: impl AsyncFn() -> Option<T>, explain: impl Fn() -> String) -> T {
    let begun = now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(now() - begun < TIMEOUT, "timed out waiting until {what}\n{}", explain());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits a moment before a failed attempt is repeated.
pub async fn pause() {
    tokio::time::sleep(POLL_INTERVAL).await;
}

/// The database settings of services.
#[derive(clap::Parser)]
struct Settings {
    #[command(flatten)]
    store: store::Args,
}

impl Settings {
    fn of(cluster: &Cluster) -> Self {
        Self::parse_from(["test", "--database-url", &cluster.postgres.url()])
    }
}

/// Connects to a private NATS with the credentials of a role.
///
/// # Panics
/// If the connection fails.
pub async fn connect(nats: &Nats, role: Role) -> Bus {
    let servers = vec![nats.url().parse().expect("the URL is valid")];
    let credentials = nats.credentials(role).expect("the credentials can be written");
    let ca = nats.ca().map(PathBuf::from);
    let args = bus::Args { credentials, ca, ..bus::Args::new(servers) };
    Bus::connect(&args, role).await.expect("nats-server accepts connections")
}

/// The environment variable and the file by which the process of that name identifies itself at a private NATS. Returns
/// `None` if NATS uses a password. `server` is the process that runs all services.
///
/// # Panics
/// If the file cannot be written.
pub fn identity(nats: &Nats, name: &str) -> Option<(&'static str, PathBuf)> {
    let service = service_of(name);
    let role = if service == "server" { Role::Servers } else { service.parse().ok()? };
    let (variable, file) = if role == Role::Agent {
        ("DROVER_NATS_NODE_KEY", nats.node_key())
    } else {
        ("DROVER_NATS_CREDENTIALS", nats.credentials(role))
    };
    Some((variable, file.expect("the credentials can be written")?))
}

/// Runs a query. Returns a line for each row, with columns separated by `|`.
///
/// # Errors
/// The database's message if it refuses the query.
///
/// # Panics
/// If `psql` is not installed.
pub fn sql(postgres: &Postgres, query: &str) -> Result<Vec<String>, String> {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", query, &postgres.url()])
        .output()
        .expect("psql is installed with PostgreSQL");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The sub-command of a process of that name.
fn service_of(name: &str) -> &str {
    name.split('@').next().expect("split yields at least one item")
}

/// A free address of this machine, for a server that may be stopped and started again.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// The port in the URL of a server.
fn port_of(url: &str) -> u16 {
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
    port.expect("the URL of a private server ends with its port")
}

fn free_port() -> u16 {
    static ATTEMPTS: AtomicU16 = AtomicU16::new(0);
    let [high, low, ..] = telemetry::clock::random_bytes();
    let first = u16::from_be_bytes([high, low]);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| {
        let next = first.wrapping_add(ATTEMPTS.fetch_add(1, Ordering::Relaxed));
        PORTS.start + next % (PORTS.end - PORTS.start)
    });
    ports.find(is_free).expect("the sequence is infinite")
}

fn now() -> Instant {
    telemetry::clock::monotonic()
}
