//! The executor: a process for each task that starts it, writes its output to files, forwards signals and records its exit.
//! It outlives the agent, so that tasks do.
//!
//! It is the agent's own program with a hidden sub-command. Agent and executor communicate through a directory:
//!
//! | file | content |
//! |---|---|
//! | `launch` | what to run (`Launch`); removed after it is read, because it contains the environment |
//! | `control` | a pipe for commands, one per line: `signal <number>`, `kill`, `exec <directory>` |
//! | `alive` | a pipe that the executor keeps open for writing; its first line is `started <pid>` or `failed <reason>` |
//! | `started` | the process of the task (`Started`); written before the line in `alive` |
//! | `exit` | how the task ended (`Exit`); written before `alive` closes |
//!
//! The agent's side is in `driver::process`. Commands that users run in the task have directories of their own (`session`).
//! A task that is separated from the node has a process of this program before its own (`isolated`).
//! The executor uses five blocking threads, three more for each such command, and no async runtime. Above it is a
//! second process, its guard, in case it is killed.

mod guard;
mod isolated;
pub(crate) mod session;
mod tree;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use wire::files::LogStream;

use self::session::{Children, SharedChildren, locked};
use crate::artifacts;
use crate::cgroups::TaskCgroup;
use crate::collector;
use crate::disk::logs::{LogFiles, Rotator};
use crate::disk::store::{self, Durability};
use crate::isolation::description::Isolation;

pub(crate) use tree::{Reap, descendants, kill_descendants, parent_of, started_ticks};

/// The file that describes what to run.
pub(crate) const LAUNCH: &str = "launch";
/// The pipe for commands.
pub(crate) const CONTROL: &str = "control";
/// The pipe that closes when the executor ends.
pub(crate) const ALIVE: &str = "alive";
/// The file with the task's process.
pub(crate) const STARTED: &str = "started";
/// The file with the task's exit.
pub(crate) const EXIT: &str = "exit";

/// How long output is still read after all processes of the task have ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the exit of a task says that had more memory than it may have.
const OOM_KILLED: &str = "OOM Killed";

/// Run one task for an agent. For internal use.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The directory that the agent and the executor share.
    pub dir: PathBuf,
}

/// The process to run, with its environment and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The program.
    pub(crate) command: PathBuf,
    /// The arguments, without the program's name.
    pub(crate) args: Vec<String>,
    /// The complete environment.
    pub(crate) env: Vec<(String, String)>,
    /// The working directory.
    pub(crate) work_dir: PathBuf,
    /// The user and group to run as; `None` is the agent's own.
    pub(crate) user: Option<(u32, u32)>,
    /// The adjustment of the kernel's out-of-memory score.
    pub(crate) oom_score_adj: Option<u32>,
    /// Where the output goes; `None` discards it.
    pub(crate) logs: Option<LogFiles>,
    /// The control groups that the process enters before it runs the program. The executor stays outside: it belongs to the
    /// agent, and its memory is not the task's.
    #[serde(default)]
    pub(crate) cgroup: Option<TaskCgroup>,
    /// What separates the process from the node; `None` runs it as a plain process. In isolation, the program and the
    /// working directory are those of the task's root, and `user` is not used.
    #[serde(default)]
    pub(crate) isolation: Option<Isolation>,
}

/// The process of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// Its id.
    pub(crate) pid: i32,
    /// When it started, which distinguishes it from a later process with the same id.
    pub(crate) ticks: Option<u64>,
}

impl Started {
    fn of(pid: Pid) -> Self {
        Self { pid: pid.as_raw(), ticks: started_ticks(pid) }
    }
}

/// How a task ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// The exit code, or 128 plus the signal's number if a signal ended the task.
    pub(crate) code: i64,
    /// The signal that ended the task, or 0.
    pub(crate) signal: i64,
    /// Further information, which is usually empty.
    pub(crate) message: String,
    /// Whether the task was killed for lack of memory.
    pub(crate) oom_killed: bool,
}

impl Exit {
    /// Whether the task ended without an error.
    pub(crate) fn successful(&self) -> bool {
        self.code == 0 && self.signal == 0 && self.message.is_empty()
    }
}

