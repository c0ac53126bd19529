//! Checks the checker: a valid plan is broken in one small way at a time, and the checker must report each.

use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocatedDevice, AllocatedResources, Allocation, ClientStatus, DesiredStatus,
    PackedAssigned, PortMapping, TaskResources,
};
use model::change::{Change, ChangeSet};
use model::columns::AllocIds;
use model::job::{
    Constraint, Job, JobSpec, NetworkResource, Operand, Port, RequestedDevice, TaskGroup, UpdateStrategy,
};
use model::node::{Core, Drain, Eligibility, Node, NodeDevice, NodeDeviceGroup};
use model::plan::{Placement, Placements, Plan, Stops, Update, Updates};
use model::{AllocId, EvalId, Index, NodeId};
use state::State;
use tests::build::{self, Log};
use tests::conformance::checker::faults;

/// Two nodes are feasible. The others are not: 2 drains, 3 lacks an attribute, 4 is in another pool, 5 in another
/// datacenter, 6 has no driver.
const NODES: u8 = 7;

fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([0x10 + number; 16])
}

fn alloc_id(number: u8) -> AllocId {
    AllocId::from_bytes([0x80 + number; 16])
}

/// Existing allocations: one of the job's older version on node 0; on node 1 one of a less important job and one of a
/// job of similar priority.
const OLD: u8 = 0;
const UNIMPORTANT: u8 = 1;
const IMPORTANT: u8 = 2;

fn node(number: u8) -> Node {
    let mut node = build::node(node_id(number), number.into());
    let mut spec = (*node.spec).clone();
    spec.datacenter = if number == 5 { "elsewhere".into() } else { "dc".into() };
    spec.node_pool = if number == 4 { "other".into() } else { "default".into() };
    spec.computed_class = "v1:1".into();
    if number != 3 {
        spec.attributes.insert("kernel".into(), "linux".into());
    }
    if number == 6 {
        spec.drivers.clear();
    }
    spec.meta.insert("rack".into(), format!("r{number}").into());
    spec.resources.processors.cores =
        (0..4).map(|id| Core { id, base_mhz: 1_000, grade: true, ..Core::default() }).collect();
    let instance = |id: &str, healthy| NodeDevice { id: id.into(), healthy, ..NodeDevice::default() };
    spec.resources.devices = vec![NodeDeviceGroup {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "t4".into(),
        instances: vec![instance("a", true), instance("b", true), instance("broken", false)],
        ..NodeDeviceGroup::default()
    }];
    node.spec = Arc::new(spec);
    if number == 2 {
        node.server.drain = Some(Drain::default());
        node.server.eligibility = Eligibility::Ineligible;
    }
    node
}

fn job() -> Job {
    let job = build::job(1, 2);
    let mut spec = JobSpec::clone(&job.spec);
    spec.datacenters = vec!["d*c".into()];
    spec.priority = 60;
    let constraint = |left: &str, operand, right: &str| Constraint {
        l_target: left.into(),
        operand,
        r_target: right.into(),
    };
    spec.constraints = vec![constraint("${attr.kernel}", Operand::Equal, "linux")];
    let group: &mut TaskGroup = &mut spec.task_groups[0];
    group.constraints = vec![
        constraint("", Operand::DistinctHosts, ""),
        constraint("${meta.rack}", Operand::DistinctProperty, "1"),
    ];
    group.update = Some(UpdateStrategy { max_parallel: 1, ..UpdateStrategy::default() });
    let port = |label: &str, value| Port { label: label.into(), value, ..Port::default() };
    group.networks = vec![NetworkResource {
        reserved_ports: vec![port("admin", 8_080)],
        dynamic_ports: vec![port("http", 0)],
        ..NetworkResource::default()
    }];
    let requested = &mut group.tasks[0].resources;
    requested.cores = 1;
    requested.devices = vec![RequestedDevice { name: "gpu".into(), count: 1, ..RequestedDevice::default() }];
    Job { spec: Arc::new(spec), version: 1, job_modify_index: Index(3), ..job }
}

/// The resources of a new allocation on a node.
fn resources(number: u8) -> AllocatedResources {
    let ip = format!("10.0.0.{number}");
    let port = |label: &str, value| PortMapping {
        label: label.into(),
        value,
        host_ip: ip.as_str().into(),
        ..PortMapping::default()
    };
    AllocatedResources {
        tasks: vec![TaskResources {
            name: "web".into(),
            cpu_mhz: 1_000,
            memory_mb: 256,
            cores: vec![1],
            devices: vec![AllocatedDevice {
                vendor: "nvidia".into(),
                kind: "gpu".into(),
                name: "t4".into(),
                ids: vec!["a".into()],
            }],
            ..TaskResources::default()
        }],
        disk_mb: 300,
        ports: vec![port("admin", 8_080), port("http", 20_500)],
        networks: Vec::new(),
    }
}

