//! Entering new namespaces, and those of a running task.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;

use super::description::Namespaces;

/// Moves this process into new namespaces. Only its children are in the one of processes; the first becomes its init
/// process.
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
    for (wanted, flag) in [
        (namespaces.pid, CloneFlags::CLONE_NEWPID),
        (namespaces.ipc, CloneFlags::CLONE_NEWIPC),
        (namespaces.cgroup, CloneFlags::CLONE_NEWCGROUP),
    ] {
        flags.set(flag, wanted);
    }
    flags
}

/// Lets the children of this process be in the namespace of a task's processes.
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
