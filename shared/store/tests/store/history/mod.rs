//! A history in which every kind of change happens to every kind of object, some of them twice.

mod random;

use std::ops::RangeInclusive;
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocMetric, AllocState, AllocatedResources, Allocation, Assigned, AssignedPort,
    ClientStatus, DesiredStatus, DesiredTransition, GroupSummary, Health, NetworkStatus, PackedAssigned,
    PackedMetric, PackedTaskStates, ReportNumber, RescheduleEvent, RescheduleOutcome, RescheduleTracker,
    TaskResources, TaskState,
};
use model::change::{
    AllocsChanged, Cause, Change, ChangeSet, DeploymentFields, DeploymentProgress, EvalsChanged, JobFields,
    JobSummary, NodesChanged, Unblocked,
};
use model::cluster::{Lease, Namespace, NodePool, SchedulerConfig, Singleton};
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{Job, JobSource, JobSpec, JobStatus, JobSubmission, JobType, JobVersionTag};
use model::keyring::RootKey;
use model::node::{Drain, Eligibility, Node, NodeEvent, NodeServerSide, NodeSpec, NodeStatus};
use model::plan::{Placement, Placements};
use model::service::{ServiceKey, ServiceRegistration, registration_id};
use model::volume::{CsiVolume, CsiVolumeKey, HostVolume, HostVolumeState, VolumeClaim};
use model::{
    AllocId, DeploymentId, Epoch, EvalId, HostVolumeId, Index, JobKey, JobVersionKey, Nanos, NodeId,
    ProcessId, RequestId, RootKeyId, Timestamp, VolumeClaimId,
};

pub(crate) use random::random_history;

/// 2026-01-01T00:00:00Z. The times after it have odd nanoseconds.
const BEGIN: Timestamp = Timestamp::from_secs(1_767_225_600);

fn bytes(kind: u8, number: u64) -> [u8; 16] {
    // Distributed like random ids.
    let spread = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [kind; 16];
    bytes[..8].copy_from_slice(&spread.to_be_bytes());
    bytes
}

fn alloc_id(number: u64) -> AllocId {
    AllocId::from_bytes(bytes(1, number))
}

fn node_id(number: u64) -> NodeId {
    NodeId::from_bytes(bytes(2, number))
}

fn eval_id(number: u64) -> EvalId {
    EvalId::from_bytes(bytes(3, number))
}

fn deployment_id(number: u64) -> DeploymentId {
    DeploymentId::from_bytes(bytes(4, number))
}

fn volume_id(number: u64) -> HostVolumeId {
    HostVolumeId::from_bytes(bytes(5, number))
}

fn claim_id(number: u64) -> VolumeClaimId {
    VolumeClaimId::from_bytes(bytes(6, number))
}

fn root_key(number: u64, modulus: &str, index: u64) -> Change {
    Change::RootKey(Box::new(RootKey {
        id: RootKeyId::from_bytes(bytes(7, number)),
        modulus: modulus.into(),
        exponent: "AQAB".into(),
        create_time: at(25),
        create_index: Index(25),
        modify_index: Index(index),
    }))
}

fn ids(numbers: impl IntoIterator<Item = u64>) -> AllocIds {
    numbers.into_iter().map(alloc_id).collect()
}

fn at(index: u64) -> Timestamp {
    Timestamp(BEGIN.0 + index as i64 * 1_000_000_007)
}

/// The change set at an index.
fn change_set(index: u64, changes: Vec<Change>) -> Arc<ChangeSet> {
    Arc::new(ChangeSet {
        index: Index(index),
        at: at(index),
        request_id: RequestId::from_bytes(bytes(9, index)),
        cause: Cause::PlanResult,
        trace: None,
        result: Vec::new(),
        changes,
    })
}

/// A change set without changes.
pub(crate) fn empty(index: u64) -> Arc<ChangeSet> {
    change_set(index, Vec::new())
}

