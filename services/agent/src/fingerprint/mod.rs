//! What the agent finds out about its machine, Linux only. Processors and disk are looked at once, when the agent
//! starts; the rest again from time to time.

mod class;
mod network;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use model::node::{Core, Driver, LegacyCpu, NodeReserved, NodeResources, NodeSpec, Topology};
use model::{Text, Timestamp};
use nix::sys::signal::Signal;
use nix::sys::statvfs::statvfs;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::config::Config;
use crate::driver::Drivers;
use crate::identity::Identity;
use network::HostNetwork;
pub use network::LOOPBACK;

/// The version of the reference whose behaviour the agent has; what jobs' constraints on agents compare with.
const COMPATIBLE_VERSION: &str = "2.0.6";
/// A core's speed where nothing is known of it, in MHz.
const GUESSED_MHZ: u32 = 1_000;
/// Ports that are given out, unless the owner says otherwise.
pub(crate) const DYNAMIC_PORTS: (u16, u16) = (20_000, 32_000);

/// What is looked at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    cores: Vec<Core>,
    cpu_model: String,
    host_name: Text,
    /// The control group that tasks run in, which is the agent's own: none are made for them.
    cgroup: Text,
    disk: Disk,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Disk {
    volume: String,
    total_bytes: u64,
    free_bytes: u64,
}

impl Machine {
    /// Looks at the machine; its disk is the one that allocations are on.
    pub(crate) fn look(allocs: &Path) -> Self {
        let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::everything());
        let system = System::new_with_specifics(cpus);
        if let Err(error) = &system {
            tracing::warn!(error = telemetry::chain(error), "cannot look at the processors");
        }
        let cpus = system.as_ref().map(System::cpus).unwrap_or_default();
        let cores = cpus.iter().enumerate().map(|(place, cpu)| Core {
            id: u16::try_from(place).unwrap_or(u16::MAX),
            grade: true,
            base_mhz: core_mhz(place, "base_frequency"),
            max_mhz: core_mhz(place, "cpuinfo_max_freq"),
            guess_mhz: u32::try_from(cpu.frequency()).ok().filter(|mhz| *mhz > 0).unwrap_or(GUESSED_MHZ),
            ..Core::default()
        });
        Self {
            cores: cores.collect(),
            cpu_model: cpus.first().map(|cpu| cpu.brand().to_owned()).unwrap_or_default(),
            host_name: System::host_name().unwrap_or_else(|_| "localhost".into()).into(),
            cgroup: cgroup(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default()).into(),
            disk: Disk::look(allocs),
        }
    }

    /// A core's speed; 0 of one that is not there.
    pub(crate) fn core_mhz(&self, core: usize) -> u32 {
        self.cores.get(core).map_or(0, Core::mhz)
    }

    /// The speed of a core, on average.
    pub(crate) fn mean_mhz(&self) -> f64 {
        f64::from(self.total_mhz()) / self.cores.len().max(1) as f64
    }

    fn total_mhz(&self) -> u32 {
        self.cores.iter().fold(0, |mhz, core| mhz.saturating_add(core.mhz()))
    }
}

/// The control group of version 2 that a process is in, as the kernel lists them; empty if there is none.
fn cgroup(list: &str) -> &str {
    list.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default()
}

/// A core's speed as the kernel gives it, 0 if it does not.
fn core_mhz(core: usize, file: &str) -> u32 {
    let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/{file}");
    let khz: u32 = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    khz / 1_000
}

impl Disk {
    fn look(dir: &Path) -> Self {
        let (total_bytes, free_bytes) = match statvfs(dir) {
            Ok(disk) => {
                let block = disk.fragment_size();
                (disk.blocks().saturating_mul(block), disk.blocks_available().saturating_mul(block))
            }
            Err(error) => {
                tracing::warn!(dir = %dir.display(), error = telemetry::chain(&error), "cannot look at the disk");
                (0, 0)
            }
        };
        Self { volume: dir.display().to_string(), total_bytes, free_bytes }
    }
}

