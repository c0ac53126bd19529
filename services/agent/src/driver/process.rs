//! Tasks that are processes: the agent's side of the executor, for all drivers that run processes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde::{Deserialize, Serialize};
use telemetry::chain;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::exec_session::{ExecError, ExecRequest, ExecSession};
use super::{Exit, Handle, NotRecovered, Running, StartError, StopError, process_exec};
use crate::cgroups::TaskCgroup;
use crate::disk::store::{self, Durability};
use crate::executor::{
    ALIVE, CONTROL, EXIT, LAUNCH, Launch, Reap, STARTED, Started, descendants, kill_descendants, parent_of,
    started_ticks,
};
use crate::proc::ProcessReading;
use crate::resources::{CpuUsage, MemoryUsage, TaskUsage};
use crate::wait::until;

/// How long an executor may take to start a task.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the output of an executor that has ended may take to arrive.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a killed task may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(15);
/// The interval at which an executor that may not have started its task yet is told to kill it.
const KILL_INTERVAL: Duration = Duration::from_millis(50);
/// The interval at which the executor is probed, in case its end was not noticed.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Permissions of the pipes between agent and executor.
const PIPE_MODE: Mode = Mode::from_bits_truncate(0o600);
/// Permissions of the directory that agent and executor share.
const DIR_MODE: u32 = 0o700;
/// How long a process of which only the directory is known has to end before it is killed.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// The default signal to end a process.
const STOP_SIGNAL: Signal = Signal::SIGINT;

/// The command line of an executor process. The shared directory is appended as the last argument.
#[derive(Debug, Clone)]
pub(crate) struct ExecutorCommand {
    program: PathBuf,
    args: Vec<String>,
}

impl Default for ExecutorCommand {
    /// The agent's own program, even if its file has been replaced.
    fn default() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), args: vec!["executor".into()] }
    }
}

impl ExecutorCommand {
    /// An executor that is another program.
    pub(crate) fn new(program: PathBuf, args: Vec<String>) -> Self {
        Self { program, args }
    }
}

/// The handle to recover a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ProcessHandle {
    dir: PathBuf,
    pid: i32,
    /// The start time, which distinguishes the process from a later one with the same id.
    started_ticks: Option<u64>,
    /// The control groups that it has entered.
    #[serde(default)]
    cgroup: Option<TaskCgroup>,
}

impl ProcessHandle {
    fn new(dir: &Path, Started { pid, ticks }: Started, cgroup: Option<TaskCgroup>) -> Self {
        Self { dir: dir.to_owned(), pid, started_ticks: ticks, cgroup }
    }

    fn read(handle: &Handle) -> Result<Self, NotRecovered> {
        rmp_serde::from_slice(handle).map_err(|error| NotRecovered(format!("unreadable handle: {error}")))
    }

    /// Whether the process still exists and is not another one with the same id.
    fn is_alive(&self) -> bool {
        self.started_ticks.is_some() && started_ticks(Pid::from_raw(self.pid)) == self.started_ticks
    }

    /// Whether a process is the task's executor: its last argument is the shared directory.
    fn is_executor(&self, pid: Pid) -> bool {
        let Ok(command) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
        let last = command.split(|byte| *byte == 0).rfind(|argument| !argument.is_empty());
        last == Some(self.dir.as_os_str().as_bytes())
    }

    /// The ids of the process and its descendants. Orphaned descendants are included: they become children of the executor.
    fn pids(&self) -> Vec<u32> {
        let pid = Pid::from_raw(self.pid);
        if !self.is_alive() {
            return Vec::new();
        }
        let found = match parent_of(pid).filter(|parent| self.is_executor(*parent)) {
            Some(executor) => descendants(executor),
            // The executor has died, and the task is about to be killed.
            None => [pid].into_iter().chain(descendants(pid)).collect(),
        };
        found.into_iter().filter_map(|pid| pid.as_raw().try_into().ok()).collect()
    }

