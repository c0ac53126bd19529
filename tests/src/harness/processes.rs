//! Processes as the kernel shows them.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Processes whose command line or environment names a directory.
pub fn all_of(dir: &Path) -> Vec<Pid> {
    let needle = dir.as_os_str().as_encoded_bytes();
    let names_it = |file: &Path| {
        let found = std::fs::read(file).unwrap_or_default();
        found.windows(needle.len()).any(|window| window == needle)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let path = process.path();
        (names_it(&path.join("environ")) || names_it(&path.join("cmdline"))).then(|| Pid::from_raw(pid))
    });
    found.collect()
}

/// Kills them without warning.
pub fn kill_all_of(dir: &Path) {
    for pid in all_of(dir) {
        // It may have ended by now.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Whether a process runs; one that has ended and waits to be noticed does not.
pub fn runs(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// Whether a process is stopped, by a signal.
pub fn is_stopped(pid: Pid) -> bool {
    state(pid.as_raw()) == Some('T')
}

fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything.
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next())
}