fn alloc(number: u8, job: &Job, node: u8, resources: AllocatedResources) -> Change {
    let (resources, assigned) = resources.split();
    let common = AllocCommon { resources, ..build::common(job, EvalId::from_bytes([1; 16])) };
    Change::Alloc(Box::new(Allocation {
        id: alloc_id(number),
        common: Arc::new(common),
        name_index: Some(0),
        node_id: node_id(node),
        node_name: "node".into(),
        assigned: PackedAssigned::pack(&assigned),
        desired_status: DesiredStatus::Run,
        desired_description: "".into(),
        desired_transition: Default::default(),
        client_status: ClientStatus::Running,
        client_description: "".into(),
        task_states: Default::default(),
        health: None,
        extra: Default::default(),
        report: Default::default(),
        create_index: Index(1),
        modify_index: Index(1),
        alloc_modify_index: Index(1),
        create_time: build::NOW,
        modify_time: build::NOW,
    }))
}

fn cluster() -> State {
    let mut state = State::default();
    let mut apply = |set: ChangeSet| state.apply(&set).expect("the change set fits the state");
    let mut log = Log::default();
    apply(log.entry((0..NODES).map(|number| Change::Node(Box::new(node(number)))).collect()));
    let new = job();
    let old = Job { version: 0, job_modify_index: Index(2), ..new.clone() };
    let other = |number, priority| {
        let job = build::job(number, 1);
        let spec = JobSpec { priority, ..JobSpec::clone(&job.spec) };
        Job { spec: Arc::new(spec), ..job }
    };
    let (unimportant, important) = (other(2, 20), other(3, 55));
    let jobs = [&old, &new, &unimportant, &important];
    apply(log.entry(jobs.map(|job| Change::Job(Arc::new(job.clone()))).into()));
    let held = AllocatedResources {
        tasks: vec![TaskResources {
            name: "web".into(),
            cores: vec![1],
            devices: resources(0).tasks[0].devices.clone(),
            ..TaskResources::default()
        }],
        ..AllocatedResources::default()
    };
    let port = PortMapping {
        label: "held".into(),
        value: 9_090,
        host_ip: "10.0.0.1".into(),
        ..PortMapping::default()
    };
    let other_core = TaskResources { name: "web".into(), cores: vec![2], ..TaskResources::default() };
    let important_holds =
        AllocatedResources { tasks: vec![other_core], ports: vec![port], ..AllocatedResources::default() };
    apply(log.entry(vec![
        alloc(OLD, &old, 0, resources(0)),
        alloc(UNIMPORTANT, &unimportant, 1, held),
        alloc(IMPORTANT, &important, 1, important_holds),
    ]));
    state
}

/// A plan that can be modified in parts.
#[derive(Clone)]
struct Draft {
    rows: Vec<Row>,
    stopped: Vec<AllocId>,
    updates: Vec<Updates>,
    is_canary: bool,
}

#[derive(Clone)]
struct Row {
    id: AllocId,
    node: NodeId,
    name: u32,
    previous: Option<AllocId>,
    resources: AllocatedResources,
    preempted: Vec<AllocId>,
}

fn row(number: u8) -> Row {
    Row {
        id: AllocId::from_bytes([0x40 + number; 16]),
        node: node_id(number),
        name: number.into(),
        previous: None,
        resources: resources(number),
        preempted: Vec::new(),
    }
}

impl Draft {
    /// The old allocation is replaced on its node. Another is placed on node 1, where the less important job is
    /// preempted.
    fn valid() -> Self {
        let replaced = Row { previous: Some(alloc_id(OLD)), ..row(0) };
        let beside = Row { preempted: vec![alloc_id(UNIMPORTANT)], ..row(1) };
        Self {
            rows: vec![replaced, beside],
            stopped: vec![alloc_id(OLD)],
            updates: Vec::new(),
            is_canary: false,
        }
    }

    fn plan(&self) -> Plan {
        let job = job();
        let eval = model::eval::Evaluation::new(
            EvalId::from_bytes([9; 16]),
            job.key(),
            job.spec.kind,
            60,
            model::eval::EvalTrigger::JobRegister,
        );
        let mut plan = Plan::new(&eval, Some(job.version_key()), Index(3));
        for row in &self.rows {
            let (resources, assigned) = row.resources.clone().split();
            let common = AllocCommon { resources, ..build::common(&job, eval.id) };
            let mut placements = Placements { canary: self.is_canary, ..Placements::new(Arc::new(common)) };
            let node = placements.add_node(row.node);
            placements.push(Placement {
                id: row.id,
                node,
                name_index: row.name,
                previous: row.previous,
                assigned: PackedAssigned::pack(&assigned),
                reschedule: None,
                preempted: row.preempted.clone(),
            });
            plan.placements.push(placements);
        }
        plan.stops = vec![Stops {
            ids: AllocIds(self.stopped.clone()),
            description: "alloc is being updated due to job update".into(),
            client_status: None,
            followup_eval: None,
            reschedule: None,
        }];
        plan.updates = self.updates.clone();
        plan
    }
}

