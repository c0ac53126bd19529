//! A private Docker engine for a test. Its processes, its mounts and, optionally, its network are in namespaces that
//! end with it. The engine, firewall and images of the machine are not touched.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{cache, find_all, make_dir, output_text, run};
use telemetry::clock::monotonic as now;

/// How long an engine may take to answer, and to end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the engine is polled meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The cgroup that contains all of its containers.
const CGROUP: &str = "drover-drill";

/// The network of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The machine's network, without bridges: builds reach package registries, and containers run only with `--network
    /// host`.
    Host,
    /// A private network without access to others: bridges, names and published ports work, and nothing on the machine
    /// changes.
    Own,
}

/// A running engine. Dropping it ends the engine and everything that runs in it. Only one can run at a time, because
/// all share their images.
#[derive(Debug)]
pub struct Engine {
    process: Child,
    /// The first process in the namespace, which supervises the others.
    init: Pid,
    client: PathBuf,
    directory: TempDir,
    _lock: Flock<File>,
}

impl Engine {
    /// Starts an engine, and removes everything but images that an earlier one left behind.
    ///
    /// # Panics
    /// If the engine does not start. The message has its log.
    pub fn start(network: Network) -> Self {
        let cache = cache();
        make_dir(&cache.join("docker"));
        let lock = File::create(cache.join("lock")).expect("the lock file can be created");
        let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error);
        let lock = lock.expect("the lock can be acquired");
        // Paths of sockets must be short.
        let directory = tempfile::Builder::new().prefix("drover-engine-").tempdir_in("/tmp");
        let directory = directory.expect("a temporary directory can be created");
        let mut process = spawn(network, directory.path(), &cache.join("docker"));
        let Some(init) = first_child(&process) else {
            let _ = process.kill();
            panic!("the engine does not start: {}", log(directory.path()));
        };
        let client = client().expect("a client is installed, or the test is skipped");
        let engine = Self { process, init, client, directory, _lock: lock };
        engine.wait_until_ready();
        engine.clear();
        engine
    }

    fn wait_until_ready(&self) {
        let begun = now();
        while !self.docker(&["version"]).output().is_ok_and(|output| output.status.success()) {
            assert!(now() - begun < TIMEOUT, "the engine does not answer: {}", log(self.directory.path()));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Removes containers, volumes and networks.
    fn clear(&self) {
        for (list, remove) in [
            (&["ps", "--all", "--quiet"][..], &["rm", "--force", "--volumes"][..]),
            (&["volume", "ls", "--quiet"], &["volume", "rm", "--force"]),
        ] {
            let found = self.run(list);
            let found: Vec<&str> = found.lines().collect();
            if !found.is_empty() {
                self.run(&[remove, &found].concat());
            }
        }
        self.run(&["network", "prune", "--force"]);
    }

    /// Returns a command of the client that connects to this engine.
    pub fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        for (name, _) in std::env::vars_os() {
            let foreign_prefixes = ["DOCKER_", "COMPOSE_", "DROVER_", "OTEL_", "BUILDKIT_", "NOMAD_"];
            if name
                .to_str()
                .is_some_and(|name| foreign_prefixes.iter().any(|prefix| name.starts_with(prefix)))
            {
                command.env_remove(name);
            }
        }
        command.env("DOCKER_HOST", format!("unix://{}", self.socket().display()));
        command.env("DOCKER_CONFIG", configuration()).env("DOCKER_BUILDKIT", "1");
        command.args(arguments);
        command
    }

    /// The engine's socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("docker.sock")
    }

    /// Runs a command of the client and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        run(&mut self.docker(arguments))
    }

    /// Evaluates a template for a container, an image or another named object.
    ///
    /// # Panics
    /// If no object has that name.
    pub fn inspect(&self, name: &str, template: &str) -> String {
        self.run(&["inspect", "--format", template, name])
    }

    /// Moves the calling thread into the engine's network, where containers have addresses.
    ///
    /// # Panics
    /// If that is not permitted.
    pub fn enter_network(&self) {
        let namespace = File::open(format!("/proc/{}/ns/net", self.init)).expect("the engine runs");
        setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may enter namespaces");
    }

    /// Kills the first process of a container without informing the engine, to which it looks like a crash.
    ///
    /// # Panics
    /// If the container does not run.
    pub fn crash(&self, container: &str) {
        let pid = self.inspect(container, "{{.State.Pid}}");
        assert_ne!(pid, "0", "{container} does not run");
        let init = self.init.to_string();
        let inside = ["--target", &init, "--pid", "--mount", "kill", "-KILL", &pid];
        run(Command::new("nsenter").args(inside));
    }

    /// The last lines of each container's log.
    pub fn log_tails(&self, lines: usize) -> String {
        let lines = lines.to_string();
        let names = self.run(&["ps", "--all", "--format", "{{.Names}} {{.Status}}"]);
        let tails = names.lines().map(|line| {
            let name = line.split(' ').next().unwrap_or_default();
            let output = self.docker(&["logs", "--tail", &lines, name]).output();
            format!(
                "--- {line}\n{}\n",
                output.map_or_else(|error| error.to_string(), |output| output_text(&output))
            )
        });
        tails.collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The engine ends its containers. Processes that do not end are killed with the namespace.
        let _ = kill(self.init, Signal::SIGTERM);
        let begun = now();
        while matches!(self.process.try_wait(), Ok(None)) && now() - begun < TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        remove_cgroups();
    }
}

