//! What the engine answers, as far as the agent reads it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What the engine is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Version {
    /// The engine's version.
    pub(crate) version: String,
    /// The parts of the engine.
    pub(crate) components: Option<Vec<Component>>,
}

/// A part of the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Component {
    /// Its name, such as `Engine`, or `Podman Engine`.
    pub(crate) name: String,
}

impl Version {
    /// Whether the engine is Podman.
    pub(crate) fn is_podman(&self) -> bool {
        self.components.iter().flatten().any(|part| part.name.starts_with("Podman"))
    }
}

/// What the engine can do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct EngineInfo {
    /// The operating system of its containers.
    #[serde(rename = "OSType")]
    pub(crate) os_type: String,
    /// Its runtimes by name.
    pub(crate) runtimes: BTreeMap<String, serde_json::Value>,
    /// The number of processors.
    #[serde(rename = "NCPU")]
    pub(crate) processors: u64,
}

/// A network of the engine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Network {
    #[serde(rename = "IPAM")]
    pub(super) ipam: Ipam,
}

/// The addresses of a network.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Ipam {
    pub(super) config: Option<Vec<Subnet>>,
}

/// A range of addresses.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Subnet {
    pub(super) gateway: String,
}

/// An image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Image {
    /// Its id, such as `sha256:…`.
    pub(crate) id: String,
}

/// One message about an image that is being pulled.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PullStatus {
    /// The layer that it is about.
    pub(crate) id: String,
    /// What happens.
    pub(crate) status: String,
    /// How far it has come.
    #[serde(rename = "progressDetail")]
    pub(crate) progress: PullProgress,
    /// Why the pull failed.
    pub(crate) error: String,
}

/// How much of a layer has been pulled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PullProgress {
    /// The number of bytes so far.
    pub(crate) current: u64,
    /// The number of all bytes; 0 if it is not known.
    pub(crate) total: u64,
}

/// One message about an archive that is being loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct LoadedImage {
    /// What happens.
    pub(crate) stream: String,
    /// Why it failed.
    pub(crate) error: String,
}

/// A container that was created.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Created {
    pub(super) id: String,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Container {
    /// Its id.
    pub(crate) id: String,
    /// Whether it runs, or how it ended.
    pub(crate) state: ContainerState,
    /// How it was made.
    pub(crate) config: ContainerConfig,
    /// Its networks.
    pub(crate) network_settings: NetworkSettings,
}

/// Whether a container runs, or how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContainerState {
    /// `created`, `running`, `exited` and others.
    pub(crate) status: String,
    /// Whether it runs.
    pub(crate) running: bool,
    /// Whether it ended for lack of memory.
    #[serde(rename = "OOMKilled")]
    pub(crate) oom_killed: bool,
    /// The id of its first process, as the engine sees it.
    pub(crate) pid: i64,
    /// The exit code.
    pub(crate) exit_code: i64,
    /// Why it could not be started.
    pub(crate) error: String,
}

impl ContainerState {
    /// Whether the container has run and does no longer.
    pub(crate) fn has_ended(&self) -> bool {
        !self.running && self.status != "created"
    }
}

/// How a container was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContainerConfig {
    /// Its labels.
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

/// The networks of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct NetworkSettings {
    /// Its networks by name.
    pub(crate) networks: Option<BTreeMap<String, Endpoint>>,
}

/// A container's place in a network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoint {
    /// Its address.
    #[serde(rename = "IPAddress")]
    pub(crate) ip: String,
    /// Its address of version 6.
    #[serde(rename = "GlobalIPv6Address")]
    pub(crate) ipv6: String,
}

/// A container in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Summary {
    /// Its id.
    pub(crate) id: String,
    /// When it was created, in seconds since 1970.
    pub(crate) created: i64,
    /// Its names.
    pub(crate) names: Option<Vec<String>>,
}

/// A command in a container that was created.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Exec {
    pub(super) running: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) pid: i64,
}

/// What a container uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    /// Counters of compute.
    pub(crate) cpu_stats: CpuStats,
    /// Memory in bytes.
    pub(crate) memory_stats: MemoryStats,
}

/// Counters of compute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct CpuStats {
    /// Times in ns.
    pub(crate) cpu_usage: CpuTimes,
    /// How it was throttled.
    pub(crate) throttling_data: Throttling,
}

/// Times of compute, in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct CpuTimes {
    /// All of it.
    pub(crate) total_usage: Option<u64>,
    /// In the kernel.
    pub(crate) usage_in_kernelmode: Option<u64>,
    /// In its own code.
    pub(crate) usage_in_usermode: Option<u64>,
}

/// How a container was throttled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Throttling {
    /// The number of periods.
    pub(crate) throttled_periods: Option<u64>,
    /// The time in ns.
    pub(crate) throttled_time: Option<u64>,
}

/// Memory in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct MemoryStats {
    /// Everything that counts towards the limit.
    pub(crate) usage: Option<u64>,
    /// The most that was used.
    pub(crate) max_usage: Option<u64>,
    /// The kernel's counters by name; the names depend on the version of control groups.
    pub(crate) stats: Option<BTreeMap<String, u64>>,
}