    /// The usage that the control groups have counted. Without them, that of the processes that exist: then the compute of
    /// those that have ended is not known, and so there is no sum.
    fn usage(&self) -> io::Result<TaskUsage> {
        if let Some(cgroup) = self.cgroup.as_ref().filter(|cgroup| cgroup.is_complete()) {
            return cgroup.usage();
        }
        let pids = self.pids();
        let (mut rss, mut swap) = (0_u64, 0_u64);
        for reading in pids.iter().filter_map(|pid| ProcessReading::of(*pid)) {
            rss = rss.saturating_add(reading.rss_bytes);
            swap = swap.saturating_add(reading.swap_bytes);
        }
        let memory = MemoryUsage { rss: Some(rss), swap: Some(swap), ..MemoryUsage::default() };
        Ok(TaskUsage { cpu: CpuUsage::default(), memory, pids })
    }

    /// Kills all processes of the task that can be found: those in its control groups, and the process and all of its
    /// descendants, if it still exists.
    fn kill_tree(&self) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(TaskCgroup::kill) {
            tracing::error!(dir = %self.dir.display(), error = chain(&error), "cannot end the processes in a cgroup");
        }
        let pid = Pid::from_raw(self.pid);
        if self.is_alive() {
            kill_descendants(pid, Reap::No);
            // Fails if the process has ended.
            let _ = killpg(pid, Signal::SIGKILL);
        }
    }
}

/// A process with its executor.
#[derive(Debug)]
pub(crate) struct Process {
    handle: ProcessHandle,
    exit: watch::Receiver<Option<Exit>>,
}

/// Creates `dir`, starts an executor in it, and with it the task. The executor's messages go to `log`.
pub(crate) async fn launch(
    executor: &ExecutorCommand,
    dir: PathBuf,
    launch: &Launch,
    log: File,
) -> Result<Arc<dyn Running>, StartError> {
    match try_launch(executor, &dir, launch, log).await {
        Ok(process) => Ok(process),
        Err(reason) => {
            // The directory contains the environment.
            if let Err(error) = tokio::fs::remove_dir_all(&dir).await {
                tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot remove an executor's directory");
            }
            Err(StartError::unrecoverable(format!("failed to launch command with executor: {reason}")))
        }
    }
}

async fn try_launch(
    executor: &ExecutorCommand,
    dir: &Path,
    launch: &Launch,
    log: File,
) -> Result<Arc<dyn Running>, String> {
    let text = |error: io::Error| error.to_string();
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir).map_err(text)?;
    for name in [CONTROL, ALIVE] {
        mkfifo(&dir.join(name), PIPE_MODE).map_err(|error| error.to_string())?;
    }
    store::write(&dir.join(LAUNCH), launch, Durability::Process).map_err(text)?;

    // The pipe is also opened for writing, so that it does not end before the executor has opened it.
    let alive = pipe::OpenOptions::new().read_write(true).open_receiver(dir.join(ALIVE)).map_err(text)?;
    let mut child = Command::new(&executor.program)
        .args(&executor.args)
        .arg(dir)
        // The agent's environment holds secrets that tasks could read there.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(text)?;
    match until_started(&mut child, alive, dir, launch.cgroup.clone()).await {
        Ok(process) => {
            // Reaps the guard, so that it does not stay as a zombie. If the agent ends first, init reaps it.
            tokio::spawn(async move { child.wait().await });
            Ok(Arc::new(process))
        }
        Err(reason) => {
            // Without the guard, the executor ends what it may have started. Fails if the guard has ended.
            let _ = child.kill().await;
            Err(reason)
        }
    }
}

