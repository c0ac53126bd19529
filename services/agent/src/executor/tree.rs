//! The descendants of a process, from `/proc`. All processes that a task started end with it, including those that left its
//! process group.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Whether killed processes are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reap {
    /// They are the caller's own children.
    Yes,
    /// Another process waits for them.
    No,
}

/// The maximum number of attempts to kill the remaining processes, and the pause between them.
const ROUNDS_MAX: u32 = 200;
const ROUND_PAUSE: Duration = Duration::from_millis(10);

/// Kills all descendants of a process, but not the process itself. It waits for their end, but not indefinitely.
pub(crate) fn kill_descendants(root: Pid, reap: Reap) {
    for _ in 0..ROUNDS_MAX {
        let remaining = descendants(root);
        if remaining.is_empty() {
            return;
        }
        for pid in remaining {
            // Fails if the process has ended.
            let _ = kill(pid, Signal::SIGKILL);
        }
        if reap == Reap::Yes {
            while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive)
            {
            }
        }
        thread::sleep(ROUND_PAUSE);
    }
}

/// Kills all processes below `root` that belong to the session of the process `leader`, which may have ended. It waits for
/// their end, but not indefinitely.
pub(crate) fn kill_session(root: Pid, leader: Pid) {
    for _ in 0..ROUNDS_MAX {
        let is_in_session = |pid: &Pid| session_of(*pid) == Some(leader);
        let remaining: Vec<Pid> = descendants(root).into_iter().filter(is_in_session).collect();
        if remaining.is_empty() {
            return;
        }
        for pid in remaining {
            // Fails if the process has ended.
            let _ = kill(pid, Signal::SIGKILL);
        }
        thread::sleep(ROUND_PAUSE);
    }
}

/// When a process was started, in ticks since the machine's boot. It distinguishes the process from a later one with the
/// same id.
pub(crate) fn started_ticks(pid: Pid) -> Option<u64> {
    /// Position of the start time after the name in `/proc/<pid>/stat`.
    const START_TIME: usize = 19;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(START_TIME)?.parse().ok()
}

/// All descendants of a process, without the process itself.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(Pid::from_raw);
        if let Some(pid) = pid
            && let Some(parent) = parent_of(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut remaining = vec![root];
    while let Some(pid) = remaining.pop() {
        let next = children.remove(&pid).unwrap_or_default();
        found.extend(&next);
        remaining.extend(next);
    }
    found
}

/// The parent of a process. Orphans belong to the subreaper that adopted them.
pub(crate) fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parent_in(&stat).map(Pid::from_raw)
}

/// The leader of the session that a process belongs to.
fn session_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    id_in(&stat, SESSION).map(Pid::from_raw)
}

/// The parent in a line of `/proc/<pid>/stat`.
fn parent_in(stat: &str) -> Option<i32> {
    id_in(stat, PARENT)
}

/// Positions of ids after the name in `/proc/<pid>/stat`.
const PARENT: usize = 1;
const SESSION: usize = 3;

/// An id in a line of `/proc/<pid>/stat`. The name before it may contain any character, including parentheses.
fn id_in(stat: &str, position: usize) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(position)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_after_any_process_name() {
        assert_eq!(parent_in("12 (a) S 7) R 34 12 12 0 -1"), Some(34));
        assert_eq!(id_in("12 (a) S 7) R 34 12 13 0 -1", SESSION), Some(13));
        assert_eq!(parent_in("12 (sh"), None);
    }

    #[test]
    fn this_process_is_below_its_parent() {
        assert!(descendants(Pid::parent()).contains(&Pid::this()));
        assert!(started_ticks(Pid::this()) >= started_ticks(Pid::parent()));
    }
}