pub(crate) fn empty_sets(indexes: RangeInclusive<u64>) -> Vec<Arc<ChangeSet>> {
    indexes.map(empty).collect()
}

fn job(id: &str, create_index: u64, version: u64) -> Job {
    let spec = JobSpec {
        namespace: "default".into(),
        id: id.into(),
        name: id.into(),
        kind: JobType::Service,
        priority: 50 + version as u16,
        node_pool: "default".into(),
        ..JobSpec::default()
    };
    Job {
        spec: Arc::new(spec),
        version,
        submit_time: at(create_index),
        create_index: Index(create_index),
        modify_index: Index(create_index),
        job_modify_index: Index(create_index),
        ..Job::default()
    }
}

fn version(id: &str, create_index: u64, version: u64) -> JobVersionKey {
    job(id, create_index, version).version_key()
}

/// The source of a version. It contains a zero byte, as JSON may.
fn submission(version: JobVersionKey, text: &str) -> Change {
    let source = JobSource {
        text: text.into(),
        format: "hcl2".into(),
        variable_flags: Some([("count".into(), "3%20\0".into())].into()),
        variables: "a = 1\n".into(),
    };
    let (job_modify_index, source) = (version.create_index, Arc::new(source));
    Change::JobSubmission(Box::new(JobSubmission { version, job_modify_index, source, is_copy: false }))
}

fn copied(from: JobVersionKey, to: JobVersionKey) -> Change {
    Change::JobSubmissionCopied { from, to }
}

fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

fn node(number: u64, name: &str) -> Change {
    let spec = NodeSpec {
        name: name.into(),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        node_class: "large".into(),
        computed_class: format!("v1:{}", number % 2).into(),
        attributes: [("kernel.name".into(), "linux".into())].into(),
        ..NodeSpec::default()
    };
    let server = NodeServerSide {
        status: NodeStatus::Ready,
        status_updated_at: at(2),
        create_index: Index(2),
        modify_index: Index(2),
        ..NodeServerSide::default()
    };
    Change::Node(Box::new(Node { id: node_id(number), spec: Arc::new(spec), server }))
}

fn eval(number: u64, job: &str, index: u64) -> Evaluation {
    Evaluation {
        node_id: number.is_multiple_of(2).then_some(node_id(number)),
        create_index: Index(index),
        modify_index: Index(index),
        create_time: at(index),
        modify_time: at(index),
        ..Evaluation::new(eval_id(number), key(job), JobType::Service, 50, EvalTrigger::JobRegister)
    }
}

fn deployment(number: u64, job: JobVersionKey, index: u64) -> Change {
    Change::Deployment(Arc::new(Deployment {
        id: deployment_id(number),
        job,
        job_modify_index: Index(index),
        job_spec_modify_index: Index(index),
        is_multiregion: false,
        groups: [("app".into(), DeploymentGroup { desired_total: 3, ..DeploymentGroup::default() })].into(),
        status: DeploymentStatus::Running,
        status_description: "Deployment is running".into(),
        eval_priority: 0,
        create_index: Index(index),
        modify_index: Index(index),
        create_time: at(index),
        modify_time: at(index),
        trace: None,
    }))
}

fn common(job: JobVersionKey, eval: u64, deployment: Option<u64>) -> Arc<AllocCommon> {
    let task = TaskResources { name: "web".into(), cpu_mhz: 100, memory_mb: 64, ..TaskResources::default() };
    Arc::new(AllocCommon {
        name_stem: format!("{}.app", job.job.id).into(),
        job,
        task_group: "app".into(),
        eval_id: eval_id(eval),
        deployment_id: deployment.map(deployment_id),
        resources: AllocatedResources { tasks: vec![task], disk_mb: 30, ..AllocatedResources::default() },
        metrics: PackedMetric::pack(&AllocMetric { nodes_evaluated: 4, ..AllocMetric::default() }),
        trace: None,
    })
}

