//! What processes cost: processor time and memory, as Linux tells them.

use std::collections::BTreeMap;
use std::time::Duration;

/// What Linux counts processor time in, whatever it runs on.
const TICKS_A_SECOND: u64 = 100;
/// Where numbers stand behind a process's name: its parent, its own time, and that of children who have ended.
const PARENT: usize = 1;
const OWN: std::ops::Range<usize> = 11..13;
const WITH_ENDED: std::ops::Range<usize> = 11..15;

/// How much of a processor a process has used so far.
///
/// # Panics
/// If there is no such process.
pub fn processor_time(pid: u32) -> Duration {
    let stat = stat(pid).expect("the process runs");
    ticks(stat[OWN].iter().sum())
}

/// The same with all processes that it started, and those that they did, also such as have ended.
///
/// # Panics
/// If there is no such process.
pub fn processor_time_of_tree(pid: u32) -> Duration {
    ticks(tree(pid).values().flat_map(|stat| &stat[WITH_ENDED]).sum())
}

/// How much of the memory a process has now with all that it started, in bytes. What several of them share counts once.
///
/// # Panics
/// If there is no such process, or its memory may not be looked at.
pub fn memory_of_tree(pid: u32) -> u64 {
    let share = |pid: &u32| {
        // One may end meanwhile.
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let kib: u64 = tree(pid).keys().filter_map(share).sum();
    assert!(kib > 0, "memory of process {pid} may be looked at");
    kib * 1024
}

/// The numbers of a process, and of all that it started, by their ids.
fn tree(pid: u32) -> BTreeMap<u32, Vec<u64>> {
    let all = std::fs::read_dir("/proc").expect("Linux says what runs");
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // One may end while they are read.
    let stats: BTreeMap<u32, Vec<u64>> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    assert!(stats.contains_key(&pid), "the process runs");
    let parent = |pid: &u32| stats.get(pid).and_then(|stat| u32::try_from(stat[PARENT]).ok());
    let is_of_tree = |of: &u32| std::iter::successors(Some(*of), parent).any(|ancestor| ancestor == pid);
    let of_tree: Vec<u32> = stats.keys().copied().filter(is_of_tree).collect();
    stats.into_iter().filter(|(of, _)| of_tree.contains(of)).collect()
}

/// How much of the memory a process has now, and has had at most, in bytes.
///
/// # Panics
/// If there is no such process.
pub fn memory(pid: u32) -> [u64; 2] {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("there is such a line");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
        kib * 1024
    })
}

/// The numbers of a process, the first of them 0 for a letter.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
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
    fn what_children_used_counts_also_when_they_have_ended() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let own = std::process::id();
        let before = (processor_time(own), processor_time_of_tree(own));
        let ended = Command::new("sh").args(["-c", script]).status();
        assert!(ended.expect("there is a shell").success());
        assert!(processor_time_of_tree(own) > before.1, "the shell took some time");
        assert!(memory_of_tree(own) > 0);
        let [now, most] = memory(own);
        assert!(0 < now && now <= most);
    }
}