/// All that the agent says of its node, as it is now.
pub(crate) fn node_spec(
    config: &Config,
    identity: &Identity,
    machine: &Machine,
    drivers: &Drivers,
    now: Timestamp,
) -> NodeSpec {
    let network = HostNetwork::look(config.network_interface.as_deref());
    let memory_bytes = total_memory();
    let mut attributes = attributes(config, machine, memory_bytes);
    if let Some(network) = &network {
        attributes.insert("unique.network.ip-address".into(), network.ip.to_string().into());
    }
    let mut infos = BTreeMap::new();
    for (name, found) in drivers.fingerprints() {
        if found.detected {
            attributes.extend(found.attributes.clone());
            // That it is there a driver calls true; of a node it is a 1, which constraints compare with.
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
        resources: resources(config, machine, memory_bytes, network.as_ref()),
        reserved: NodeReserved {
            cpu_mhz: config.reserved.cpu_mhz,
            memory_mb: config.reserved.memory_mb,
            disk_mb: config.reserved.disk_mb,
            ports: Text::clone(&config.reserved.ports),
            cores: Vec::new(),
        },
        drivers: infos,
        cgroup_parent: Text::clone(&machine.cgroup),
        ..NodeSpec::default()
    };
    spec.computed_class = class::computed_class(&spec);
    spec
}

/// Whether two looks at the node found the same, times apart.
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
            tracing::warn!(error = telemetry::chain(&error), "cannot look at the memory");
            0
        }
    }
}

fn resources(
    config: &Config,
    machine: &Machine,
    memory_bytes: u64,
    network: Option<&HostNetwork>,
) -> NodeResources {
    let mb = |bytes: u64| u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    let override_mhz = config.cpu_total_mhz;
    let total_mhz = if override_mhz > 0 { override_mhz } else { machine.total_mhz() };
    NodeResources {
        processors: Topology {
            nodes: vec![0],
            distances: vec![vec![10]],
            cores: machine.cores.clone(),
            override_total_mhz: override_mhz,
            override_withheld_mhz: 0,
        },
        cpu: LegacyCpu {
            cpu_mhz: total_mhz,
            total_cores: u16::try_from(machine.cores.len()).unwrap_or(u16::MAX),
            // Cores of a task's own cannot be given: there are no control groups to hold others off.
            reservable_cores: Vec::new(),
        },
        memory_mb: if config.memory_total_mb > 0 { config.memory_total_mb } else { mb(memory_bytes) },
        disk_mb: if config.disk_free_mb > 0 { config.disk_free_mb } else { mb(machine.disk.free_bytes) },
        devices: Vec::new(),
        node_networks: network.map(HostNetwork::node_network).into_iter().collect(),
        networks: network.map(HostNetwork::legacy).into_iter().collect(),
        dynamic_port_min: config.dynamic_ports.0,
        dynamic_port_max: config.dynamic_ports.1,
    }
}

fn attributes(config: &Config, machine: &Machine, memory_bytes: u64) -> BTreeMap<Text, Text> {
    let total_mhz = if config.cpu_total_mhz > 0 { config.cpu_total_mhz } else { machine.total_mhz() };
    let frequency = machine.cores.iter().map(Core::mhz).max().unwrap_or(0);
    let mut signals: Vec<_> = Signal::iterator().map(Signal::as_str).collect();
    signals.sort_unstable();
    let found = [
        ("cpu.arch", go_arch().to_owned()),
        ("cpu.modelname", machine.cpu_model.clone()),
        ("cpu.numcores", machine.cores.len().to_string()),
        ("cpu.frequency", frequency.to_string()),
        ("cpu.totalcompute", total_mhz.to_string()),
        ("cpu.usablecompute", total_mhz.saturating_sub(config.reserved.cpu_mhz).to_string()),
        ("os.name", System::distribution_id()),
        ("os.version", System::os_version().unwrap_or_default()),
        ("os.signals", signals.join(",")),
        ("os.cgroups.version", cgroups_version().to_owned()),
        ("kernel.name", "linux".to_owned()),
        ("kernel.version", System::kernel_version().unwrap_or_default()),
        ("kernel.arch", std::env::consts::ARCH.to_owned()),
        ("unique.hostname", machine.host_name.to_string()),
        ("memory.totalbytes", memory_bytes.to_string()),
        ("unique.storage.volume", machine.disk.volume.clone()),
        ("unique.storage.bytestotal", machine.disk.total_bytes.to_string()),
        ("unique.advertise.address", config.http_addr.to_string()),
        ("nomad.version", COMPATIBLE_VERSION.to_owned()),
        ("nomad.service_discovery", "false".to_owned()),
    ];
    let known = found.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.into(), value.into())).collect()
}

/// The processor's architecture by the name that job files know.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

fn cgroups_version() -> &'static str {
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        "2"
    } else if Path::new("/sys/fs/cgroup/cpu").exists() {
        "1"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
