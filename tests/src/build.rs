//! Builders of objects for tests and benchmarks: a realistic node, a job with one group, and change sets that follow
//! each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocMetric, AllocatedResources, Assigned, AssignedNetwork, AssignedPort, ClientStatus,
    PackedAssigned, PackedMetric, PackedTaskStates, PortMapping, ReportNumber, TaskEvent, TaskEventKind,
    TaskResources, TaskRunState, TaskState,
};
use model::change::{AllocsChanged, Cause, Change, ChangeSet};
use model::deployment::{Deployment, DeploymentStatus};
use model::eval::{EvalTrigger, Evaluation};
use model::job::{EphemeralDisk, Job, JobSpec, NetworkResource, Port, Resources, Task, TaskGroup};
use model::node::{
    Driver, LegacyCpu, Node, NodeAddress, NodeNetwork, NodeReserved, NodeResources, NodeServerSide, NodeSpec,
    NodeStatus, Topology,
};
use model::plan::{Placement, Placements};
use model::{AllocId, DeploymentId, EvalId, Index, JobVersionKey, Map, NodeId, RequestId, Text, Timestamp};
use scheduling::{Attempt, Proposal, schedule};
use state::State;

/// 2026-01-01T00:00:00Z, the time at which everything here begins.
pub const NOW: Timestamp = Timestamp::from_secs(1_767_225_600);

/// Generates ids that are as evenly distributed as real ones and the same in each run.
#[derive(Debug)]
pub struct Ids(u64);

impl Default for Ids {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Ids {
    /// The next number of the sequence.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The bytes of the next id.
    pub fn bytes(&mut self) -> [u8; 16] {
        let [high, low] = [self.number(), self.number()];
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}

/// Assigns indexes to change sets.
#[derive(Debug, Default)]
pub struct Log(u64);

impl From<Index> for Log {
    /// Continues the log after an index.
    fn from(index: Index) -> Self {
        Self(index.0)
    }
}

impl Log {
    /// The index of the next change set.
    pub fn next_index(&self) -> Index {
        Index(self.0 + 1)
    }