fn port(value: u16) -> PackedAssigned {
    let port = AssignedPort { value, host_ip: "10.0.0.1".into(), ..AssignedPort::default() };
    PackedAssigned::pack(&Assigned { ports: vec![port], ..Assigned::default() })
}

/// A placement with nothing but a node.
fn placement(number: u64, node: u32) -> Placement {
    Placement {
        id: alloc_id(number),
        node,
        name_index: number as u32,
        previous: None,
        assigned: PackedAssigned::default(),
        reschedule: None,
        preempted: Vec::new(),
    }
}

/// Allocations on nodes 0 to 2, which `edit` may change.
fn placed(
    common: Arc<AllocCommon>,
    numbers: impl IntoIterator<Item = u64>,
    edit: impl Fn(u64, &mut Placement),
) -> Placements {
    let mut placements = Placements::new(common);
    for number in numbers {
        let node = node_id(number % 3);
        let known =
            placements.nodes.iter().zip(0..).find_map(|(known, place)| (*known == node).then_some(place));
        let place = known.unwrap_or_else(|| placements.add_node(node));
        let mut placement = placement(number, place);
        edit(number, &mut placement);
        placements.push(placement);
    }
    placements
}

fn plainly(common: Arc<AllocCommon>, numbers: impl IntoIterator<Item = u64>) -> Change {
    Change::AllocsPlaced(Box::new(placed(common, numbers, |_, _| {})))
}

fn running(numbers: RangeInclusive<u64>) -> Change {
    let count = numbers.clone().count();
    let states = PackedTaskStates::pack(&[TaskState { restarts: 1, ..TaskState::pending("web".into()) }]);
    changed(AllocsChanged {
        ids: ids(numbers),
        client: Some((ClientStatus::Running, "Tasks are running".into())),
        reports: vec![ReportNumber::new(1, 7); count],
        task_states: vec![states; count],
        ..AllocsChanged::default()
    })
}

fn changed(change: AllocsChanged) -> Change {
    Change::AllocsChanged(Box::new(change))
}

fn summary(id: &str, running: u32, index: u64) -> Change {
    let group = GroupSummary { running, queued: 1, ..GroupSummary::default() };
    Change::JobSummary(Arc::new(JobSummary {
        job: key(id),
        groups: [("app".into(), group), ("other".into(), group)].into(),
        children: None,
        create_index: Index(3),
        modify_index: Index(index),
    }))
}

fn whole(number: u64, common: Arc<AllocCommon>, index: u64) -> Change {
    Change::Alloc(Box::new(Allocation {
        id: alloc_id(number),
        common,
        name_index: None,
        node_id: node_id(2),
        node_name: "node-2".into(),
        assigned: port(80),
        desired_status: DesiredStatus::Evict,
        desired_description: "for a reason of its own".into(),
        desired_transition: DesiredTransition { migrate: Some(false), ..DesiredTransition::default() },
        client_status: ClientStatus::Complete,
        client_description: "All tasks have completed".into(),
        task_states: PackedTaskStates::default(),
        health: Some(Health { healthy: Some(true), canary: true, ..Health::default() }),
        extra: Default::default(),
        report: ReportNumber::new(2, 1),
        create_index: Index(index - 1),
        modify_index: Index(index),
        alloc_modify_index: Index(index - 1),
        create_time: at(index - 1),
        modify_time: at(index),
    }))
}

fn host_volume(number: u64, state: HostVolumeState, index: u64) -> Change {
    Change::HostVolume(Box::new(HostVolume {
        id: volume_id(number),
        namespace: "default".into(),
        name: "data".into(),
        plugin_id: "mkdir".into(),
        node_id: Some(node_id(0)),
        node_pool: "default".into(),
        constraints: Vec::new(),
        requested_bytes_min: 0,
        requested_bytes_max: 0,
        capacity_bytes: 1 << 30,
        capabilities: Vec::new(),
        parameters: [("mode".into(), "0755".into())].into(),
        host_path: "/data".into(),
        state,
        create_index: Index(19),
        modify_index: Index(index),
        create_time: at(19),
        modify_time: at(index),
    }))
}

