//! Whether this node can isolate tasks.

use std::path::Path;

use nix::unistd::geteuid;
use rustix::thread::capabilities;

use super::capabilities::CapabilitySet;
use super::own_program;

/// What an agent needs itself: to make namespaces and mounts, and to become the users of tasks.
const NEEDED: [&str; 7] = ["chown", "dac_override", "setgid", "setpcap", "setuid", "sys_admin", "sys_chroot"];
/// The namespaces that tasks get, as the kernel shows those of this process.
const NAMESPACES: [&str; 6] = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];
/// What the kernel shows if it can filter system calls.
const FILTERS: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// Says why this process cannot isolate tasks, if so.
pub(crate) fn check() -> Result<(), String> {
    if !geteuid().is_root() {
        return Err("Driver must run as root".into());
    }
    let own = capabilities(None).map_err(|error| format!("cannot read the agent's capabilities: {error}"))?;
    let own = CapabilitySet::from_bits(own.effective.bits());
    let needed = NEEDED.iter().fold(CapabilitySet::EMPTY, |set, name| set.union(CapabilitySet::named(name)));
    let missing = needed.without(own);
    if !missing.is_empty() {
        return Err(format!("the agent does not have the capabilities: {missing}"));
    }
    let absent = NAMESPACES.iter().find(|name| !Path::new("/proc/self/ns").join(name).exists());
    if let Some(absent) = absent {
        return Err(format!("the kernel has no namespaces of the kind {absent}"));
    }
    if !Path::new(FILTERS).exists() {
        return Err("the kernel cannot filter system calls (seccomp)".into());
    }
    // Tries the newest calls that are needed, with a mount that nobody sees.
    let tried = own_program().map(drop);
    tried.map_err(|error| format!("cannot make mounts as Linux 5.12 and newer can: {error}"))
}
