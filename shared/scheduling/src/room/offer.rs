//! Offers: what a node can give an allocation of a group, built step by step, and whether it fits (`docs/rules/scheduling.md`
//!

use std::borrow::Cow;

use model::alloc::{AllocatedResources, Assigned, AssignedTask, Demand};
use model::job::{NetworkResource, TaskGroup};
use model::{AllocId, Text};
use state::{AllocRef, NodeRef};

use super::DiscreteUsage;
use super::ports::PortOffer;
use crate::feasible::DeviceRequest;
use crate::hash;

/// The resources that an allocation of a group requests from its node.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    /// Its amounts, without the CPU of reserved cores.
    pub(crate) demand: Demand,
    /// The group's network.
    pub(crate) network: Option<&'a NetworkResource>,
    /// Tasks that ask for more than amounts.
    pub(crate) tasks: Vec<TaskAsk<'a>>,
}

/// The resources that one task requests beyond amounts.
#[derive(Debug)]
pub(crate) struct TaskAsk<'a> {
    pub(crate) name: &'a Text,
    pub(crate) network: Option<&'a NetworkResource>,
    pub(crate) devices: Vec<DeviceRequest<'a>>,
    pub(crate) cores: u32,
}

impl<'a> Ask<'a> {
    pub(crate) fn of(group: &'a TaskGroup, share: &AllocatedResources) -> Self {
        let tasks = group.tasks.iter().map(|task| TaskAsk {
            name: &task.name,
            network: task.resources.networks.first(),
            devices: task.resources.devices.iter().map(DeviceRequest::of).collect(),
            cores: task.resources.cores,
        });
        let asks = |task: &TaskAsk<'_>| task.network.is_some() || !task.devices.is_empty() || task.cores > 0;
        Self { demand: share.demand(), network: group.networks.first(), tasks: tasks.filter(asks).collect() }
    }

    /// Whether it asks for amounts only.
    pub(crate) fn is_plain(&self) -> bool {
        self.network.is_none() && self.tasks.is_empty()
    }

    /// Whether a node's score depends on its offer: reserved cores change the CPU that is used, and devices may have
    /// affinities.
    pub(crate) fn decides_score(&self) -> bool {
        self.tasks.iter().any(|task| task.cores > 0 || task.devices.iter().any(|ask| ask.weights() > 0.0))
    }
}

/// The resources that a node would assign to an allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offer {
    pub(crate) assigned: Assigned,
    /// All amounts, including the CPU of reserved cores.
    pub(crate) demand: Demand,
    /// Affinity score of the devices; `None` if no affinities are given.
    pub(crate) devices: Option<f64>,
}

/// Why a node cannot give what is asked, as metrics name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exhausted(pub(crate) Text);

/// An amount, or the cores, of which a node has too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dimension {
    Allocs,
    Cores,
    Cpu,
    Memory,
    Disk,
}

impl Dimension {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Allocs => "max allocation exceeded",
            Self::Cores => "cores",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// An offer that is being built.
#[derive(Debug, Clone)]
pub(crate) struct Draft<'r> {
    pub(crate) node: NodeRef<'r>,
    pub(crate) discrete: Cow<'r, DiscreteUsage>,
    /// Amounts in use on the node, and by how many allocations.
    pub(crate) used: Demand,
    pub(crate) allocs: u32,
    ports: PortOffer,
    tasks: Vec<AssignedTask>,
    cores: Vec<u16>,
    cores_mhz: u32,
    affinity: f64,
    weights: f64,
}

impl<'r> Draft<'r> {
    pub(crate) fn new(
        node: NodeRef<'r>,
        discrete: Cow<'r, DiscreteUsage>,
        (used, allocs): (Demand, u32),
        id: AllocId,
    ) -> Self {
        Self {
            node,
            discrete,
            used,
            allocs,
            ports: PortOffer::new(hash::of_id(id.as_bytes())),
            tasks: Vec::new(),
            cores: Vec::new(),
            cores_mhz: 0,
            affinity: 0.0,
            weights: 0.0,
        }
    }

    /// Runs all steps; the first shortage ends it.
    pub(crate) fn make(mut self, ask: &Ask<'_>) -> Result<Offer, Exhausted> {
        self.check_node()?;
        if let Some(network) = ask.network {
            self.group_network(network)?;
        }
        for task in &ask.tasks {
            if let Some(network) = task.network {
                self.task_network(network)?;
            }
            self.task_devices(task)?;
            self.task_cores(task)?;
        }
        match self.shortage(ask.demand) {
            Some(dimension) => Err(Exhausted(dimension.as_str().into())),
            None => Ok(self.finish(ask.demand)),
        }
    }

    /// Checks that the node's port lists are readable, and that its allocations do not collide.
    pub(crate) fn check_node(&self) -> Result<(), Exhausted> {
        if !super::ports::has_readable_lists(self.node) {
            return Err(Exhausted("network: invalid node".into()));
        }
        match self.discrete.ports.has_collision() {
            true => Err(Exhausted("network: port collision".into())),
            false => Ok(()),
        }
    }

