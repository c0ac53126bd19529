//! Tasks that are isolated: the executor starts a process of this program, which enters the namespaces and the root of the
//! task, gives up its rights, and then becomes the task.
//!
//! It is a process of its own because mounts, users and filters can only be changed by the process itself, before the
//! program runs. It starts in the task's namespace of processes, so that it is the first there: the kernel ends all others
//! when it ends.
//!
//! Executor and process talk over a socket, which is the process's standard input and closes when it becomes the task:
//!
//! | from | message |
//! |---|---|
//! | executor | what to run (`Launch`), after its length |
//! | process | `ready` before it becomes the task; `failed <reason>` |

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode};
use std::thread;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, dup2_stdin, setsid};

use super::{Launch, enter_cgroup, output};
use crate::isolation::description::Isolation;
use crate::isolation::{command, confine, namespaces, own_program, root};

/// The environment variable by which a process knows that it is to become an isolated task.
const BECOMES_TASK: &str = "DROVER_ISOLATED_TASK";
/// The message before the process becomes the task.
const READY: &str = "ready\n";
/// The beginning of the message that it cannot.
const FAILED: &str = "failed ";
/// The largest description of a task. The kernel's limit for the arguments and the environment of a program is lower.
const LAUNCH_BYTES_MAX: u64 = 64 << 20;
/// The search path of a task that has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts a task in its isolation.
pub(super) fn start(launch: &Launch, isolation: &Isolation) -> io::Result<Child> {
    let (mut executor, process) = UnixStream::pair()?;
    let (program, path) = own_program()?;
    let mut command = Command::new(path);
    command
        .args(env::args_os().skip(1))
        .env_clear()
        .env(BECOMES_TASK, "1")
        .current_dir("/")
        .stdin(OwnedFd::from(process))
        .stdout(output(launch))
        .stderr(output(launch));
    enter_cgroup(&mut command, launch)?;
    let is_first = isolation.namespaces.pid;
    let mut child =
        spawn_after(|| if is_first { namespaces::new_processes() } else { Ok(()) }, &mut command)?;
    // Otherwise the socket would not close when the process becomes the task.
    drop((command, program));
    match introduce(&mut executor, launch) {
        Ok(()) => Ok(child),
        Err(error) => {
            // Fails if the process has ended.
            let _ = child.kill();
            child.wait()?;
            Err(error)
        }
    }
}

/// Starts a process from a thread that has entered a namespace of processes, which only changes where the thread's
/// children are. The thread cannot start other threads any more, and so ends.
pub(super) fn spawn_after(
    enter: impl FnOnce() -> io::Result<()> + Send,
    command: &mut Command,
) -> io::Result<Child> {
    thread::scope(|scope| {
        let spawning = scope.spawn(|| {
            enter()?;
            command.spawn()
        });
        spawning.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the executor has panicked")))
    })
}

/// Sends a process what to run, and waits until it has become the task.
fn introduce(process: &mut UnixStream, launch: &Launch) -> io::Result<()> {
    let body = rmp_serde::to_vec_named(launch).map_err(io::Error::other)?;
    let length = u64::try_from(body.len()).map_err(io::Error::other)?;
    let sent = process.write_all(&length.to_le_bytes()).and_then(|()| process.write_all(&body));
    let mut answer = String::new();
    process.read_to_string(&mut answer)?;
    match answer.strip_prefix(READY).unwrap_or(&answer) {
        "" if answer == READY => Ok(()),
        // Why it could not be sent is less than what the process says.
        "" => sent.and(Err(io::Error::other("the process ended before it became the task"))),
        rest => Err(io::Error::other(rest.strip_prefix(FAILED).unwrap_or(rest).to_owned())),
    }
}

/// Whether this process is to become an isolated task.
pub(super) fn is_requested() -> bool {
    env::var_os(BECOMES_TASK).is_some()
}

/// Becomes the task that the executor describes. Returns only if that fails; the executor knows why then.
pub(super) fn become_task() -> ExitCode {
    let Ok(mut executor) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let error = match prepare(&mut executor) {
        Ok(mut command) => match executor.write_all(READY.as_bytes()) {
            Ok(()) => command.exec(),
            Err(error) => error,
        },
        Err(error) => error,
    };
    let reason = error.to_string().replace(['\n', '\r'], " ");
    // Fails if the executor has ended.
    let _ = executor.write_all(format!("{FAILED}{reason}").as_bytes());
    ExitCode::FAILURE
}

fn prepare(executor: &mut UnixStream) -> io::Result<Command> {
    confine::hide()?;
    let launch = receive(executor)?;
    let isolation =
        launch.isolation.as_ref().ok_or_else(|| io::Error::other("the task is not to be isolated"))?;
    confine::set_umask();
    // Its own session has no terminal, which it could type into.
    setsid()?;
    namespaces::enter_new(&isolation.namespaces, isolation.hostname.as_deref())?;
    root::enter(&isolation.root, &isolation.namespaces)?;
    dup2_stdin(File::open("/dev/null")?)?;
    let path =
        launch.env.iter().find(|(name, _)| name == "PATH").map_or(DEFAULT_PATH, |(_, path)| path.as_str());
    let name = launch.command.to_str().ok_or_else(|| io::Error::other("the command is not text"))?;
    let program = command::find(name, path).map_err(io::Error::other)?;
    confine::confine(&isolation.confinement)?;
    let mut command = Command::new(program);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&launch.work_dir);
    Ok(command)
}

fn receive(executor: &mut UnixStream) -> io::Result<Launch> {
    let mut length = [0; size_of::<u64>()];
    executor.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > LAUNCH_BYTES_MAX {
        return Err(io::Error::other(format!("the description of the task has {length} bytes")));
    }
    let mut body = Vec::new();
    executor.take(length).read_to_end(&mut body)?;
    rmp_serde::from_slice(&body).map_err(io::Error::other)
}

/// Sends a signal to the first process of a namespace. The kernel passes on only those that the process handles; a signal
/// that would end any other process ends this one, too.
pub(super) fn signal_first(pid: Pid, signal: Signal) -> Result<(), Errno> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if ends_process(signal) && is_left_to_kernel(&status, signal) {
        return kill(pid, Signal::SIGKILL);
    }
    kill(pid, signal)
}

/// Whether the kernel ends a process that does nothing about this signal.
fn ends_process(signal: Signal) -> bool {
    let others = [
        Signal::SIGCHLD,
        Signal::SIGCONT,
        Signal::SIGSTOP,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
        Signal::SIGURG,
        Signal::SIGWINCH,
    ];
    !others.contains(&signal)
}

/// Whether a process, with this content of `/proc/<pid>/status`, neither handles nor ignores a signal.
fn is_left_to_kernel(status: &str, signal: Signal) -> bool {
    let bit = 1_u64 << (signal as i32 - 1);
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    match (mask("SigCgt:"), mask("SigIgn:")) {
        (Some(handled), Some(ignored)) => (handled | ignored) & bit == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_nothing_handles_ends_the_task() {
        let status =
            "Name:\tsleep\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000004000\n";
        // SIGINT is ignored, SIGTERM is handled, nothing is done about SIGHUP.
        assert!(!is_left_to_kernel(status, Signal::SIGINT));
        assert!(!is_left_to_kernel(status, Signal::SIGTERM));
        assert!(is_left_to_kernel(status, Signal::SIGHUP));
        assert!(!is_left_to_kernel("", Signal::SIGHUP), "a process that has ended");
        assert!(ends_process(Signal::SIGTERM) && !ends_process(Signal::SIGWINCH));
    }
}
