//! Taking rights away from the own process, before it becomes the task. The order matters: each step needs rights that a
//! later one takes.

use std::io;

use nix::errno::Errno;
use nix::sys::prctl::{set_dumpable, set_keepcaps, set_no_new_privs};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet as KernelSet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::capabilities::{CapabilitySet, Granted};
use super::description::{Confinement, User};
use super::{seccomp, syscalls};

/// The permissions that files of a task do not get unless it sets them.
const UMASK: Mode = Mode::from_bits_truncate(0o022);

/// Hides this process from others that are not root on the node: its memory, its open files, its program. This ends when
/// the process becomes another program.
pub(crate) fn hide() -> io::Result<()> {
    Ok(set_dumpable(false)?)
}

/// Sets the permissions that new files do not get, whatever those of the agent are.
pub(crate) fn set_umask() {
    umask(UMASK);
}

/// Takes the rights of this process that the task does not have. What follows runs with the rights of the task.
pub(crate) fn confine(confinement: &Confinement) -> io::Result<()> {
    let step = |what: &'static str| move |error: io::Error| io::Error::other(format!("{what}: {error}"));
    set_umask();
    syscalls::new_session_keyring().or_else(without_keyrings).map_err(step("cannot make a keyring"))?;
    syscalls::close_others_on_exec().map_err(step("cannot mark open files"))?;
    limit_open_files(confinement.open_files).map_err(step("cannot limit open files"))?;
    let held = limit_capabilities(&confinement.capabilities)?;
    become_user(&confinement.user).map_err(step("cannot become the task's user"))?;
    hold(held).map_err(step("cannot set capabilities"))?;
    set_no_new_privs().map_err(|errno| step("cannot give up new privileges")(errno.into()))?;
    let filter = seccomp::filter(confinement.capabilities.bounding, confinement.may_trace);
    syscalls::install_filter(&filter).map_err(step("cannot filter system calls"))
}

/// The kernel may be built without keyrings, or a container that the agent is in may deny them to everyone.
fn without_keyrings(error: io::Error) -> io::Result<()> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Some(_) | None => Err(error),
    }
}

/// Sets the limits of open files. What this process may not set, it keeps: the hard limit cannot be raised by an agent
/// that lacks the right to.
fn limit_open_files(limits: Option<(u64, u64)>) -> io::Result<()> {
    let Some((soft, hard)) = limits else { return Ok(()) };
    match setrlimit(Resource::RLIMIT_NOFILE, soft, hard) {
        Err(Errno::EPERM) => {
            let (_, current) = getrlimit(Resource::RLIMIT_NOFILE)?;
            Ok(setrlimit(Resource::RLIMIT_NOFILE, soft.min(current), current)?)
        }
        outcome => Ok(outcome?),
    }
}

/// Removes from the bounding set what no process of the task can get. Returns what the task will hold.
fn limit_capabilities(granted: &Granted) -> io::Result<CapabilitySet> {
    let own = CapabilitySet::from_bits(capabilities(None)?.permitted.bits());
    let missing = granted.required.without(own);
    if !missing.is_empty() {
        return Err(io::Error::other(format!("the agent itself does not have the capabilities: {missing}")));
    }
    // Also those that only a newer kernel knows.
    for number in 0..u64::BITS {
        let bit = 1_u64 << number;
        if granted.bounding.bits() & bit == 0 {
            match remove_capability_from_bounding_set(KernelSet::from_bits_retain(bit)) {
                // There are no more.
                Err(rustix::io::Errno::INVAL) => break,
                outcome => outcome?,
            }
        }
    }
    Ok(granted.held.intersection(own))
}

/// Changes the user and groups. The capabilities stay, until [`hold`] takes them.
fn become_user(user: &User) -> io::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_keepcaps(true)?;
    setgroups(&groups)?;
    setresgid(gid, gid, gid)?;
    Ok(setresuid(uid, uid, uid)?)
}

/// Keeps these capabilities only, also in the next program.
fn hold(held: CapabilitySet) -> io::Result<()> {
    let set = KernelSet::from_bits_retain(held.bits());
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: set, permitted: set, inheritable: set })?;
    for one in held.each() {
        configure_capability_in_ambient_set(KernelSet::from_bits_retain(one.bits()), true)?;
    }
    Ok(())
}
