//! A task's usage, from the texts of the counters of its control groups. Pure.

use super::files::{keyed, number};
use crate::resources::{CpuUsage, MemoryUsage};

/// Nanoseconds of a microsecond.
const NS_PER_US: u64 = 1_000;
/// Nanoseconds of a tick, in which version 1 counts the time of user and kernel.
const NS_PER_TICK: u64 = 10_000_000;

/// Processor time in version 2, from `cpu.stat`.
pub(super) fn cpu_v2(stat: &str) -> CpuUsage {
    let ns = |key| keyed(stat, key).map(|us| us.saturating_mul(NS_PER_US));
    CpuUsage {
        system_ns: ns("system_usec"),
        user_ns: ns("user_usec"),
        total_ns: ns("usage_usec"),
        throttled_periods: keyed(stat, "nr_throttled"),
        throttled_ns: ns("throttled_usec"),
    }
}

/// Processor time in version 1, from `cpuacct.usage`, `cpuacct.stat` and `cpu.stat`. A text is empty if it cannot be read.
pub(super) fn cpu_v1(usage: &str, account: &str, stat: &str) -> CpuUsage {
    let ns = |key| keyed(account, key).map(|ticks| ticks.saturating_mul(NS_PER_TICK));
    CpuUsage {
        system_ns: ns("system"),
        user_ns: ns("user"),
        total_ns: number(usage),
        throttled_periods: keyed(stat, "nr_throttled"),
        throttled_ns: keyed(stat, "throttled_time"),
    }
}

/// The texts of the memory counters. One is empty if the kernel does not have it.
#[derive(Debug, Default)]
pub(super) struct MemoryTexts {
    /// `memory.stat`.
    pub(super) stat: String,
    /// `memory.current` or `memory.usage_in_bytes`.
    pub(super) current: String,
    /// `memory.peak` or `memory.max_usage_in_bytes`.
    pub(super) peak: String,
    /// `memory.swap.current`, only in version 2.
    pub(super) swap: String,
    /// `memory.kmem.usage_in_bytes`, only in version 1.
    pub(super) kernel: String,
}

/// Memory in version 2.
pub(super) fn memory_v2(texts: &MemoryTexts) -> MemoryUsage {
    let stat = |key| keyed(&texts.stat, key);
    MemoryUsage {
        rss: stat("anon"),
        cache: stat("file"),
        swap: number(&texts.swap),
        usage: number(&texts.current),
        max_usage: number(&texts.peak),
        // Kernels before 5.18 have the parts only.
        kernel_usage: stat("kernel").or_else(|| Some(stat("kernel_stack")?.saturating_add(stat("slab")?))),
    }
}

/// Memory in version 1. Those of its counters that begin with `total_` include groups below.
pub(super) fn memory_v1(texts: &MemoryTexts) -> MemoryUsage {
    let stat = |key| keyed(&texts.stat, key);
    MemoryUsage {
        rss: stat("total_rss"),
        cache: stat("total_cache"),
        swap: stat("total_swap"),
        usage: number(&texts.current),
        max_usage: number(&texts.peak),
        kernel_usage: number(&texts.kernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read() {
        let stat = "usage_usec 3000\nuser_usec 2000\nsystem_usec 1000\nnr_periods 9\nnr_throttled 4\nthrottled_usec 50\n";
        let expected = CpuUsage {
            system_ns: Some(1_000_000),
            user_ns: Some(2_000_000),
            total_ns: Some(3_000_000),
            throttled_periods: Some(4),
            throttled_ns: Some(50_000),
        };
        assert_eq!(cpu_v2(stat), expected);
        // Without the controller, there are only the times.
        assert_eq!(cpu_v2("usage_usec 1\n").throttled_periods, None);
        let first = cpu_v1(
            "30000000\n",
            "user 2\nsystem 1\n",
            "nr_periods 9\nnr_throttled 4\nthrottled_time 50000\n",
        );
        assert_eq!(
            first,
            CpuUsage {
                system_ns: Some(10_000_000),
                user_ns: Some(20_000_000),
                total_ns: Some(30_000_000),
                ..expected
            }
        );
        assert_eq!(cpu_v1("", "", ""), CpuUsage::default());
    }

    #[test]
    fn memory_is_read() {
        let texts = MemoryTexts {
            stat: "anon 100\nfile 200\nkernel_stack 3\nslab 4\nanon_thp 7\n".into(),
            current: "310\n".into(),
            peak: "400\n".into(),
            swap: "5\n".into(),
            kernel: String::new(),
        };
        let expected = MemoryUsage {
            rss: Some(100),
            cache: Some(200),
            swap: Some(5),
            usage: Some(310),
            max_usage: Some(400),
            kernel_usage: Some(7),
        };
        assert_eq!(memory_v2(&texts), expected);
        let newer = MemoryTexts { stat: format!("kernel 9\n{}", texts.stat), peak: String::new(), ..texts };
        assert_eq!(memory_v2(&newer), MemoryUsage { kernel_usage: Some(9), max_usage: None, ..expected });
        let first = MemoryTexts {
            stat: "cache 1\nrss 1\ntotal_cache 200\ntotal_rss 100\ntotal_swap 5\n".into(),
            current: "310\n".into(),
            peak: "400\n".into(),
            swap: String::new(),
            kernel: "7\n".into(),
        };
        assert_eq!(memory_v1(&first), expected);
    }
}