    pub(crate) fn group_network(&mut self, ask: &NetworkResource) -> Result<(), Exhausted> {
        let got = self.ports.add_group(&self.discrete.ports, self.node, ask);
        got.map_err(|why| Exhausted(format!("network: {}", why.0).into()))
    }

    pub(crate) fn task_network(&mut self, ask: &NetworkResource) -> Result<(), Exhausted> {
        let got = self.ports.add_task(&self.discrete.ports, self.node, ask);
        got.map_err(|why| Exhausted(format!("network: {}", why.0).into()))
    }

    /// Takes devices for one task: all that it asks for, or none.
    pub(crate) fn task_devices(&mut self, task: &TaskAsk<'_>) -> Result<(), Exhausted> {
        let before = self.clone_devices();
        for request in &task.devices {
            if let Err(why) = self.device(task.name, request) {
                (self.discrete, self.tasks, self.affinity, self.weights) = before;
                return Err(why);
            }
        }
        Ok(())
    }

    /// Takes devices for one request.
    pub(crate) fn device(&mut self, task: &Text, request: &DeviceRequest<'_>) -> Result<(), Exhausted> {
        let got = self.discrete.devices.offer(self.node.spec(), request);
        let got = got.map_err(|why| Exhausted(format!("devices: {why}").into()))?;
        self.discrete.to_mut().devices.count(&got.devices, true);
        self.affinity += got.affinity;
        self.weights += request.weights();
        self.of_task(task).devices.push(got.devices);
        Ok(())
    }

    /// Takes reserved cores for one task.
    pub(crate) fn task_cores(&mut self, task: &TaskAsk<'_>) -> Result<(), Exhausted> {
        if task.cores == 0 {
            return Ok(());
        }
        let got = self.discrete.cores.offer(self.node.spec(), task.cores, &self.cores);
        let got = got.ok_or_else(|| Exhausted(Dimension::Cores.as_str().into()))?;
        self.cores.extend(&got.ids);
        self.cores_mhz = self.cores_mhz.saturating_add(got.mhz);
        let assigned = self.of_task(task.name);
        (assigned.cpu_mhz, assigned.cores) = (got.mhz, got.ids);
        Ok(())
    }

    /// The first amount of which the node has too little, in the order of.
    pub(crate) fn shortage(&self, ask: Demand) -> Option<Dimension> {
        let (page, bit) = self.node.page();
        let most = page.max_allocs[bit];
        let has_room = |used: u32, ask: u32, has: u32| u64::from(used) + u64::from(ask) <= u64::from(has);
        let demand = self.demand(ask);
        if most > 0 && self.allocs >= most {
            Some(Dimension::Allocs)
        } else if self.discrete.cores.has_collision() {
            Some(Dimension::Cores)
        } else if !has_room(self.used.cpu_mhz, demand.cpu_mhz, page.cpu_mhz[bit]) {
            Some(Dimension::Cpu)
        } else if !self.discrete.cores.is_within(self.node.spec()) {
            Some(Dimension::Cores)
        } else if !has_room(self.used.memory_mb, demand.memory_mb, page.memory_mb[bit]) {
            Some(Dimension::Memory)
        } else if !has_room(self.used.disk_mb, demand.disk_mb, page.disk_mb[bit]) {
            Some(Dimension::Disk)
        } else {
            None
        }
    }

    /// The amounts including the CPU of the reserved cores taken so far.
    pub(crate) fn demand(&self, ask: Demand) -> Demand {
        Demand { cpu_mhz: ask.cpu_mhz.saturating_add(self.cores_mhz), ..ask }
    }

    pub(crate) fn finish(self, ask: Demand) -> Offer {
        let demand = self.demand(ask);
        let devices = (self.weights > 0.0).then(|| self.affinity / self.weights);
        let assigned = Assigned { networks: self.ports.networks, ports: self.ports.ports, tasks: self.tasks };
        Offer { assigned, demand, devices }
    }

    /// Frees what an allocation on the node holds.
    pub(crate) fn release(&mut self, alloc: AllocRef<'_>) {
        let demand = alloc.demand();
        self.used = Demand {
            cpu_mhz: self.used.cpu_mhz.wrapping_sub(demand.cpu_mhz),
            memory_mb: self.used.memory_mb.wrapping_sub(demand.memory_mb),
            disk_mb: self.used.disk_mb.wrapping_sub(demand.disk_mb),
        };
        self.allocs -= 1;
        self.discrete.to_mut().count(alloc, false);
    }

    fn clone_devices(&self) -> (Cow<'r, DiscreteUsage>, Vec<AssignedTask>, f64, f64) {
        (self.discrete.clone(), self.tasks.clone(), self.affinity, self.weights)
    }

    fn of_task(&mut self, name: &Text) -> &mut AssignedTask {
        let index = self.tasks.iter().position(|task| task.task == *name).unwrap_or_else(|| {
            self.tasks.push(AssignedTask { task: Text::clone(name), ..AssignedTask::default() });
            self.tasks.len() - 1
        });
        &mut self.tasks[index]
    }
}
