//! Between the API and an agent: figures of its machine and of its tasks, on
//! [`Subject::AgentStats`](crate::Subject::AgentStats).
//!
//! What is used is measured between two looks, so an answer takes a moment where nobody has asked lately. An allocation
//! that the agent does not know is refused as `NotFound`.

use model::{AllocId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// The most disks that an answer names.
pub const DISKS_MAX: usize = 100;
/// The most processes that an answer names; sums count all of them.
pub const PROCESSES_MAX: usize = 2_000;
/// The most bytes of one file that an answer shows.
pub const SHOWN_BYTES_MAX: usize = 64 << 10;

/// Asks how the machine fares. Answered by [`HostStats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskHostStats {}

/// How a machine fares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostStats {
    /// When it was looked at.
    pub at: Timestamp,
    /// How long ago it was started, in seconds.
    pub uptime_secs: u64,
    /// Its memory.
    pub memory: MemoryStats,
    /// Its processors, in their order.
    pub cpus: Vec<CpuStats>,
    /// Its disks, at most [`DISKS_MAX`].
    pub disks: Vec<DiskStats>,
    /// The disk that allocations are on, if it could be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc_disk: Option<DiskStats>,
}

/// A machine's memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// All of it.
    pub total: u64,
    /// What programs could have.
    pub available: u64,
    /// What they have.
    pub used: u64,
    /// What holds nothing at all.
    pub free: u64,
}

/// A processor: what part of its time it has spent how, in percent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuStats {
    /// Its name, such as `cpu0`.
    pub name: Text,
    /// With programs.
    pub user_percent: f64,
    /// With the kernel.
    pub system_percent: f64,
    /// With nothing.
    pub idle_percent: f64,
    /// With anything.
    pub busy_percent: f64,
    /// The same as compute.
    pub used_mhz: f64,
}

/// A disk, as its users see it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskStats {
    /// Its device.
    pub device: Text,
    /// Where it is mounted.
    pub mountpoint: Text,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// What of it is used, in bytes.
    pub used_bytes: u64,
    /// What of it could be, in bytes.
    pub available_bytes: u64,
    /// How full it is.
    pub used_percent: f64,
    /// How many of its inodes are used.
    pub inodes_percent: f64,
}

/// Asks what an allocation's tasks use. Answered by [`AllocStats`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAllocStats {
    /// The allocation.
    pub alloc: AllocId,
    /// One task; `None` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
}

/// What an allocation's tasks use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocStats {
    /// Those that run and can be measured, by name.
    pub tasks: Vec<TaskStats>,
}

/// What a task uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStats {
    /// The task.
    pub task: Text,
    /// When it was looked at.
    pub at: Timestamp,
    /// What its processes use together.
    pub sum: Usage,
    /// What each of them uses, by its number; at most [`PROCESSES_MAX`] in an answer.
    pub processes: Vec<(u32, Usage)>,
}

/// What processes use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory that is theirs and in use, in bytes.
    pub rss_bytes: u64,
    /// Memory that was put aside, in bytes.
    pub swap_bytes: u64,
    /// How much of one processor's time they spend themselves, in percent.
    pub user_percent: f64,
    /// How much of it the kernel spends for them, in percent.
    pub system_percent: f64,
    /// Both as compute.
    pub used_mhz: f64,
}

impl Usage {
    /// What they use together with others.
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

/// Asks how the agent itself fares. Answered by [`AgentStats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAgentStats {}

/// How an agent fares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStats {
    /// How many allocations it has, ended ones too.
    pub allocs: u64,
    /// How long ago it heard of the servers, in milliseconds; `None` if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_ago_ms: Option<u64>,
    /// How long it need not hear of them again, in milliseconds.
    #[serde(default)]
    pub ttl_ms: u64,
}

/// Asks how the machine is set up, for those who look for what is wrong with it. Answered by [`HostFacts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskHostFacts {}

/// How a machine is set up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its operating system and kernel.
    pub os: Text,
    /// Its network interfaces with their addresses, by name.
    pub networks: Vec<(Text, Vec<Text>)>,
    /// How names are looked up: `/etc/resolv.conf`, at most [`SHOWN_BYTES_MAX`].
    pub resolv_conf: Text,
    /// Names that are known without: `/etc/hosts`, at most [`SHOWN_BYTES_MAX`].
    pub hosts: Text,
    /// The agent's variables by name. Values that may be secret are not among them but say so.
    pub environment: Vec<(Text, Text)>,
    /// Its disks, at most [`DISKS_MAX`].
    pub disks: Vec<DiskStats>,
}

kinds! {
    AskHostStats => "stats.ask-host",
    HostStats => "stats.host",
    AskAllocStats => "stats.ask-alloc",
    AllocStats => "stats.alloc",
    AskAgentStats => "stats.ask-agent",
    AgentStats => "stats.agent",
    AskHostFacts => "stats.ask-facts",
    HostFacts => "stats.facts",
}