/// Runs the task that the directory describes until it has ended. If the directory is that of a log collector, this process
/// is one instead: the engine runs the task. If it is that of a fetcher of an artifact, this process is that.
pub fn main(args: &Args) -> ExitCode {
    if isolated::is_requested() {
        return isolated::become_task();
    }
    let outcome = match session::requested() {
        Some(dir) => session::enter(&dir),
        None if collector::is_described(&args.dir) => collector::run(&args.dir),
        None if artifacts::is_described(&args.dir) => artifacts::run(&args.dir),
        None if guard::is_guarded() => run(&args.dir),
        None => guard::run(&args.dir),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The agent has redirected standard error to the file `executor.out` in the task's directory.
            let _ = writeln!(io::stderr(), "executor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(dir: &Path) -> io::Result<()> {
    let launch = read_launch(dir)?;
    guard::end_with_guard(launch.cgroup.clone());
    fs::remove_file(dir.join(LAUNCH))?;
    // The process becomes the parent of the task's orphans.
    set_child_subreaper(true)?;
    let control = OpenOptions::new().read(true).write(true).open(dir.join(CONTROL))?;
    // Also opened for reading, so that it does not wait for an agent that has ended.
    let mut alive = OpenOptions::new().read(true).write(true).open(dir.join(ALIVE))?;

    let mut child = match start(&launch) {
        Ok(child) => child,
        Err(error) => return alive.write_all(format!("failed {error}\n").as_bytes()),
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    let drained = match finish_start(&mut child, pid, &launch, dir) {
        Ok(drained) => drained,
        Err(error) => {
            end_all(launch.cgroup.as_ref(), Reap::Yes);
            return alive.write_all(format!("failed {error}\n").as_bytes());
        }
    };
    alive.write_all(format!("started {pid}\n").as_bytes())?;

    let children = SharedChildren::new(Children::new(pid).into());
    let (targets, dir_of_commands) = (Arc::clone(&children), dir.to_owned());
    let launch = Arc::new(launch);
    let launched = Arc::clone(&launch);
    thread::spawn(move || handle_commands(control, &dir_of_commands, &launched, &targets));
    let mut exit = wait(pid, &children)?;
    end_all(launch.cgroup.as_ref(), Reap::Yes);
    if !exit.successful() && oom_kills(launch.cgroup.as_ref()) > 0 {
        (exit.oom_killed, exit.message) = (true, OOM_KILLED.into());
    }
    while drained.recv_timeout(DRAIN_TIMEOUT).is_ok() {}
    store::write(&dir.join(EXIT), &exit, Durability::Process)
}

fn read_launch(dir: &Path) -> io::Result<Launch> {
    store::read(&dir.join(LAUNCH))
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other(format!("nothing to launch in {}", dir.display())))
}

/// Where the output of a task goes.
fn output(launch: &Launch) -> Stdio {
    if launch.logs.is_some() { Stdio::piped() } else { Stdio::null() }
}

fn start(launch: &Launch) -> io::Result<Child> {
    if let Some(isolation) = &launch.isolation {
        return isolated::start(launch, isolation);
    }
    let mut command = Command::new(&launch.command);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&launch.work_dir)
        .stdin(Stdio::null())
        .stdout(output(launch))
        .stderr(output(launch))
        .process_group(0);
    if let Some((user, group)) = launch.user {
        command.uid(user).gid(group);
    }
    enter_cgroup(&mut command, launch)?;
    command.spawn()
}

/// Lets a process enter the control groups of the task before it runs its program.
fn enter_cgroup(command: &mut Command, launch: &Launch) -> io::Result<()> {
    let Some(cgroup) = &launch.cgroup else { return Ok(()) };
    let cannot = |error| io::Error::other(format!("unable to configure cgroups: {error}"));
    let entry = cgroup.open().map_err(cannot)?;
    // SAFETY: between fork and exec, the closure only writes to files that are open. It allocates no memory and takes no
    // locks.
    unsafe { command.pre_exec(move || entry.enter()) };
    Ok(())
}

/// Ends all processes of the task: those in its control groups, and all descendants of this process, in case that some
/// were moved to other groups.
fn end_all(cgroup: Option<&TaskCgroup>, reap: Reap) {
    if let Some(Err(error)) = cgroup.map(TaskCgroup::kill) {
        let _ = writeln!(io::stderr(), "executor: cannot end the processes in the task's cgroup: {error}");
    }
    kill_descendants(Pid::this(), reap);
}

/// How many processes of the task the kernel has killed for lack of memory.
fn oom_kills(cgroup: Option<&TaskCgroup>) -> u64 {
    match cgroup.map(TaskCgroup::oom_kills) {
        None => 0,
        Some(Ok(kills)) => kills,
        Some(Err(error)) => {
            let _ = writeln!(io::stderr(), "executor: cannot read what the kernel has killed: {error}");
            0
        }
    }
}

/// Completes the set-up of a task that has just been started. From then on, a later agent can find the process by its
/// directory.
fn finish_start(child: &mut Child, pid: Pid, launch: &Launch, dir: &Path) -> io::Result<Receiver<()>> {
    store::write(&dir.join(STARTED), &Started::of(pid), Durability::Process)?;
    if let Some(adjustment) = launch.oom_score_adj.or_else(unprotected_adjustment) {
        fs::write(format!("/proc/{pid}/oom_score_adj"), adjustment.to_string())?;
    }
    collect_output(child, launch.logs.as_ref())
}

/// The adjustment for a task that does not set one: if the agent, and so this process, is protected from the out-of-memory
/// killer, the task is not.
fn unprotected_adjustment() -> Option<u32> {
    let own = fs::read_to_string("/proc/self/oom_score_adj").ok()?;
    own.trim().parse::<i32>().is_ok_and(|own| own < 0).then_some(0)
}

/// Starts to write the task's output to its files. The channel closes when both streams have ended.
fn collect_output(child: &mut Child, logs: Option<&LogFiles>) -> io::Result<Receiver<()>> {
    let (done, drained) = channel::<()>();
    let Some(logs) = logs else { return Ok(drained) };
    let stdout = Rotator::open(logs.clone(), LogStream::Stdout)?;
    let stderr = Rotator::open(logs.clone(), LogStream::Stderr)?;
    let drain = |log: Rotator, source: Box<dyn io::Read + Send>| {
        let done = done.clone();
        thread::spawn(move || {
            if let Err(error) = log.drain(source) {
                let _ = writeln!(io::stderr(), "executor: some output was lost: {error}");
            }
            drop(done);
        });
    };
    if let Some(source) = child.stdout.take() {
        drain(stdout, Box::new(source));
    }
    if let Some(source) = child.stderr.take() {
        drain(stderr, Box::new(source));
    }
    Ok(drained)
}

fn handle_commands(control: File, dir: &Path, launch: &Arc<Launch>, children: &SharedChildren) {
    let is_first = launch.isolation.as_ref().is_some_and(|isolation| isolation.namespaces.pid);
    for line in BufReader::new(control).lines() {
        let Ok(line) = line else { return };
        if let Some(name) = line.strip_prefix("exec ") {
            session::serve(dir.join(name), Arc::clone(launch), Arc::clone(children));
            continue;
        }
        let children = locked(children);
        let Some(pid) = children.task else { return };
        let outcome = match line.split_once(' ') {
            Some(("signal", number)) => match number.parse::<i32>().map(Signal::try_from) {
                Ok(Ok(signal)) if is_first => isolated::signal_first(pid, signal),
                Ok(Ok(signal)) => kill(pid, signal),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Errno::EINVAL),
            },
            None if line == "kill" => killpg(pid, Signal::SIGKILL).or_else(|_| kill(pid, Signal::SIGKILL)),
            Some(_) | None => Err(Errno::EINVAL),
        };
        if let Err(error) = outcome {
            let _ = writeln!(io::stderr(), "executor: {line}: {error}");
        }
    }
}

