//! Commands that users run in a task: the executor starts them, so that they run as the task does, and end with it.
//!
//! The agent makes a directory for each command within the executor's, and names it in a line `exec <name>` in `control`:
//!
//! | file | content |
//! |---|---|
//! | `request` | what to run (`Requested`) |
//! | `status` | a pipe; its lines are `started`, `failed <reason>` and `exited <code>` |
//! | `held` | a pipe that the agent keeps open; when it closes, the command and what it started are killed |
//! | `stdin`, `stdout`, `stderr` | pipes for the command, unless it gets a terminal |
//! | `enter` | what the process of the command needs (`Enter`); removed after it is read |
//!
//! The process of the command is this program first: it begins a session of its own, takes the terminal or the pipes, and
//! then becomes the command. It is another process than the executor because both can only be done before a program runs,
//! and it has a clean environment until then, because a task's may name libraries to load.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, Uid, fchown, setsid};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use super::isolated::spawn_after;
use super::tree::kill_session;
use super::{Exit, Launch};
use crate::cgroups::TaskCgroup;
use crate::disk::store::{self, Durability};
use crate::isolation::description::Confinement;
use crate::isolation::{confine, namespaces, own_program};

/// The file that describes the command.
pub(crate) const REQUEST: &str = "request";
/// The pipe by which the agent learns what becomes of the command.
pub(crate) const STATUS: &str = "status";
/// The pipe that the agent keeps open as long as it wants the command.
pub(crate) const HELD: &str = "held";
/// The pipes for a command without a terminal.
pub(crate) const STDIN: &str = "stdin";
/// See [`STDIN`].
pub(crate) const STDOUT: &str = "stdout";
/// See [`STDIN`].
pub(crate) const STDERR: &str = "stderr";
/// The file for the process of the command.
const ENTER: &str = "enter";
/// The environment variable by which the process of a command knows its directory.
const SESSION: &str = "DROVER_EXEC_SESSION";

/// A command that a user runs in a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requested {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// The terminal of the command, if it gets one.
    pub(crate) terminal: Option<PathBuf>,
}

/// What the process of a command needs.
#[derive(Debug, Serialize, Deserialize)]
struct Enter {
    requested: Requested,
    env: Vec<(String, String)>,
    work_dir: PathBuf,
    user: Option<(u32, u32)>,
    oom_score_adj: Option<u32>,
    /// The control groups of the task.
    cgroup: Option<TaskCgroup>,
    /// What the command may do, if its task is isolated.
    confinement: Option<Confinement>,
}

/// The processes that an executor waits for. The lock is held while one is signalled or started, so that its id cannot
/// belong to another process.
#[derive(Debug)]
pub(super) struct Children {
    /// The task's process while it exists.
    pub(super) task: Option<Pid>,
    /// Who waits for the processes of commands.
    commands: BTreeMap<Pid, Sender<Exit>>,
}

/// The processes, shared by the executor's threads.
pub(super) type SharedChildren = Arc<Mutex<Children>>;

impl Children {
    pub(super) fn new(task: Pid) -> Self {
        Self { task: Some(task), commands: BTreeMap::new() }
    }

    /// Records that a process has ended, and tells who waits for it.
    pub(super) fn ended(&mut self, pid: Pid, exit: impl FnOnce() -> Exit) {
        if let Some(waiting) = self.commands.remove(&pid) {
            // Fails if nobody waits any more.
            let _ = waiting.send(exit());
        }
    }
}

/// Locks the processes.
pub(super) fn locked(children: &Mutex<Children>) -> MutexGuard<'_, Children> {
    children.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the command that a directory describes, on a thread of its own.
pub(super) fn serve(dir: PathBuf, launch: Arc<Launch>, children: SharedChildren) {
    thread::spawn(move || {
        if let Err(error) = run(&dir, &launch, &children) {
            let _ = writeln!(io::stderr(), "executor: cannot run a command in the task: {error}");
        }
    });
}

