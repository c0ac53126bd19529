//! The use of processors, memory and disks that agents measure, as commands show it (http-api A.8).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Session;
use super::format;

/// Maximum number of allocations of a node whose use is asked for.
const ALLOCS_ASKED_MAX: usize = 200;

/// The use of a host.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Host {
    pub(crate) memory: Option<HostMemory>,
    #[serde(rename = "CPU")]
    pub(crate) cpu: Option<Vec<Cpu>>,
    pub(crate) disk_stats: Option<Vec<Disk>>,
    pub(crate) alloc_dir_stats: Option<Disk>,
    /// In seconds.
    pub(crate) uptime: u64,
    /// In MHz.
    #[serde(rename = "CPUTicksConsumed")]
    pub(crate) cpu_ticks_consumed: f64,
}

/// Memory of a host, in bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HostMemory {
    pub(crate) total: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    pub(crate) free: u64,
}

/// One processor of a host, in percent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Cpu {
    #[serde(rename = "CPU")]
    pub(crate) name: String,
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) idle: f64,
}

/// A disk of a host. Sizes are in bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Disk {
    pub(crate) device: String,
    pub(crate) mountpoint: String,
    pub(crate) size: u64,
    pub(crate) used: u64,
    pub(crate) available: u64,
    pub(crate) used_percent: f64,
    pub(crate) inodes_used_percent: f64,
}

/// The use of an allocation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Alloc {
    pub(crate) resource_usage: Option<Usage>,
    pub(crate) tasks: Option<BTreeMap<String, TaskUsage>>,
}

/// The use of a task.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct TaskUsage {
    pub(crate) resource_usage: Option<Usage>,
}

/// What an allocation or a task uses.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Usage {
    pub(crate) memory_stats: Memory,
    pub(crate) cpu_stats: CpuUsage,
}

/// Memory in bytes, with the names of what is measured.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Memory {
    #[serde(rename = "RSS")]
    pub(crate) rss: u64,
    pub(crate) cache: u64,
    pub(crate) swap: u64,
    pub(crate) usage: u64,
    pub(crate) max_usage: u64,
    pub(crate) kernel_usage: u64,
    pub(crate) measured: Option<Vec<String>>,
}

impl Memory {
    /// The measured values with their names.
    pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("RSS", self.rss),
            ("Cache", self.cache),
            ("Swap", self.swap),
            ("Usage", self.usage),
            ("Max Usage", self.max_usage),
            ("Kernel Usage", self.kernel_usage),
        ];
        let is_measured = |name: &str| self.measured.iter().flatten().any(|measured| measured == name);
        let values = all.into_iter().filter(|(name, _)| is_measured(name));
        values.map(|(name, bytes)| (name, format::bytes(bytes))).collect()
    }
}

/// Percentages of one processor, and its use in MHz.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct CpuUsage {
    pub(crate) system_mode: f64,
    pub(crate) user_mode: f64,
    /// In MHz.
    pub(crate) total_ticks: f64,
    pub(crate) percent: f64,
}

/// A percentage, such as `1.04%`.
pub(crate) fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// A part of a processor's speed in MHz, rounded.
pub(crate) fn mhz(value: f64) -> String {
    format!("{value:.0}")
}

impl Session {
    /// The use of a node's host. `None` if its agent cannot be asked.
    pub(super) async fn host_use(&self, node: &str) -> Option<Host> {
        self.client.get("/v1/client/stats", &[("node_id", node)]).await.ok()
    }

    /// The use of an allocation. `None` if its agent cannot be asked.
    pub(super) async fn alloc_use(&self, alloc: &str) -> Option<Alloc> {
        self.client.get(&format!("/v1/client/allocation/{alloc}/stats"), &[]).await.ok()
    }

    /// The use of a node's allocations together, in MHz and bytes. `None` as soon as one of them cannot be asked, and if there
    /// are more than [`ALLOCS_ASKED_MAX`].
    pub(super) async fn allocs_use(&self, allocs: &[String]) -> Option<(f64, u64)> {
        let (mut ticks, mut memory) = (0.0, 0_u64);
        if allocs.len() > ALLOCS_ASKED_MAX {
            return None;
        }
        for alloc in allocs {
            let usage = self.alloc_use(alloc).await?.resource_usage.unwrap_or_default();
            ticks += usage.cpu_stats.total_ticks;
            memory = memory.saturating_add(usage.memory_stats.rss);
        }
        Some((ticks, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_measured_is_shown() {
        let json = r#"{"RSS": 1048576, "Cache": 5, "Swap": 0, "Usage": 2097152, "Measured": ["RSS", "Swap", "Usage"]}"#;
        let memory: Memory = api_types::decode::from_slice(json.as_bytes()).unwrap();
        let value = |name, text: &str| (name, text.to_owned());
        assert_eq!(memory.values(), [value("RSS", "1 MiB"), value("Swap", "0 B"), value("Usage", "2 MiB")]);
        assert!(Memory::default().values().is_empty());
        assert_eq!((percent(1.036), mhz(49.6)), ("1.04%".to_owned(), "50".to_owned()));
    }
}