fn csi_volume(id: &str, index: u64) -> Change {
    let key = CsiVolumeKey { namespace: "default".into(), id: id.into() };
    let (create_index, modify_index) = (Index(19), Index(index));
    Change::CsiVolume(Box::new(CsiVolume { key, volume: Box::default(), create_index, modify_index }))
}

fn claim(number: u64, index: u64) -> Change {
    Change::VolumeClaim(Box::new(VolumeClaim {
        id: claim_id(number),
        job: key("web"),
        task_group: "app".into(),
        alloc_id: alloc_id(1),
        volume_id: volume_id(1),
        volume_name: "data".into(),
        create_index: Index(19),
        modify_index: Index(index),
    }))
}

fn service_key(number: u64) -> ServiceKey {
    let id = registration_id(alloc_id(number), "group-app", "web", "http");
    ServiceKey { namespace: "default".into(), name: "web".into(), id: id.into() }
}

fn service_registration(number: u64, port: u16, index: u64) -> Change {
    Change::ServiceRegistration(Box::new(ServiceRegistration {
        key: service_key(number),
        node_id: node_id(1),
        datacenter: "dc1".into(),
        job_id: "web".into(),
        alloc_id: alloc_id(number),
        tags: vec!["a".into()],
        address: "10.0.0.1".into(),
        port,
        create_index: Index(23),
        modify_index: Index(index),
    }))
}

fn lease(service: Singleton, epoch: u64, index: u64) -> Change {
    let holder = ProcessId::from_bytes(bytes(7, epoch));
    Change::Lease(Lease { service, holder, epoch: Epoch(epoch), modify_index: Index(index) })
}

fn room(class: &str, quota: &str, resource: &str) -> Change {
    Change::Unblocked(Unblocked {
        classes: vec![class.into()],
        quotas: vec![quota.into()],
        nodes: vec![node_id(1)],
        resources: vec![resource.into()],
    })
}

/// One more placement of the job `web`, after the history.
pub(crate) fn placements_of(index: u64) -> Arc<ChangeSet> {
    let common = common(version("web", 3, 1), index, None);
    let numbers = index * 100..index * 100 + 5;
    let report = index.is_multiple_of(2).then(|| running(index * 100 - 98..=index * 100 - 97));
    let report = report.filter(|_| index > history().len() as u64 + 1);
    change_set(index, [plainly(common, numbers)].into_iter().chain(report).collect())
}

/// The history, from index 1.
pub(crate) fn history() -> Vec<Arc<ChangeSet>> {
    let sets = [beginning(), rollout(), nodes_and_ends(), volumes_and_rest()].concat();
    sets.into_iter().zip(1..).map(|(changes, index)| change_set(index, changes)).collect()
}