fn run(dir: &Path, launch: &Launch, children: &SharedChildren) -> io::Result<()> {
    // Also opened for reading, so that it does not wait for an agent that has ended.
    let mut status = OpenOptions::new().read(true).write(true).open(dir.join(STATUS))?;
    let mut held = open_waiting(dir.join(HELD), OpenOptions::new().read(true))?;
    let started = start(dir, launch, children);
    let (pid, exit) = match started {
        Ok(started) => started,
        Err(error) => return status.write_all(format!("failed {}\n", one_line(&error)).as_bytes()),
    };
    thread::spawn(move || {
        if let Ok(exit) = exit.recv() {
            // Fails only if the agent has removed the pipe, and so does not want to know.
            let _ = status.write_all(format!("exited {}\n", exit.code).as_bytes());
        }
    });
    // The agent writes nothing: there is only the end to read.
    let _ = io::copy(&mut held, &mut io::sink());
    kill_session(Pid::this(), pid);
    Ok(())
}

/// Starts the process of a command. Returns its id, and where its exit will be told.
fn start(
    dir: &Path,
    launch: &Launch,
    children: &SharedChildren,
) -> io::Result<(Pid, std::sync::mpsc::Receiver<Exit>)> {
    let requested: Requested = store::read(&dir.join(REQUEST))
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other("nothing to run"))?;
    let enter = Enter {
        requested,
        env: launch.env.clone(),
        work_dir: launch.work_dir.clone(),
        user: launch.user,
        oom_score_adj: launch.oom_score_adj.or_else(super::unprotected_adjustment),
        cgroup: launch.cgroup.clone(),
        confinement: launch.isolation.as_ref().map(|isolation| isolation.confinement.clone()),
    };
    store::write(&dir.join(ENTER), &enter, Durability::Process)?;
    let mut children = locked(children);
    let Some(task) = children.task else { return Err(io::Error::other("the task has ended")) };
    let child = if launch.isolation.is_some() {
        start_in(task, dir)?
    } else {
        process(Path::new("/proc/self/exe"), dir).stdin(Stdio::null()).spawn()?
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    let (sender, exit) = channel();
    children.commands.insert(pid, sender);
    Ok((pid, exit))
}

/// A process of this program that is to become the command.
fn process(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).env_clear().env(SESSION, dir).stdout(Stdio::null());
    command
}

/// Starts the process of a command among the processes of an isolated task. Its standard input refers to the task, whose
/// other namespaces it enters later.
fn start_in(task: Pid, dir: &Path) -> io::Result<Child> {
    let task = rustix::process::Pid::from_raw(task.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    let task = pidfd_open(task, PidfdFlags::empty())?;
    let (program, path) = own_program()?;
    let mut command = process(&path, dir);
    command.stdin(task.try_clone()?);
    let child = spawn_after(|| namespaces::join_processes(&task), &mut command)?;
    drop(program);
    Ok(child)
}

/// The directory of the command that this process is to become.
pub(super) fn requested() -> Option<PathBuf> {
    env::var_os(SESSION).map(PathBuf::from)
}

/// Becomes the command that the directory describes. Returns only if that fails.
pub(super) fn enter(dir: &Path) -> io::Result<()> {
    let file = dir.join(ENTER);
    let enter: Enter = store::read(&file)
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other(format!("nothing to run in {}", dir.display())))?;
    fs::remove_file(file)?;
    if enter.confinement.is_some() {
        // The task sees this process already.
        confine::hide()?;
    }
    let mut status = OpenOptions::new().read(true).write(true).open(dir.join(STATUS))?;
    let error = match prepare(dir, &enter) {
        Ok(mut command) => {
            status.write_all(b"started\n")?;
            command.exec()
        }
        Err(error) => error,
    };
    let reason = failure(&enter.requested.command, &error);
    // Nothing is printed: standard error may be the user's by now.
    status.write_all(format!("failed {reason}\n").as_bytes())
}

