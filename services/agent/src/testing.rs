//! Builders for tests: allocations of a small job, task states, and the agent's context.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::alloc::{
    AllocCommon, AllocatedResources, ClientStatus, DesiredStatus, DesiredTransition, PackedAssigned,
    PackedMetric, TaskRunState, TaskState,
};
use model::job::{Job, JobSpec, JobType, RestartMode, RestartPolicy, Task, TaskGroup};
use model::{AllocId, EvalId, HistoryId, Index, JobKey, JobVersionKey, Nanos, NodeId, Timestamp};
use serde_json::json;
use tokio::sync::watch;
use wire::node::WorkAlloc;

use crate::alloc::class::Class;
use crate::alloc::status::{Member, Tasks};
use crate::context::{Context, renderings};
use crate::devices::Devices;
use crate::disk::dirs::build_parent;
use crate::disk::secrets::{Secrets, Storage};
use crate::disk::store::Store;
use crate::driver::Drivers;
use crate::driver::mock::{self, Mock};
use crate::driver::process::ExecutorCommand;
use crate::driver::raw_exec::{self, RawExec};
use crate::driver::running::RunningTasks;
use crate::driver::start::TaskId;
use crate::networks::Networks;
use crate::node::config::Config;
use crate::node::facts::NodeFacts;
use crate::node::host_env::HostEnv;
use crate::services::Services;
use crate::starts::Starts;
use crate::volumes::HostVolumes;
use crate::work::spec::AllocSpec;

/// The time at which tests start.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

pub(crate) fn alloc_id(number: u8) -> AllocId {
    AllocId::from_bytes([number; 16])
}

/// An allocation with one task `web` that simulates running for a minute.
pub(crate) fn spec() -> AllocSpec {
    with_tasks(vec![task("web")])
}

/// An allocation with these tasks.
pub(crate) fn with_tasks(tasks: Vec<Task>) -> AllocSpec {
    let group = TaskGroup {
        name: "app".into(),
        count: 1,
        restart_policy: Some(RestartPolicy {
            attempts: 0,
            interval: Nanos::from_mins(30),
            delay: Nanos::from_secs(15),
            mode: Some(RestartMode::Fail),
            render_templates: false,
        }),
        tasks,
        ..TaskGroup::default()
    };
    with_group(JobType::Service, group)
}

/// An allocation of this group.
pub(crate) fn with_group(kind: JobType, group: TaskGroup) -> AllocSpec {
    let job = JobSpec {
        id: "site".into(),
        name: "site".into(),
        namespace: "default".into(),
        kind,
        priority: 50,
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
        id: alloc_id(1),
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
        alloc_modify_index: Index(5),
        create_time: NOW,
    };
    let job = Arc::new(Job { spec: Arc::new(job), ..Job::default() });
    AllocSpec { history: HistoryId::default(), work, common: Arc::new(common), job }
}

/// A task that simulates running for a minute.
pub(crate) fn task(name: &str) -> Task {
    Task {
        name: name.into(),
        driver: "mock_driver".into(),
        config: [("run_for".to_owned(), json!("1m"))].into(),
        kill_timeout: Nanos::from_secs(5),
        ..Task::default()
    }
}

/// The state of a task that has not started.
pub(crate) fn pending() -> TaskState {
    TaskState::pending("task".into())
}

/// The state of a running task.
pub(crate) fn running() -> TaskState {
    TaskState { state: TaskRunState::Running, started_at: NOW, ..pending() }
}

/// The state of a task that ended without failure.
pub(crate) fn dead() -> TaskState {
    TaskState { state: TaskRunState::Dead, finished_at: NOW, ..running() }
}

/// The state of a failed task.
pub(crate) fn failed() -> TaskState {
    TaskState { failed: true, ..dead() }
}

/// A task of an allocation.
pub(crate) fn member(class: Class, state: TaskState) -> Member {
    Member { class, leader: false, state }
}

/// The tasks of an allocation.
pub(crate) fn tasks<const N: usize>(tasks: [(&str, Class, TaskState); N]) -> Tasks {
    tasks.into_iter().map(|(name, class, state)| (name.into(), member(class, state))).collect()
}

/// The first start of the task `web`.
pub(crate) fn task_id() -> TaskId {
    TaskId {
        alloc: alloc_id(1),
        alloc_name: "site.app[0]".into(),
        job: "site".into(),
        namespace: "default".into(),
        group: "app".into(),
        task: "web".into(),
        start: "00000001".into(),
    }
}

/// An executor that is this test program, started with the one test that acts as an executor.
pub(crate) fn executor() -> ExecutorCommand {
    let program = std::env::current_exe().expect("the path of the current executable is known");
    let args = ["executor::tests::executor_process", "--exact", "--ignored", "--nocapture"];
    ExecutorCommand::new(program, args.map(str::to_owned).to_vec())
}

/// Secrets on disk, of the user that runs the tests.
pub(crate) fn secrets() -> Secrets {
    let owner = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    Secrets { storage: Storage::Disk, owner, size_mb: 0 }
}

/// The agent's context, with its data below a directory.
pub(crate) fn context(dir: &Path, contacted: watch::Receiver<bool>) -> Arc<Context> {
    context_with(dir, contacted, executor())
}

/// The same with another executor.
pub(crate) fn context_with(
    dir: &Path,
    contacted: watch::Receiver<bool>,
    executor: ExecutorCommand,
) -> Arc<Context> {
    let mut config = Config::for_tests(dir);
    config.drivers.executor = executor.clone();
    build_parent(&config.allocs_dir()).expect("the test directory is writable");
    let drivers = Drivers::default()
        .with(mock::NAME, Mock)
        .with(raw_exec::NAME, RawExec::new(raw_exec::Settings::default(), executor));
    let store = Store::open(&dir.join("state")).expect("the test directory is writable");
    let volumes =
        HostVolumes::load(&store, config.volumes.clone(), NodeId::from_bytes([3; 16]), "default".into());
    Arc::new(Context {
        drivers,
        devices: Devices::default(),
        starts: Starts::new(config.limits.concurrent_starts_max),
        store,
        volumes: Arc::new(volumes),
        node: NodeFacts::default(),
        host_env: HostEnv::default(),
        // Groups would outlast the tests.
        cgroups: None,
        // Mounts would outlast the tests.
        secrets: Storage::Disk,
        networks: Networks::new(config.networks.clone(), config.networks_dir()),
        checks: Arc::default(),
        services: Services::default(),
        running: RunningTasks::default(),
        renderings: renderings(),
        contacted,
        config,
    })
}

/// Waits until a condition holds; fails if it does not within some time.
pub(crate) async fn eventually(description: &str, mut condition: impl FnMut() -> bool) {
    const TRIES_MAX: u32 = 6_000;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..TRIES_MAX {
        if condition() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("timed out waiting: {description}");
}