/// Indexes 1 to 9: settings, nodes, jobs, placements, reports, failures.
fn beginning() -> Vec<Vec<Change>> {
    let web = || version("web", 3, 0);
    let namespace = |name: &str, index| Namespace {
        name: name.into(),
        meta: [("team".into(), "a".into())].into(),
        modify_index: Index(index),
        ..Namespace::default()
    };
    let pool = |name: &str| NodePool { name: name.into(), create_index: Index(1), ..NodePool::default() };
    let tracker = NodeEvent {
        message: "Node heartbeat missed".into(),
        subsystem: "Cluster".into(),
        details: Default::default(),
        timestamp: at(8),
        create_index: Index(8),
    };
    vec![
        vec![
            Change::Namespace(Box::new(namespace("default", 1))),
            Change::Namespace(Box::new(namespace("doomed", 1))),
            Change::NodePool(Box::new(pool("default"))),
            Change::NodePool(Box::new(pool("doomed"))),
            Change::SchedulerConfig(SchedulerConfig { node_limit: 3, ..SchedulerConfig::default() }),
        ],
        (0..5).map(|number| node(number, &format!("node-{number}"))).collect(),
        vec![
            Change::Job(Arc::new(job("web", 3, 0))),
            submission(web(), "job \"web\" {}\0"),
            Change::Eval(Arc::new(eval(1, "web", 3))),
            summary("web", 0, 3),
        ],
        vec![
            Change::PlanApplied { job: key("web"), eval_id: eval_id(1) },
            deployment(1, web(), 4),
            Change::AllocsPlaced(Box::new(placed(common(web(), 1, Some(1)), 1..=6, |number, placement| {
                placement.assigned = port(20_000 + number as u16);
            }))),
            Change::EvalOutcome(Arc::new(Evaluation {
                status: EvalStatus::Complete,
                queued: [("app".into(), 0)].into(),
                snapshot_index: Index(3),
                ..eval(1, "web", 3)
            })),
            Change::JobFields(JobFields {
                key: web(),
                status: JobStatus::Running,
                status_description: "".into(),
                stable: false,
                version_tag: None,
            }),
        ],
        vec![running(1..=3), summary("web", 3, 5)],
        vec![
            Change::Job(Arc::new(job("batch", 6, 0))),
            submission(version("batch", 6, 0), "{}"),
            Change::Eval(Arc::new(eval(2, "batch", 6))),
            Change::Eval(Arc::new(eval(3, "batch", 6))),
            summary("batch", 0, 6),
        ],
        vec![
            plainly(common(version("batch", 6, 0), 2, None), 10..=14),
            plainly(common(version("batch", 6, 0), 3, None), 15..=16),
            changed(AllocsChanged {
                ids: ids([4]),
                client: Some((ClientStatus::Failed, "Odd words of an agent \0 with a zero".into())),
                ..AllocsChanged::default()
            }),
            Change::PlanApplied { job: key("batch"), eval_id: eval_id(2) },
        ],
        vec![
            Change::NodeServerSide {
                id: node_id(1),
                server: Box::new(NodeServerSide {
                    status: NodeStatus::Ready,
                    eligibility: Eligibility::Ineligible,
                    drain: Some(Drain { deadline: Nanos::from_hours(1), ..Drain::default() }),
                    modify_index: Index(8),
                    ..NodeServerSide::default()
                }),
            },
            Change::NodesChanged(Box::new(NodesChanged {
                ids: vec![node_id(2), node_id(4)],
                status: Some(NodeStatus::Down),
                event: Some(tracker),
                last_missed_heartbeat_index: Some(Index(8)),
                last_alloc_update_index: None,
            })),
        ],
        vec![
            Change::EvalsChanged(EvalsChanged {
                ids: vec![eval_id(2), eval_id(3)],
                status: Some((EvalStatus::Blocked, "created to \0 place remaining allocations".into())),
                next_eval: Some(eval_id(4)),
            }),
            room("v1:0", "small", "csi-volume:default:a"),
            room("v1:1", "small", "csi-volume:default:b"),
        ],
    ]
}

