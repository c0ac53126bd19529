//! Tests of a whole agent in a process of its own, over a real NATS server, with a simulated node-tracker.

#![allow(clippy::unwrap_used, reason = "a test may panic on missing values")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bus::{Bus, Request};
use model::alloc::{
    AllocCommon, AllocatedResources, ClientStatus, DesiredStatus, DesiredTransition, PackedAssigned,
    PackedMetric, TaskState,
};
use model::columns::AllocIds;
use model::job::{
    Job, JobSpec, JobType, LogConfig, RestartMode, RestartPolicy, Service, ServiceProvider, Task, TaskGroup,
};
use model::node::{NodeSpec, NodeStatus};
use model::{AllocId, EvalId, HistoryId, Index, JobKey, JobVersionKey, Nanos, NodeId, Timestamp};
use private_servers::Nats;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use wire::files::{LogChunk, LogPosition, LogStream, Origin, ReadLogs};
use wire::node::{
    AllocReport, GetAllocs, GetWork, Heartbeat, NodeResponse, Register, Report, ReportAccepted, Wake, Work,
    WorkAlloc, WorkAllocs, WorkChanges, WorkCommon, WorkIndex,
};
use wire::services::{
    AllocServices, RegisterServices, RegisteredServices, ServiceInstance, ServicesAnswer, ServicesDigest,
};
use wire::stats::{
    AgentStats, AllocStats, GetAgentStats, GetAllocStats, GetHostFacts, GetHostStats, HostFacts, HostStats,
};
use wire::tasks::{RemoveEnded, TasksDone};
use wire::{Refusal, RefusalKind, Role, Subject};

const ALLOC: AllocId = AllocId::from_bytes([7; 16]);
const DATA_DIR: &str = "TEST_AGENT_DATA_DIR";
const NATS_URL: &str = "TEST_AGENT_NATS_URL";
const NODE_KEY: &str = "TEST_AGENT_NODE_KEY";

/// Not a test: the executor process of a task.
#[test]
#[ignore = "an executor process for other tests"]
fn executor_process() {
    let dir = PathBuf::from(std::env::args().next_back().unwrap());
    let _ = agent::executor::main(&agent::executor::Args { dir });
    std::process::exit(0);
}

/// Not a test: the agent's process.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "an agent process for other tests"]
async fn agent_process() {
    let executor = ["executor_process", "--exact", "--ignored", "--nocapture"].map(str::to_owned).to_vec();
    let args = agent::Args {
        data_dir: std::env::var(DATA_DIR).unwrap().into(),
        node_name: Some("one".into()),
        raw_exec: true,
        first_heartbeat_within_ms: 0,
        gc_disk_percent_max: 100.0,
        cgroup_parent: cgroup_parent(Path::new(&std::env::var(DATA_DIR).unwrap())),
        executor: Some((std::env::current_exe().unwrap(), executor)),
        ..agent::Args::default()
    };
    let data_dir = agent::DataDir::open(&args).await.unwrap();
    let node = data_dir.node_id(None).unwrap();
    let node_key = Some(std::env::var(NODE_KEY).unwrap().into());
    let nats = bus::Args { node_key, ..nats_args(&std::env::var(NATS_URL).unwrap()) };
    let connecting = async move { Bus::connect_agent(&nats, node).await };
    let (presence, stop) = (agent::Presence::default(), CancellationToken::new());
    agent::run_connecting(args, data_dir, connecting, presence, stop).await.unwrap();
}

/// The cgroup for the tasks of a scene's agents. Agents of several scenes run allocations of the same id at the same time.
fn cgroup_parent(data_dir: &Path) -> String {
    format!("drover-test-{}.slice", data_dir.file_name().unwrap().to_string_lossy())
}

/// Removes a cgroup with those in it, as far as no process is in them.
fn remove_cgroup(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}

fn nats_args(url: &str) -> bus::Args {
    bus::Args::new(vec![url.parse().unwrap()])
}

