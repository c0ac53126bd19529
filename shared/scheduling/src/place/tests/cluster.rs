//! Random clusters for tests: few nodes with few resources, so that every resource can be exhausted.

use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocatedDevice, Allocation, Assigned, AssignedNetwork, AssignedPort, AssignedTask,
    ClientStatus, DesiredStatus, PackedAssigned, PackedMetric,
};
use model::change::{Cause, Change, ChangeSet};
use model::cluster::{Preemption, SchedulerAlgorithm, SchedulerConfig};
use model::eval::{EvalTrigger, Evaluation};
use model::job::{
    Affinity, Constraint, EphemeralDisk, Job, JobSpec, MigrateStrategy, NetworkResource, Operand, Port,
    RequestedDevice, Resources, Spread, SpreadTarget, Task, TaskGroup, VolumeKind, VolumeRequest,
};
use model::node::{
    Core, Driver, LegacyCpu, Node, NodeAddress, NodeDevice, NodeDeviceGroup, NodeHostVolume, NodeNetwork,
    NodeResources, NodeServerSide, NodeSpec, NodeStatus,
};
use model::{AllocId, EvalId, Index, JobKey, NodeId, RequestId, Text, Timestamp};
use state::{PAGE, State};

use crate::hash;
use crate::place::common_share;

/// Pseudo-random numbers that depend only on the seed.
#[derive(Debug, Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number in `0..sides`.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = hash::mix(self.0);
        self.0 % sides
    }

    /// True once in `times` calls on average.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}

/// A node.
#[derive(Debug, Clone, Default)]
pub(super) struct TestNode {
    pub(super) cpu_mhz: u32,
    pub(super) memory_mb: u32,
    pub(super) rack: Option<u64>,
    pub(super) class: u64,
    pub(super) has_driver: bool,
    /// Number of instances; the last one is unhealthy.
    pub(super) gpus: u64,
    /// The speed of each core.
    pub(super) cores: Vec<u32>,
    /// Number of dynamic ports.
    pub(super) ports: u16,
    pub(super) has_volume: bool,
    pub(super) max_allocs: u32,
}

/// The requests of a group.
#[derive(Debug, Clone, Default)]
pub(super) struct TestGroup {
    pub(super) count: u32,
    pub(super) cpu_mhz: u32,
    pub(super) memory_mb: u32,
    pub(super) dynamic_ports: usize,
    pub(super) static_port: Option<u16>,
    pub(super) gpus: u64,
    pub(super) cores: u32,
    pub(super) rack_affinity: Option<(u64, i64)>,
    pub(super) spreads: Vec<TestSpread>,
    pub(super) distinct_hosts: bool,
    pub(super) racks_each: Option<u32>,
    /// `${meta.rack}` must not be this one.
    pub(super) not_rack: Option<u64>,
    pub(super) wants_volume: bool,
}

/// The attribute over which a group is spread.
#[derive(Debug, Clone)]
pub(super) enum TestSpread {
    Racks,
    Nodes,
    /// Racks, each with its target in percent.
    SomeRacks(Vec<(u64, u64)>),
}

/// An existing allocation.
#[derive(Debug, Clone)]
pub(super) struct TestAlloc {
    pub(super) node: usize,
    /// The group of the job, or another job by its priority and size.
    pub(super) owner: Owner,
    pub(super) client: ClientStatus,
    pub(super) static_port: Option<u16>,
    pub(super) gpus: Vec<u64>,
    pub(super) cores: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Group(usize),
    Other { priority: u16, cpu_mhz: u32, memory_mb: u32 },
}

/// A cluster with one job.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<TestNode>,
    pub(super) groups: Vec<TestGroup>,
    pub(super) allocs: Vec<TestAlloc>,
    pub(super) preempts: bool,
    pub(super) algorithm: SchedulerAlgorithm,
    pub(super) priority: u16,
}

pub(super) const VOLUME: &str = "data";

