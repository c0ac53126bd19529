//! The guard: the process above an executor. The guard only waits for the executor. When either of the two is killed,
//! the other ends all processes of the task. It finds them all, because a process whose parent has ended becomes a
//! child of the executor, or of the guard if the executor has ended. Processes are left behind only if both are killed
//! at once.

use std::env;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::prctl::set_child_subreaper;
use nix::unistd::setsid;

use super::tree::Reap;
use super::{ALIVE, end_all, read_launch};
use crate::cgroups::TaskCgroup;

/// The environment variable by which an executor knows that it has a guard.
const GUARDED: &str = "DROVER_EXECUTOR_GUARDED";

/// Whether this process has a guard.
pub(super) fn is_guarded() -> bool {
    env::var_os(GUARDED).is_some()
}

/// Runs the same program as a guarded executor, and ends what it leaves.
pub(super) fn run(dir: &Path) -> io::Result<()> {
    // A separate session is out of reach of the agent's terminal.
    setsid()?;
    set_child_subreaper(true)?;
    // The agent learns from this pipe when both have ended. It is also opened for reading, so that this does not wait
    // for an agent that has ended.
    let alive = OpenOptions::new().read(true).write(true).open(dir.join(ALIVE))?;
    // The executor removes the description of what it launches.
    let cgroup = read_launch(dir)?.cgroup;
    let mut executor = Command::new("/proc/self/exe")
        .args(env::args_os().skip(1))
        .env(GUARDED, "1")
        .stdin(Stdio::piped())
        // Who signals the guard's process group does not mean both.
        .process_group(0)
        .spawn()?;
    // The executor reads the end of this pipe when the guard has ended.
    let guarding = executor.stdin.take();
    let status = executor.wait()?;
    end_all(cgroup.as_ref(), Reap::Yes);
    drop((guarding, alive));
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ended with {status}"))) }
}

/// Ends the processes of the task, which are also those in these control groups, and this one, when the guard has ended.
pub(super) fn end_with_guard(cgroup: Option<TaskCgroup>) {
    thread::spawn(move || {
        // The guard writes nothing: there is only the end to read.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        end_all(cgroup.as_ref(), Reap::No);
        std::process::exit(1);
    });
}
