//! Processor time and memory of processes, read from `/proc`.

use std::collections::BTreeMap;
use std::time::Duration;

/// The unit of processor time in `/proc`, which is the same on every platform.
const TICKS_A_SECOND: u64 = 100;
/// Positions of numbers after a process's name: its parent, its own times, and its own together with those of children
/// that have exited.
const PARENT: usize = 1;
const OWN: std::ops::Range<usize> = 11..13;
const WITH_ENDED: std::ops::Range<usize> = 11..15;

/// Returns how much processor time a process has used so far.
///
/// # Panics
/// If the process does not exist.
pub fn processor_time(pid: u32) -> Duration {
    let stat = stat(pid).expect("the process runs");
    ticks(stat[OWN].iter().sum())
}

/// Returns the same for a process and all its descendants, including those that have exited.
///
/// # Panics
/// If the process does not exist.
pub fn processor_time_of_tree(pid: u32) -> Duration {
    ticks(tree(pid).values().flat_map(|stat| &stat[WITH_ENDED]).sum())
}

/// Returns the current memory of a process and all its descendants, in bytes. Shared memory counts once.
///
/// # Panics
/// If the process does not exist, or its memory cannot be read.
pub fn memory_of_tree(pid: u32) -> u64 {
    let share = |pid: &u32| {
        // A process may exit meanwhile.
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let kib: u64 = tree(pid).keys().filter_map(share).sum();
    assert!(kib > 0, "the memory of process {pid} can be read");
    kib * 1024
}

/// Returns the fields of `/proc/<pid>/stat` of a process and all its descendants, by process id.
fn tree(pid: u32) -> BTreeMap<u32, Vec<u64>> {
    let all = std::fs::read_dir("/proc").expect("/proc can be read");
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process may exit while they are read.
    let stats: BTreeMap<u32, Vec<u64>> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    assert!(stats.contains_key(&pid), "the process runs");
    let parent = |pid: &u32| stats.get(pid).and_then(|stat| u32::try_from(stat[PARENT]).ok());
    let is_of_tree = |of: &u32| std::iter::successors(Some(*of), parent).any(|ancestor| ancestor == pid);
    let of_tree: Vec<u32> = stats.keys().copied().filter(is_of_tree).collect();
    stats.into_iter().filter(|(of, _)| of_tree.contains(of)).collect()
}

/// Returns the current and the peak memory of a process, in bytes.
///
/// # Panics
/// If the process does not exist.
pub fn memory(pid: u32) -> [u64; 2] {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).expect("the status has such a line");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("the value is a number of kB");
        kib * 1024
    })
}

/// Returns the numbers of a process's `stat` file. Fields that are no numbers are 0.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(|field| field.trim().parse().unwrap_or_default()).collect())
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn usage_of_ended_children_counts() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let own = std::process::id();
        let before = (processor_time(own), processor_time_of_tree(own));
        let ended = Command::new("sh").args(["-c", script]).status();
        assert!(ended.expect("a shell can be started").success());
        assert!(processor_time_of_tree(own) > before.1, "the shell took some time");
        assert!(memory_of_tree(own) > 0);
        let [now, peak] = memory(own);
        assert!(0 < now && now <= peak);
    }
}