/// The description of a mutation, the mutation, and a part of the expected message.
type Mutation = (&'static str, fn(&mut Draft), &'static str);

const MUTATIONS: &[Mutation] = &[
    (
        "more compute than available",
        |draft| draft.rows[0].resources.tasks[0].cpu_mhz = 70_000,
        "cpu 70000 of",
    ),
    ("more memory than available", |draft| draft.rows[0].resources.tasks[0].memory_mb = 999_999, "memory"),
    ("more disk than available", |draft| draft.rows[0].resources.disk_mb = 9_000_000, "disk"),
    ("less memory than asked for", |draft| draft.rows[0].resources.tasks[0].memory_mb = 1, "other amounts"),
    (
        "a port that another has",
        |draft| {
            draft.rows[1].resources.ports.push(PortMapping {
                label: "more".into(),
                value: 9_090,
                host_ip: "10.0.0.1".into(),
                ..PortMapping::default()
            })
        },
        "port 10.0.0.1:9090 is assigned twice",
    ),
    ("another static port", |draft| draft.rows[0].resources.ports[0].value = 8_081, "not open as 8080"),
    ("a dynamic port out of range", |draft| draft.rows[0].resources.ports[1].value = 80, "not within"),
    (
        "a core that another has",
        |draft| draft.rows[1].resources.tasks[0].cores = vec![2],
        "core 2 is assigned twice",
    ),
    ("a core that does not exist", |draft| draft.rows[0].resources.tasks[0].cores = vec![7], "core 7"),
    ("no core", |draft| draft.rows[0].resources.tasks[0].cores.clear(), "0 cores instead of 1"),
    ("a device that another has", |draft| draft.rows[1].preempted.clear(), "a is assigned twice"),
    (
        "a broken device",
        |draft| draft.rows[0].resources.tasks[0].devices[0].ids = vec!["broken".into()],
        "device broken",
    ),
    ("no device", |draft| draft.rows[0].resources.tasks[0].devices.clear(), "0 devices instead of 1"),
    ("a missing stop", |draft| draft.stopped.clear(), "does not stop"),
    ("a stop of another job's", |draft| draft.stopped.push(alloc_id(IMPORTANT)), "is not the job's"),
    ("a stop of an unknown allocation", |draft| draft.stopped.push(alloc_id(99)), "does not exist"),
    (
        "another job's predecessor",
        |draft| draft.rows[1].previous = Some(alloc_id(UNIMPORTANT)),
        "is of another group",
    ),
    ("one replaced twice", |draft| draft.rows[1].previous = Some(alloc_id(OLD)), "is replaced twice"),
    ("the same name again", |draft| draft.rows[1].name = 0, "the name is given twice"),
    ("a name beyond the count", |draft| draft.rows[1].name = 2, "beyond the count"),
    (
        "one too many",
        |draft| {
            draft.rows.push(Row { name: 1, ..row(3) });
        },
        "3 allocations with desired status run",
    ),
    ("a draining node", |draft| draft.rows[1].node = node_id(2), "the node is not ready"),
    ("a node without the attribute", |draft| draft.rows[1].node = node_id(3), "does not hold"),
    ("a node of another pool", |draft| draft.rows[1].node = node_id(4), "another pool"),
    ("a node of another datacenter", |draft| draft.rows[1].node = node_id(5), "another datacenter"),
    ("a node without the driver", |draft| draft.rows[1].node = node_id(6), "does not have driver"),
    ("a node that does not exist", |draft| draft.rows[1].node = node_id(50), "does not exist"),
    ("two on one node", |draft| draft.rows[1].node = node_id(0), "distinct_hosts"),
    ("two in one rack", |draft| draft.rows[1].node = node_id(0), "distinct_property"),
    (
        "a preemption of a job of similar priority",
        |draft| draft.rows[1].preempted.push(alloc_id(IMPORTANT)),
        "its priority is not lower",
    ),
    (
        "a preemption on another node",
        |draft| draft.rows[0].preempted.push(alloc_id(UNIMPORTANT)),
        "on another node",
    ),
    (
        "a stop and an update of one",
        |draft| draft.updates.push(Updates { ids: AllocIds(vec![alloc_id(OLD)]), change: Update::Reconnect }),
        "is stopped and updated",
    ),
    ("unexpected canaries", |draft| draft.is_canary = true, "canaries instead of 0"),
    ("an id that is taken", |draft| draft.rows[1].id = alloc_id(OLD), "already exists"),
];

#[test]
fn the_plan_is_valid_before_it_is_mutated() {
    assert_eq!(faults(&cluster(), &Draft::valid().plan()), Vec::<String>::new());
}

#[test]
fn every_mutation_is_reported() {
    let state = cluster();
    for (what, mutate, message) in MUTATIONS {
        let mut draft = Draft::valid();
        mutate(&mut draft);
        let faults = faults(&state, &draft.plan());
        assert!(faults.iter().any(|fault| fault.contains(message)), "{what}: {faults:?}");
    }
}