/// The first client on this machine that builds with BuildKit: either older than the plug-in, or with the plug-in
/// installed.
pub(crate) fn client() -> Option<PathBuf> {
    /// From this version on, BuildKit needs the plug-in `buildx`.
    const PLUGIN_SINCE: u32 = 23;
    let builds = |client: &PathBuf| {
        let Ok(output) = Command::new(client).arg("--version").output() else { return false };
        // Such as `Docker version 20.10.24, build …`.
        let text = output_text(&output);
        let major = text.split(' ').nth(2).and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        let has_plugin = || {
            let output = Command::new(client).args(["buildx", "version"]).output();
            output.is_ok_and(|output| output.status.success())
        };
        major.is_some_and(|major| major < PLUGIN_SINCE || has_plugin())
    };
    find_all("docker").into_iter().find(builds)
}

/// The directory of the client's settings and plug-ins.
pub(crate) fn configuration() -> PathBuf {
    cache().join("client")
}

/// Starts the engine in namespaces that end with this thread, however the thread ends.
fn spawn(network: Network, directory: &Path, data: &Path) -> Child {
    let at = |name: &str| directory.join(name).display().to_string();
    let log = File::create(directory.join("log")).expect("a log can be written");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if network == Network::Own {
        command.arg("--net");
    }
    // The first process of a namespace adopts orphaned processes. The shell reaps them.
    let script = "ip link set lo up; dockerd \"$@\" & trap 'kill -TERM $!' TERM; wait $!; wait $!";
    command.args(["bash", "-c", script, "engine", "--data-root"]).arg(data);
    command.args(["--exec-root", &at("exec"), "--pidfile", &at("docker.pid")]);
    command.args([
        "--host",
        &format!("unix://{}", at("docker.sock")),
        "--cgroup-parent",
        &format!("/{CGROUP}"),
    ]);
    if network == Network::Host {
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        command.args(["--ip-forward=false", "--ip-masq=false"]);
    }
    let output = log.try_clone().expect("the file handle can be duplicated");
    command.stdin(Stdio::null()).stdout(output).stderr(log);
    command.spawn().expect("the programs are installed, or the test is skipped")
}

/// Returns the child of the process that created the namespaces.
fn first_child(process: &Child) -> Option<Pid> {
    let children = format!("/proc/{0}/task/{0}/children", process.id());
    let begun = now();
    while now() - begun < TIMEOUT {
        let found = fs::read_to_string(&children).ok()?;
        if let Some(pid) = found.split_whitespace().next() {
            return pid.parse().ok().map(Pid::from_raw);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    None
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_default()
}

/// Removes the cgroups of the engine's containers in every hierarchy.
fn remove_cgroups() {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    for hierarchy in
        hierarchies.map(|entry| entry.path().join(CGROUP)).chain([Path::new("/sys/fs/cgroup").join(CGROUP)])
    {
        // A cgroup that is in use remains.
        let _ = remove_cgroup(&hierarchy);
    }
}

fn remove_cgroup(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_cgroup(&path)?;
        }
    }
    fs::remove_dir(directory)
}
