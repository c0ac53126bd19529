//! The process beside a task: starts it, writes its output down, signals it when told to, and keeps its exit for whoever
//! asks. It outlives the agent, so that tasks do.
//!
//! It is the agent's own program under a hidden sub-command, and speaks with the agent through a directory:
//!
//! | file | what it is |
//! |---|---|
//! | `launch` | what to run (`Launch`); removed once read, for it holds the environment |
//! | `control` | a pipe for orders, a line each: `signal <number>`, `kill` |
//! | `alive` | a pipe that is open for writing as long as the executor lives; its first line is `started <pid>` or `failed <why>` |
//! | `exit` | how the task ended (`Exit`); there before `alive` closes |
//!
//! What the agent does with it is in `driver::process`. No async runtime here: four threads that wait.

mod tree;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, setsid};
use serde::{Deserialize, Serialize};
use wire::files::LogStream;

use crate::logs::{LogFiles, Rotator};
use crate::store::{self, Keep};

pub(crate) use tree::{descendants, end_tree, parent_of, started_ticks};

/// The file with what to run.
pub(crate) const LAUNCH: &str = "launch";
/// The pipe for orders.
pub(crate) const CONTROL: &str = "control";
/// The pipe that closes with the executor.
pub(crate) const ALIVE: &str = "alive";
/// The file with how the task ended.
pub(crate) const EXIT: &str = "exit";

/// How long output is still read after all processes of the task have ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs one task for an agent. Not for people.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The directory in which the agent and the executor meet.
    pub dir: PathBuf,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The program.
    pub(crate) command: PathBuf,
    /// Its arguments, the program's name not among them.
    pub(crate) args: Vec<String>,
    /// Its whole environment.
    pub(crate) env: Vec<(String, String)>,
    /// Where it runs.
    pub(crate) work_dir: PathBuf,
    /// The user and group that it runs as, if not as the agent's.
    pub(crate) user: Option<(u32, u32)>,
    /// How readily the kernel ends it when memory is short.
    pub(crate) oom_score_adj: Option<u32>,
    /// Where its output goes; `None` is nowhere.
    pub(crate) logs: Option<LogFiles>,
}

/// How a task ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// Its exit code; 128 and the signal's number if a signal ended it.
    pub(crate) code: i64,
    /// The signal that ended it, or 0.
    pub(crate) signal: i64,
    /// What is not to be seen from the code; mostly empty.
    pub(crate) message: String,
    /// Whether it was ended for want of memory.
    pub(crate) oom_killed: bool,
}

impl Exit {
    /// Whether it ended well.
    pub(crate) fn successful(&self) -> bool {
        self.code == 0 && self.signal == 0 && self.message.is_empty()
    }
}

/// Runs the task that the directory describes, to its end.
pub fn main(args: &Args) -> ExitCode {
    match run(&args.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The agent has made standard error the file `executor.out` in the task's directory.
            let _ = writeln!(io::stderr(), "executor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(dir: &Path) -> io::Result<()> {
    let launch: Launch = store::read(&dir.join(LAUNCH))?
        .ok_or_else(|| io::Error::other(format!("nothing to launch in {}", dir.display())))?;
    fs::remove_file(dir.join(LAUNCH))?;
    // A session of its own, out of reach of the agent's terminal; and whatever the task leaves behind comes here.
    setsid()?;
    set_child_subreaper(true)?;
    let control = OpenOptions::new().read(true).write(true).open(dir.join(CONTROL))?;
    let mut alive = OpenOptions::new().append(true).open(dir.join(ALIVE))?;

    let mut child = match start(&launch) {
        Ok(child) => child,
        Err(error) => return alive.write_all(format!("failed {error}\n").as_bytes()),
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    let drained = match settle(&mut child, pid, &launch) {
        Ok(drained) => drained,
        Err(error) => {
            end_tree(Pid::this(), Reap::Yes);
            return alive.write_all(format!("failed {error}\n").as_bytes());
        }
    };
    alive.write_all(format!("started {pid}\n").as_bytes())?;

    let task = Arc::new(Mutex::new(Some(pid)));
    let ordered = Arc::clone(&task);
    thread::spawn(move || obey(control, &ordered));
    let exit = wait(pid, &task)?;
    end_tree(Pid::this(), Reap::Yes);
    while drained.recv_timeout(DRAIN_TIMEOUT).is_ok() {}
    store::write(&dir.join(EXIT), &exit, Keep::Process)
}

/// Whether ended processes are children to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reap {
    /// They are the caller's own.
    Yes,
    /// Somebody else waits for them.
    No,
}

fn start(launch: &Launch) -> io::Result<Child> {
    let output = || if launch.logs.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::new(&launch.command);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&launch.work_dir)
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .process_group(0);
    if let Some((user, group)) = launch.user {
        command.uid(user).gid(group);
    }
    command.spawn()
}

/// Does for a task that has just begun what can be done only then.
fn settle(child: &mut Child, pid: Pid, launch: &Launch) -> io::Result<Receiver<()>> {
    if let Some(adjustment) = launch.oom_score_adj.or_else(unprotected) {
        fs::write(format!("/proc/{pid}/oom_score_adj"), adjustment.to_string())?;
    }
    collect(child, launch.logs.as_ref())
}

/// The adjustment of a task that asks for none, if the agent and so this process is protected from the kernel's killer: a
/// task is not.
fn unprotected() -> Option<u32> {
    let own = fs::read_to_string("/proc/self/oom_score_adj").ok()?;
    own.trim().parse::<i32>().is_ok_and(|own| own < 0).then_some(0)
}

/// Begins to write the task's output down. The channel closes when both streams have ended.
fn collect(child: &mut Child, logs: Option<&LogFiles>) -> io::Result<Receiver<()>> {
    let (done, drained) = channel::<()>();
    let Some(logs) = logs else { return Ok(drained) };
    let stdout = Rotator::open(logs.clone(), LogStream::Stdout)?;
    let stderr = Rotator::open(logs.clone(), LogStream::Stderr)?;
    let drain = |log: Rotator, source: Box<dyn io::Read + Send>| {
        let done = done.clone();
        thread::spawn(move || {
            if let Err(error) = log.drain(source) {
                let _ = writeln!(io::stderr(), "executor: some output could not be kept: {error}");
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

/// The task's process while it is there; whoever signals it holds the lock, so that its number is not another's.
type Task = Mutex<Option<Pid>>;

fn obey(control: File, task: &Task) {
    for line in BufReader::new(control).lines() {
        let Ok(line) = line else { return };
        let task = task.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pid) = *task else { return };
        let outcome = match line.split_once(' ') {
            Some(("signal", number)) => match number.parse::<i32>().map(Signal::try_from) {
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

/// Waits for the task, and meanwhile for orphans that it left.
fn wait(pid: Pid, task: &Task) -> io::Result<Exit> {
    loop {
        // First only a look: until it is waited for, its number stays its own.
        let ended = match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(status) => status.pid(),
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let Some(ended) = ended else { continue };
        let mut task = task.lock().unwrap_or_else(PoisonError::into_inner);
        let status = waitpid(ended, None)?;
        if ended == pid {
            *task = None;
            return Ok(exit_of(status));
        }
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

    /// Not a test: the process that tests start as an executor, see `testing::executor`.
    #[test]
    #[ignore = "it is an executor for other tests"]
    fn executor_process() {
        let dir = PathBuf::from(std::env::args().next_back().unwrap());
        let _ = main(&Args { dir });
        // Without the words that a test harness ends with.
        std::process::exit(0);
    }
}