impl Cluster {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let nodes = 1 + dice.roll(12) as usize;
        let nodes: Vec<TestNode> = (0..nodes)
            .map(|_| TestNode {
                cpu_mhz: 500 * (1 + dice.roll(6) as u32),
                memory_mb: 500 * (1 + dice.roll(6) as u32),
                rack: (!dice.once_in(8)).then(|| dice.roll(4)),
                class: dice.roll(3),
                has_driver: !dice.once_in(8),
                gpus: if dice.once_in(2) { dice.roll(4) } else { 0 },
                cores: (0..dice.roll(5)).map(|_| 100 * (1 + dice.roll(4) as u32)).collect(),
                ports: 1 + dice.roll(4) as u16,
                has_volume: !dice.once_in(3),
                max_allocs: if dice.once_in(8) { 1 + dice.roll(3) as u32 } else { 0 },
            })
            .collect();
        let groups = (0..1 + dice.roll(2)).map(|_| TestGroup::random(dice)).collect();
        let mut cluster = Self {
            nodes,
            groups,
            allocs: Vec::new(),
            preempts: dice.once_in(2),
            algorithm: match dice.roll(4) {
                0 => SchedulerAlgorithm::Spread,
                1 => SchedulerAlgorithm::Align,
                _ => SchedulerAlgorithm::Binpack,
            },
            priority: 50,
        };
        for _ in 0..dice.roll(16) {
            let alloc = TestAlloc::random(dice, &cluster);
            cluster.allocs.push(alloc);
        }
        cluster
    }

    /// A cluster with whole pages of nodes and few allocations. Pages of equal nodes are ranked as one; of other nodes,
    /// those with too low scores are dropped together.
    pub(super) fn of_whole_pages(dice: &mut Dice) -> Self {
        let mut cluster = Self::random(dice);
        let (few_will_do, differ) = (dice.once_in(2), dice.once_in(2));
        let mut like = |first: &TestNode| -> Vec<TestNode> {
            let mut node = || TestNode {
                rack: (!dice.once_in(8)).then(|| dice.roll(4)),
                class: dice.roll(3),
                has_driver: dice.once_in(8) == few_will_do,
                cpu_mhz: if differ { 500 * (1 + dice.roll(6) as u32) } else { first.cpu_mhz },
                memory_mb: if differ { 3_000 } else { first.memory_mb },
                ..first.clone()
            };
            (0..PAGE).map(|_| node()).collect()
        };
        let firsts: Vec<TestNode> = cluster.nodes.iter().take(3).cloned().collect();
        cluster.nodes = firsts.iter().flat_map(&mut like).collect();
        cluster.allocs.truncate(3);
        cluster.allocs.retain(|alloc| alloc.node < firsts.len());
        cluster.allocs.iter_mut().for_each(|alloc| alloc.node *= PAGE);
        cluster
    }
}

impl TestGroup {
    fn random(dice: &mut Dice) -> Self {
        let spreads = (0..if dice.once_in(2) { 1 + dice.roll(2) } else { 0 })
            .map(|_| match dice.roll(3) {
                0 => TestSpread::Racks,
                1 => TestSpread::Nodes,
                _ => TestSpread::SomeRacks(
                    (0..1 + dice.roll(3)).map(|rack| (rack, 20 * dice.roll(3))).collect(),
                ),
            })
            .collect();
        Self {
            count: 1 + dice.roll(10) as u32,
            cpu_mhz: 50 * (1 + dice.roll(8) as u32),
            memory_mb: 50 * (1 + dice.roll(8) as u32),
            dynamic_ports: if dice.once_in(3) { 1 + dice.roll(2) as usize } else { 0 },
            static_port: dice.once_in(5).then_some(80),
            gpus: if dice.once_in(5) { 1 + dice.roll(2) } else { 0 },
            cores: if dice.once_in(5) { 1 + dice.roll(2) as u32 } else { 0 },
            rack_affinity: dice.once_in(3).then(|| (dice.roll(4), if dice.once_in(3) { -50 } else { 100 })),
            spreads,
            distinct_hosts: dice.once_in(6),
            racks_each: dice.once_in(5).then(|| 1 + dice.roll(4) as u32),
            not_rack: dice.once_in(5).then(|| dice.roll(4)),
            wants_volume: dice.once_in(6),
        }
    }
}

