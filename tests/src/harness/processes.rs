//! Reads processes from `/proc`, and runs programs to their end.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Runs a program that prints nothing of interest unless it fails.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), error.trim()))
}

/// Processes whose command line or environment contains a directory's path.
pub fn processes_of(dir: &Path) -> Vec<Pid> {
    let needle = dir.as_os_str().as_encoded_bytes();
    let names_dir = |file: &Path| {
        let found = std::fs::read(file).unwrap_or_default();
        found.windows(needle.len()).any(|window| window == needle)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let path = process.path();
        (names_dir(&path.join("environ")) || names_dir(&path.join("cmdline"))).then(|| Pid::from_raw(pid))
    });
    found.collect()
}

/// Kills these processes by SIGKILL.
pub fn kill_processes_of(dir: &Path) {
    for pid in processes_of(dir) {
        // The process may have exited already.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Whether a process runs. A zombie does not.
pub fn runs(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: Pid) -> bool {
    state(pid.as_raw()) == Some('T')
}

fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain any character.
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next())
}