/// The state of the simulated node-tracker.
#[derive(Default)]
struct TrackerState {
    node: Option<(NodeId, Arc<NodeSpec>)>,
    status: Option<NodeStatus>,
    report_all: Option<Index>,
    history: HistoryId,
    index: Index,
    work: BTreeMap<AllocId, (WorkAlloc, Arc<AllocCommon>, Arc<Job>)>,
    reports: Vec<Report>,
    /// The registered services of each allocation.
    services: BTreeMap<AllocId, Vec<ServiceInstance>>,
    /// How often the work was sent in answer to a request.
    work_answers: u32,
    /// Whether requests for work are left unanswered.
    is_silent: bool,
}

impl TrackerState {
    fn work_index(&self) -> WorkIndex {
        WorkIndex { history: self.history, index: self.index }
    }

    /// The digest of the registered services.
    fn digest(&self) -> ServicesDigest {
        let mut digest = ServicesDigest::default();
        for (alloc, services) in &self.services {
            services.iter().for_each(|service| digest.add(*alloc, "dc1", service));
        }
        digest
    }

    /// The names and addresses of the registered services.
    fn registered(&self) -> Vec<(&str, &str, u16)> {
        let services = self.services.values().flatten();
        services.map(|service| (&*service.name, &*service.address, service.port)).collect()
    }

    fn last(&self, alloc: AllocId) -> Option<&AllocReport> {
        let reports = self.reports.iter().rev().flat_map(|report| &report.allocs);
        reports.into_iter().find(|report| report.id == alloc)
    }
}

/// A simulated node-tracker with one node.
#[derive(Clone)]
struct Tracker {
    bus: Bus,
    state: Arc<Mutex<TrackerState>>,
}

impl Tracker {
    async fn serve(bus: Bus) -> Self {
        let tracker = Self {
            bus,
            state: Arc::new(Mutex::new(TrackerState { index: Index(10), ..TrackerState::default() })),
        };
        for subject in [
            Subject::EVERY_NODE_REGISTER,
            Subject::EVERY_NODE_HEARTBEAT,
            Subject::EVERY_NODE_WORK,
            Subject::EVERY_NODE_REPORT,
            Subject::EVERY_NODE_SERVICES,
        ] {
            let mut requests = tracker.bus.serve(subject).await.unwrap();
            let tracker = tracker.clone();
            tokio::spawn(async move {
                while let Some(request) = requests.next().await {
                    tracker.answer(request).await;
                }
            });
        }
        tracker
    }