impl TestAlloc {
    pub(super) fn random(dice: &mut Dice, cluster: &Cluster) -> Self {
        let node = dice.roll(cluster.nodes.len() as u64) as usize;
        let owner = match dice.once_in(2) {
            true => Owner::Group(dice.roll(cluster.groups.len() as u64) as usize),
            false => Owner::Other {
                priority: 20 + 15 * dice.roll(3) as u16,
                cpu_mhz: 50 * (1 + dice.roll(8) as u32),
                memory_mb: 50 * (1 + dice.roll(8) as u32),
            },
        };
        let test_node = &cluster.nodes[node];
        let client = match dice.roll(6) {
            0 => ClientStatus::Failed,
            1 => ClientStatus::Unknown,
            _ => ClientStatus::Running,
        };
        let taken =
            |gpu: &u64| cluster.allocs.iter().any(|alloc| alloc.node == node && alloc.gpus.contains(gpu));
        let port_is_free =
            !cluster.allocs.iter().any(|alloc| alloc.node == node && alloc.static_port.is_some());
        let core_is_free =
            |core: &u16| !cluster.allocs.iter().any(|alloc| alloc.node == node && alloc.cores.contains(core));
        let special = matches!(owner, Owner::Other { .. });
        let static_port = (special && port_is_free && dice.once_in(3)).then_some(80);
        let gpus: Vec<u64> = if special && dice.once_in(2) {
            (0..test_node.gpus.saturating_sub(1)).filter(|gpu| !taken(gpu)).take(1).collect()
        } else {
            Vec::new()
        };
        let cores = if special && dice.once_in(3) {
            (0..test_node.cores.len() as u16).filter(core_is_free).take(1).collect()
        } else {
            Vec::new()
        };
        Self { node, owner, client, static_port, gpus, cores }
    }
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId::from_bytes([1 + node as u8; 16])
}

pub(super) fn alloc_id(alloc: usize) -> AllocId {
    let mut id = [0xa; 16];
    id[15] = alloc as u8;
    AllocId::from_bytes(id)
}

pub(super) fn evaluation() -> Evaluation {
    let id = EvalId::from_bytes([0xe; 16]);
    Evaluation::new(id, JobKey::new("default", "job"), Default::default(), 50, EvalTrigger::JobRegister)
}

fn literal(left: &str, operand: Operand, right: &str) -> Constraint {
    Constraint { l_target: left.into(), operand, r_target: right.into() }
}

impl TestGroup {
    fn group(&self, number: usize) -> TaskGroup {
        let port = |label: &str, value| Port { label: label.into(), value, ..Port::default() };
        let mut networks = Vec::new();
        if self.dynamic_ports > 0 || self.static_port.is_some() {
            let label = |number: usize| format!("d{number}");
            networks.push(NetworkResource {
                reserved_ports: self.static_port.into_iter().map(|value| port("s", value)).collect(),
                dynamic_ports: (0..self.dynamic_ports).map(|number| port(&label(number), 0)).collect(),
                ..NetworkResource::default()
            });
        }
        let devices = RequestedDevice { name: "gpu".into(), count: self.gpus, ..RequestedDevice::default() };
        let resources = Resources {
            cpu_mhz: if self.cores > 0 { 0 } else { self.cpu_mhz },
            cores: self.cores,
            memory_mb: self.memory_mb,
            devices: if self.gpus > 0 { vec![devices] } else { Vec::new() },
            ..Resources::default()
        };
        let task = Task { name: "main".into(), driver: "exec".into(), resources, ..Task::default() };
        let mut constraints = Vec::new();
        if self.distinct_hosts {
            constraints.push(literal("", Operand::DistinctHosts, ""));
        }
        if let Some(each) = self.racks_each {
            constraints.push(literal("${meta.rack}", Operand::DistinctProperty, &each.to_string()));
        }
        if let Some(rack) = self.not_rack {
            constraints.push(literal("${meta.rack}", Operand::NotEqual, &format!("r{rack}")));
        }
        let affinity = |(rack, weight): (u64, i64)| Affinity {
            l_target: "${meta.rack}".into(),
            r_target: format!("r{rack}").into(),
            weight,
            ..Affinity::default()
        };
        let spread = |spread: &TestSpread| {
            let (attribute, targets) = match spread {
                TestSpread::Racks => ("${meta.rack}", Vec::new()),
                TestSpread::Nodes => ("${node.unique.id}", Vec::new()),
                TestSpread::SomeRacks(targets) => ("${meta.rack}", targets.clone()),
            };
            let target =
                |(rack, percent): (u64, u64)| SpreadTarget { value: format!("r{rack}").into(), percent };
            Spread {
                attribute: attribute.into(),
                weight: 50,
                targets: targets.into_iter().map(target).collect(),
            }
        };
        let volume = VolumeRequest {
            name: VOLUME.into(),
            kind: VolumeKind::Host,
            source: VOLUME.into(),
            read_only: false,
            sticky: false,
            access_mode: None,
            attachment_mode: None,
            mount_options: None,
            per_alloc: false,
        };
        TaskGroup {
            name: format!("g{number}").into(),
            count: self.count,
            tasks: vec![task],
            networks,
            constraints,
            affinities: self.rack_affinity.into_iter().map(affinity).collect(),
            spreads: self.spreads.iter().map(spread).collect(),
            volumes: self.wants_volume.then(|| (VOLUME.into(), volume)).into_iter().collect(),
            ephemeral_disk: EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() },
            ..TaskGroup::default()
        }
    }
}