/// Waits until an executor has started its task.
async fn until_started(
    child: &mut Child,
    alive: pipe::Receiver,
    dir: &Path,
    cgroup: Option<TaskCgroup>,
) -> Result<Process, String> {
    let text = |error: io::Error| error.to_string();
    let mut lines = BufReader::new(alive).lines();
    let first_line = async { lines.next_line().await.map_err(text) };
    tokio::pin!(first_line);
    let line = tokio::select! {
        line = &mut first_line => line,
        status = child.wait() => match timeout(LAST_OUTPUT_TIMEOUT, first_line).await {
            // The executor wrote its result before it ended.
            Ok(line) => line,
            Err(_) => Err(match status {
                Ok(status) => format!("the executor ended early ({status})"),
                Err(error) => error.to_string(),
            }),
        },
        () = sleep(START_TIMEOUT) => {
            Err(format!("the executor did not start within {} seconds", START_TIMEOUT.as_secs()))
        }
    }?;
    let pid = started_pid(&line.unwrap_or_default())?;
    let ticks = started_ticks(Pid::from_raw(pid));
    Process::watch(ProcessHandle::new(dir, Started { pid, ticks }, cgroup)).map_err(text)
}

fn started_pid(line: &str) -> Result<i32, String> {
    match line.split_once(' ') {
        Some(("started", pid)) => {
            pid.parse().map_err(|_| format!("the executor sent an invalid process id: {line:?}"))
        }
        Some(("failed", reason)) => Err(reason.to_owned()),
        Some(_) | None => Err(format!("unexpected message of the executor: {line:?}")),
    }
}

/// Recovers a process by its handle.
pub(crate) fn recover(handle: &Handle) -> Result<Arc<dyn Running>, NotRecovered> {
    Ok(Arc::new(recover_process(ProcessHandle::read(handle)?)?))
}

fn recover_process(handle: ProcessHandle) -> Result<Process, NotRecovered> {
    let exit = store::read::<Exit>(&handle.dir.join(EXIT)).map_err(|error| NotRecovered(chain(&error)))?;
    if exit.is_none() {
        send_command(&handle.dir, "").map_err(|_| NotRecovered("its executor is gone".into()))?;
    }
    Process::watch(handle).map_err(|error| NotRecovered(error.to_string()))
}

/// Ends what is left of a process that cannot be recovered.
pub(crate) async fn discard(handle: &Handle) {
    let Ok(handle) = ProcessHandle::read(handle) else { return };
    kill_tree(&handle).await;
    remove_dir(&handle.dir).await;
}

async fn kill_tree(handle: &ProcessHandle) {
    let handle = handle.clone();
    let result = tokio::task::spawn_blocking(move || handle.kill_tree()).await;
    if let Err(error) = result {
        tracing::error!(error = chain(&error), "cannot kill the processes of a task that was not recovered");
    }
}

/// Ends all processes that were started in the directories within `dir`, except the one in the directory `known`. Their
/// handles are not known: they were not saved, or cannot be read.
pub(crate) async fn end_leftovers(dir: &Path, known: Option<&Path>) {
    let dirs = store::directories(dir).unwrap_or_else(|error| {
        tracing::error!(dir = %dir.display(), error = chain(&error), "cannot look for processes of a task");
        Vec::new()
    });
    for leftover in dirs.iter().filter(|leftover| known != Some(leftover.as_path())) {
        tracing::warn!(dir = %leftover.display(), "ending what an executor runs of which nothing else is known");
        end(leftover).await;
    }
}

/// Ends the process that was started in this directory, by what its executor has written there.
async fn end(dir: &Path) {
    match store::read::<Started>(&dir.join(STARTED)) {
        Ok(Some(started)) => {
            // Its control groups are not known. They are emptied and removed with those of its allocation.
            let handle = ProcessHandle::new(dir, started, None);
            match recover_process(handle.clone()) {
                Ok(process) => {
                    if let Err(error) = process.stop(None, LEFTOVER_TIMEOUT).await {
                        tracing::error!(dir = %dir.display(), error = chain(&error), "cannot end a process");
                    }
                }
                Err(_) => kill_tree(&handle).await,
            }
        }
        Ok(None) | Err(_) => {
            // There may be no executor, or it may not have started anything yet. Without the directory it finds nothing to
            // launch, or cannot write what it has started, and ends.
            let ended = async {
                while send_command(dir, "kill\n").is_ok() {
                    sleep(KILL_INTERVAL).await;
                }
            };
            if timeout(KILL_TIMEOUT, ended).await.is_err() {
                tracing::error!(dir = %dir.display(), "an executor does not end");
            }
        }
    }
    remove_dir(dir).await;
}