    fn state(&self) -> MutexGuard<'_, TrackerState> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request) {
        if let Ok(Register { id, spec }) = request.body() {
            let answer = {
                let mut state = self.state();
                state.node = Some((id, spec));
                node_answer(&state)
            };
            request.answer(&answer).await;
        } else if let Ok(Heartbeat { .. }) = request.body() {
            let answer = {
                let mut state = self.state();
                if state.report_all.is_none() {
                    state.status = Some(NodeStatus::Ready);
                }
                node_answer(&state)
            };
            request.answer(&answer).await;
        } else if let Ok(GetWork { since, .. }) = request.body() {
            let answer = {
                let state = self.state();
                if state.is_silent {
                    return;
                }
                let changed = state
                    .work
                    .values()
                    .filter(|(alloc, ..)| alloc.alloc_modify_index > since.within(state.history));
                Work {
                    index: state.work_index(),
                    allocs: state
                        .work
                        .values()
                        .map(|(alloc, ..)| (alloc.id, alloc.alloc_modify_index))
                        .collect(),
                    // Only the first change, so that the agent has to request the rest.
                    changed: packed(changed.take(1)),
                }
            };
            request.answer(&answer).await;
            self.state().work_answers += 1;
        } else if let Ok(GetAllocs { allocs, .. }) = request.body() {
            let answer = packed(self.state().work.values().filter(|(alloc, ..)| allocs.contains(&alloc.id)));
            request.answer(&answer).await;
        } else if let Ok(RegisterServices { allocs, .. }) = request.body() {
            let answer = {
                let mut state = self.state();
                for AllocServices { alloc, services } in allocs {
                    state.services.insert(alloc, services);
                }
                ServicesAnswer { index: state.work_index(), rejected: Vec::new() }
            };
            request.answer(&answer).await;
        } else {
            let report: Report = request.body().unwrap();
            let refused = {
                let mut state = self.state();
                let refused = state.status.is_none();
                if !refused {
                    if report.all_since == state.report_all {
                        state.report_all = None;
                    }
                    state.reports.push(report);
                }
                refused
            };
            if refused {
                let message = "node is not allowed to update allocs while in status down".into();
                request.refuse(Refusal { kind: RefusalKind::NotReady, message }).await;
            } else {
                request.answer(&ReportAccepted { index: Index(1) }).await;
            }
        }
    }

    /// Changes the node's work and wakes the agent.
    async fn place(&self, alloc: AllocId, change: impl FnOnce(&mut WorkAlloc, &mut Job)) {
        self.wake(self.change(alloc, change), None).await;
    }

    /// Changes the node's work, with a wake that contains the change.
    async fn place_with_news(&self, alloc: AllocId, change: impl FnOnce(&mut WorkAlloc, &mut Job)) {
        let since = self.state().index;
        let index = self.change(alloc, change);
        let news = {
            let state = self.state();
            let changed = packed(state.work.values().filter(|(alloc, ..)| alloc.alloc_modify_index > since));
            WorkChanges { since, gone: AllocIds::default(), changed }
        };
        self.wake(index, Some(Box::new(news))).await;
    }

    async fn wake(&self, work_index: WorkIndex, news: Option<Box<WorkChanges>>) {
        let node = self.state().node.as_ref().unwrap().0;
        self.bus.publish(Subject::AgentWake(node), &Wake { work_index, news }).await.unwrap();
    }

    fn change(&self, alloc: AllocId, change: impl FnOnce(&mut WorkAlloc, &mut Job)) -> WorkIndex {
        let mut state = self.state();
        state.index = state.index.next();
        let index = state.index;
        let (mut work, common, job) = state.work.remove(&alloc).unwrap_or_else(|| new_alloc(alloc));
        let mut job = Job::clone(&job);
        change(&mut work, &mut job);
        work.alloc_modify_index = index;
        state.work.insert(alloc, (work, common, Arc::new(job)));
        state.work_index()
    }

    async fn until(&self, description: &str, condition: impl Fn(&TrackerState) -> bool) {
        for _ in 0..3_000 {
            if condition(&self.state()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("timed out waiting: {description}");
    }

    async fn until_reported(&self, alloc: AllocId, status: ClientStatus) -> Vec<TaskState> {
        let is_reported =
            |state: &TrackerState| state.last(alloc).is_some_and(|report| report.status == status);
        self.until(&format!("{alloc} is {status}"), is_reported).await;
        self.state().last(alloc).unwrap().task_states.unpack().unwrap()
    }
}

fn node_answer(state: &TrackerState) -> NodeResponse {
    NodeResponse {
        status: state.status.unwrap_or(NodeStatus::Initializing),
        ttl_ms: 300,
        work_index: state.work_index(),
        report_all: state.report_all,
        services: Some(RegisteredServices { at: state.work_index(), digest: state.digest() }),
    }
}

fn packed<'a>(allocs: impl Iterator<Item = &'a (WorkAlloc, Arc<AllocCommon>, Arc<Job>)>) -> WorkAllocs {
    let mut answer = WorkAllocs::default();
    for (alloc, common, job) in allocs {
        let place = u16::try_from(answer.jobs.len()).unwrap();
        answer.jobs.push(Arc::clone(job));
        answer.commons.push(WorkCommon { job: place, common: Arc::clone(common) });
        answer.allocs.push(WorkAlloc { common: place, ..alloc.clone() });
    }
    answer
}