/// Detaches this process from the executor's session, and opens what the command reads and writes.
fn prepare(dir: &Path, enter: &Enter) -> io::Result<Command> {
    setsid()?;
    if let Some(adjustment) = enter.oom_score_adj {
        fs::write("/proc/self/oom_score_adj", adjustment.to_string())?;
    }
    // Not earlier: the memory of this program would count for the task, whose limit may be less.
    if let Some(cgroup) = &enter.cgroup {
        cgroup.open()?.enter()?;
    }
    let (stdin, stdout, stderr) = match &enter.requested.terminal {
        Some(terminal) => {
            // The first terminal that the leader of a session opens becomes the session's.
            let terminal = OpenOptions::new().read(true).write(true).open(terminal)?;
            let confined = enter.confinement.as_ref().map(|confinement| confinement.user.uid);
            if let Some(user) = confined.or(enter.user.map(|(user, _)| user)) {
                fchown(&terminal, Some(Uid::from_raw(user)), None)?;
            }
            (terminal.try_clone()?, terminal.try_clone()?, terminal)
        }
        None => (
            open_waiting(dir.join(STDIN), OpenOptions::new().read(true))?,
            open_waiting(dir.join(STDOUT), OpenOptions::new().write(true))?,
            open_waiting(dir.join(STDERR), OpenOptions::new().write(true))?,
        ),
    };
    let (program, args) =
        enter.requested.command.split_first().ok_or_else(|| io::Error::other("command is not present"))?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(enter.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&enter.work_dir)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    if let Some(confinement) = &enter.confinement {
        namespaces::join(&io::stdin())?;
        confine::confine(confinement)?;
    } else if let Some((user, group)) = enter.user {
        command.uid(user).gid(group);
    }
    Ok(command)
}

/// Opens a pipe that the agent holds open at its other end. It does not wait for an agent that has ended; reading and
/// writing do wait.
fn open_waiting(path: PathBuf, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// Why a command was not started, in the words of the reference (`docs/rules/cli.md` 5.3).
fn failure(command: &[String], error: &io::Error) -> String {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let kind = error.kind();
    let reason = if kind == io::ErrorKind::NotFound && !program.contains('/') {
        "executable file not found in $PATH".to_owned()
    } else if kind == io::ErrorKind::NotFound {
        "no such file or directory".to_owned()
    } else if kind == io::ErrorKind::PermissionDenied {
        "permission denied".to_owned()
    } else {
        one_line(error)
    };
    let program = one_line(&format!("{program:?}"));
    format!("rpc error: code = Unknown desc = failed to start command: exec: {program}: {reason}")
}

fn one_line(text: &impl ToString) -> String {
    text.to_string().replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_in_the_words_of_the_reference() {
        let told = |program: &str, kind: io::ErrorKind| failure(&[program.to_owned()], &kind.into());
        assert_eq!(
            told("x", io::ErrorKind::NotFound),
            "rpc error: code = Unknown desc = failed to start command: exec: \"x\": executable file not found in $PATH"
        );
        assert!(told("/x", io::ErrorKind::NotFound).ends_with("exec: \"/x\": no such file or directory"));
        assert!(
            told("a\nb", io::ErrorKind::PermissionDenied).ends_with("exec: \"a\\nb\": permission denied")
        );
    }

    #[test]
    fn whoever_waits_for_a_command_is_told_its_exit() {
        let (task, command) = (Pid::from_raw(7), Pid::from_raw(8));
        let mut children = Children::new(task);
        let (sender, exit) = channel();
        children.commands.insert(command, sender);
        children.ended(Pid::from_raw(9), || unreachable!("nobody waits for it"));
        children.ended(command, || Exit { code: 3, ..Exit::default() });
        assert_eq!(exit.recv().unwrap().code, 3);
    }
}