async fn remove_dir(dir: &Path) {
    match tokio::fs::remove_dir_all(dir).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot remove an executor's directory");
        }
    }
}

/// Sends a command to an executor. Fails if no executor reads it. An empty command only probes.
fn send_command(dir: &Path, command: &str) -> io::Result<()> {
    let non_blocking = OFlag::O_NONBLOCK.bits();
    let mut control = OpenOptions::new().write(true).custom_flags(non_blocking).open(dir.join(CONTROL))?;
    control.write_all(command.as_bytes())
}

impl Process {
    /// Watches a process for its end.
    fn watch(handle: ProcessHandle) -> io::Result<Self> {
        let alive = pipe::OpenOptions::new().open_receiver(handle.dir.join(ALIVE))?;
        let (exit_sender, exit) = watch::channel(None);
        let watched = handle.clone();
        tokio::spawn(async move {
            let exit = watched.until_ended(alive).await;
            exit_sender.send_replace(Some(exit));
        });
        Ok(Self { handle, exit })
    }
}

impl ProcessHandle {
    async fn until_ended(&self, alive: pipe::Receiver) -> Exit {
        let mut lines = BufReader::new(alive).lines();
        // If the executor ended while the pipe was being opened, the pipe never closes. So the executor is also probed.
        while send_command(&self.dir, "").is_ok() {
            match timeout(PROBE_INTERVAL, lines.next_line()).await {
                Ok(Ok(Some(_))) | Err(_) => {}
                Ok(Ok(None) | Err(_)) => break,
            }
        }
        match store::read(&self.dir.join(EXIT)) {
            Ok(Some(exit)) => exit,
            Ok(None) | Err(_) => {
                // Its executor and the guard were killed at once: what can be found of the task must not keep running.
                kill_tree(self).await;
                Exit { code: -1, message: "the task's executor has died".into(), ..Exit::default() }
            }
        }
    }
}

#[async_trait]
impl Running for Process {
    fn handle(&self) -> Handle {
        rmp_serde::to_vec_named(&self.handle).expect("encoding plain data to MessagePack cannot fail").into()
    }

    async fn wait(&self) -> Exit {
        until(&self.exit, Option::is_some).await.unwrap_or_default()
    }

    async fn stop(&self, signal: Option<Signal>, grace: Duration) -> Result<(), StopError> {
        // Fails if the executor is gone and the task with it. The wait below notices that.
        let _ = send_command(&self.handle.dir, &format!("signal {}\n", signal.unwrap_or(STOP_SIGNAL) as i32));
        if timeout(grace, self.wait()).await.is_ok() {
            return Ok(());
        }
        let _ = send_command(&self.handle.dir, "kill\n");
        match timeout(KILL_TIMEOUT, self.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(StopError(format!("process did not exit after {} seconds", KILL_TIMEOUT.as_secs())))
            }
        }
    }

    async fn signal(&self, signal: Signal) -> io::Result<()> {
        send_command(&self.handle.dir, &format!("signal {}\n", signal as i32))
    }

    async fn destroy(&self) {
        remove_dir(&self.handle.dir).await;
    }

    async fn usage(&self) -> io::Result<Option<TaskUsage>> {
        let handle = self.handle.clone();
        let usage = tokio::task::spawn_blocking(move || handle.usage()).await;
        usage.map_err(io::Error::other)?.map(Some)
    }

    async fn exec(&self, request: ExecRequest) -> Result<ExecSession, ExecError> {
        let dir = &self.handle.dir;
        process_exec::exec(dir, self.exit.clone(), request, |line| send_command(dir, line)).await
    }
}
