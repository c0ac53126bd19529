//! Entering new namespaces, and those of a running task.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;

use super::description::Namespaces;

/// Lets the children of this thread be in a new namespace of processes. The first of them becomes its init process, with
/// which all others end.
pub(crate) fn new_processes() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWPID)?)
}

/// Moves this process into the other namespaces of a task. It must be in the task's control groups already, which become
/// the root of those that it sees.
pub(crate) fn enter_new(namespaces: &Namespaces, hostname: Option<&str>) -> io::Result<()> {
    if let Some(network) = &namespaces.network {
        let entered = File::open(network).and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNET)?));
        entered.map_err(|error| {
            io::Error::other(format!("cannot enter the network namespace {}: {error}", network.display()))
        })?;
    }
    unshare(flags(namespaces))
        .map_err(|errno| io::Error::other(format!("cannot make namespaces: {}", errno.desc())))?;
    if let Some(hostname) = hostname {
        sethostname(hostname)?;
    }
    Ok(())
}

fn flags(namespaces: &Namespaces) -> CloneFlags {
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS;
    for (wanted, flag) in
        [(namespaces.ipc, CloneFlags::CLONE_NEWIPC), (namespaces.cgroup, CloneFlags::CLONE_NEWCGROUP)]
    {
        flags.set(flag, wanted);
    }
    flags
}

/// Lets the children of this thread be in the namespace of a task's processes.
pub(crate) fn join_processes(task: &impl AsFd) -> io::Result<()> {
    Ok(setns(task, CloneFlags::CLONE_NEWPID)?)
}

/// Moves this process into the other namespaces of a task, and to its root.
pub(crate) fn join(task: &impl AsFd) -> io::Result<()> {
    // A process that shares its working directory and root with another may not leave its mounts.
    unshare(CloneFlags::CLONE_FS)?;
    let flags = CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWCGROUP
        | CloneFlags::CLONE_NEWNS;
    Ok(setns(task, flags)?)
}
