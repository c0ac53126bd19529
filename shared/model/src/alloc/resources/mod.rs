//! Resources of an allocation.
//!
//! Most of them are the same for all allocations of a placement and are stored once, in [`AllocatedResources`].
//! [`AllocatedResources::split`] moves the parts that differ (addresses, ports, devices, cores) into [`Assigned`];
//! [`AllocatedResources::with`] is its inverse.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::assigned::{
    AllocatedDevice, Assigned, AssignedNetwork, AssignedPort, AssignedTask, PackedAssigned,
};
use crate::Text;
use crate::job::{Lifecycle, LifecycleHook, NetworkResource, Port};

/// All resources of an allocation. As part of `AllocCommon`, they do not contain those in [`Assigned`].
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocatedResources {
    /// Resources of each task, sorted by name.
    pub tasks: Vec<TaskResources>,
    /// Size of the group's shared directory in MB.
    pub disk_mb: u32,
    /// The group's networks.
    pub networks: Vec<NetworkResource>,
    /// The group's ports, each with its address on the node.
    pub ports: Vec<PortMapping>,
}

/// Resources of one task.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResources {
    /// The task's name.
    pub name: Text,
    /// When the task runs; `None` for a main task.
    pub lifecycle: Option<Lifecycle>,
    /// Processor capacity in MHz. For a task with reserved cores, the capacity of those cores.
    pub cpu_mhz: u32,
    /// Ids of its exclusively reserved cores.
    pub cores: Vec<u16>,
    /// Memory in MB, including that of its secrets directory.
    pub memory_mb: u32,
    /// Memory limit in MB, including the secrets directory; 0 is unset, -1 is no limit.
    pub memory_max_mb: i64,
    /// Networks of the task, in older job files.
    pub networks: Vec<NetworkResource>,
    /// Its exclusively reserved devices.
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
    /// The port inside the allocation's network namespace; 0 is the same as on the node.
    pub to: i32,
    /// The node's address.
    pub host_ip: Text,
    /// Whether other allocations on the node may use the same port.
    pub ignore_collision: bool,
}

/// The part of a node's capacity that an allocation uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Processor capacity in MHz.
    pub cpu_mhz: u32,
    /// Memory in MB.
    pub memory_mb: u32,
    /// Disk space in MB.
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
    /// The part of a node's capacity that these resources use.
    ///
    /// Tasks that never run at the same time are not added up: the demand is the maximum of the sums over the prestart
    /// tasks, the main tasks and the poststop tasks. Reserved cores are used during the whole life of the allocation. They
    /// are not part of the common resources; see [`PackedAssigned::own_cores_mhz`].
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

    /// Moves the parts that differ between allocations into an [`Assigned`].
    ///
    /// [`Self::with`] is the inverse. (It would replace an inner port of -1 by the number of the dynamic port, but no
    /// allocation has such a port.)
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

    /// Returns the resources of one allocation: `self` with the values of `assigned` filled in.
    ///
    /// A dynamic port whose inner port is -1 gets the same number inside the network namespace.
    #[must_use]
    pub fn with(&self, assigned: &Assigned) -> Self {
        let mut complete = self.clone();
        for (network, assigned) in complete.networks_mut().zip(&assigned.networks) {
            network.device = Text::clone(&assigned.device);
            network.ip = Text::clone(&assigned.ip);
            put_ports(network, &assigned.ports);
        }
        for (port, assigned) in complete.ports.iter_mut().zip(&assigned.ports) {
            port.value = assigned.value;
            port.to = assigned.to;
            port.host_ip = Text::clone(&assigned.host_ip);
        }
        for assigned in &assigned.tasks {
            if let Some(task) = complete.tasks.iter_mut().find(|task| task.name == assigned.task) {
                if !assigned.cores.is_empty() {
                    task.cpu_mhz = assigned.cpu_mhz;
                    task.cores.clone_from(&assigned.cores);
                }
                task.devices.clone_from(&assigned.devices);
            }
        }
        complete
    }

    /// The addresses and ports that an allocation uses on its node, without ports that may be shared. These are
    /// the group's ports or, if there are none, the ports of the first network of the group and of each task.
    ///
    /// If `self` is the common part, `assigned` contains the assigned values. If `assigned` is empty, `self` must be
    /// complete.
    pub fn host_ports<'a>(&'a self, assigned: &'a PackedAssigned) -> Vec<(&'a str, u16)> {
        if !self.ports.is_empty() {
            let assigned = assigned.group_ports().map(Some).chain(std::iter::repeat(None));
            let ports = self.ports.iter().zip(assigned).filter(|(port, _)| !port.ignore_collision);
            return ports.map(|(port, assigned)| assigned.unwrap_or((&port.host_ip, port.value))).collect();
        }
        let mut assigned = assigned.networks();
        let mut host_ports = Vec::new();
        let owners = std::iter::once(&self.networks).chain(self.tasks.iter().map(|task| &task.networks));
        for networks in owners {
            for (position, network) in networks.iter().enumerate() {
                let assigned = assigned.next();
                if position == 0 {
                    host_ports.extend(network_ports(network, assigned));
                }
            }
        }
        host_ports
    }

    /// Whether there are any networks or ports.
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
    assigned: Option<(&'a str, Vec<u16>)>,
) -> impl Iterator<Item = (&'a str, u16)> {
    let (ip, values) = assigned.unwrap_or_else(|| (&network.ip, Vec::new()));
    let ports = network.reserved_ports.iter().chain(&network.dynamic_ports).enumerate();
    ports.filter(|(_, port)| !port.ignore_collision).map(move |(position, port)| {
        let value = values.get(position).copied().unwrap_or(port.value);
        (ip, value)
    })
}

/// Value of an inner port that is the same as the port on the node.
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
