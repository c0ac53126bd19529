//! The resources of a task: what it may use of its node, and what it uses.

use serde::{Deserialize, Serialize};

/// What a task may use of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskLimits {
    /// Its share of the node's compute, in MHz.
    pub(crate) cpu_shares: u64,
    /// The usable compute of the whole node, in MHz; 0 if it is not known.
    pub(crate) node_mhz: u64,
    /// The cores that it has for itself; none if it has reserved no cores.
    pub(crate) cores: Vec<u16>,
    /// The memory that is reserved for it.
    pub(crate) memory_bytes: u64,
    /// The memory that it may use; 0 is the same as reserved, and `u64::MAX` sets no limit.
    pub(crate) memory_max_bytes: u64,
    /// The number of processes that it may have; `None` sets no limit.
    pub(crate) pids_max: Option<u64>,
}

/// What a task uses at one moment. A driver leaves out what it does not measure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskUsage {
    /// The compute that it has used since its start.
    pub(crate) cpu: CpuUsage,
    /// The memory that it uses.
    pub(crate) memory: MemoryUsage,
    /// The ids of its processes, as the agent sees them.
    pub(crate) pids: Vec<u32>,
}

/// Counters of the compute that a task has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuUsage {
    /// The time in the kernel, in ns.
    pub(crate) system_ns: Option<u64>,
    /// The time in its own code, in ns.
    pub(crate) user_ns: Option<u64>,
    /// The sum of both as the kernel counts it, in ns.
    pub(crate) total_ns: Option<u64>,
    /// The number of periods in which it was throttled.
    pub(crate) throttled_periods: Option<u64>,
    /// The time for which it was throttled, in ns.
    pub(crate) throttled_ns: Option<u64>,
}

/// The memory that a task uses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// What is resident and not backed by files.
    pub(crate) rss: Option<u64>,
    /// The page cache.
    pub(crate) cache: Option<u64>,
    /// What was swapped out.
    pub(crate) swap: Option<u64>,
    /// Everything that counts towards its limit.
    pub(crate) usage: Option<u64>,
    /// The most that it has used.
    pub(crate) max_usage: Option<u64>,
    /// The part that the kernel uses for it.
    pub(crate) kernel_usage: Option<u64>,
}
