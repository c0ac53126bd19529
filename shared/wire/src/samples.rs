//! A sample of every message, with all fields set; the samples of commands are in the files of the commands. Each must
//! survive encoding and decoding, also with an additional field, as a newer program might send it. Messages that omit
//! fields have a sample without these fields as well. Fuzz targets begin with these samples.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use model::alloc::{
    AllocCommon, AllocatedDevice, AllocatedResources, Assigned, AssignedTask, ClientStatus, DesiredStatus,
    DesiredTransition, NetworkStatus, PackedAssigned, PackedMetric, PackedTaskStates, TaskState,
};
use model::change::{Cause, Change, ChangeSet};
use model::cluster::Singleton;
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{Job, JobSource, JobSpec, JobSubmission, JobType};
use model::keyring::RootKey;
use model::node::{DrainSpec, NodeSpec, NodeStatus, Secret};
use model::plan::{Placement, Placements, Plan};
use model::service::{ServiceKey, ServiceRegistration};
use model::{
    AllocId, DeploymentId, Epoch, EvalId, HistoryId, HostVolumeId, Index, JobKey, JobVersionKey, Map, NodeId,
    ProcessId, RequestId, RootKeyId, Timestamp,
};

use crate::broker::{
    self, Delivery, Dequeue, Dequeued, EvalLeaseAction, EvalLeaseRequest, EvalLeaseResponse,
};
use crate::checks::{AllocChecks, CheckState, GetAllocChecks};
use crate::command::{
    Answer, Command, Done, ForceGarbageCollection, GarbageCollectionStarted, HolderAlive, PlanResult,
    PlanVerdict, ProbeHolder, RenewLease,
};
use crate::directory::{FindServices, FoundServices, KnownQuery, QueryResult, ServiceName, ServiceQuery};
use crate::exec::{ExecFailure, ExecInput, ExecOutput, InputPart, OutputPart, StartExec, TerminalSize};
use crate::feed::{Changes, Committer, GetHead, Head, LostWrites};
use crate::files::{
    FileChunk, FileInfo, FileList, ListFiles, LogChunk, LogCursor, LogPosition, LogStream, Origin, ReadFile,
    ReadLogs, StatFile,
};
use crate::meta::{ChangeNodeMeta, GetNodeMeta, NodeMeta};
use crate::metrics::{Counters, Distributions, Gauges, PartHealth, ProcessInfo, ProcessMetrics};
use crate::node::{
    AllocReport, DrainSelf, GetAllocs, GetWork, Heartbeat, NodeResponse, OwnDrain, Register, Report,
    ReportAccepted, Wake, Work, WorkAlloc, WorkAllocs, WorkChanges, WorkCommon, WorkIndex,
};
use crate::services::{
    AllocServices, RegisterServices, RegisteredServices, ServiceInstance, ServicesAnswer, ServicesDigest,
    ServicesRejection,
};
use crate::stats::{
    AgentStats, AllocStats, Counted, CpuStats, DeviceGroupStats, DeviceInstanceStats, DeviceStat,
    DeviceValue, DiskStats, GetAgentStats, GetAllocStats, GetHostFacts, GetHostStats, HostFacts, HostStats,
    MemoryStats, TaskStats, Usage,
};
use crate::tasks::{RemoveEnded, RestartTasks, SignalTasks, TasksDone};
use crate::volumes::{CreateVolume, DeleteVolume, RegisterVolume, VolumeGone, VolumeMade};
use crate::{DecodeError, Refusal, RefusalKind, Wire, decode, decode_message, encode};

pub(crate) const ALLOC: AllocId = AllocId::from_bytes([1; 16]);
pub(crate) const EVAL: EvalId = EvalId::from_bytes([2; 16]);
pub(crate) const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([10; 16]);
pub(crate) const NODE: NodeId = NodeId::from_bytes([3; 16]);
const VOLUME: HostVolumeId = HostVolumeId::from_bytes([21; 16]);
const REQUEST: RequestId = RequestId::from_bytes([4; 16]);
const HISTORY: HistoryId = HistoryId::from_bytes([5; 16]);
pub(crate) const PROCESS: ProcessId = ProcessId::from_bytes([6; 16]);
pub(crate) const EPOCH: Epoch = Epoch(7);
pub(crate) const INDEX: Index = Index(8_000_000_000);
const WORK_INDEX: WorkIndex = WorkIndex { history: HISTORY, index: INDEX };
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

