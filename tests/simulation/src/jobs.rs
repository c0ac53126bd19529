//! The jobs that the user of a history registers.

use std::sync::Arc;

use model::job::{
    DisconnectStrategy, EphemeralDisk, JobSpec, JobType, MigrateStrategy, ParameterizedJobConfig,
    PeriodicConfig, ReschedulePolicy, Resources, Service, ServiceProvider, Task, TaskGroup, UpdateStrategy,
};
use model::{JobKey, Nanos, Text};
use wire::command::{Command, RegisterJob};

/// A service that never changes, and leaves draining nodes step by step.
pub(crate) const STEADY: &str = "steady";
/// The count of [`STEADY`], and how many of its allocations may migrate at a time.
pub(crate) const STEADY_COUNT: u32 = 3;
pub(crate) const STEADY_PARALLEL: u32 = 1;
/// A service that is updated by deployments with canaries.
pub(crate) const ROLLING: &str = "rolling";
/// A job that is launched every two seconds.
pub(crate) const PERIODIC: &str = "periodic";
/// A job that is dispatched.
pub(crate) const PARAMETERIZED: &str = "parameterized";
/// How many of its children may run at once.
pub(crate) const CHILDREN_MAX: u32 = 2;
/// The name of each task and of each group.
pub(crate) const TASK: &str = "task";
pub(crate) const GROUP: &str = "group";
/// How long a task of a batch job runs.
pub(crate) const BATCH_TIME: Nanos = Nanos(1_200 * Nanos::MILLISECOND.0);
/// How long allocations of jobs that tolerate a disconnect may be disconnected.
const LOST_AFTER: Nanos = Nanos::from_secs(4);
/// CPU of an allocation of an ordinary service, and of any other.
const COPY_MHZ: u32 = 100;
const SMALL_MHZ: u32 = 50;
/// Longer than a history, so that no deployment fails.
const PROGRESS_DEADLINE: Nanos = Nanos::from_secs(60 * 60);

/// The key of a job.
pub(crate) fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

/// An ordinary service. Its tasks and its handling of disconnected nodes differ from version to version. `name` is the name
/// under which it is registered, if it is.
pub(crate) fn service(id: &str, count: u32, version: u32, name: Option<&str>) -> JobSpec {
    let disconnect = (!version.is_multiple_of(3)).then(|| DisconnectStrategy {
        lost_after: LOST_AFTER,
        replace: Some(version % 3 == 1),
        ..DisconnectStrategy::default()
    });
    let services = name.map(|name| Service {
        name: name.into(),
        provider: Some(ServiceProvider::Nomad),
        ..Service::default()
    });
    let group =
        TaskGroup { disconnect, services: services.into_iter().collect(), ..group(count, version, COPY_MHZ) };
    job(id, JobType::Service, group)
}

/// [`STEADY`].
pub(crate) fn steady() -> JobSpec {
    let migrate = MigrateStrategy { max_parallel: STEADY_PARALLEL, ..MigrateStrategy::default() };
    job(STEADY, JobType::Service, TaskGroup { migrate: Some(migrate), ..group(STEADY_COUNT, 0, SMALL_MHZ) })
}

/// [`ROLLING`].
pub(crate) fn rolling(version: u32) -> JobSpec {
    let update = UpdateStrategy {
        max_parallel: 1,
        progress_deadline: PROGRESS_DEADLINE,
        auto_promote: true,
        canary: 1,
        ..UpdateStrategy::default()
    };
    job(ROLLING, JobType::Service, TaskGroup { update: Some(update), ..group(2, version, SMALL_MHZ) })
}

/// [`PERIODIC`].
pub(crate) fn periodic() -> JobSpec {
    let schedule = PeriodicConfig {
        enabled: true,
        spec: "*/2 * * * * * *".into(),
        spec_type: "cron".into(),
        ..PeriodicConfig::default()
    };
    JobSpec { periodic: Some(schedule), ..job(PERIODIC, JobType::Batch, group(1, 0, SMALL_MHZ)) }
}

/// [`PARAMETERIZED`].
pub(crate) fn parameterized() -> JobSpec {
    let config = ParameterizedJobConfig {
        max_children_running: Some(CHILDREN_MAX),
        ..ParameterizedJobConfig::default()
    };
    JobSpec { parameterized_job: Some(config), ..job(PARAMETERIZED, JobType::Batch, group(1, 0, SMALL_MHZ)) }
}

/// Registers a job.
pub(crate) fn register(spec: JobSpec) -> Command {
    Command::RegisterJob(Box::new(RegisterJob {
        spec: Arc::new(spec),
        source: None,
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        preserve_resources: false,
    }))
}

fn group(count: u32, version: u32, cpu_mhz: u32) -> TaskGroup {
    let task = Task {
        name: TASK.into(),
        driver: "exec".into(),
        env: [("VERSION".to_owned().into(), version.to_string().into())].into(),
        resources: Resources { cpu_mhz, memory_mb: 10, ..Resources::default() },
        ..Task::default()
    };
    TaskGroup {
        name: GROUP.into(),
        count,
        tasks: vec![task],
        ephemeral_disk: EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() },
        reschedule_policy: Some(ReschedulePolicy { unlimited: true, ..ReschedulePolicy::default() }),
        ..TaskGroup::default()
    }
}

fn job(id: &str, kind: JobType, group: TaskGroup) -> JobSpec {
    JobSpec {
        namespace: "default".into(),
        id: Text::from(id),
        name: Text::from(id),
        kind,
        priority: 50,
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        task_groups: vec![group].into(),
        ..JobSpec::default()
    }
}