impl TestNode {
    fn node(&self, number: usize) -> Node {
        let mut spec = NodeSpec {
            name: format!("node-{number}").into(),
            datacenter: "dc1".into(),
            node_pool: "default".into(),
            node_class: format!("c{}", self.class).into(),
            max_allocs: self.max_allocs,
            ..NodeSpec::default()
        };
        if let Some(rack) = self.rack {
            spec.meta.insert("rack".into(), format!("r{rack}").into());
        }
        if self.has_driver {
            let driver = Driver { detected: true, healthy: true, ..Driver::default() };
            spec.drivers.insert("exec".into(), driver);
        }
        if self.has_volume {
            let volume = NodeHostVolume { name: VOLUME.into(), ..NodeHostVolume::default() };
            spec.host_volumes.insert(VOLUME.into(), volume);
        }
        let instance = |number: u64| NodeDevice {
            id: format!("gpu-{number}").into(),
            healthy: number + 1 < self.gpus,
            ..NodeDevice::default()
        };
        if self.gpus > 0 {
            spec.resources.devices.push(NodeDeviceGroup {
                vendor: "v".into(),
                kind: "gpu".into(),
                name: "n".into(),
                instances: (0..self.gpus).map(instance).collect(),
                ..NodeDeviceGroup::default()
            });
        }
        let core = |(id, mhz): (u16, &u32)| Core { id, base_mhz: *mhz, ..Core::default() };
        spec.resources.processors.cores = (0..).zip(&self.cores).map(core).collect();
        spec.resources.processors.override_total_mhz = self.cpu_mhz;
        let address = NodeAddress {
            alias: "default".into(),
            address: format!("10.0.0.{number}").into(),
            ..NodeAddress::default()
        };
        spec.resources = NodeResources {
            cpu: LegacyCpu { cpu_mhz: self.cpu_mhz, ..LegacyCpu::default() },
            memory_mb: self.memory_mb,
            disk_mb: 1_000,
            networks: vec![NetworkResource { mode: "host".into(), ..NetworkResource::default() }],
            node_networks: vec![NodeNetwork {
                mode: "host".into(),
                addresses: vec![address],
                ..NodeNetwork::default()
            }],
            dynamic_port_min: 1_000,
            dynamic_port_max: 999 + self.ports,
            ..spec.resources
        };
        // The computed class contains what constraints may refer to, and nothing else that differs between nodes.
        let drivers = self.has_driver;
        spec.computed_class = format!("v1:{}{:?}{}{drivers}", self.class, self.rack, self.gpus > 0).into();
        let server = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
        Node { id: node_id(number), spec: Arc::new(spec), server }
    }
}

impl Cluster {
    pub(super) fn job(&self) -> Job {
        let groups = self.groups.iter().enumerate().map(|(number, group)| group.group(number));
        let spec = JobSpec {
            namespace: "default".into(),
            id: "job".into(),
            name: "job".into(),
            datacenters: vec!["*".into()],
            node_pool: "default".into(),
            priority: self.priority,
            task_groups: groups.collect::<Vec<_>>().into(),
            ..JobSpec::default()
        };
        Job { spec: Arc::new(spec), create_index: Index(10), modify_index: Index(10), ..Job::default() }
    }

    fn other_job(&self, number: usize) -> Option<Job> {
        let Owner::Other { priority, cpu_mhz, memory_mb } = self.allocs[number].owner else { return None };
        let resources = Resources { cpu_mhz, memory_mb, ..Resources::default() };
        let group = TaskGroup {
            name: "g".into(),
            count: 1,
            migrate: Some(MigrateStrategy { max_parallel: 1, ..MigrateStrategy::default() }),
            tasks: vec![Task { name: "main".into(), resources, ..Task::default() }],
            ..TaskGroup::default()
        };
        let spec = JobSpec {
            namespace: "default".into(),
            // Some allocations belong to the same job.
            id: format!("other-{priority}-{cpu_mhz}-{memory_mb}").into(),
            priority,
            task_groups: vec![group].into(),
            ..JobSpec::default()
        };
        Some(Job { spec: Arc::new(spec), create_index: Index(5), ..Job::default() })
    }