const USAGE: Usage =
    Usage { rss_bytes: 4_096, swap_bytes: 1, user_percent: 1.5, system_percent: 0.5, used_mhz: 40.0 };

/// A signing key.
pub(crate) fn root_key() -> RootKey {
    RootKey {
        id: RootKeyId::from_bytes([11; 16]),
        modulus: "3q0".into(),
        exponent: "AQAB".into(),
        create_time: NOW,
        create_index: INDEX,
        modify_index: INDEX,
    }
}

fn device_stats() -> DeviceGroupStats {
    let memory = DeviceValue {
        value: 40.5,
        of: Some(16_384.0),
        unit: "MiB".into(),
        about: "UsedMemory / TotalMemory".into(),
    };
    let stats = vec![DeviceStat { name: "Memory state".into(), value: memory.clone() }];
    DeviceGroupStats {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "T4".into(),
        instances: vec![DeviceInstanceStats { id: "GPU-1".into(), at: NOW, summary: Some(memory), stats }],
    }
}

fn disk_stats() -> DiskStats {
    DiskStats {
        device: "/dev/vda1".into(),
        mountpoint: "/".into(),
        size_bytes: 100,
        used_bytes: 40,
        available_bytes: 50,
        used_percent: 44.4,
        inodes_percent: 2.0,
    }
}

pub(crate) fn job_key() -> JobKey {
    JobKey::new("default", "web")
}

pub(crate) fn job_spec() -> Arc<JobSpec> {
    Arc::new(JobSpec { id: "web".into(), name: "web".into(), priority: 50, ..JobSpec::default() })
}

pub(crate) fn job_source() -> Arc<JobSource> {
    Arc::new(JobSource {
        text: "job \"web\" {}".into(),
        format: "hcl2".into(),
        variable_flags: Some(BTreeMap::from([("region".into(), "north%20sea".into())])),
        variables: "count = 2".into(),
    })
}

fn job_submission() -> JobSubmission {
    let version = JobVersionKey { job: job_key(), create_index: Index(9), version: 2 };
    JobSubmission { version, job_modify_index: INDEX, source: job_source(), is_copy: true }
}

fn common() -> Arc<AllocCommon> {
    Arc::new(AllocCommon {
        job: JobVersionKey { job: job_key(), create_index: Index(9), version: 2 },
        task_group: "app".into(),
        name_stem: "web.app".into(),
        eval_id: EVAL,
        deployment_id: Some(DEPLOYMENT),
        resources: AllocatedResources { disk_mb: 300, ..AllocatedResources::default() },
        metrics: PackedMetric::default(),
        trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok(),
    })
}

fn assigned() -> PackedAssigned {
    let gpu = AllocatedDevice {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "t4".into(),
        ids: vec!["0".into()],
    };
    let task = AssignedTask { task: "main".into(), cpu_mhz: 2_000, cores: vec![3], devices: vec![gpu] };
    PackedAssigned::pack(&Assigned { tasks: vec![task], ..Assigned::default() })
}

pub(crate) fn eval() -> Evaluation {
    Evaluation {
        status: EvalStatus::Blocked,
        queued: Map::from([("app".into(), 3)]),
        ..Evaluation::new(EVAL, job_key(), JobType::Service, 50, EvalTrigger::JobRegister)
    }
}

fn placements() -> Placements {
    let mut placements = Placements::new(common());
    let node = placements.add_node(NODE);
    placements.push(Placement {
        id: ALLOC,
        node,
        name_index: 4,
        previous: Some(AllocId::from_bytes([11; 16])),
        assigned: assigned(),
        reschedule: None,
        preempted: vec![AllocId::from_bytes([12; 16])],
    });
    placements
}

pub(crate) fn plan() -> Plan {
    Plan {
        snapshot_request: Some(REQUEST),
        placements: vec![placements()],
        ..Plan::new(
            &eval(),
            Some(JobVersionKey { job: job_key(), create_index: Index(9), version: 2 }),
            INDEX,
        )
    }
}

