//! Fingerprints the machine, on Linux only. Processors and disk are read once, when the agent starts; the rest is
//! read periodically.

mod class;
mod network;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use model::node::{
    Core, Driver, LegacyCpu, NodeDeviceGroup, NodeReserved, NodeResources, NodeSpec, Topology,
};
use model::{NOMAD_VERSION, Text, Timestamp};
use nix::sys::signal::Signal;
use nix::sys::statvfs::statvfs;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::config::Config;
use super::host_networks::HostNetworkArgs;
use super::identity::Identity;
use crate::cgroups::Cgroups;
use crate::driver::Drivers;
use crate::networks::detected::Detected;
use crate::volumes::FoundVolumes;
use network::HostNetworks;
pub use network::LOOPBACK;

/// The assumed speed of a core if it is unknown, in MHz.
const DEFAULT_CORE_MHZ: u32 = 1_000;

/// The facts that are read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    topology: Topology,
    cpu_model: String,
    host_name: Text,
    disk: Disk,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Disk {
    volume: String,
    total_bytes: u64,
    free_bytes: u64,
}

impl Machine {
    /// Reads the machine's facts. The disk is the one with the allocations.
    pub(crate) fn detect(allocs: &Path) -> Self {
        let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::everything());
        let system = System::new_with_specifics(cpus);
        if let Err(error) = &system {
            tracing::warn!(error = telemetry::chain(error), "cannot read the processors");
        }
        let cpus = system.as_ref().map(System::cpus).unwrap_or_default();
        let cores = cpus.iter().zip(0..).map(|(cpu, number)| {
            // Some processors may be offline. The name is `cpu` and the id.
            let id = cpu.name().strip_prefix("cpu").and_then(|id| id.parse().ok()).unwrap_or(number);
            Core {
                id,
                base_mhz: core_mhz(id, "base_frequency"),
                max_mhz: core_mhz(id, "cpuinfo_max_freq"),
                guess_mhz: u32::try_from(cpu.frequency())
                    .ok()
                    .filter(|mhz| *mhz > 0)
                    .unwrap_or(DEFAULT_CORE_MHZ),
                ..Core::default()
            }
        });
        Self {
            topology: topology::read(Path::new(topology::DEVICES), cores.collect()),
            cpu_model: cpus.first().map(|cpu| cpu.brand().to_owned()).unwrap_or_default(),
            host_name: System::host_name().unwrap_or_else(|_| "localhost".into()).into(),
            disk: Disk::detect(allocs),
        }
    }

    /// The speed of a core in MHz; 0 if there is no such core.
    pub(crate) fn core_mhz(&self, core: usize) -> u32 {
        self.topology.cores.get(core).map_or(0, Core::mhz)
    }

    /// The average speed of a core, in MHz.
    pub(crate) fn mean_mhz(&self) -> f64 {
        f64::from(self.total_mhz()) / self.topology.cores.len().max(1) as f64
    }

    /// The machine's name, by which the node is called if it has no other.
    pub(crate) fn host_name(&self) -> &str {
        &self.host_name
    }

    fn total_mhz(&self) -> u32 {
        mhz_of(self.topology.cores.iter())
    }

    /// The cores that tasks can reserve for themselves: those that the settings allow, if control groups can keep other
    /// tasks off them.
    fn reservable_cores(&self, config: &Config, cgroups: Option<&Cgroups>) -> Vec<u16> {
        let Some(usable) = cgroups.and_then(Cgroups::cpus) else { return Vec::new() };
        let is_allowed = |id: &u16| {
            config.reservable_cores.as_ref().is_none_or(|allowed| allowed.contains(id))
                && !config.reserved.cores.contains(id)
        };
        let ids = self.topology.cores.iter().map(|core| core.id);
        ids.filter(|id| usable.contains(id)).filter(is_allowed).collect()
    }

    /// The compute that is not available to tasks: that of the settings, and that of whole cores.
    fn reserved_mhz(&self, config: &Config) -> u32 {
        let cores = self.topology.cores.iter().filter(|core| config.reserved.cores.contains(&core.id));
        config.reserved.cpu_mhz.saturating_add(mhz_of(cores))
    }
}

fn mhz_of<'a>(cores: impl Iterator<Item = &'a Core>) -> u32 {
    cores.fold(0, |mhz, core| mhz.saturating_add(core.mhz()))
}

/// The speed of a core from the kernel, in MHz; 0 if it is unknown.
fn core_mhz(core: u16, file: &str) -> u32 {
    let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/{file}");
    let khz: u32 = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    khz / 1_000
}

impl Disk {
    fn detect(dir: &Path) -> Self {
        let (total_bytes, free_bytes) = match statvfs(dir) {
            Ok(disk) => {
                let block = disk.fragment_size();
                (disk.blocks().saturating_mul(block), disk.blocks_available().saturating_mul(block))
            }
            Err(error) => {
                tracing::warn!(dir = %dir.display(), error = telemetry::chain(&error), "cannot read the disk usage");
                (0, 0)
            }
        };
        Self { volume: dir.display().to_string(), total_bytes, free_bytes }
    }
}