    fn alloc(&self, number: usize) -> Allocation {
        let alloc = &self.allocs[number];
        let (job, group) = match alloc.owner {
            Owner::Group(group) => (self.job(), group),
            Owner::Other { .. } => (self.other_job(number).expect("the owner is another job"), 0),
        };
        let task_group = &job.spec.task_groups[group];
        let mut resources = common_share(&State::default(), &job.spec, task_group);
        resources.disk_mb = 10;
        let mut assigned = Assigned::default();
        // Ports, devices and cores of the allocation do not depend on what its group asks for.
        resources.networks.clear();
        resources.ports.clear();
        if let Some(value) = alloc.static_port {
            let host_ip: Text = format!("10.0.0.{}", alloc.node).into();
            let port = Port { label: "s".into(), value, ..Port::default() };
            let network =
                NetworkResource { reserved_ports: vec![port.clone()], ..NetworkResource::default() };
            resources.networks.push(network);
            assigned.networks.push(AssignedNetwork {
                ip: host_ip.clone(),
                ports: vec![value],
                ..Default::default()
            });
            resources.ports.push(model::alloc::PortMapping { label: "s".into(), ..Default::default() });
            assigned.ports.push(AssignedPort { value, to: 0, host_ip });
        }
        let device = |gpu: &u64| AllocatedDevice {
            vendor: "v".into(),
            kind: "gpu".into(),
            name: "n".into(),
            ids: vec![format!("gpu-{gpu}").into()],
        };
        if !alloc.gpus.is_empty() || !alloc.cores.is_empty() {
            assigned.tasks.push(AssignedTask {
                task: "main".into(),
                cpu_mhz: alloc
                    .cores
                    .iter()
                    .map(|core| self.nodes[alloc.node].cores[usize::from(*core)])
                    .sum(),
                cores: alloc.cores.clone(),
                devices: alloc.gpus.iter().map(device).collect(),
            });
        }
        Allocation {
            id: alloc_id(number),
            common: Arc::new(AllocCommon {
                job: job.version_key(),
                task_group: Text::clone(&task_group.name),
                name_stem: format!("{}.{}", job.spec.id, task_group.name).into(),
                eval_id: EvalId::from_bytes([1; 16]),
                deployment_id: None,
                resources,
                metrics: PackedMetric::default(),
                trace: None,
            }),
            name_index: Some(number as u32),
            node_id: node_id(alloc.node),
            node_name: format!("node-{}", alloc.node).into(),
            assigned: PackedAssigned::pack(&assigned),
            desired_status: DesiredStatus::Run,
            desired_description: Text::default(),
            desired_transition: Default::default(),
            client_status: alloc.client,
            client_description: Text::default(),
            task_states: Default::default(),
            health: None,
            extra: Default::default(),
            report: Default::default(),
            create_index: Index(20),
            modify_index: Index(20),
            alloc_modify_index: Index(20),
            create_time: Timestamp::UNSET,
            modify_time: Timestamp::UNSET,
        }
    }

    pub(super) fn state(&self) -> State {
        let nodes = self.nodes.iter().enumerate().map(|(number, node)| node.node(number));
        let mut changes: Vec<Change> = nodes.map(Box::new).map(Change::Node).collect();
        changes.push(Change::Job(Arc::new(self.job())));
        let mut known: Vec<JobKey> = Vec::new();
        for job in (0..self.allocs.len()).filter_map(|number| self.other_job(number)) {
            if !known.contains(&job.key()) {
                known.push(job.key());
                changes.push(Change::Job(Arc::new(job)));
            }
        }
        let allocs = (0..self.allocs.len()).map(|number| self.alloc(number));
        changes.extend(allocs.map(Box::new).map(Change::Alloc));
        // Bin-packing is the default, so it is not configured.
        let algorithm = Some(self.algorithm).filter(|algorithm| *algorithm != SchedulerAlgorithm::Binpack);
        let preempts = self.preempts;
        let preemption =
            Preemption { system: preempts, sysbatch: preempts, batch: preempts, service: preempts };
        changes.push(Change::SchedulerConfig(SchedulerConfig {
            algorithm,
            preemption,
            ..SchedulerConfig::default()
        }));
        let set = ChangeSet {
            index: Index(100),
            at: Timestamp::from_secs(1_000_000),
            request_id: RequestId::from_bytes([1; 16]),
            cause: Cause::Settings,
            trace: None,
            result: Vec::new(),
            changes,
        };
        let mut state = State::default();
        state.load(&set).unwrap();
        state
    }
}