pub(crate) fn node_spec() -> Arc<NodeSpec> {
    Arc::new(NodeSpec {
        secret_id: secret(),
        boot: 13,
        name: "one".into(),
        attributes: BTreeMap::from([("kernel.name".into(), "linux".into())]),
        ..NodeSpec::default()
    })
}

fn secret() -> Secret {
    Secret("sesame".into())
}

pub(crate) fn alloc_report() -> AllocReport {
    AllocReport {
        id: ALLOC,
        count: 14,
        status: ClientStatus::Running,
        description: "Tasks are running".into(),
        task_states: PackedTaskStates::pack(&[TaskState::pending("main".into())]),
        network: Some(Arc::new(NetworkStatus { address: "10.1.2.3".into(), ..NetworkStatus::default() })),
        health: Some((true, NOW)),
    }
}

/// The results of queries of service discovery.
fn found_services() -> FoundServices {
    let registration = ServiceRegistration {
        key: ServiceKey { namespace: "default".into(), name: "web".into(), id: "one".into() },
        node_id: NODE,
        datacenter: "dc1".into(),
        job_id: "site".into(),
        alloc_id: ALLOC,
        tags: vec!["north".into()],
        address: "10.1.2.3".into(),
        port: 8_080,
        create_index: INDEX,
        modify_index: INDEX,
    };
    let instances = QueryResult {
        query: ServiceQuery::Instances { namespace: "default".into(), name: "web".into() },
        digest: ServicesDigest::default(),
        instances: vec![Arc::new(registration)],
        names: Vec::new(),
        left_out: 3,
    };
    let names = QueryResult {
        query: ServiceQuery::Names { namespace: "default".into() },
        instances: Vec::new(),
        names: vec![ServiceName { name: "web".into(), tags: vec!["north".into()] }],
        ..instances.clone()
    };
    FoundServices { at: WORK_INDEX, results: vec![instances, names] }
}

/// The services of an allocation.
pub(crate) fn alloc_services() -> AllocServices {
    let service = ServiceInstance {
        id: model::service::registration_id(ALLOC, "group-app", "web", "http").into(),
        name: "web".into(),
        tags: vec!["north".into()],
        address: "10.1.2.3".into(),
        port: 8_080,
    };
    AllocServices { alloc: ALLOC, services: vec![service] }
}

fn work_alloc() -> WorkAlloc {
    WorkAlloc {
        id: ALLOC,
        common: 0,
        name_index: Some(4),
        assigned: assigned(),
        desired_status: DesiredStatus::Stop,
        desired_transition: DesiredTransition {
            no_shutdown_delay: Some(true),
            ..DesiredTransition::default()
        },
        client_status: ClientStatus::Unknown,
        canary: true,
        healthy: Some(false),
        previous: Some(AllocId::from_bytes([11; 16])),
        migrate_token: Some(secret()),
        preempted: vec![AllocId::from_bytes([12; 16])],
        alloc_modify_index: INDEX,
        create_time: NOW,
    }
}

fn bare_work_alloc() -> WorkAlloc {
    WorkAlloc {
        id: ALLOC,
        common: 1,
        name_index: None,
        assigned: PackedAssigned::default(),
        desired_status: DesiredStatus::Run,
        desired_transition: DesiredTransition::default(),
        client_status: ClientStatus::Pending,
        canary: false,
        healthy: None,
        previous: None,
        migrate_token: None,
        preempted: Vec::new(),
        alloc_modify_index: INDEX,
        create_time: NOW,
    }
}

fn work_allocs() -> WorkAllocs {
    WorkAllocs {
        jobs: vec![Arc::new(Job { spec: job_spec(), version: 2, ..Job::default() })],
        commons: vec![WorkCommon { job: 0, common: common() }],
        allocs: vec![work_alloc(), bare_work_alloc()],
        more: true,
    }
}

fn file_info() -> FileInfo {
    FileInfo {
        name: "a.txt".into(),
        is_dir: false,
        size: 5,
        mode: "-rw-r--r--".into(),
        modified: NOW,
        content_type: Some("text/plain".into()),
    }
}

fn read_logs(from: LogPosition) -> ReadLogs {
    let stream = LogStream::Stderr;
    ReadLogs { alloc: ALLOC, task: "main".into(), stream, from, bytes_max: 100, wait_ms: 500 }
}

