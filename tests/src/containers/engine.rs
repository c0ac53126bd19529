//! A Docker engine of a test's own: its processes, its mounts and, where wanted, its network are in namespaces that end
//! with it. The machine's own engine, firewall and images are left alone.

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

use super::{cache, find_all, make_dir, run, said};
use telemetry::clock::monotonic as now;

/// How long an engine may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(50);
/// The cgroup below which all of its containers are.
const CGROUP: &str = "drover-drill";

/// Where the engine's network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The machine's, without bridges: builds reach package registries, and containers run with `--network host` only.
    Host,
    /// One of its own, without a way out: bridges, names and published ports work, and nothing of the machine changes.
    Own,
}

/// A running engine; it ends when this is dropped, with all that runs in it. One at a time: they share their images.
#[derive(Debug)]
pub struct Engine {
    process: Child,
    /// Its first process, which sees to the others.
    first: Pid,
    client: PathBuf,
    directory: TempDir,
    _lock: Flock<File>,
}

impl Engine {
    /// Starts an engine, and removes what an earlier one left behind but for images.
    ///
    /// # Panics
    /// If it does not start; with its log.
    pub fn start(network: Network) -> Self {
        let cache = cache();
        make_dir(&cache.join("docker"));
        let lock = File::create(cache.join("lock")).expect("a lock can be written");
        let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error);
        let lock = lock.expect("a lock can be waited for");
        // Sockets have short paths.
        let directory = tempfile::Builder::new().prefix("drover-engine-").tempdir_in("/tmp");
        let directory = directory.expect("there is room for temporary files");
        let mut process = spawn(network, directory.path(), &cache.join("docker"));
        let Some(first) = first_child(&process) else {
            let _ = process.kill();
            panic!("the engine does not start: {}", log(directory.path()));
        };
        let client = client().expect("there is a client, or tests are skipped");
        let engine = Self { process, first, client, directory, _lock: lock };
        engine.until_ready();
        engine.clear();
        engine
    }

    fn until_ready(&self) {
        let begun = now();
        while !self.docker(&["version"]).output().is_ok_and(|output| output.status.success()) {
            assert!(now() - begun < PATIENCE, "the engine does not answer: {}", log(self.directory.path()));
            std::thread::sleep(LOOK);
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

    /// A command of the client that speaks to this engine.
    pub fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        for (name, _) in std::env::vars_os() {
            let of_another = ["DOCKER_", "COMPOSE_", "DROVER_", "OTEL_", "BUILDKIT_", "NOMAD_"];
            if name.to_str().is_some_and(|name| of_another.iter().any(|prefix| name.starts_with(prefix))) {
                command.env_remove(name);
            }
        }
        command.env("DOCKER_HOST", format!("unix://{}", self.directory.path().join("docker.sock").display()));
        command.env("DOCKER_CONFIG", configuration()).env("DOCKER_BUILDKIT", "1");
        command.args(arguments);
        command
    }

    /// Runs a command of the client and answers what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        run(&mut self.docker(arguments))
    }

    /// What a template says of a container, an image or whatever else has a name.
    ///
    /// # Panics
    /// If there is nothing of that name.
    pub fn inspect(&self, name: &str, template: &str) -> String {
        self.run(&["inspect", "--format", template, name])
    }

    /// Lets the calling thread be in the engine's network from here on, where containers have addresses.
    ///
    /// # Panics
    /// If it is not let in.
    pub fn enter_network(&self) {
        let namespace = File::open(format!("/proc/{}/ns/net", self.first)).expect("the engine runs");
        setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may enter namespaces");
    }

    /// Kills the first process of a container without a word to the engine: to it that is a crash.
    ///
    /// # Panics
    /// If the container does not run.
    pub fn crash(&self, container: &str) {
        let pid = self.inspect(container, "{{.State.Pid}}");
        assert_ne!(pid, "0", "{container} does not run");
        let first = self.first.to_string();
        let inside = ["--target", &first, "--pid", "--mount", "kill", "-KILL", &pid];
        run(Command::new("nsenter").args(inside));
    }

    /// The end of the log of each container, for those who look for a reason.
    pub fn last_words(&self, lines: usize) -> String {
        let lines = lines.to_string();
        let names = self.run(&["ps", "--all", "--format", "{{.Names}} {{.Status}}"]);
        let words = names.lines().map(|line| {
            let name = line.split(' ').next().unwrap_or_default();
            let output = self.docker(&["logs", "--tail", &lines, name]).output();
            format!("--- {line}\n{}\n", output.map_or_else(|error| error.to_string(), |output| said(&output)))
        });
        words.collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The engine ends its containers; whatever does not end goes with the namespace.
        let _ = kill(self.first, Signal::SIGTERM);
        let begun = now();
        while matches!(self.process.try_wait(), Ok(None)) && now() - begun < PATIENCE {
            std::thread::sleep(LOOK);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        remove_cgroups();
    }
}

/// The first client on this machine that builds with BuildKit: one from before it became a plug-in, or one with it.
pub(crate) fn client() -> Option<PathBuf> {
    /// From here on BuildKit needs the plug-in `buildx`.
    const PLUGIN_SINCE: u32 = 23;
    let builds = |client: &PathBuf| {
        let Ok(output) = Command::new(client).arg("--version").output() else { return false };
        // `Docker version 20.10.24, build …`
        let text = said(&output);
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

/// Starts the engine in namespaces that end with this thread, whatever happens to it.
fn spawn(network: Network, directory: &Path, data: &Path) -> Child {
    let at = |name: &str| directory.join(name).display().to_string();
    let log = File::create(directory.join("log")).expect("a log can be written");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if network == Network::Own {
        command.arg("--net");
    }
    // The first process of a namespace adopts those that lose their parents. A shell waits for them.
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
    let output = log.try_clone().expect("a file can be shared");
    command.stdin(Stdio::null()).stdout(output).stderr(log);
    command.spawn().expect("the programs are there, or tests are skipped")
}

/// The child of the process that has made the namespaces.
fn first_child(process: &Child) -> Option<Pid> {
    let children = format!("/proc/{0}/task/{0}/children", process.id());
    let begun = now();
    while now() - begun < PATIENCE {
        let found = fs::read_to_string(&children).ok()?;
        if let Some(pid) = found.split_whitespace().next() {
            return pid.parse().ok().map(Pid::from_raw);
        }
        std::thread::sleep(LOOK);
    }
    None
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_default()
}

/// Removes the cgroups that the engine's containers were in, of every hierarchy.
fn remove_cgroups() {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    for hierarchy in
        hierarchies.map(|entry| entry.path().join(CGROUP)).chain([Path::new("/sys/fs/cgroup").join(CGROUP)])
    {
        // One that is in use stays.
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
