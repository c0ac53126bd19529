//! A whole Drover in real processes: a database and a nats-server of its own, each service in a process of its own, and
//! agents. Everything is gone when it is dropped, tasks included.

pub mod api;
pub mod certificates;
pub mod invariants;
pub mod jobs;
pub mod otlp;
pub mod processes;
pub mod raw_nats;
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
use private_servers::{Nats, NatsOptions, Postgres};
use serde_json::Value;
use store::Database;
use store::roles::{self, Passwords, script};
use tempfile::TempDir;
use wire::Role;

use self::api::{Api, array, text};

/// How long a condition may take to come true before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// The control services: all but the agent.
pub const SERVICES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// The one agent of a cluster.
pub const AGENT: &str = "agent";
/// Ports of APIs. Below those that servers and tasks are given, and below those of outgoing connections: one must stay
/// free while its API is down.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
/// What stands in a log before what a process writes.
const STARTED: &str = "--- started";
/// Lines of each process's log that a failed test shows.
const LAST_WORDS: usize = 15;

/// A running cluster: a process for each service, or several, and agents.
pub struct Cluster {
    /// Its API; the first, if there are several.
    pub api: Api,
    /// The APIs beside it, by the names of their processes.
    further_apis: BTreeMap<String, Api>,
    /// Its database.
    pub postgres: Postgres,
    /// Its NATS.
    pub nats: Nats,
    binary: PathBuf,
    environment: Vec<(String, String)>,
    processes: BTreeMap<String, Child>,
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster of `binary`, with this in the environment of every process, and waits until its node is ready.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn start(binary: &str, environment: &[(&str, String)]) -> Self {
        let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
        Self::start_of(binary, environment, &names).await
    }

    /// The same with these processes ([`Self::spawn`]).
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn start_of(binary: &str, environment: &[(&str, String)], names: &[&str]) -> Self {
        Self::start_with(binary, environment, names, NatsOptions::default()).await
    }