fn answers() -> [Answer; 3] {
    let plan = PlanResult { verdict: PlanVerdict::Part, refresh_index: INDEX, rejected_nodes: vec![NODE] };
    [
        Answer::Done(Done {
            index: INDEX,
            written: true,
            object_index: Index(9),
            evals: vec![EVAL],
            plan: Some(plan),
            epoch: Some(EPOCH),
            refused_nodes: vec![NODE],
            refused_allocs: vec![ALLOC],
            reverted_version: Some(4),
        }),
        Answer::Done(Done::default()),
        Answer::Retry { reason: "the commit failed".into() },
    ]
}

fn exec_inputs() -> [ExecInput; 6] {
    let parts = [
        InputPart::Data(Bytes::from_static(b"ls\n")),
        InputPart::Closed,
        InputPart::Resize(TerminalSize { height: 24, width: 80 }),
        InputPart::Grant(262_144),
        InputPart::Alive,
        InputPart::End,
    ];
    parts.map(|part| ExecInput { session: REQUEST, number: 7, part })
}

fn exec_outputs() -> [ExecOutput; 7] {
    let failure = ExecFailure { kind: RefusalKind::Invalid, message: "the task has ended".into() };
    let parts = [
        OutputPart::Started,
        OutputPart::Data(LogStream::Stderr, Bytes::from_static(b"not found\n")),
        OutputPart::Closed(LogStream::Stdout),
        OutputPart::Grant(262_144),
        OutputPart::Alive,
        OutputPart::Exited(137),
        OutputPart::Failed(failure),
    ];
    parts.map(|part| ExecOutput { number: 7, part })
}

fn change_set() -> ChangeSet {
    ChangeSet {
        index: INDEX,
        at: NOW,
        request_id: REQUEST,
        cause: Cause::PlanResult,
        trace: common().trace,
        result: encode(&answers()[0]),
        changes: vec![
            Change::EvalOutcome(Arc::new(eval())),
            Change::AllocsPlaced(Box::new(placements())),
            Change::JobSubmission(Box::new(job_submission())),
        ],
    }
}

/// An encoded message.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Kind of the message.
    pub kind: &'static str,
    /// The body.
    pub bytes: Vec<u8>,
    /// Decodes a body of this kind, and encodes it again.
    pub reencode: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

/// Encodes and decodes a message, as it is and with an additional field.
fn round_trip<T: Wire + PartialEq + Debug>(message: T) -> Sample {
    let bytes = encode(&message);
    for bytes in [with_additional_field(&bytes), bytes.clone()] {
        assert_eq!(decode::<T>(T::KIND, T::VERSION, &bytes).expect("a sample is readable"), message);
        let shared = decode_message::<T>(T::KIND, T::VERSION, &bytes.into());
        assert_eq!(shared.expect("a sample is readable"), message);
    }
    Sample { kind: T::KIND, bytes, reencode: reencode::<T> }
}

fn reencode<T: Wire>(body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let body = Bytes::copy_from_slice(body);
    decode_message::<T>(T::KIND, T::VERSION, &body).map(|message| encode(&message))
}

/// The message as a newer program might send it: with an additional field at the end of the body, or of the enum
/// variant that the body consists of.
fn with_additional_field(body: &[u8]) -> Vec<u8> {
    const SHORT_MAP: u8 = 0x80;
    const SHORT_TEXT: u8 = 0xa0;
    // Variants begin with capitals, fields do not.
    let fields = match *body {
        [_, text, first, ..] if first.is_ascii_uppercase() => 2 + usize::from(text - SHORT_TEXT),
        _ => 0,
    };
    let mut body = body.to_vec();
    assert!((SHORT_MAP..SHORT_MAP + 15).contains(&body[fields]), "a map with room for an additional field");
    body[fields] += 1;
    body.extend(rmp_serde::to_vec("of_tomorrow").expect("a text can be encoded"));
    body.extend(rmp_serde::to_vec(&[1, 2, 3]).expect("a list can be encoded"));
    body
}