/// Waits for the task. Reaps the commands that run in it, and the orphans that it leaves.
fn wait(pid: Pid, children: &SharedChildren) -> io::Result<Exit> {
    loop {
        // `WNOWAIT` does not reap the process, so its id stays valid until the lock is held.
        let ended = match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(status) => status.pid(),
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let Some(ended) = ended else { continue };
        let mut children = locked(children);
        let status = match waitpid(ended, None) {
            Ok(status) => status,
            // A command that could not be started was reaped where it was to be started.
            Err(Errno::ECHILD) if ended != pid => continue,
            Err(error) => return Err(error.into()),
        };
        if ended == pid {
            children.task = None;
            return Ok(exit_of(status));
        }
        children.ended(ended, || exit_of(status));
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    if let WaitStatus::Signaled(_, signal, _) = status {
        let signal = i64::from(signal as i32);
        return Exit { code: 128 + signal, signal, ..Exit::default() };
    }
    let code = if let WaitStatus::Exited(_, code) = status { code } else { -1 };
    Exit { code: code.into(), ..Exit::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not a test: the process that tests start as an executor; see `testing::executor`.
    #[test]
    #[ignore = "an executor process for other tests"]
    fn executor_process() {
        let dir = PathBuf::from(std::env::args().next_back().unwrap());
        let _ = main(&Args { dir });
        // Exits before the test harness prints its summary.
        std::process::exit(0);
    }
}