    /// The same with this NATS.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn start_with(
        binary: &str,
        environment: &[(&str, String)],
        names: &[&str],
        nats: NatsOptions,
    ) -> Self {
        let (postgres, nats) = tokio::join!(Postgres::temporary(), Nats::temporary_with(nats));
        let mut cluster = Self {
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
            dir: tempfile::tempdir().expect("there is room for temporary files"),
        };
        cluster.make_roles().await;
        names.iter().for_each(|name| cluster.spawn(name));
        let agents = names.iter().filter(|name| service_of(name) == AGENT).count();
        if names.iter().any(|name| service_of(name) == "api") {
            cluster
                .until("all nodes are ready", async |cluster| {
                    let nodes = cluster.api.try_get("/v1/nodes").await.ok()?;
                    let is_ready = |node: &&Value| text(node, "Status") == "ready";
                    (array(&nodes).iter().filter(is_ready).count() == agents).then_some(())
                })
                .await;
        }
        cluster
    }

    /// Makes the database's roles, and a file with a password for each.
    async fn make_roles(&self) {
        let passwords = Passwords::random();
        let made = self.postgres.run_script(script("postgres", &passwords)).await;
        made.expect("the roles can be made");
        for role in roles::Role::ALL {
            let password = passwords.of(role).expect("every role is given one");
            std::fs::write(self.password_file(role), password).expect("there is room for a file");
        }
    }

    fn password_file(&self, role: roles::Role) -> PathBuf {
        self.path(&format!("{}.password", role.name()))
    }

    /// What a process finds in its environment that is to use the database with the rights of a role.
    pub fn login(&self, role: roles::Role) -> [(&'static str, String); 2] {
        let file = self.password_file(role);
        [
            ("DROVER_DATABASE_URL", self.postgres.url_as(role.name())),
            ("DROVER_DATABASE_PASSWORD_FILE", file.display().to_string()),
        ]
    }

    /// Starts a process, or starts it again. Its name is a sub-command, with `@` and more where there are several.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn spawn(&mut self, name: &str) {
        self.spawn_with(name, &[]);
    }

    /// The same with more in its environment.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn spawn_with(&mut self, name: &str, environment: &[(&str, String)]) {
        let service = service_of(name);
        let mut command = Command::new(&self.binary);
        command.arg(service).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.env("DROVER_NATS_URL", self.nats.url());
        if let Some(role) = roles::Role::of_service(service) {
            command.envs(self.login(role));
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
                command.arg("--agent-data-dir").arg(self.path(name)).args(["--node-name", name]);
                command.args(["--raw-exec", "--mock-driver", "--first-heartbeat-within-ms", "1"]);
            }
            _ => {}
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let log = File::options().create(true).append(true).open(self.log(name));
        let mut log = log.expect("a log can be written");
        writeln!(log, "{STARTED}").expect("a log can be written");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("the binary is there");
        let before = self.processes.insert(name.to_owned(), child);
        assert!(before.is_none(), "{name} runs already");
    }

    /// Starts a process, and waits until it is there to stand by, or to help.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn spawn_connected(&mut self, name: &str) {
        self.spawn(name);
        self.until_connected(name).await;
    }

    /// Waits until a process is there to stand by, or to help.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn until_connected(&self, name: &str) {
        self.until(&format!("{name} has connected"), async |cluster| {
            let log = std::fs::read_to_string(cluster.log(name)).unwrap_or_default();
            // What the one before it wrote stands there as well.
            let own = log.rsplit(STARTED).next().unwrap_or_default();
            own.contains("connected to NATS").then_some(())
        })
        .await;
    }

    /// Kills a process without warning, and waits until it is dead.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn kill9(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap_or_else(|| panic!("{name} does not run"));
        child.kill().expect("one's own children can be killed");
        child.wait().expect("and waited for");
    }

    /// Tells a process to end (SIGTERM), and waits until it has; answers how, and after how long.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn end(&mut self, name: &str) -> (ExitStatus, Duration) {
        self.signal(name, Signal::SIGTERM);
        let begun = now();
        let mut child = self.processes.remove(name).unwrap_or_else(|| panic!("{name} does not run"));
        loop {
            if let Some(status) = child.try_wait().expect("one's own children can be looked at") {
                return (status, begun.elapsed());
            }
            if begun.elapsed() > PATIENCE {
                // What cannot be killed has ended by now.
                let _ = child.kill();
                panic!("in vain waited until {name} has ended\n{}", self.last_words());
            }
            pause().await;
        }
    }

    /// Sends a process a signal.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn signal(&self, name: &str, signal: Signal) {
        kill(self.pid(name), signal).expect("one's own children can be signalled");
    }

    /// Waits until a process has been stopped, by whomever.
    ///
    /// # Panics
    /// If that does not happen.
    pub async fn until_stopped(&self, name: &str) {
        let is_stopped = async |cluster: &Self| cluster.is_stopped(name).then_some(());
        self.until(&format!("{name} is stopped"), is_stopped).await;
    }

    /// Whether a process is stopped, by whomever.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn is_stopped(&self, name: &str) -> bool {
        processes::is_stopped(self.pid(name))
    }

    fn pid(&self, name: &str) -> Pid {
        let child = self.processes.get(name).unwrap_or_else(|| panic!("{name} does not run"));
        Pid::from_raw(child.id().cast_signed())
    }

    /// All its APIs.
    pub fn apis(&self) -> Vec<Api> {
        std::iter::once(&self.api).chain(self.further_apis.values()).cloned().collect()
    }

    /// Asserts that no process has ended that nobody killed.
    ///
    /// # Panics
    /// If one has.
    pub fn assert_alive(&mut self) {
        for (name, child) in &mut self.processes {
            let ended = child.try_wait().expect("one's own children can be looked at");
            assert!(ended.is_none(), "{name} has ended: {ended:?}");
        }
    }

    /// A file of this cluster that goes with it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What a process has logged.
    pub fn log_text(&self, name: &str) -> String {
        std::fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    /// Waits until a process has logged something.
    ///
    /// # Panics
    /// If it does not.
    pub async fn until_logged(&self, name: &str, words: &str) {
        let has_logged = async |cluster: &Self| cluster.log_text(name).contains(words).then_some(());
        self.until(&format!("{name} logs {words:?}"), has_logged).await;
    }

    /// The file that a process logs to.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }

    /// The database as its administrator reads it.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn database(&self) -> Database {
        let args = Settings::of(self).store;
        Database::connect(&args).await.expect("the database is there")
    }

    /// A connection to its NATS that may do everything.
    ///
    /// # Panics
    /// If none can be had.
    pub async fn bus(&self) -> Bus {
        self.bus_as(Role::Observer).await
    }

    /// A connection to its NATS with the credentials of a role.
    ///
    /// # Panics
    /// If none can be had.
    pub async fn bus_as(&self, role: Role) -> Bus {
        connect(&self.nats, role).await
    }

    /// What the database answers, a line a row, columns parted by `|`.
    ///
    /// # Panics
    /// If it refuses.
    pub fn sql(&self, query: &str) -> Vec<String> {
        sql(&self.postgres, query).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// Changes a table of the database, which all that use it may make fail (a deadlock): again and again until it works.
    ///
    /// # Panics
    /// If it does not come to work.
    pub async fn alter(&self, statements: &str) {
        self.until(statements, async |cluster| sql(&cluster.postgres, statements).ok()).await;
    }

    /// Waits until the tables have what is committed by now.
    ///
    /// # Panics
    /// If they do not come to have it.
    pub async fn until_projected(&self) {
        let head = self.sql("select index from head");
        let has = format!("select projected_index >= {} from projection", head[0]);
        self.until("the tables follow", async |cluster| (cluster.sql(&has) == ["t"]).then_some(())).await;
    }

    /// The allocations of a job, as the API lists them.
    ///
    /// # Panics
    /// If it does not.
    pub async fn allocs(&self, job: &str) -> Vec<Value> {
        let allocs = self.api.get(&format!("/v1/job/{job}/allocations")).await;
        allocs.as_array().expect("a list").clone()
    }

    /// Waits until a job has one allocation and that has a client status; answers it whole.
    ///
    /// # Panics
    /// If it does not come to that.
    pub async fn until_alloc(&self, job: &str, status: &str) -> Value {
        self.until(&format!("the allocation of {job} is {status}"), async |cluster| {
            let path = format!("/v1/job/{job}/allocations");
            let allocs = cluster.api.try_get(&path).await.ok()?;
            let [alloc] = array(&allocs) else { return None };
            let alloc = cluster.api.try_get(&format!("/v1/allocation/{}", text(alloc, "ID"))).await.ok()?;
            (text(&alloc, "ClientStatus") == status).then_some(alloc)
        })
        .await
    }

    /// Waits until something is there.
    ///
    /// # Panics
    /// If it does not come in time; then with what the processes logged last.
    pub async fn until<T>(&self, what: &str, look: impl AsyncFn(&Self) -> Option<T>) -> T {
        until(what, async || look(self).await, || self.last_words()).await
    }

    /// What each process logged last.
    pub fn last_words(&self) -> String {
        let files = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten();
        let logs: BTreeSet<PathBuf> = files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        let words = logs.iter().map(|path| {
            let log = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n"))
        });
        words.collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            // One that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
        // Tasks outlive their agent on purpose; those of a test end with it.
        processes::kill_all_of(self.dir.path());
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            // Whoever looks for the reason finds logs and allocations there.
            let _ = writeln!(std::io::stderr(), "the cluster's files are in {}", self.dir.path().display());
        }
    }
}