/// The node's specification, as it is registered.
pub(crate) fn node_spec(
    config: &Config,
    identity: &Identity,
    machine: &Machine,
    drivers: &Drivers,
    detected: &Detected,
    cgroups: Option<&Cgroups>,
    now: Timestamp,
) -> NodeSpec {
    let networks = HostNetworks::detect(config.network_interface.as_deref(), config.preferred_address_family);
    let memory_bytes = total_memory();
    let reservable = machine.reservable_cores(config, cgroups);
    let mut attributes = attributes(config, machine, memory_bytes, cgroups);
    attributes.insert("cpu.reservablecores".into(), reservable.len().to_string().into());
    if let Some(ip) = networks.ip() {
        attributes.insert("unique.network.ip-address".into(), ip.to_string().into());
    }
    attributes.extend(network_attributes(detected));
    let mut infos = BTreeMap::new();
    for (name, found) in drivers.fingerprints() {
        if found.detected {
            attributes.extend(found.attributes.clone());
            // A driver's own attribute is "true", but the node's is "1", with which constraints compare.
            attributes.insert(format!("driver.{name}").into(), "1".into());
        }
        let info = Driver {
            attributes: found.attributes,
            detected: found.detected,
            healthy: found.healthy,
            health_description: found.description.into(),
            update_time: now,
        };
        infos.insert(name.into(), info);
    }
    let mut spec = NodeSpec {
        secret_id: identity.secret.clone(),
        boot: identity.boot,
        name: config.node_name.clone().unwrap_or_else(|| Text::clone(&machine.host_name)),
        datacenter: Text::clone(&config.datacenter),
        node_pool: Text::clone(&config.node_pool),
        node_class: Text::clone(&config.node_class),
        http_addr: Text::clone(&config.http_addr),
        attributes,
        meta: config.meta.clone(),
        resources: resources(config, machine, memory_bytes, &networks, detected, reservable),
        reserved: NodeReserved {
            cpu_mhz: machine.reserved_mhz(config),
            memory_mb: config.reserved.memory_mb,
            disk_mb: config.reserved.disk_mb,
            ports: Text::clone(&config.reserved.ports),
            cores: config.reserved.cores.iter().copied().collect(),
        },
        drivers: infos,
        cgroup_parent: cgroups.map(Cgroups::parent_name).unwrap_or_default().into(),
        host_networks: config.host_networks.iter().map(HostNetworkArgs::to_api).collect(),
        ..NodeSpec::default()
    };
    spec.computed_class = class::computed_class(&spec);
    spec
}

/// A node's specification with these devices.
pub(crate) fn with_devices(mut spec: NodeSpec, devices: Vec<NodeDeviceGroup>) -> NodeSpec {
    spec.resources.devices = devices;
    spec.computed_class = class::computed_class(&spec);
    spec
}

/// A node's specification with further attributes.
pub(crate) fn with_attributes(mut spec: NodeSpec, attributes: BTreeMap<Text, Text>) -> NodeSpec {
    spec.attributes.extend(attributes);
    spec.computed_class = class::computed_class(&spec);
    spec
}

/// A node's specification with these host volumes, and the attributes of their plugins.
pub(crate) fn with_volumes(mut spec: NodeSpec, volumes: FoundVolumes) -> NodeSpec {
    let FoundVolumes { volumes, attributes, gc_on_node_gc } = volumes;
    spec.host_volumes = volumes;
    spec.attributes.extend(attributes);
    spec.gc_volumes = gc_on_node_gc;
    spec.computed_class = class::computed_class(&spec);
    spec
}

/// A node's specification with this metadata.
pub(crate) fn with_meta(mut spec: NodeSpec, meta: BTreeMap<Text, Text>) -> NodeSpec {
    spec.meta = meta;
    spec.computed_class = class::computed_class(&spec);
    spec
}

/// Whether two specifications are equal, except for update times.
pub(crate) fn is_same(one: &NodeSpec, other: &NodeSpec) -> bool {
    let timeless = |spec: &NodeSpec| {
        let mut spec = spec.clone();
        spec.drivers.values_mut().for_each(|driver| driver.update_time = Timestamp::UNSET);
        spec
    };
    timeless(one) == timeless(other)
}

fn total_memory() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    match System::new_with_specifics(memory) {
        Ok(system) => system.total_memory(),
        Err(error) => {
            tracing::warn!(error = telemetry::chain(&error), "cannot read the memory size");
            0
        }
    }
}

