//! What a container uses, from the engine's counters. Pure.

use crate::engine::Stats;
use crate::resources::{CpuUsage, MemoryUsage, TaskUsage};

/// Translates the engine's counters. Names of the kernel's counters differ between the versions of control groups. The
/// engine does not tell the ids of processes.
pub(super) fn usage(stats: &Stats) -> TaskUsage {
    let (cpu, memory) = (&stats.cpu_stats, &stats.memory_stats);
    let counter = |names: &[&str]| {
        let counters = memory.stats.as_ref()?;
        names.iter().find_map(|name| counters.get(*name).copied())
    };
    TaskUsage {
        cpu: CpuUsage {
            system_ns: cpu.cpu_usage.usage_in_kernelmode,
            user_ns: cpu.cpu_usage.usage_in_usermode,
            total_ns: cpu.cpu_usage.total_usage,
            throttled_periods: cpu.throttling_data.throttled_periods,
            throttled_ns: cpu.throttling_data.throttled_time,
        },
        memory: MemoryUsage {
            rss: counter(&["rss", "anon"]),
            cache: counter(&["cache", "file"]),
            swap: counter(&["swap"]),
            usage: memory.usage,
            max_usage: memory.max_usage,
            kernel_usage: counter(&["kernel"]),
        },
        pids: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_of_both_versions_of_control_groups_are_read() {
        let of = |memory: serde_json::Value| {
            let stats = json!({
                "cpu_stats": {
                    "cpu_usage": { "total_usage": 30, "usage_in_kernelmode": 10, "usage_in_usermode": 20 },
                    "throttling_data": { "periods": 5, "throttled_periods": 1, "throttled_time": 7 },
                },
                "memory_stats": memory,
            });
            usage(&serde_json::from_value(stats).unwrap())
        };
        let old = of(json!({ "usage": 9, "max_usage": 12, "stats": { "rss": 4, "cache": 5, "swap": 0 } }));
        assert_eq!(old.cpu.total_ns, Some(30));
        assert_eq!(old.cpu.throttled_ns, Some(7));
        assert_eq!((old.memory.rss, old.memory.cache, old.memory.max_usage), (Some(4), Some(5), Some(12)));
        let new = of(json!({ "usage": 9, "stats": { "anon": 4, "file": 5, "kernel": 1 } }));
        assert_eq!((new.memory.rss, new.memory.cache), (Some(4), Some(5)));
        assert_eq!((new.memory.kernel_usage, new.memory.max_usage), (Some(1), None));
    }
}
