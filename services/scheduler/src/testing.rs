//! A small cluster for tests: nodes and jobs, each identified by a number.

use std::sync::Arc;

use model::alloc::{AllocCommon, AllocatedResources, Demand, PackedAssigned, PackedMetric, TaskResources};
use model::change::{Cause, Change, ChangeSet};
use model::eval::{EvalTrigger, Evaluation};
use model::job::{EphemeralDisk, Job, JobSpec, JobType, NetworkResource, Resources, Task, TaskGroup};
use model::node::{
    Driver, LegacyCpu, Node, NodeNetwork, NodeResources, NodeServerSide, NodeSpec, NodeStatus,
};
use model::plan::{Placement, Placements};
use model::{AllocId, EvalId, Index, JobKey, NodeId, RequestId, Timestamp};
use state::State;

/// Demand of each job; a node has capacity for two of them.
pub(crate) const DEMAND: Demand = Demand { cpu_mhz: 500, memory_mb: 256, disk_mb: 10 };

pub(crate) fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

/// A ready node.
pub(crate) fn ready(number: u8) -> Change {
    let driver = Driver { detected: true, healthy: true, ..Driver::default() };
    let resources = NodeResources {
        memory_mb: 512,
        disk_mb: 1_000,
        node_networks: vec![NodeNetwork { mode: "host".into(), ..NodeNetwork::default() }],
        networks: vec![NetworkResource { mode: "host".into(), ..NetworkResource::default() }],
        cpu: LegacyCpu { cpu_mhz: 1_000, ..LegacyCpu::default() },
        ..NodeResources::default()
    };
    let spec = NodeSpec {
        name: format!("node-{number}").into(),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        drivers: [("raw_exec".into(), driver)].into(),
        resources,
        ..NodeSpec::default()
    };
    let server = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
    Change::Node(Box::new(Node { id: node(number), spec: Arc::new(spec), server }))
}

/// A service with one allocation.
pub(crate) fn job(number: u8) -> Job {
    let resources =
        Resources { cpu_mhz: DEMAND.cpu_mhz, memory_mb: DEMAND.memory_mb, ..Resources::default() };
    let task = Task { name: "task".into(), driver: "raw_exec".into(), resources, ..Task::default() };
    let group = TaskGroup {
        name: "web".into(),
        count: 1,
        tasks: vec![task],
        ephemeral_disk: EphemeralDisk { size_mb: DEMAND.disk_mb, ..EphemeralDisk::default() },
        ..TaskGroup::default()
    };
    let spec = JobSpec {
        namespace: "default".into(),
        id: format!("job-{number}").into(),
        priority: 50,
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    Job { spec: Arc::new(spec), create_index: Index(1), ..Job::default() }
}

/// An evaluation of the job with that number.
pub(crate) fn eval(number: u8) -> Evaluation {
    let job = JobKey::new("default", format!("job-{number}"));
    Evaluation::new(EvalId::from_bytes([number; 16]), job, JobType::Service, 50, EvalTrigger::JobRegister)
}

/// Allocations of a job on these nodes.
pub(crate) fn placements(job: &Job, on: &[u8]) -> Placements {
    let task = TaskResources {
        name: "task".into(),
        cpu_mhz: DEMAND.cpu_mhz,
        memory_mb: DEMAND.memory_mb,
        ..TaskResources::default()
    };
    let common = AllocCommon {
        job: job.version_key(),
        task_group: "web".into(),
        name_stem: format!("{}.web", job.spec.id).into(),
        eval_id: EvalId::from_bytes([1; 16]),
        deployment_id: None,
        resources: AllocatedResources { tasks: vec![task], disk_mb: DEMAND.disk_mb, ..Default::default() },
        metrics: PackedMetric::default(),
        trace: None,
    };
    let mut placements = Placements::new(Arc::new(common));
    for (number, on) in (0..).zip(on) {
        let node = placements.add_node(node(*on));
        placements.push(Placement {
            id: AllocId::from_bytes([number as u8; 16]),
            node,
            name_index: number,
            previous: None,
            assigned: PackedAssigned::default(),
            reschedule: None,
            preempted: Vec::new(),
        });
    }
    placements
}

/// The next change set after a state.
pub(crate) fn following(state: &State, changes: Vec<Change>) -> ChangeSet {
    ChangeSet {
        index: state.index().next(),
        at: Timestamp::from_secs(1_800_000_000),
        request_id: RequestId::from_bytes([1; 16]),
        cause: Cause::JobRegistered,
        trace: None,
        result: Vec::new(),
        changes,
    }
}