    /// Makes the next change set.
    pub fn entry(&mut self, changes: Vec<Change>) -> ChangeSet {
        self.0 += 1;
        change_set(Index(self.0), changes)
    }
}

/// Makes a change set with an index. Its time rises with the index.
pub fn change_set(index: Index, changes: Vec<Change>) -> ChangeSet {
    ChangeSet {
        index,
        at: Timestamp(NOW.0 + index.0 as i64),
        request_id: RequestId::from_bytes([1; 16]),
        cause: Cause::PlanResult,
        trace: None,
        result: Vec::new(),
        changes,
    }
}

/// Wraps change sets as a replica takes them.
pub fn shared(sets: impl IntoIterator<Item = ChangeSet>) -> Vec<Arc<ChangeSet>> {
    sets.into_iter().map(Arc::new).collect()
}

/// A ready node of 64 GHz and 256 GB. Its name, address and class are derived from `number`.
pub fn node(id: NodeId, number: u64) -> Node {
    let attributes = (0..40).map(|n| (format!("attribute.number.{n}").into(), format!("value {n}").into()));
    let unique = [("unique.hostname".into(), format!("node-{number}").into())];
    let driver = Driver { detected: true, healthy: true, ..Driver::default() };
    let address = NodeAddress {
        family: "ipv4".into(),
        alias: "default".into(),
        address: node_ip(number),
        ..NodeAddress::default()
    };
    let network = NodeNetwork {
        mode: "host".into(),
        device: "eth0".into(),
        addresses: vec![address],
        ..NodeNetwork::default()
    };
    let older = NetworkResource { mode: "host".into(), device: "eth0".into(), ..NetworkResource::default() };
    let spec = NodeSpec {
        name: format!("node-{number}").into(),
        datacenter: format!("dc{}", number % 3).into(),
        node_pool: "default".into(),
        computed_class: format!("v1:{}", number % 10).into(),
        attributes: attributes.chain(unique).collect(),
        resources: NodeResources {
            processors: Topology { override_total_mhz: 64_000, ..Topology::default() },
            cpu: LegacyCpu { cpu_mhz: 64_000, total_cores: 16, ..LegacyCpu::default() },
            memory_mb: 262_144,
            disk_mb: 1_000_000,
            node_networks: vec![network],
            networks: vec![older],
            ..NodeResources::default()
        },
        reserved: NodeReserved { cpu_mhz: 100, memory_mb: 256, ..NodeReserved::default() },
        drivers: [("exec".into(), driver.clone()), ("docker".into(), driver)].into(),
        ..NodeSpec::default()
    };
    Node {
        id,
        spec: Arc::new(spec),
        server: NodeServerSide { status: NodeStatus::Ready, ..Default::default() },
    }
}

fn node_ip(number: u64) -> Text {
    format!("10.0.{}.{}", number / 250, number % 250).into()
}

/// A service job `job-<number>` with one group `app` of one task `web`: 100 MHz, 256 MB, 300 MB of disk.
pub fn job(number: u64, count: u32) -> Job {
    let task = Task {
        name: "web".into(),
        driver: "docker".into(),
        resources: Resources { cpu_mhz: 100, memory_mb: 256, ..Resources::default() },
        ..Task::default()
    };
    let group = TaskGroup {
        name: "app".into(),
        count,
        tasks: vec![task],
        ephemeral_disk: EphemeralDisk { size_mb: 300, ..EphemeralDisk::default() },
        ..TaskGroup::default()
    };
    let id: Text = format!("job-{number}").into();
    let spec = JobSpec {
        namespace: "default".into(),
        name: id.clone(),
        id,
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        priority: 50,
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    Job { spec: Arc::new(spec), ..Job::default() }
}

/// A running deployment of a job's version, without groups.
pub fn deployment(id: DeploymentId, job: JobVersionKey, index: Index) -> Deployment {
    Deployment {
        id,
        job,
        job_modify_index: index,
        job_spec_modify_index: index,
        is_multiregion: false,
        groups: Map::default(),
        status: DeploymentStatus::Running,
        status_description: Text::default(),
        eval_priority: 0,
        create_index: index,
        modify_index: index,
        create_time: NOW,
        modify_time: NOW,
        trace: None,
    }
}

/// The common part of allocations of a job made by [`job`].
pub fn common(job: &Job, eval_id: EvalId) -> AllocCommon {
    let task = TaskResources { name: "web".into(), cpu_mhz: 100, memory_mb: 256, ..TaskResources::default() };
    let version = job.version_key();
    AllocCommon {
        name_stem: format!("{}.app", version.job.id).into(),
        job: version,
        task_group: "app".into(),
        eval_id,
        deployment_id: None,
        resources: AllocatedResources { tasks: vec![task], disk_mb: 300, ..AllocatedResources::default() },
        metrics: PackedMetric::pack(&AllocMetric { nodes_evaluated: 1, ..AllocMetric::default() }),
        trace: None,
    }
}

/// The same with one dynamic port `http` of the group. [`port`] makes the port of one allocation.
pub fn common_with_port(job: &Job, eval_id: EvalId) -> AllocCommon {
    let mut common = common(job, eval_id);
    let port = Port { label: "http".into(), ..Port::default() };
    common.resources.networks =
        vec![NetworkResource { dynamic_ports: vec![port], ..NetworkResource::default() }];
    common.resources.ports = vec![PortMapping { label: "http".into(), ..PortMapping::default() }];
    common
}

/// A port on a node made by [`node`].
pub fn port(node_number: u64, value: u16) -> PackedAssigned {
    let ip = node_ip(node_number);
    let network = AssignedNetwork { device: "eth0".into(), ip: ip.clone(), ports: vec![value] };
    let port = AssignedPort { value, to: 0, host_ip: ip };
    PackedAssigned::pack(&Assigned { networks: vec![network], ports: vec![port], tasks: Vec::new() })
}

/// New allocations, one on each node of `on`, with name indexes that count up from 0.
pub fn placements(common: AllocCommon, on: impl IntoIterator<Item = NodeId>, ids: &mut Ids) -> Placements {
    placements_with(common, on, ids, |_| PackedAssigned::default())
}

/// The same, each with the assigned resources that `assigned` returns for its name index.
pub fn placements_with(
    common: AllocCommon,
    on: impl IntoIterator<Item = NodeId>,
    ids: &mut Ids,
    assigned: impl Fn(u32) -> PackedAssigned,
) -> Placements {
    let mut placements = Placements::new(Arc::new(common));
    let mut slots = BTreeMap::new();
    for (name_index, node) in (0..).zip(on) {
        let node = *slots.entry(node).or_insert_with(|| placements.add_node(node));
        placements.push(Placement {
            id: AllocId::from_bytes(ids.bytes()),
            node,
            name_index,
            previous: None,
            assigned: assigned(name_index),
            reschedule: None,
            preempted: Vec::new(),
        });
    }
    placements
}

/// A report that allocations run, each with the events of a normal start.
pub fn running(ids: &[AllocId]) -> AllocsChanged {
    let states = ids.iter().map(|id| {
        let jitter = i64::from(id.as_bytes()[3]) * 1_000_003;
        let at = |millis: i64| Timestamp(NOW.0 + millis * 1_000_000 + jitter);
        let event = |millis, kind| TaskEvent { time: at(millis), fails_task: false, kind };
        PackedTaskStates::pack(&[TaskState {
            state: TaskRunState::Running,
            started_at: at(900),
            events: vec![
                event(0, TaskEventKind::Received),
                event(5, TaskEventKind::TaskSetup { message: Text::default() }),
                event(900, TaskEventKind::Started),
            ],
            ..TaskState::pending("web".into())
        }])
    });
    AllocsChanged {
        ids: ids.iter().copied().collect(),
        client: Some((ClientStatus::Running, "Tasks are running".into())),
        reports: ids.iter().map(|_| ReportNumber::new(1, 1)).collect(),
        task_states: states.collect(),
        ..AllocsChanged::default()
    }
}

/// Makes one attempt at a job, as if it had just been registered.
pub fn attempt(state: &State, job: &Job, ids: &mut Ids) -> Proposal {
    let id = EvalId::from_bytes(ids.bytes());
    let eval = Evaluation::new(id, job.key(), job.spec.kind, job.spec.priority, EvalTrigger::JobRegister);
    let attempt = Attempt {
        state,
        eval: &eval,
        now: NOW,
        attempts_without_progress: 0,
        rollouts: true,
        explain: false,
    };
    schedule(&attempt, &mut || ids.bytes())
}
