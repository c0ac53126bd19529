//! Messages between the API and an agent about resource usage of the host and of tasks, on
//! [`Subject::AgentStats`](crate::Subject::AgentStats).
//!
//! CPU usage is measured between two samples, so the first response after a pause takes a moment. A request for an
//! unknown allocation is refused as `NotFound`.

use model::{AllocId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Maximum number of disks in one response.
pub const DISKS_MAX: usize = 100;
/// Maximum number of devices in one response.
pub const DEVICES_MAX: usize = 256;
/// Maximum number of processes in one response. Sums include all processes.
pub const PROCESSES_MAX: usize = 2_000;
/// Maximum number of bytes of one file in one response.
pub const SHOWN_BYTES_MAX: usize = 64 << 10;

/// Requests the stats of the host. The response is [`HostStats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHostStats {}

/// Resource usage of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostStats {
    /// Time of the measurement.
    pub at: Timestamp,
    /// Seconds since the host was started.
    pub uptime_secs: u64,
    /// Memory usage.
    pub memory: MemoryStats,
    /// CPU usage, in the order of the CPU numbers.
    pub cpus: Vec<CpuStats>,
    /// Usage of the disks, at most [`DISKS_MAX`].
    pub disks: Vec<DiskStats>,
    /// Usage of the disk that holds the allocations, if it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc_disk: Option<DiskStats>,
    /// Usage of the devices, at most [`DEVICES_MAX`] instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceGroupStats>,
}

/// Usage of the devices of one vendor, type and model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceGroupStats {
    /// The vendor.
    pub vendor: Text,
    /// The type of device, such as `gpu`.
    pub kind: Text,
    /// The model.
    pub name: Text,
    /// Usage of the individual devices.
    pub instances: Vec<DeviceInstanceStats>,
}

/// Usage of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInstanceStats {
    /// Id of the device.
    pub id: Text,
    /// Time of the measurement.
    pub at: Timestamp,
    /// The value that describes the device best, if it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<DeviceValue>,
    /// All values that are measured.
    pub stats: Vec<DeviceStat>,
}

/// A measured value of a device, with its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStat {
    /// The name, for people.
    pub name: Text,
    /// The value.
    pub value: DeviceValue,
}

/// A measured value of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceValue {
    /// The value.
    pub value: f64,
    /// The maximum of the value, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<f64>,
    /// The unit, such as `MiB`.
    pub unit: Text,
    /// A description of the value, for people.
    pub about: Text,
}

/// Memory of a host, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Total memory.
    pub total: u64,
    /// Memory that programs can still allocate.
    pub available: u64,
    /// Memory that programs use.
    pub used: u64,
    /// Memory that holds nothing, not even caches.
    pub free: u64,
}

/// CPU usage of one processor: shares of its time, in percent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuStats {
    /// Name of the processor, such as `cpu0`.
    pub name: Text,
    /// Time spent in programs.
    pub user_percent: f64,
    /// Time spent in the kernel.
    pub system_percent: f64,
    /// Idle time.
    pub idle_percent: f64,
    /// Time that is not idle.
    pub busy_percent: f64,
    /// The busy time as compute, in MHz.
    pub used_mhz: f64,
}

/// Usage of a disk, as unprivileged users see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskStats {
    /// Device name.
    pub device: Text,
    /// Mount point.
    pub mountpoint: Text,
    /// Size, in bytes.
    pub size_bytes: u64,
    /// Used space, in bytes.
    pub used_bytes: u64,
    /// Space that can still be used, in bytes.
    pub available_bytes: u64,
    /// Used space, in percent.
    pub used_percent: f64,
    /// Used inodes, in percent.
    pub inodes_percent: f64,
}

/// Requests the stats of an allocation's tasks. The response is [`AllocStats`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllocStats {
    /// The allocation.
    pub alloc: AllocId,
    /// Name of one task; `None` selects all tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
}

/// Resource usage of an allocation's tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocStats {
    /// Tasks that run and can be measured, by name.
    pub tasks: Vec<TaskStats>,
}

