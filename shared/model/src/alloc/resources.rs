//! What an allocation gets of its node.
//!
//! Most of it is the same for every allocation of a placement and stands once, in [`AllocatedResources`]; what
//! differs (addresses, ports, devices, cores) is taken out of it into [`Assigned`]. [`AllocatedResources::with`] undoes
//! [`AllocatedResources::split`].

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::assigned::{
    AllocatedDevice, Assigned, AssignedNetwork, AssignedPort, AssignedTask, PackedAssigned,
};
use crate::Text;
use crate::job::{Lifecycle, LifecycleHook, NetworkResource, Port};

/// Everything that an allocation gets; as part of `AllocCommon`, less what [`Assigned`] holds.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocatedResources {
    /// Each task's share, by name.
    pub tasks: Vec<TaskResources>,
    /// Space of the group's shared directory, in MB.
    pub disk_mb: u32,
    /// The group's networks.
    pub networks: Vec<NetworkResource>,
    /// The group's ports, each with the address that it is open on.
    pub ports: Vec<PortMapping>,
}

/// One task's share.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResources {
    /// The task's name.
    pub name: Text,
    /// When the task runs, if not as a main task.
    pub lifecycle: Option<Lifecycle>,
    /// Compute, in MHz; of a task with cores of its own, what those cores make.
    pub cpu_mhz: u32,
    /// Ids of the cores that are its alone.
    pub cores: Vec<u16>,
    /// Memory, in MB, that of its secrets directory included.
    pub memory_mb: u32,
    /// Memory that it may grow to, in MB, likewise; 0 is not set, -1 no limit.
    pub memory_max_mb: i64,
    /// Networks of its own, as older job files ask for them.
    pub networks: Vec<NetworkResource>,
    /// Devices that are its alone.
    pub devices: Vec<AllocatedDevice>,
}

/// One port of a group on one address of its node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMapping {
    /// The port's label.
    pub label: Text,
    /// The port on the node.
    pub value: u16,
    /// The port inside the allocation's network; 0 is the same.
    pub to: i32,
    /// The node's address.
    pub host_ip: Text,
    /// Whether others may open the same port.
    pub ignore_collision: bool,
}

/// What an allocation takes away from its node's capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Compute, in MHz.
    pub cpu_mhz: u32,
    /// Memory, in MB.
    pub memory_mb: u32,
    /// Disk, in MB.
    pub disk_mb: u32,
}

impl Demand {
    fn plus(self, task: &TaskResources) -> Self {
        let cpu_mhz = if task.cores.is_empty() { task.cpu_mhz } else { 0 };
        Self {
            cpu_mhz: self.cpu_mhz.saturating_add(cpu_mhz),
            memory_mb: self.memory_mb.saturating_add(task.memory_mb),
            ..self
        }
    }
}

impl AllocatedResources {
    /// What this takes away from a node's capacity.
    ///
    /// Tasks that never run together are not added up: the demand is the largest of the prestart tasks, the main ones
    /// and the poststop ones. Cores of a task's own are taken for the allocation's whole life; of a common share they
    /// are not part, see [`PackedAssigned::own_cores_mhz`].
    pub fn demand(&self) -> Demand {
        let sum = |runs: fn(&TaskResources) -> bool| {
            self.tasks.iter().filter(|task| runs(task)).fold(Demand::default(), Demand::plus)
        };
        let phases = [
            sum(TaskResources::runs_in_main),
            sum(TaskResources::runs_before),
            sum(TaskResources::runs_after),
        ];
        let own_cores = self.tasks.iter().filter(|task| !task.cores.is_empty());
        let own_cores_mhz = own_cores.fold(0u32, |mhz, task| mhz.saturating_add(task.cpu_mhz));
        let shared_mhz = phases.iter().map(|phase| phase.cpu_mhz).max().unwrap_or(0);
        Demand {
            cpu_mhz: shared_mhz.saturating_add(own_cores_mhz),
            memory_mb: phases.iter().map(|phase| phase.memory_mb).max().unwrap_or(0),
            disk_mb: self.disk_mb,
        }
    }

    /// Takes out what may differ from one allocation to the next.
    ///
    /// [`Self::with`] puts it back. (Dynamic ports of -1 inside would get their number there, but no allocation has any.)
    pub fn split(mut self) -> (Self, Assigned) {
        let mut assigned = Assigned::default();
        for network in self.networks_mut() {
            assigned.networks.push(AssignedNetwork {
                device: std::mem::take(&mut network.device),
                ip: std::mem::take(&mut network.ip),
                ports: take_ports(network),
            });
        }
        for port in &mut self.ports {
            assigned.ports.push(AssignedPort {
                value: std::mem::take(&mut port.value),
                to: std::mem::take(&mut port.to),
                host_ip: std::mem::take(&mut port.host_ip),
            });
        }
        for task in self.tasks.iter_mut().filter(|task| !task.cores.is_empty() || !task.devices.is_empty()) {
            let cpu_mhz = if task.cores.is_empty() { 0 } else { std::mem::take(&mut task.cpu_mhz) };
            assigned.tasks.push(AssignedTask {
                task: Text::clone(&task.name),
                cpu_mhz,
                cores: std::mem::take(&mut task.cores),
                devices: std::mem::take(&mut task.devices),
            });
        }
        (self, assigned)
    }

