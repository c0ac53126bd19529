//! The values that take the place of what a job leaves out, with the rules that give them.

use crate::Nanos;
use crate::job::{
    DelayFunction, EphemeralDisk, HealthCheck, JobType, LogConfig, MigrateStrategy, ReschedulePolicy,
    RestartMode, RestartPolicy, UpdateStrategy,
};

/// A job's region (N-18.1).
pub(super) const REGION: &str = "global";
/// A job's namespace (N-18.1).
pub(super) const NAMESPACE: &str = "default";
/// A job's priority, unless the server is configured otherwise (N-18.1).
pub(super) const PRIORITY: i64 = 50;
/// Any datacenter (N-18.1).
pub(super) const ANY_DATACENTER: &str = "*";
/// How many allocations of a group there shall be (N-18.2).
pub(super) const COUNT: i64 = 1;

/// Compute of a task without cores of its own, in MHz (N-18.8).
pub(super) const CPU_MHZ: i64 = 100;
/// Memory of a task, in MB (N-18.8).
pub(super) const MEMORY_MB: i64 = 300;
/// Instances of a device (N-18.13).
pub(super) const DEVICES: u64 = 1;
/// Wishes about memory nodes (`spec/jobspec.md` §9.2).
pub(super) const NUMA_AFFINITY: &str = "none";
/// The node's network that a port belongs to (`spec/jobspec.md` §9.3).
pub(super) const HOST_NETWORK: &str = "default";
/// Time that a task has for ending (N-18.9).
pub(super) const KILL_TIMEOUT: Nanos = Nanos::from_secs(5);
/// Who sees mounts below a volume (N-18.13).
pub(super) const PROPAGATION_MODE: &str = "private";

/// What follows when a template or a Vault token changed (N-18.11, N-18.12).
pub(super) const CHANGE_MODE: &str = "restart";
/// The signal of those that are to send one (N-18.11, N-18.12).
pub(super) const CHANGE_SIGNAL: &str = "SIGHUP";
/// How far apart the nodes act on a changed template (N-18.11).
pub(super) const SPLAY: Nanos = Nanos::from_secs(5);
/// Mode of a rendered file (N-18.11).
pub(super) const PERMS: &str = "0644";
/// What begins and ends an expression in a template (N-18.11).
pub(super) const DELIMITERS: (&str, &str) = ("{{", "}}");
/// How long a template's script may run (N-18.11).
pub(super) const SCRIPT_TIMEOUT: Nanos = Nanos::from_secs(5);
/// What is downloaded: whatever it is (N-18.12).
pub(super) const GETTER_MODE: &str = "any";
/// Where downloads go, relative to the task's directory (N-18.12).
pub(super) const DOWNLOADS: &str = "local/";
/// The Consul or Vault cluster of the node's configuration (N-18.12).
pub(super) const CLUSTER: &str = "default";

/// Where a CSI plugin's socket is (`spec/jobspec.md` §9.2).
pub(super) const CSI_MOUNT_DIR: &str = "/csi";
/// Where a CSI plugin stages volumes (`spec/jobspec.md` §9.2).
pub(super) const CSI_STAGE_DIR: &str = "/local/csi";
/// How long a CSI plugin may take to answer (`spec/jobspec.md` §9.2).
pub(super) const CSI_HEALTH_TIMEOUT: Nanos = Nanos::from_secs(30);

/// How two sides are compared (N-18.13).
pub(super) const OPERAND: &str = "=";
/// Weight of an affinity or a spread (N-18.13).
pub(super) const WEIGHT: i64 = 50;
/// Which allocation stays when a node is back (N-18.13).
pub(super) const RECONCILE: &str = "best_score";
/// The language of periodic schedules (N-18.13).
pub(super) const SPEC_TYPE: &str = "cron";
/// The time zone of periodic schedules (N-18.13).
pub(super) const TIME_ZONE: &str = "UTC";
/// Whether dispatches bring input (N-18.13).
pub(super) const PAYLOAD: &str = "optional";
/// What an autoscaler changes of a group (N-18.13).
pub(super) const SCALING_TYPE: &str = "horizontal";
/// How many allocations a region of a multi-region job gets of a group (`spec/jobspec.md` §9.1).
pub(super) const REGION_COUNT: i64 = 1;

/// Where a service is registered (N-18.13).
pub(super) const SERVICE_PROVIDER: &str = "consul";
/// Which address a service is registered with (N-18.13).
pub(super) const ADDRESS_MODE: &str = "auto";
/// What a check must say for an update to go on (N-18.13).
pub(super) const ON_UPDATE: &str = "require_healthy";
/// Weight of a service whose checks pass, or warn (`spec/jobspec.md` §12).
pub(super) const SERVICE_WEIGHT: i64 = 1;
/// How long a check that fails is let be after a start (N-18.13).
pub(super) const CHECK_GRACE: Nanos = Nanos::from_secs(1);
/// How long a gateway waits for a connection (`spec/jobspec.md` §9.3).
pub(super) const CONNECT_TIMEOUT: Nanos = Nanos::from_secs(5);