/// Resource usage of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStats {
    /// Name of the task.
    pub task: Text,
    /// Time of the measurement.
    pub at: Timestamp,
    /// Total of all its processes.
    pub sum: Usage,
    /// What is counted for the task as a whole only.
    #[serde(default, skip_serializing_if = "Counted::is_empty")]
    pub counted: Counted,
    /// Usage of each process, with its process id; at most [`PROCESSES_MAX`] in one response.
    pub processes: Vec<(u32, Usage)>,
    /// Usage of the devices that the task was assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceGroupStats>,
}

/// Values that are counted for a task as a whole, by its control groups or by an engine of containers. What is not counted
/// is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// Page cache, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// All memory that counts towards the limit, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Highest value of that since the task started, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_max_bytes: Option<u64>,
    /// Memory of the kernel for the task, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_bytes: Option<u64>,
    /// Number of periods in which a hard limit kept the task from the processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Time for which it did, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
}

impl Counted {
    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of these values and `other`. A value that only one of them has counts alone.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            cache_bytes: sum(self.cache_bytes, other.cache_bytes),
            usage_bytes: sum(self.usage_bytes, other.usage_bytes),
            usage_max_bytes: sum(self.usage_max_bytes, other.usage_max_bytes),
            kernel_bytes: sum(self.kernel_bytes, other.kernel_bytes),
            throttled_periods: sum(self.throttled_periods, other.throttled_periods),
            throttled_ns: sum(self.throttled_ns, other.throttled_ns),
        }
    }
}

/// Resource usage of one or several processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Resident memory that belongs to the processes, in bytes.
    pub rss_bytes: u64,
    /// Swapped-out memory, in bytes.
    pub swap_bytes: u64,
    /// CPU time in user mode, in percent of one processor.
    pub user_percent: f64,
    /// CPU time in the kernel, in percent of one processor.
    pub system_percent: f64,
    /// CPU time in both modes as compute, in MHz.
    pub used_mhz: f64,
}

impl Usage {
    /// The sum of this usage and `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            rss_bytes: self.rss_bytes.saturating_add(other.rss_bytes),
            swap_bytes: self.swap_bytes.saturating_add(other.swap_bytes),
            user_percent: self.user_percent + other.user_percent,
            system_percent: self.system_percent + other.system_percent,
            used_mhz: self.used_mhz + other.used_mhz,
        }
    }
}

/// Requests the stats of the agent itself. The response is [`AgentStats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAgentStats {}

/// State of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStats {
    /// Number of its allocations, including ended ones.
    pub allocs: u64,
    /// Milliseconds since the agent last got a response from the servers; `None` if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_ago_ms: Option<u64>,
    /// Time to live that the servers granted the node, in milliseconds.
    #[serde(default)]
    pub ttl_ms: u64,
}

/// Requests a description of the host, for troubleshooting. The response is [`HostFacts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHostFacts {}

/// Configuration of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Operating system and kernel.
    pub os: Text,
    /// Network interfaces with their addresses, by name.
    pub networks: Vec<(Text, Vec<Text>)>,
    /// Contents of `/etc/resolv.conf`, at most [`SHOWN_BYTES_MAX`] bytes.
    pub resolv_conf: Text,
    /// Contents of `/etc/hosts`, at most [`SHOWN_BYTES_MAX`] bytes.
    pub hosts: Text,
    /// Environment variables of the agent, by name. Values that may be secret are replaced by a placeholder.
    pub environment: Vec<(Text, Text)>,
    /// Usage of the disks, at most [`DISKS_MAX`].
    pub disks: Vec<DiskStats>,
}

kinds! {
    GetHostStats => "stats.ask-host",
    HostStats => "stats.host",
    GetAllocStats => "stats.ask-alloc",
    AllocStats => "stats.alloc",
    GetAgentStats => "stats.ask-agent",
    AgentStats => "stats.agent",
    GetHostFacts => "stats.ask-facts",
    HostFacts => "stats.facts",
}