/// Indexes 10 to 15: a second version of `web` takes over.
fn rollout() -> Vec<Vec<Change>> {
    let tag = JobVersionTag { name: "good".into(), description: "".into(), tagged_time: at(10) };
    let second = || common(version("web", 3, 1), 5, Some(2));
    let tracker = RescheduleTracker {
        events: vec![RescheduleEvent {
            time: at(11),
            previous: alloc_id(4),
            previous_node: node_id(1),
            delay: Nanos::SECOND,
        }],
        last: Some(RescheduleOutcome::Ok),
    };
    let mut canaries = placed(second(), 20..=22, |number, placement| {
        placement.previous = Some(alloc_id(number - 16)).filter(|_| number < 22);
        placement.reschedule = (number == 20).then(|| Arc::new(tracker.clone()));
        placement.preempted = if number == 21 { vec![alloc_id(10)] } else { Vec::new() };
    });
    canaries.canary = true;
    vec![
        vec![
            Change::Job(Arc::new(Job { version_tag: Some(tag), ..job("web", 3, 1) })),
            copied(version("web", 3, 0), version("web", 3, 1)),
            Change::Eval(Arc::new(eval(5, "web", 10))),
            deployment(2, version("web", 3, 1), 10),
        ],
        vec![
            Change::PlanApplied { job: key("web"), eval_id: eval_id(5) },
            Change::AllocsPlaced(Box::new(canaries)),
            changed(AllocsChanged {
                ids: ids([10]),
                by_servers: true,
                desired: Some((DesiredStatus::Evict, "Preempted by alloc".into())),
                preempted_by: Some(alloc_id(21)),
                ..AllocsChanged::default()
            }),
        ],
        // In-place updates of some allocations of a placement, then of all others.
        vec![changed(AllocsChanged {
            ids: ids([1, 2]),
            by_servers: true,
            common: Some(second()),
            assigned: vec![port(30_001), port(30_002)],
            ..AllocsChanged::default()
        })],
        vec![
            changed(AllocsChanged {
                ids: ids([3, 5, 6]),
                by_servers: true,
                common: Some(second()),
                ..AllocsChanged::default()
            }),
            changed(AllocsChanged {
                ids: ids([20, 21]),
                by_servers: true,
                desired: Some((DesiredStatus::Stop, "alloc is being migrated".into())),
                transition: Some(DesiredTransition { migrate: Some(true), ..DesiredTransition::default() }),
                append_state: Some(AllocState { client_status: Some(ClientStatus::Unknown), time: at(13) }),
                followup_eval: Some(Some(eval_id(6))),
                reschedule: Some(RescheduleOutcome::NoPlacement),
                verdicts: vec![Some((true, at(13))), None],
                network: vec![
                    None,
                    Some(Arc::new(NetworkStatus { address: "1.2.3.4".into(), ..Default::default() })),
                ],
                ..AllocsChanged::default()
            }),
        ],
        vec![
            Change::DeploymentFields(Box::new(DeploymentFields {
                id: deployment_id(2),
                status: Some((DeploymentStatus::Successful, "done".into())),
                groups: vec![DeploymentProgress {
                    group: "app".into(),
                    placed_allocs: 3,
                    healthy_allocs: 3,
                    new_canaries: vec![alloc_id(20)],
                    ..DeploymentProgress::default()
                }],
            })),
            Change::DeploymentsDeleted(vec![deployment_id(1)]),
            changed(AllocsChanged {
                ids: ids([20]),
                followup_eval: Some(None),
                health: Some(None),
                ..AllocsChanged::default()
            }),
        ],
        vec![whole(16, common(version("batch", 6, 0), 7, None), 15), whole(30, second(), 15)],
    ]
}

/// Indexes 16 to 22: nodes are renamed, deleted and registered again; objects end.
fn nodes_and_ends() -> Vec<Vec<Change>> {
    vec![
        vec![node(0, "renamed-0")],
        // One node with allocations and one without.
        vec![Change::NodesDeleted(vec![node_id(2), node_id(3)])],
        vec![Change::AllocsDeleted(ids([4, 11])), Change::EvalsDeleted(vec![eval_id(3)])],
        vec![
            Change::Job(Arc::new(job("cron", 19, 0))),
            Change::Job(Arc::new(job("cron", 19, 1))),
            Change::Job(Arc::new(job("cron", 19, 2))),
            submission(version("cron", 19, 0), "0"),
            submission(version("cron", 19, 1), "1"),
            copied(version("cron", 19, 1), version("cron", 19, 2)),
            Change::PlanApplied { job: key("cron"), eval_id: eval_id(77) },
        ],
        vec![
            Change::JobVersionsDeleted(vec![version("cron", 19, 0)]),
            Change::JobSubmissionsDeleted(vec![version("cron", 19, 0)]),
        ],
        // Purged; registered again in the next change set.
        vec![
            Change::AllocsDeleted(ids((10..=16).filter(|number| *number != 11))),
            Change::EvalsDeleted(vec![eval_id(2)]),
            Change::JobDeleted(key("batch")),
        ],
        vec![
            Change::Job(Arc::new(job("batch", 22, 0))),
            Change::Eval(Arc::new(eval(8, "batch", 22))),
            summary("batch", 2, 22),
            plainly(
                common(version("batch", 22, 0), 8, None),
                [12, 40, 43].into_iter().filter(|n| n % 3 != 2),
            ),
            // Purged and registered again within one change set.
            Change::JobDeleted(key("cron")),
            Change::Job(Arc::new(job("cron", 22, 0))),
            submission(version("cron", 22, 0), "again"),
        ],
    ]
}