/// Waits until something is there.
///
/// # Panics
/// If it does not come in time; then with what `explain` says.
pub async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>, explain: impl Fn() -> String) -> T {
    let begun = now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(now() - begun < PATIENCE, "in vain waited until {what}\n{}", explain());
        tokio::time::sleep(LOOK).await;
    }
}

/// Lets a little time pass before something that failed is tried again.
pub async fn pause() {
    tokio::time::sleep(LOOK).await;
}

/// What services are told of the database.
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

/// A connection to a private NATS with the credentials of a role.
///
/// # Panics
/// If none can be had.
pub async fn connect(nats: &Nats, role: Role) -> Bus {
    let servers = vec![nats.url().parse().expect("it has a URL")];
    let credentials = nats.credentials(role).expect("credentials can be written");
    let ca = nats.ca().map(PathBuf::from);
    let args = bus::Args { credentials, ca, ..bus::Args::new(servers) };
    Bus::connect(&args, role).await.expect("nats-server is there")
}

/// The variable that tells the process of that name who it is at a private NATS, and the file that it names; `None` where a
/// password lets in. `server` is all services in one process.
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
    Some((variable, file.expect("files can be written")?))
}

/// What a database answers, a line a row, columns parted by `|`.
///
/// # Errors
/// What it says if it refuses.
///
/// # Panics
/// If there is no `psql`.
pub fn sql(postgres: &Postgres, query: &str) -> Result<Vec<String>, String> {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", query, &postgres.url()])
        .output()
        .expect("psql comes with PostgreSQL");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The sub-command of a process of that name.
fn service_of(name: &str) -> &str {
    name.split('@').next().expect("a text has a first part")
}

/// An address of this machine that nobody listens on, for something that may come and go.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let [high, low, ..] = telemetry::clock::random_bytes();
    let first = u16::from_be_bytes([high, low]);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| {
        let next = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        PORTS.start + next % (PORTS.end - PORTS.start)
    });
    ports.find(is_free).expect("the sequence does not end")
}

fn now() -> Instant {
    telemetry::clock::monotonic()
}
