//! What `/proc` says of processors and processes.

use std::fs;

/// In how many parts the kernel divides a second when it counts time; the same on every machine that we run on.
pub(super) const TICKS_PER_SEC: f64 = 100.0;

/// How a processor has spent its time since the machine was started, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuTimes {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) idle: u64,
    /// All of it, what was taken by other machines on the same host among it.
    pub(super) total: u64,
}

/// A process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessReading {
    /// When it was started, in ticks; tells it from a later one of the same number.
    pub(super) started: u64,
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) rss_bytes: u64,
    pub(super) swap_bytes: u64,
}

/// The processors in `/proc/stat`, by name.
pub(super) fn cpus(stat: &str) -> Vec<(String, CpuTimes)> {
    stat.lines().filter_map(cpu).collect()
}

fn cpu(line: &str) -> Option<(String, CpuTimes)> {
    let mut fields = line.split_whitespace();
    let name = fields.next()?;
    // The line without a number is the sum of the others.
    name.strip_prefix("cpu")?.parse::<u32>().ok()?;
    // What guests take is in the first two already.
    const KINDS: usize = 8;
    let times: Vec<u64> = fields.take(KINDS).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, waits, interrupts, soft_interrupts, stolen] = times[..] else {
        return None;
    };
    let (user, idle) = (user + nice, idle + waits);
    let system = system + interrupts + soft_interrupts;
    Some((name.to_owned(), CpuTimes { user, system, idle, total: user + system + idle + stolen }))
}

/// A process as it is now; `None` if it is gone.
pub(super) fn process(pid: u32) -> Option<ProcessReading> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    process_in(&stat, &status)
}

fn process_in(stat: &str, status: &str) -> Option<ProcessReading> {
    // Places behind the name, which may hold anything.
    const USER: usize = 11;
    const SYSTEM: usize = 12;
    const STARTED: usize = 19;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |place: usize| fields.get(place)?.parse().ok();
    Some(ProcessReading {
        started: field(STARTED)?,
        user: field(USER)?,
        system: field(SYSTEM)?,
        rss_bytes: bytes(status, "VmRSS:"),
        swap_bytes: bytes(status, "VmSwap:"),
    })
}

/// A line of `/proc/<pid>/status`; a process that is just ending has none of them.
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
    fn a_process_is_read_behind_any_name() {
        let stat = "12 (a) b) S 7 12 12 0 -1 4194304 1 0 0 0 31 4 0 0 20 0 1 0 999 1000 5";
        let status = "Name:\ta) b\nVmRSS:\t     128 kB\nVmSwap:\t       4 kB\n";
        let expected =
            ProcessReading { started: 999, user: 31, system: 4, rss_bytes: 128 << 10, swap_bytes: 4 << 10 };
        assert_eq!(process_in(stat, status), Some(expected));
        assert_eq!(process_in("12 (sh", status), None);
        assert_eq!(process_in(stat, "").map(|reading| reading.rss_bytes), Some(0));
        assert!(process(std::process::id()).unwrap().rss_bytes > 0);
    }
}