fn resources(
    config: &Config,
    machine: &Machine,
    memory_bytes: u64,
    networks: &HostNetworks,
    detected: &Detected,
    reservable_cores: Vec<u16>,
) -> NodeResources {
    let mb = |bytes: u64| u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    let override_mhz = config.cpu_total_mhz;
    let total_mhz = if override_mhz > 0 { override_mhz } else { machine.total_mhz() };
    let mut processors = Topology { override_total_mhz: override_mhz, ..machine.topology.clone() };
    for core in &mut processors.cores {
        core.disable = !reservable_cores.contains(&core.id);
    }
    NodeResources {
        cpu: LegacyCpu {
            cpu_mhz: total_mhz,
            total_cores: u16::try_from(processors.cores.len()).unwrap_or(u16::MAX),
            reservable_cores,
        },
        processors,
        memory_mb: if config.memory_total_mb > 0 { config.memory_total_mb } else { mb(memory_bytes) },
        disk_mb: if config.disk_free_mb > 0 { config.disk_free_mb } else { mb(machine.disk.free_bytes) },
        devices: Vec::new(),
        node_networks: networks.node_networks(&config.host_networks, detected),
        networks: networks.legacy(detected),
        dynamic_port_min: config.dynamic_ports.0,
        dynamic_port_max: config.dynamic_ports.1,
    }
}

/// The versions of CNI plugins, and the setting of the bridge.
fn network_attributes(detected: &Detected) -> impl Iterator<Item = (Text, Text)> {
    let versions = detected.versions.iter();
    let versions = versions.map(|(name, version)| (format!("plugins.cni.version.{name}"), version.clone()));
    let hairpin = detected.bridge.iter().map(|bridge| bridge.hairpin.to_string());
    let hairpin = hairpin.map(|value| ("nomad.bridge.hairpin_mode".to_owned(), value));
    versions.chain(hairpin).map(|(name, value)| (name.into(), value.into()))
}

fn attributes(
    config: &Config,
    machine: &Machine,
    memory_bytes: u64,
    cgroups: Option<&Cgroups>,
) -> BTreeMap<Text, Text> {
    let total_mhz = if config.cpu_total_mhz > 0 { config.cpu_total_mhz } else { machine.total_mhz() };
    let cores = &machine.topology.cores;
    let frequency = cores.iter().map(Core::mhz).max().unwrap_or(0);
    let cgroups_version =
        cgroups.map_or_else(mounted_cgroups, |cgroups| cgroups.version_number().to_string());
    let mut signals: Vec<_> = Signal::iterator().map(Signal::as_str).collect();
    signals.sort_unstable();
    let found = [
        ("cpu.arch", go_arch().to_owned()),
        ("cpu.modelname", machine.cpu_model.clone()),
        ("cpu.numcores", cores.len().to_string()),
        ("cpu.frequency", frequency.to_string()),
        ("cpu.totalcompute", total_mhz.to_string()),
        ("cpu.usablecompute", total_mhz.saturating_sub(machine.reserved_mhz(config)).to_string()),
        ("os.name", System::distribution_id()),
        ("os.version", System::os_version().unwrap_or_default()),
        ("os.signals", signals.join(",")),
        ("os.cgroups.version", cgroups_version),
        ("kernel.name", "linux".to_owned()),
        ("kernel.version", System::kernel_version().unwrap_or_default()),
        ("kernel.arch", std::env::consts::ARCH.to_owned()),
        ("unique.hostname", machine.host_name.to_string()),
        ("memory.totalbytes", memory_bytes.to_string()),
        ("unique.storage.volume", machine.disk.volume.clone()),
        ("unique.storage.bytestotal", machine.disk.total_bytes.to_string()),
        ("unique.advertise.address", config.http_addr.to_string()),
        ("nomad.version", NOMAD_VERSION.to_owned()),
        ("nomad.service_discovery", config.service_discovery.to_string()),
    ];
    let found = found.into_iter().map(|(name, value)| (name.to_owned(), value));
    let found = found.chain(topology::attributes(&machine.topology)).chain(grades(cores));
    let known = found.filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.into(), value.into())).collect()
}

/// The numbers and frequencies of performance and efficiency cores, on machines that have both.
fn grades(cores: &[Core]) -> Vec<(String, String)> {
    let kinds: BTreeSet<bool> = cores.iter().map(|core| core.grade).collect();
    if kinds.len() < 2 {
        return Vec::new();
    }
    let of_kind = |kind: bool, name: &str| {
        let own = cores.iter().filter(|core| core.grade == kind);
        let fastest = own.clone().map(Core::mhz).max().unwrap_or(0);
        [
            (format!("cpu.numcores.{name}"), own.count().to_string()),
            (format!("cpu.frequency.{name}"), fastest.to_string()),
        ]
    };
    [of_kind(true, "performance"), of_kind(false, "efficiency")].into_iter().flatten().collect()
}

/// The processor architecture by the name that job files use.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// The version of the control groups that are mounted, if the agent cannot make any; empty if there are none.
fn mounted_cgroups() -> String {
    let version = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        "2"
    } else if Path::new("/sys/fs/cgroup/cpu").exists() {
        "1"
    } else {
        ""
    };
    version.to_owned()
}

#[cfg(test)]
mod tests;