/// The name of the identity that every task has (`spec/jobspec.md` §12).
pub(super) const IDENTITY: &str = "default";
/// For whom that identity is meant (`spec/jobspec.md` §12).
pub(super) const IDENTITY_AUDIENCE: &str = "nomadproject.io";

/// How a group's disk is (N-18.7).
pub(super) const EPHEMERAL_DISK: EphemeralDisk =
    EphemeralDisk { sticky: false, size_mb: 300, migrate: false };
/// How a task's output is kept (N-18.9).
pub(super) const LOG_CONFIG: LogConfig = LogConfig { max_files: 10, max_file_size_mb: 10, disabled: false };

const RESTART_SERVICE: RestartPolicy = RestartPolicy {
    attempts: 2,
    interval: Nanos::from_mins(30),
    delay: Nanos::from_secs(15),
    mode: Some(RestartMode::Fail),
    render_templates: false,
};

const RESTART_BATCH: RestartPolicy =
    RestartPolicy { attempts: 3, interval: Nanos::from_hours(24), ..RESTART_SERVICE };

const RESCHEDULE_SERVICE: ReschedulePolicy = ReschedulePolicy {
    attempts: 0,
    interval: Nanos::ZERO,
    delay: Nanos::from_secs(30),
    delay_function: Some(DelayFunction::Exponential),
    max_delay: Nanos::from_hours(1),
    unlimited: true,
};

const RESCHEDULE_BATCH: ReschedulePolicy = ReschedulePolicy {
    attempts: 1,
    interval: Nanos::from_hours(24),
    delay: Nanos::from_secs(5),
    delay_function: Some(DelayFunction::Constant),
    max_delay: Nanos::ZERO,
    unlimited: false,
};

const RESCHEDULE_ZERO: ReschedulePolicy = ReschedulePolicy {
    attempts: 0,
    interval: Nanos::ZERO,
    delay: Nanos::ZERO,
    delay_function: None,
    max_delay: Nanos::ZERO,
    unlimited: false,
};

const UPDATE: UpdateStrategy = UpdateStrategy {
    stagger: Nanos::from_secs(30),
    max_parallel: 1,
    health_check: Some(HealthCheck::Checks),
    min_healthy_time: Nanos::from_secs(10),
    healthy_deadline: Nanos::from_mins(5),
    progress_deadline: Nanos::from_mins(10),
    auto_revert: false,
    auto_promote: false,
    canary: 0,
};

const MIGRATE: MigrateStrategy = MigrateStrategy {
    max_parallel: 1,
    health_check: Some(HealthCheck::Checks),
    min_healthy_time: Nanos::from_secs(10),
    healthy_deadline: Nanos::from_mins(5),
};

/// What a block is made of where the job says nothing.
pub(super) struct Block<T> {
    /// Its members.
    pub(super) default: T,
    /// Whether it is there although the job has none.
    pub(super) always: bool,
}

impl<T> Block<T> {
    /// A block that is always there.
    pub(super) const fn always(default: T) -> Self {
        Self { default, always: true }
    }
}

/// The blocks whose defaults depend on the type of the job (N-18.3 to N-18.6, `spec/jobspec.md` §12).
pub(super) struct Policies {
    pub(super) restart: Block<RestartPolicy>,
    pub(super) reschedule: Block<ReschedulePolicy>,
    pub(super) update: Block<UpdateStrategy>,
    pub(super) migrate: Block<MigrateStrategy>,
}

impl Policies {
    /// Those of a type of job; `None` is a type that there is not.
    pub(super) fn of(kind: Option<JobType>) -> Self {
        let is_service = kind == Some(JobType::Service);
        let runs_on = is_service || kind == Some(JobType::System);
        Self {
            restart: Block::always(if runs_on { RESTART_SERVICE } else { RESTART_BATCH }),
            reschedule: match kind {
                Some(JobType::Service) => Block::always(RESCHEDULE_SERVICE),
                Some(JobType::Batch) => Block::always(RESCHEDULE_BATCH),
                Some(JobType::System | JobType::SysBatch) => {
                    Block { default: RESCHEDULE_ZERO, always: false }
                }
                None => Block::always(RESCHEDULE_ZERO),
            },
            update: Block { default: UPDATE, always: runs_on },
            migrate: Block { default: MIGRATE, always: is_service },
        }
    }
}