fn new_alloc(id: AllocId) -> (WorkAlloc, Arc<AllocCommon>, Arc<Job>) {
    let task = Task {
        name: "web".into(),
        driver: "raw_exec".into(),
        kill_timeout: Nanos::from_secs(5),
        log_config: LogConfig { max_files: 2, max_file_size_mb: 1, disabled: false },
        ..Task::default()
    };
    let policy = RestartPolicy {
        attempts: 0,
        interval: Nanos::from_mins(1),
        delay: Nanos::SECOND,
        mode: Some(RestartMode::Fail),
        render_templates: false,
    };
    let group = TaskGroup {
        name: "app".into(),
        count: 1,
        restart_policy: Some(policy),
        tasks: vec![task],
        ..TaskGroup::default()
    };
    let spec = JobSpec {
        id: "site".into(),
        name: "site".into(),
        namespace: "default".into(),
        kind: JobType::Batch,
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    let common = AllocCommon {
        job: JobVersionKey { job: JobKey::new("default", "site"), create_index: Index(1), version: 0 },
        task_group: "app".into(),
        name_stem: "site.app".into(),
        eval_id: EvalId::from_bytes([9; 16]),
        deployment_id: None,
        resources: AllocatedResources::default(),
        metrics: PackedMetric::default(),
        trace: None,
    };
    let work = WorkAlloc {
        id,
        common: 0,
        name_index: Some(0),
        assigned: PackedAssigned::default(),
        desired_status: DesiredStatus::Run,
        desired_transition: DesiredTransition::default(),
        client_status: ClientStatus::Pending,
        canary: false,
        healthy: None,
        previous: None,
        migrate_token: None,
        preempted: Vec::new(),
        alloc_modify_index: Index(1),
        create_time: Timestamp::from_secs(1_800_000_000),
    };
    (work, Arc::new(common), Arc::new(Job { spec: Arc::new(spec), ..Job::default() }))
}

/// Makes the job's task run a shell script.
fn script(text: &str) -> impl FnOnce(&mut WorkAlloc, &mut Job) + use<> {
    let config = [("command".to_owned(), json!("sh")), ("args".to_owned(), json!(["-c", text]))];
    move |_, job| Arc::make_mut(&mut job.spec).task_groups[0].tasks[0].config = config.into()
}

/// An agent's process, which is killed when dropped.
struct Agent(Child);

impl Agent {
    fn start(nats: &Nats, dir: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["agent_process", "--exact", "--ignored", "--nocapture"])
            .env(DATA_DIR, dir)
            .env(NATS_URL, nats.url())
            .env(NODE_KEY, nats.node_key().unwrap().unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Scene {
    dir: TempDir,
    nats: Nats,
    tracker: Tracker,
}

impl Drop for Scene {
    /// Unmounts the secrets of tasks, which outlive a killed agent.
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
        for point in points.filter(|point| point.starts_with(self.dir.path())) {
            // If it cannot be unmounted, the directory stays.
            let _ = nix::mount::umount2(point, nix::mount::MntFlags::MNT_DETACH);
        }
        // One hierarchy, or one for each controller.
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        for hierarchy in controllers.chain([root.to_owned()]) {
            remove_cgroup(&hierarchy.join(cgroup_parent(self.dir.path())));
        }
    }
}

impl Scene {
    async fn new() -> Self {
        let nats = Nats::temporary().await.unwrap();
        let credentials = nats.credentials(Role::Observer).unwrap();
        let args = bus::Args { credentials, ..nats_args(&nats.url()) };
        let bus = Bus::connect(&args, Role::Observer).await.unwrap();
        Self { dir: tempfile::tempdir().unwrap(), nats, tracker: Tracker::serve(bus).await }
    }

    fn agent(&self) -> Agent {
        Agent::start(&self.nats, self.dir.path())
    }

    async fn ready_agent(&self) -> Agent {
        let agent = self.agent();
        self.tracker.until("the node is ready", |state| state.status == Some(NodeStatus::Ready)).await;
        agent
    }

    fn task_file(&self, alloc: AllocId, name: &str) -> PathBuf {
        self.dir.path().join("alloc").join(alloc.to_string()).join("web").join(name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_registers_runs_its_work_and_reports_it() {
    let scene = Scene::new().await;
    let _agent = scene.ready_agent().await;
    let (node, spec) = scene.tracker.state().node.clone().unwrap();
    assert_eq!((&*spec.name, spec.boot), ("one", 1));
    assert_eq!(&*spec.attributes["driver.raw_exec"], "1");

    let second = AllocId::from_bytes([8; 16]);
    scene.tracker.place(second, script("exit 3")).await;
    let waiting = r#"echo "hello from $NOMAD_ALLOC_NAME"; while [ -d $NOMAD_TASK_DIR ]; do sleep 0.01; done"#;
    scene.tracker.place(ALLOC, script(waiting)).await;
    let failed = scene.tracker.until_reported(second, ClientStatus::Failed).await;
    assert!(failed[0].failed);
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;

    let ask = ReadLogs {
        alloc: ALLOC,
        task: "web".into(),
        stream: LogStream::Stdout,
        from: LogPosition::Origin(Origin::Start(0)),
        bytes_max: 1_000,
        wait_ms: 5_000,
    };
    let within = Duration::from_secs(20);
    let chunk: LogChunk = scene.tracker.bus.request(Subject::AgentFiles(node), &ask, within).await.unwrap();
    assert_eq!(&*chunk.data, b"hello from site.app[0]\n");
    assert_eq!(&*chunk.path, "alloc/logs/web.stdout.0");
    let ask = ReadLogs { task: "other".into(), ..ask };
    let refused = scene.tracker.bus.request::<_, LogChunk>(Subject::AgentFiles(node), &ask, within).await;
    assert_eq!(refused.unwrap_err().to_string(), r#"refused: unknown task name "other""#);

    // What has ended is kept for people, until someone wants it removed.
    let garbage = scene.dir.path().join("alloc").join(second.to_string());
    assert!(garbage.exists());
    let subject = Subject::AgentTasks(node);
    let running = RemoveEnded { alloc: Some(ALLOC) };
    let refused = scene.tracker.bus.request::<_, TasksDone>(subject, &running, within).await.unwrap_err();
    assert!(refused.to_string().contains("not eligible for GC"), "{refused}");
    let ended = RemoveEnded { alloc: Some(second) };
    // The agent may still be cleaning up after the task.
    while let Err(refused) = scene.tracker.bus.request::<_, TasksDone>(subject, &ended, within).await {
        assert!(refused.to_string().contains("not eligible for GC"), "{refused}");
    }
    assert!(!garbage.exists());

    scene.tracker.place(ALLOC, |alloc, _| alloc.desired_status = DesiredStatus::Stop).await;
    let states = scene.tracker.until_reported(ALLOC, ClientStatus::Complete).await;
    assert_eq!(states[0].events.last().unwrap().kind.display(), "Task successfully killed");

    scene.tracker.state().work.remove(&ALLOC);
    scene.tracker.place(second, |_, _| {}).await;
    let dir = scene.dir.path().join("alloc").join(ALLOC.to_string());
    scene.tracker.until("the files of the deleted allocation are removed", |_| !dir.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_in_a_wake_are_not_requested() {
    let scene = Scene::new().await;
    let _agent = scene.ready_agent().await;
    scene.tracker.until("the agent knows its work", |state| state.work_answers > 0).await;
    scene.tracker.state().is_silent = true;
    let waiting = "while [ -d $NOMAD_TASK_DIR ]; do sleep 0.01; done";
    scene.tracker.place_with_news(ALLOC, script(waiting)).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;

    // An agent that missed a change requests all of its work.
    let second = AllocId::from_bytes([8; 16]);
    scene.tracker.change(second, script(waiting));
    let third = AllocId::from_bytes([9; 16]);
    scene.tracker.state().is_silent = false;
    scene.tracker.place_with_news(third, script(waiting)).await;
    scene.tracker.until_reported(second, ClientStatus::Running).await;
    scene.tracker.until_reported(third, ClientStatus::Running).await;
    let work_answers = scene.tracker.state().work_answers;

    scene.tracker.state().is_silent = true;
    scene.tracker.place_with_news(ALLOC, |alloc, _| alloc.desired_status = DesiredStatus::Stop).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Complete).await;
    assert_eq!(scene.tracker.state().work_answers, work_answers);
}

/// The usage of a task includes the shell and the process that it started.
#[tokio::test(flavor = "multi_thread")]
async fn resource_usage_of_the_machine_and_its_tasks_is_measured() {
    let scene = Scene::new().await;
    let _agent = scene.ready_agent().await;
    let node = scene.tracker.state().node.clone().unwrap().0;
    let busy = "sleep 100 & while [ -d $NOMAD_TASK_DIR ]; do :; done";
    scene.tracker.place(ALLOC, script(busy)).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;
    let within = Duration::from_secs(20);
    let subject = Subject::AgentStats(node);
    let host: HostStats = scene.tracker.bus.request(subject, &GetHostStats {}, within).await.unwrap();
    assert!(!host.cpus.is_empty() && host.memory.used > 0, "{host:?}");
    let stats: AgentStats = scene.tracker.bus.request(subject, &GetAgentStats {}, within).await.unwrap();
    assert!(stats.allocs == 1 && stats.heard_ago_ms.is_some() && stats.ttl_ms == 300, "{stats:?}");

    let mut ask = GetAllocStats { alloc: ALLOC, task: None };
    let found = loop {
        let found: AllocStats = scene.tracker.bus.request(subject, &ask, within).await.unwrap();
        // The shell may not have come to its loop yet.
        if found.tasks[0].processes.len() == 2 && found.tasks[0].sum.user_percent > 0.0 {
            break found;
        }
    };
    let task = &found.tasks[0];
    assert!(&*task.task == "web" && task.sum.rss_bytes > 0 && task.sum.used_mhz > 0.0, "{task:?}");
    ask.task = Some("other".into());
    let none: AllocStats = scene.tracker.bus.request(subject, &ask, within).await.unwrap();
    assert_eq!(none, AllocStats::default());
    ask.alloc = AllocId::from_bytes([8; 16]);
    let refused = scene.tracker.bus.request::<_, AllocStats>(subject, &ask, within).await.unwrap_err();
    assert!(refused.to_string().contains("Unknown allocation"), "{refused}");
    let facts: HostFacts = scene.tracker.bus.request(subject, &GetHostFacts {}, within).await.unwrap();
    assert!(!facts.os.is_empty() && !facts.environment.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_survive_their_agent_and_are_found_again() {
    let scene = Scene::new().await;
    let agent = scene.ready_agent().await;
    let patient = "echo $$ >> pids; while [ -d $NOMAD_TASK_DIR -a ! -e go ]; do sleep 0.01; done; exit 5";
    scene.tracker.place(ALLOC, script(patient)).await;
    let short = AllocId::from_bytes([8; 16]);
    scene
        .tracker
        .place(short, script("while [ -d $NOMAD_TASK_DIR -a ! -e go ]; do sleep 0.01; done; exit 6"))
        .await;
    let before = scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;
    scene.tracker.until_reported(short, ClientStatus::Running).await;
    agent.kill();

    // One task ends while no agent is running. The node has missed its heartbeat, and the servers want a report of all live
    // allocations.
    fs::write(scene.task_file(short, "go"), "").unwrap();
    {
        let mut state = scene.tracker.state();
        state.status = Some(NodeStatus::Initializing);
        state.report_all = Some(Index(99));
        state.reports.clear();
    }
    let _agent = scene.agent();
    scene
        .tracker
        .until("all is reported", |state| state.reports.iter().any(|report| report.all_since.is_some()))
        .await;
    {
        let state = scene.tracker.state();
        let all = state.reports.iter().find(|report| report.all_since == Some(Index(99))).unwrap();
        assert_eq!(all.boot, 2);
        let patient = all.allocs.iter().find(|report| report.id == ALLOC).unwrap();
        assert_eq!(patient.status, ClientStatus::Running);
        assert_eq!(
            patient.task_states.unpack().unwrap(),
            before,
            "the restart of the agent does not change the task"
        );
    }
    let ended = scene.tracker.until_reported(short, ClientStatus::Failed).await;
    let events: Vec<_> = ended[0].events.iter().map(|event| event.kind.display()).collect();
    assert!(events.contains(&"Exit Code: 6".to_owned()), "{events:?}");

    fs::write(scene.task_file(ALLOC, "go"), "").unwrap();
    let ended = scene.tracker.until_reported(ALLOC, ClientStatus::Failed).await;
    let events: Vec<_> = ended[0].events.iter().map(|event| event.kind.display()).collect();
    assert_eq!(events[before[0].events.len()..], ["Exit Code: 5", "Policy allows no restarts"]);
    let pids = fs::read_to_string(scene.task_file(ALLOC, "pids")).unwrap();
    assert_eq!(pids.lines().count(), 1, "the task was started once");
}

/// The acknowledged state is lost with the old history, and the new indexes are below those that the agent has seen.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_adopts_another_history_and_reports_everything_again() {
    let scene = Scene::new().await;
    let _agent = scene.ready_agent().await;
    scene.tracker.place(ALLOC, script("sleep 100")).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;
    {
        let mut state = scene.tracker.state();
        state.reports.clear();
        state.history = HistoryId::from_bytes([2; 16]);
        state.index = Index(3);
        state.work.get_mut(&ALLOC).unwrap().0.alloc_modify_index = Index(2);
    }
    let second = AllocId::from_bytes([8; 16]);
    scene.tracker.place(second, script("sleep 100")).await;
    scene.tracker.until_reported(second, ClientStatus::Running).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;
}

/// The agent was killed while it created the allocation, and removing the files takes a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_created_allocation_is_created_again() {
    const LEFT: usize = 20_000;
    let scene = Scene::new().await;
    let agent = scene.ready_agent().await;
    agent.kill();
    fs::create_dir(scene.dir.path().join("state/allocs").join(ALLOC.to_string())).unwrap();
    let left = scene.dir.path().join("alloc").join(ALLOC.to_string()).join("web");
    fs::create_dir_all(&left).unwrap();
    for file in 0..LEFT {
        fs::write(left.join(file.to_string()), "").unwrap();
    }
    scene.tracker.place(ALLOC, script("while [ -d $NOMAD_TASK_DIR ]; do sleep 0.01; done")).await;
    let _agent = scene.agent();
    let is_over = |report: &AllocReport| report.status != ClientStatus::Pending;
    scene.tracker.until("the allocation has started", |state| state.last(ALLOC).is_some_and(is_over)).await;
    assert_eq!(scene.tracker.state().last(ALLOC).unwrap().status, ClientStatus::Running);
    assert!(!left.join("0").exists(), "the leftover files are removed");
}

/// The state of an allocation with a running task cannot be read: another version of the agent wrote it, or it was torn.
#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_with_unreadable_state_never_runs_twice_and_keeps_its_files() {
    let scene = Scene::new().await;
    let agent = scene.ready_agent().await;
    let patient =
        "echo $$ >> pids; echo data > local/kept; while [ -d $NOMAD_TASK_DIR ]; do sleep 0.01; done";
    scene.tracker.place(ALLOC, script(patient)).await;
    let unwanted = AllocId::from_bytes([8; 16]);
    scene.tracker.place(unwanted, script(patient)).await;
    for alloc in [ALLOC, unwanted] {
        scene.tracker.until_reported(alloc, ClientStatus::Running).await;
        scene.tracker.until("the task has begun", |_| scene.task_file(alloc, "local/kept").exists()).await;
    }
    agent.kill();
    let pid = |alloc| {
        let pids = fs::read_to_string(scene.task_file(alloc, "pids")).unwrap();
        pids.lines().last().unwrap().parse::<u32>().unwrap()
    };
    let pids = [ALLOC, unwanted].map(pid);
    let state = scene.dir.path().join("state/allocs");
    fs::write(state.join(ALLOC.to_string()).join("alloc"), "from another version").unwrap();
    let torn = state.join(unwanted.to_string()).join("state");
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    {
        let mut state = scene.tracker.state();
        state.reports.clear();
        state.work.remove(&unwanted);
    }

    let _agent = scene.agent();
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;
    let begun = |_: &TrackerState| pid(ALLOC) != pids[0];
    scene.tracker.until("the task has begun again", begun).await;
    let runs = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    assert!(!runs(pids[0]) && runs(pid(ALLOC)), "one copy runs");
    assert!(scene.task_file(ALLOC, "local/kept").exists());
    let gone = |_: &TrackerState| !scene.task_file(unwanted, "local").exists() && !runs(pids[1]);
    scene.tracker.until("nothing is left of what the servers have deleted", gone).await;
    let names = fs::read_dir(&state).unwrap().flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    let aside = format!("{ALLOC}.unreadable-");
    assert!(names.iter().any(|name| name.starts_with(&aside)), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_end_and_are_reported_although_nobody_listened_for_a_while() {
    let mut scene = Scene::new().await;
    let _agent = scene.ready_agent().await;
    scene.tracker.place(ALLOC, script("while [ -d $NOMAD_TASK_DIR -a ! -e go ]; do sleep 0.01; done")).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Running).await;
    scene.nats.kill9().await.unwrap();
    fs::write(scene.task_file(ALLOC, "go"), "").unwrap();
    scene.nats.restart().await.unwrap();
    scene.tracker.until_reported(ALLOC, ClientStatus::Complete).await;
}

/// A service of the task, at a port of the node.
fn serving(text: &str) -> impl FnOnce(&mut WorkAlloc, &mut Job) + use<> {
    let script = script(text);
    move |alloc, job| {
        script(alloc, job);
        let service = Service {
            name: "web".into(),
            port_label: "8080".into(),
            address: "10.0.0.1".into(),
            tags: vec!["live".into()],
            provider: Some(ServiceProvider::Nomad),
            ..Service::default()
        };
        Arc::make_mut(&mut job.spec).task_groups[0].tasks[0].services = vec![service];
    }
}

/// A-20.1, A-20.2: also when the agent is killed, and when the servers lose what is registered.
#[tokio::test(flavor = "multi_thread")]
async fn the_services_of_a_task_are_registered_as_long_as_it_runs() {
    let scene = Scene::new().await;
    let agent = scene.ready_agent().await;
    let registered = |state: &TrackerState| state.registered() == [("web", "10.0.0.1", 8_080)];
    scene.tracker.place(ALLOC, serving("sleep 100")).await;
    scene.tracker.until("the service is registered", registered).await;
    scene.tracker.state().services.clear();
    scene.tracker.until("the servers have lost it, and have it again", registered).await;
    agent.kill();
    scene.tracker.state().services.clear();
    let _agent = scene.agent();
    scene.tracker.until("another agent registers it", registered).await;
    scene.tracker.place(ALLOC, |alloc, _| alloc.desired_status = DesiredStatus::Stop).await;
    let gone = |state: &TrackerState| state.services.contains_key(&ALLOC) && state.registered().is_empty();
    scene.tracker.until("the service is withdrawn", gone).await;
    scene.tracker.until_reported(ALLOC, ClientStatus::Complete).await;
}
