//! Resource usage of the machine, from two readings.

use std::fs;
use std::time::Instant;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};
use telemetry::clock;
use wire::Refusal;
use wire::stats::{CpuStats, HostStats, MemoryStats};

use super::{disks, failed};
use crate::context::Context;
use crate::node::fingerprint::Machine;
use crate::proc::{self, CpuTimes};

/// The kernel's counters of processor time.
const STAT: &str = "/proc/stat";

/// A reading of the machine's counters.
#[derive(Debug, Clone)]
pub(super) struct HostReading {
    pub(super) at: Instant,
    cpus: Vec<(String, CpuTimes)>,
}

impl HostReading {
    /// Reads the counters.
    pub(super) fn take() -> Result<Self, Refusal> {
        let stat =
            fs::read_to_string(STAT).map_err(|error| failed(format!("cannot read {STAT}: {error}")))?;
        Ok(Self { at: clock::monotonic(), cpus: proc::cpus(&stat) })
    }
}

/// The usage between two readings, and the current totals.
pub(super) fn stats(
    before: &HostReading,
    after: &HostReading,
    machine: &Machine,
    context: &Context,
) -> Result<HostStats, Refusal> {
    let cannot = |kind: &str, error: &dyn std::error::Error| {
        failed(format!("cannot read the machine's {kind}: {}", telemetry::chain(error)))
    };
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory).map_err(|error| cannot("memory", &error))?;
    Ok(HostStats {
        at: clock::now(),
        uptime_secs: System::uptime().map_err(|error| cannot("clock", &error))?,
        memory: MemoryStats {
            total: system.total_memory(),
            available: system.available_memory(),
            used: system.used_memory(),
            free: system.free_memory(),
        },
        cpus: cpus(before, after, |core| machine.core_mhz(core)),
        disks: disks::mounted(),
        alloc_disk: disks::of(&context.config.allocs_dir()),
        devices: Vec::new(),
    })
}

fn cpus(before: &HostReading, after: &HostReading, mhz: impl Fn(usize) -> u32) -> Vec<CpuStats> {
    let stats = after.cpus.iter().enumerate().map(|(core, (name, now))| {
        let earlier = before.cpus.iter().find(|(earlier, _)| earlier == name);
        let then = earlier.map_or_else(CpuTimes::default, |(_, then)| *then);
        let total = now.total.saturating_sub(then.total);
        let percent = |now: u64, then: u64| {
            if total == 0 { 0.0 } else { 100.0 * now.saturating_sub(then) as f64 / total as f64 }
        };
        let idle_percent = if total == 0 { 100.0 } else { percent(now.idle, then.idle) };
        // Idle time may decrease slightly on some kernels.
        let busy_percent = (100.0 - idle_percent).clamp(0.0, 100.0);
        CpuStats {
            name: name.as_str().into(),
            user_percent: percent(now.user, then.user),
            system_percent: percent(now.system, then.system),
            idle_percent,
            busy_percent,
            used_mhz: busy_percent / 100.0 * f64::from(mhz(core)),
        }
    });
    stats.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(user: u64, system: u64, idle: u64) -> HostReading {
        let times = CpuTimes { user, system, idle, total: user + system + idle };
        HostReading { at: clock::monotonic(), cpus: vec![("cpu0".to_owned(), times)] }
    }

    #[test]
    fn processor_usage_is_that_between_two_readings() {
        let stats = cpus(&reading(100, 50, 1_000), &reading(130, 60, 1_060), |_| 2_000);
        let found = &stats[0];
        assert_eq!((&*found.name, found.user_percent, found.system_percent), ("cpu0", 30.0, 10.0));
        assert_eq!((found.idle_percent, found.busy_percent, found.used_mhz), (60.0, 40.0, 800.0));
    }

    #[test]
    fn two_readings_at_the_same_moment_show_no_usage() {
        let stats = cpus(&reading(1, 1, 1), &reading(1, 1, 1), |_| 2_000);
        assert_eq!((stats[0].idle_percent, stats[0].used_mhz), (100.0, 0.0));
    }
}