    /// Fills in what one allocation got. What `assigned` does not speak of stays as it is.
    ///
    /// A dynamic port that is to be the same inside the network (-1) gets that number, too.
    #[must_use]
    pub fn with(&self, assigned: &Assigned) -> Self {
        let mut whole = self.clone();
        for (network, got) in whole.networks_mut().zip(&assigned.networks) {
            network.device = Text::clone(&got.device);
            network.ip = Text::clone(&got.ip);
            put_ports(network, &got.ports);
        }
        for (port, got) in whole.ports.iter_mut().zip(&assigned.ports) {
            port.value = got.value;
            port.to = got.to;
            port.host_ip = Text::clone(&got.host_ip);
        }
        for got in &assigned.tasks {
            if let Some(task) = whole.tasks.iter_mut().find(|task| task.name == got.task) {
                if !got.cores.is_empty() {
                    task.cpu_mhz = got.cpu_mhz;
                    task.cores.clone_from(&got.cores);
                }
                task.devices.clone_from(&got.devices);
            }
        }
        whole
    }

    /// The ports that an allocation holds on its node's addresses, those apart that never collide: the group's
    /// ports, or, where it has none, those of the first network of the group and of each task.
    ///
    /// Of a common share, `assigned` says what the allocation got; where that is empty, this is taken to be whole.
    pub fn host_ports<'a>(&'a self, assigned: &'a PackedAssigned) -> Vec<(&'a str, u16)> {
        if !self.ports.is_empty() {
            let got = assigned.group_ports().map(Some).chain(std::iter::repeat(None));
            let ports = self.ports.iter().zip(got).filter(|(port, _)| !port.ignore_collision);
            return ports.map(|(port, got)| got.unwrap_or((&port.host_ip, port.value))).collect();
        }
        let mut got = assigned.networks();
        let mut held = Vec::new();
        let owners = std::iter::once(&self.networks).chain(self.tasks.iter().map(|task| &task.networks));
        for networks in owners {
            for (place, network) in networks.iter().enumerate() {
                let got = got.next();
                if place == 0 {
                    held.extend(network_ports(network, got));
                }
            }
        }
        held
    }

    /// Whether there are networks or ports in it.
    pub fn has_networks(&self) -> bool {
        !self.ports.is_empty()
            || !self.networks.is_empty()
            || self.tasks.iter().any(|task| !task.networks.is_empty())
    }

    fn networks_mut(&mut self) -> impl Iterator<Item = &mut NetworkResource> {
        self.networks.iter_mut().chain(self.tasks.iter_mut().flat_map(|task| &mut task.networks))
    }
}

fn network_ports<'a>(
    network: &'a NetworkResource,
    got: Option<(&'a str, Vec<u16>)>,
) -> impl Iterator<Item = (&'a str, u16)> {
    let (ip, values) = got.unwrap_or_else(|| (&network.ip, Vec::new()));
    let ports = network.reserved_ports.iter().chain(&network.dynamic_ports).enumerate();
    ports.filter(|(_, port)| !port.ignore_collision).map(move |(place, port)| {
        let value = values.get(place).copied().unwrap_or(port.value);
        (ip, value)
    })
}

/// Stands for the same port inside a network as on the node.
const SAME_AS_ON_NODE: i32 = -1;

fn take_ports(network: &mut NetworkResource) -> Vec<u16> {
    for port in &mut network.dynamic_ports {
        if port.value != 0 && port.to == i32::from(port.value) {
            port.to = SAME_AS_ON_NODE;
        }
    }
    ports_mut(network).map(|port| std::mem::take(&mut port.value)).collect()
}

fn put_ports(network: &mut NetworkResource, values: &[u16]) {
    for (port, value) in ports_mut(network).zip(values) {
        port.value = *value;
    }
    for port in &mut network.dynamic_ports {
        if port.value != 0 && port.to == SAME_AS_ON_NODE {
            port.to = port.value.into();
        }
    }
}

fn ports_mut(network: &mut NetworkResource) -> impl Iterator<Item = &mut Port> {
    network.reserved_ports.iter_mut().chain(&mut network.dynamic_ports)
}

impl TaskResources {
    fn runs_before(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.hook == LifecycleHook::Prestart)
    }

    fn runs_after(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.hook == LifecycleHook::Poststop)
    }

    fn runs_in_main(&self) -> bool {
        match &self.lifecycle {
            None => true,
            Some(lifecycle) => match lifecycle.hook {
                LifecycleHook::Prestart => lifecycle.sidecar,
                LifecycleHook::Poststart => true,
                LifecycleHook::Poststop => false,
            },
        }
    }
}
