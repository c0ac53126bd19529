//! Counters of processors and processes from `/proc`.

use std::fs;

/// The number of ticks per second of the kernel's counters. It is the same on all supported machines.
pub(crate) const TICKS_PER_SEC: f64 = 100.0;

/// The time of a processor since boot, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    /// In programs.
    pub(crate) user: u64,
    /// In the kernel.
    pub(crate) system: u64,
    /// Idle.
    pub(crate) idle: u64,
    /// The total time, including time stolen by other virtual machines of the same host.
    pub(crate) total: u64,
}

/// The counters of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessReading {
    /// The start time in ticks, which distinguishes the process from a later one with the same id.
    pub(crate) started: u64,
    /// The time in its own code, in ticks.
    pub(crate) user: u64,
    /// The time in the kernel, in ticks.
    pub(crate) system: u64,
    /// Its resident memory.
    pub(crate) rss_bytes: u64,
    /// Its memory that was swapped out.
    pub(crate) swap_bytes: u64,
}

/// Parses the processors in `/proc/stat`, by name.
pub(crate) fn cpus(stat: &str) -> Vec<(String, CpuTimes)> {
    stat.lines().filter_map(cpu).collect()
}

fn cpu(line: &str) -> Option<(String, CpuTimes)> {
    let mut fields = line.split_whitespace();
    let name = fields.next()?;
    // The line without a number is the sum of the others.
    name.strip_prefix("cpu")?.parse::<u32>().ok()?;
    // The guest times are already included in the first two.
    const KINDS: usize = 8;
    let times: Vec<u64> = fields.take(KINDS).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, waits, interrupts, soft_interrupts, stolen] = times[..] else {
        return None;
    };
    let (user, idle) = (user + nice, idle + waits);
    let system = system + interrupts + soft_interrupts;
    Some((name.to_owned(), CpuTimes { user, system, idle, total: user + system + idle + stolen }))
}

impl ProcessReading {
    /// The counters of a process; `None` if it has ended.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        process_in(&stat, &status)
    }
}

fn process_in(stat: &str, status: &str) -> Option<ProcessReading> {
    // Positions after the name, which may contain any character.
    const USER: usize = 11;
    const SYSTEM: usize = 12;
    const STARTED: usize = 19;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |position: usize| fields.get(position)?.parse().ok();
    Some(ProcessReading {
        started: field(STARTED)?,
        user: field(USER)?,
        system: field(SYSTEM)?,
        rss_bytes: bytes(status, "VmRSS:"),
        swap_bytes: bytes(status, "VmSwap:"),
    })
}

/// A value in `/proc/<pid>/status`. A process that is ending has none.
fn bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_and_their_sum_is_passed_over() {
        let stat = "cpu  20 2 10 200 4 2 2 2 1 0\ncpu0 10 1 5 100 2 1 1 1 1 0\ncpu1 1 2 3\nintr 5 0\n";
        let expected = CpuTimes { user: 11, system: 7, idle: 102, total: 121 };
        assert_eq!(cpus(stat), [("cpu0".to_owned(), expected)]);
    }

    #[test]
    fn a_process_with_any_name_is_read() {
        let stat = "12 (a) b) S 7 12 12 0 -1 4194304 1 0 0 0 31 4 0 0 20 0 1 0 999 1000 5";
        let status = "Name:\ta) b\nVmRSS:\t     128 kB\nVmSwap:\t       4 kB\n";
        let expected =
            ProcessReading { started: 999, user: 31, system: 4, rss_bytes: 128 << 10, swap_bytes: 4 << 10 };
        assert_eq!(process_in(stat, status), Some(expected));
        assert_eq!(process_in("12 (sh", status), None);
        assert_eq!(process_in(stat, "").map(|reading| reading.rss_bytes), Some(0));
        assert!(ProcessReading::of(std::process::id()).unwrap().rss_bytes > 0);
    }
}