/// All samples. Most kinds of messages have one, some have several.
///
/// # Panics
/// If a sample does not survive encoding and decoding.
pub fn samples() -> Vec<Sample> {
    let delivery = Delivery {
        eval_id: EVAL,
        priority: 50,
        kind: JobType::SysBatch,
        token: REQUEST,
        wait_index: INDEX,
        lease_ms: 60_000,
    };
    let mut samples = Vec::from([
        round_trip(Dequeue {
            kinds: vec![JobType::Service, JobType::Batch],
            max: 16,
            timeout_ms: 500,
            scheduler_version: broker::SCHEDULER_VERSION,
        }),
        round_trip(Dequeued { evals: vec![delivery] }),
        round_trip(EvalLeaseRequest { eval_id: EVAL, token: REQUEST, action: EvalLeaseAction::GiveBack }),
        round_trip(EvalLeaseResponse { held: true }),
        round_trip(RenewLease { service: Singleton::EvalBroker, process: PROCESS, epoch: EPOCH }),
        round_trip(ProbeHolder {}),
        round_trip(ForceGarbageCollection {}),
        round_trip(GarbageCollectionStarted {}),
        round_trip(HolderAlive {}),
        round_trip(Changes {
            history: HISTORY,
            by: Some(Committer { epoch: EPOCH, applier: PROCESS, began: INDEX }),
            previous: Some(REQUEST),
            first: INDEX,
            sets: vec![Some(Bytes::from_static(&[1, 2])), None],
        }),
        round_trip(Head {
            history: HISTORY,
            index: INDEX,
            at: NOW,
            epoch: EPOCH,
            applier: PROCESS,
            began: Some(INDEX),
        }),
        round_trip(LostWrites {
            history: HISTORY,
            index: INDEX,
            epoch: EPOCH,
            applier: PROCESS,
            request: Some(REQUEST),
        }),
        round_trip(GetHead {}),
        round_trip(change_set()),
        round_trip(Register { id: NODE, spec: node_spec() }),
        round_trip(Heartbeat { id: NODE, secret: secret(), boot: 13 }),
        round_trip(NodeResponse {
            status: NodeStatus::Initializing,
            ttl_ms: 5_000,
            work_index: WORK_INDEX,
            report_all: Some(INDEX),
            services: Some(RegisteredServices { at: WORK_INDEX, digest: ServicesDigest::default() }),
        }),
        round_trip(RegisterServices {
            id: NODE,
            secret: secret(),
            boot: 13,
            allocs: vec![alloc_services(), AllocServices { alloc: ALLOC, services: Vec::new() }],
        }),
        round_trip(ServicesAnswer {
            index: WORK_INDEX,
            rejected: vec![
                (ALLOC, ServicesRejection::Unknown),
                (ALLOC, ServicesRejection::Refused("a service without a name".into())),
            ],
        }),
        round_trip(FindServices {
            id: NODE,
            secret: secret(),
            wait_ms: 10_000,
            queries: vec![
                KnownQuery {
                    query: ServiceQuery::Names { namespace: "default".into() },
                    digest: Some(ServicesDigest::default()),
                },
                KnownQuery {
                    query: ServiceQuery::Instances { namespace: "default".into(), name: "web".into() },
                    digest: None,
                },
            ],
        }),
        round_trip(found_services()),
        round_trip(GetWork { id: NODE, secret: secret(), since: WORK_INDEX, seen: WORK_INDEX }),
        round_trip(Work { index: WORK_INDEX, allocs: vec![(ALLOC, INDEX)], changed: work_allocs() }),
        round_trip(GetAllocs { id: NODE, secret: secret(), allocs: vec![ALLOC], seen: WORK_INDEX }),
        round_trip(work_allocs()),
        round_trip(WorkAllocs::<Job>::default()),
        round_trip(Report {
            id: NODE,
            secret: secret(),
            boot: 13,
            all_since: Some(INDEX),
            allocs: vec![alloc_report()],
        }),
        round_trip(ReportAccepted { index: INDEX }),
        round_trip(DrainSelf { id: NODE, secret: secret(), drain: Some(DrainSpec::default()) }),
        round_trip(OwnDrain { is_draining: true, leaving_allocs: 3 }),
        round_trip(Wake::<Job> { work_index: WORK_INDEX, news: None }),
        round_trip(Wake {
            work_index: WORK_INDEX,
            news: Some(Box::new(WorkChanges {
                since: INDEX,
                gone: [ALLOC].into_iter().collect(),
                changed: work_allocs(),
            })),
        }),
        round_trip(ListFiles { alloc: ALLOC, path: "/alloc".into(), after: None }),
        round_trip(ListFiles {
            alloc: ALLOC,
            path: "/alloc".into(),
            after: Some(Bytes::from_static(b"a\xff.txt")),
        }),
        round_trip(FileList { files: vec![file_info()], next: None }),
        round_trip(FileList { files: vec![file_info()], next: Some(Bytes::from_static(b"a\xff.txt")) }),
        round_trip(StatFile { alloc: ALLOC, path: "/alloc/a.txt".into() }),
        round_trip(FileInfo { content_type: None, ..file_info() }),
        round_trip(file_info()),
        round_trip(ReadFile {
            alloc: ALLOC,
            path: "/alloc/a.txt".into(),
            from: Origin::Start(2),
            bytes_max: 100,
            wait_ms: 500,
        }),
        round_trip(FileChunk { offset: 2, data: Bytes::from_static(b"llo"), size: 5 }),
        round_trip(read_logs(LogPosition::Origin(Origin::End(10)))),
        round_trip(read_logs(LogPosition::Cursor(LogCursor { file: 3, offset: 7 }))),
        round_trip(LogChunk {
            path: "alloc/logs/main.stderr.3".into(),
            data: Bytes::from_static(b"log"),
            next: LogCursor { file: 3, offset: 10 },
            ended: true,
        }),
        round_trip(RestartTasks { alloc: ALLOC, task: Some("main".into()), all: true }),
        round_trip(SignalTasks { alloc: ALLOC, task: Some("main".into()), signal: "SIGUSR1".into() }),
        round_trip(RemoveEnded { alloc: None }),
        round_trip(RemoveEnded { alloc: Some(ALLOC) }),
        round_trip(TasksDone {}),
        round_trip(CreateVolume {
            id: VOLUME,
            namespace: "default".into(),
            name: "data".into(),
            plugin: "mkdir".into(),
            bytes_min: 1,
            bytes_max: 2,
            parameters: [("mode".into(), "0700".into())].into(),
        }),
        round_trip(RegisterVolume {
            id: VOLUME,
            namespace: "default".into(),
            name: "data".into(),
            host_path: "/srv/data".into(),
        }),
        round_trip(DeleteVolume { id: VOLUME }),
        round_trip(VolumeMade { host_path: "/srv/data".into(), capacity_bytes: 2 }),
        round_trip(VolumeGone {}),
        round_trip(GetHostStats {}),
        round_trip(HostStats::default()),
        round_trip(HostStats {
            at: NOW,
            uptime_secs: 600,
            memory: MemoryStats { total: 8 << 30, available: 6 << 30, used: 2 << 30, free: 1 << 30 },
            cpus: vec![CpuStats {
                name: "cpu0".into(),
                user_percent: 1.5,
                system_percent: 0.5,
                idle_percent: 98.0,
                busy_percent: 2.0,
                used_mhz: 40.0,
            }],
            disks: vec![disk_stats()],
            alloc_disk: Some(disk_stats()),
            devices: vec![device_stats()],
        }),
        round_trip(GetAgentStats {}),
        round_trip(AgentStats::default()),
        round_trip(AgentStats { allocs: 3, heard_ago_ms: Some(200), ttl_ms: 10_000 }),
        round_trip(GetAllocStats { alloc: ALLOC, task: Some("main".into()) }),
        round_trip(AllocStats {
            tasks: vec![TaskStats {
                task: "main".into(),
                at: NOW,
                sum: USAGE,
                counted: Counted { usage_bytes: Some(2_000), throttled_ns: Some(5), ..Counted::default() },
                processes: vec![(4_711, USAGE)],
                devices: vec![device_stats()],
            }],
        }),
        round_trip(ProcessMetrics {
            process: PROCESS,
            service: "eval-broker".into(),
            at: NOW,
            sequence: 3,
            is_last: true,
            info: ProcessInfo {
                host: "host1".into(),
                pid: 4_711,
                version: "0.1.0".into(),
                started: NOW,
                services: vec!["eval-broker".into()],
                index: Some(Index(7)),
                head: Some(Index(9)),
                nats: PartHealth { is_known: true, problem: None },
                database: PartHealth { is_known: true, problem: Some("connection refused".into()) },
            },
            active: vec![("eval-broker".into(), EPOCH)],
            left_out: 1,
            names: vec!["nomad.raft.apply".into(), "drover.active".into(), "nomad.plan.evaluate".into()],
            counters: Counters { names: vec![0], labels: vec![vec![]], values: vec![7] },
            gauges: Gauges { names: vec![1], labels: vec![vec!["eval-broker".into()]], values: vec![1.0] },
            distributions: Distributions {
                names: vec![2],
                labels: vec![vec![]],
                buckets: vec![vec![1, 0, 2]],
                sums: vec![3.5],
                squares: vec![4.5],
                mins: vec![f64::INFINITY],
                maxs: vec![2.0],
            },
        }),
        round_trip(StartExec {
            alloc: ALLOC,
            task: "web".into(),
            command: vec!["/bin/sh".into(), "-i".into()],
            tty: true,
            requester: "127.0.0.1:50000".into(),
        }),
        round_trip(GetAllocChecks { alloc: ALLOC, after: "".into() }),
        round_trip(GetAllocChecks { alloc: ALLOC, after: "0f".into() }),
        round_trip(AllocChecks {
            checks: vec![CheckState {
                id: "0f".into(),
                mode: "healthiness".into(),
                status: "failure".into(),
                status_code: 503,
                output: "not ready".into(),
                at: NOW,
                group: "web.app[0]".into(),
                task: "main".into(),
                service: "web".into(),
                check: "alive".into(),
            }],
            more: true,
        }),
        round_trip(GetNodeMeta {}),
        round_trip(ChangeNodeMeta { changes: BTreeMap::from([("rack".into(), None)]) }),
        round_trip(NodeMeta::default()),
        round_trip(NodeMeta {
            meta: BTreeMap::from([("rack".into(), "r7".into())]),
            dynamic: Some(BTreeMap::from([("zone".into(), Some("a".into()))])),
            statics: BTreeMap::from([("rack".into(), "r6".into())]),
        }),
        round_trip(GetHostFacts {}),
        round_trip(HostFacts {
            os: "debian 13".into(),
            networks: vec![("lo".into(), vec!["127.0.0.1/8".into()])],
            resolv_conf: "nameserver 10.0.0.1".into(),
            hosts: "127.0.0.1 localhost".into(),
            environment: vec![("PATH".into(), "/bin".into())],
            disks: vec![disk_stats()],
        }),
        round_trip(Refusal { kind: RefusalKind::NotReady, message: "node is down".into() }),
    ]);
    samples.extend(Command::samples().into_iter().map(round_trip));
    samples.extend(answers().map(round_trip));
    samples.extend(exec_inputs().map(round_trip));
    samples.extend(exec_outputs().map(round_trip));
    samples
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        broker, checks, command, directory, exec, feed, files, meta, metrics, node, refusal, services, stats,
        tasks, volumes,
    };

    #[test]
    fn every_message_survives_encoding_and_decoding() {
        let tested: BTreeSet<&str> = samples().iter().map(|sample| sample.kind).collect();
        let kinds = [
            broker::KINDS,
            checks::KINDS,
            command::KINDS,
            directory::KINDS,
            exec::KINDS,
            feed::KINDS,
            files::KINDS,
            meta::KINDS,
            metrics::KINDS,
            node::KINDS,
            refusal::KINDS,
            services::KINDS,
            stats::KINDS,
            tasks::KINDS,
            volumes::KINDS,
        ]
        .concat();
        assert_eq!(tested, kinds.iter().copied().collect(), "every message has a sample");
        assert_eq!(tested.len(), kinds.len(), "no two messages have the same kind: {kinds:?}");
    }

    #[test]
    fn an_allocation_finds_its_job_and_its_common_share() {
        let work = work_allocs();
        let (common, job) = work.shared(&work.allocs[0]).unwrap();
        assert_eq!((&*common.task_group, &*job.spec.id), ("app", "web"));
        assert_eq!(work.shared(&work.allocs[1]), None, "its index is out of range");
    }
}