/// Indexes from 23: volumes, leases, and deletions.
fn volumes_and_rest() -> Vec<Vec<Change>> {
    vec![
        vec![
            host_volume(1, HostVolumeState::Pending, 23),
            host_volume(2, HostVolumeState::Ready, 23),
            csi_volume("a", 23),
            csi_volume("b", 23),
            claim(1, 23),
            claim(2, 23),
            service_registration(1, 80, 23),
            service_registration(2, 80, 23),
        ],
        vec![
            host_volume(1, HostVolumeState::Ready, 24),
            Change::HostVolumeDeleted(volume_id(2)),
            csi_volume("a", 24),
            Change::CsiVolumeDeleted(CsiVolumeKey { namespace: "default".into(), id: "b".into() }),
            claim(1, 24),
            Change::VolumeClaimDeleted(claim_id(2)),
            service_registration(1, 81, 24),
            Change::ServiceRegistrationDeleted(service_key(2)),
        ],
        vec![
            lease(Singleton::EvalBroker, 1, 25),
            lease(Singleton::NodeTracker, 1, 25),
            root_key(1, "3q0", 25),
            root_key(2, "3q0", 25),
            root_key(3, "3q0", 25),
        ],
        vec![
            root_key(1, "7q0", 26),
            Change::RootKeyDeleted(RootKeyId::from_bytes(bytes(7, 3))),
            lease(Singleton::EvalBroker, 2, 26),
            room("v1:1", "large", "csi-volume:default:b"),
        ],
        vec![Change::UnblockedForgotten(Index(26))],
        // A node registers again under another name, while allocations refer to it.
        vec![node(2, "returned-2")],
        vec![
            Change::NamespaceDeleted("doomed".into()),
            Change::NodePoolDeleted("doomed".into()),
            Change::SchedulerConfig(SchedulerConfig {
                pause_eval_broker: true,
                ..SchedulerConfig::default()
            }),
            running(5..=6),
        ],
        // Deleted and created again at the same index.
        vec![
            Change::AllocsDeleted(ids([22])),
            plainly(common(version("web", 3, 1), 9, None), [24]),
            Change::AllocsDeleted(ids([24])),
            plainly(common(version("web", 3, 1), 9, None), [22, 25]),
        ],
        // Changes by the servers to a version, with a tag that is added and removed.
        vec![fields("", None, false)],
        vec![fields("named", Some("good"), false)],
        vec![fields("still", Some("good"), true)],
        vec![fields("no more", None, true)],
        vec![fields("cut\0 short", None, true)],
        vec![fields("", None, false)],
    ]
}

/// Changes by the servers to a version of `batch`.
fn fields(description: &str, tag_name: Option<&str>, stable: bool) -> Change {
    let tag =
        |name: &str| JobVersionTag { name: name.into(), description: "why".into(), tagged_time: at(30) };
    Change::JobFields(JobFields {
        key: version("batch", 22, 0),
        status: if stable { JobStatus::Running } else { JobStatus::Pending },
        status_description: description.into(),
        stable,
        version_tag: tag_name.map(tag),
    })
}
