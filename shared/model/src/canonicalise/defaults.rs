//! The default values, with the rules that define them.

use crate::Nanos;
use crate::cluster::Namespace;
use crate::job::{
    DelayFunction, EphemeralDisk, HealthCheck, JobType, LogConfig, MigrateStrategy, ReschedulePolicy,
    RestartMode, RestartPolicy, UpdateStrategy,
};

/// A job's region (N-18.1).
pub(super) const REGION: &str = "global";
/// A job's namespace (N-18.1).
pub(super) const NAMESPACE: &str = Namespace::DEFAULT;
/// A job's priority, unless the server is configured otherwise (N-18.1).
pub(super) const PRIORITY: i64 = 50;
/// Any datacenter (N-18.1).
pub(super) const ANY_DATACENTER: &str = "*";
/// Number of allocations of a group (N-18.2).
pub(super) const COUNT: i64 = 1;

/// Processor capacity of a task without reserved cores, in MHz (N-18.8).
pub(super) const CPU_MHZ: i64 = 100;
/// Memory of a task in MB (N-18.8).
pub(super) const MEMORY_MB: i64 = 300;
/// Number of instances of a device (N-18.13).
pub(super) const DEVICES: u64 = 1;
/// NUMA affinity (`docs/rules/jobspec.md` §9.2).
pub(super) const NUMA_AFFINITY: &str = "none";
/// Host network of a port (`docs/rules/jobspec.md` §9.3).
pub(super) const HOST_NETWORK: &str = "default";
/// Time between the kill signal and forced termination of a task (N-18.9).
pub(super) const KILL_TIMEOUT: Nanos = Nanos::from_secs(5);
/// Propagation of mounts below a volume (N-18.13).
pub(super) const PROPAGATION_MODE: &str = "private";

/// What happens when a template or a Vault token changes (N-18.11, N-18.12).
pub(super) const CHANGE_MODE: &str = "restart";
/// The signal for change mode `signal` (N-18.11, N-18.12).
pub(super) const CHANGE_SIGNAL: &str = "SIGHUP";
/// Longest random delay before a changed template is acted upon (N-18.11).
pub(super) const SPLAY: Nanos = Nanos::from_secs(5);
/// File mode of a rendered template (N-18.11).
pub(super) const PERMS: &str = "0644";
/// Delimiters of an expression in a template (N-18.11).
pub(super) const DELIMITERS: (&str, &str) = ("{{", "}}");
/// How long the change script of a template may run (N-18.11).
pub(super) const SCRIPT_TIMEOUT: Nanos = Nanos::from_secs(5);
/// Whether an artifact is downloaded as a file or a directory: either (N-18.12).
pub(super) const GETTER_MODE: &str = "any";
/// Destination of artifacts, relative to the task's directory (N-18.12).
pub(super) const DOWNLOADS: &str = "local/";
/// Name of the Consul or Vault cluster in the node's configuration (N-18.12).
pub(super) const CLUSTER: &str = "default";

/// Path of the socket directory of a CSI plugin (`docs/rules/jobspec.md` §9.2).
pub(super) const CSI_MOUNT_DIR: &str = "/csi";
/// Path where a CSI plugin stages volumes (`docs/rules/jobspec.md` §9.2).
pub(super) const CSI_STAGE_DIR: &str = "/local/csi";
/// Time within which a CSI plugin must respond (`docs/rules/jobspec.md` §9.2).
pub(super) const CSI_HEALTH_TIMEOUT: Nanos = Nanos::from_secs(30);

/// Weight of an affinity or a spread (N-18.13).
pub(super) const WEIGHT: i64 = 50;
/// Which allocation is kept when a node reconnects (N-18.13).
pub(super) const RECONCILE: &str = "best_score";
/// Format of periodic schedules (N-18.13).
pub(super) const SPEC_TYPE: &str = "cron";
/// Time zone of periodic schedules (N-18.13).
pub(super) const TIME_ZONE: &str = "UTC";
/// Whether dispatches contain a payload (N-18.13).
pub(super) const PAYLOAD: &str = "optional";
/// Type of a group's scaling policy (N-18.13).
pub(super) const SCALING_TYPE: &str = "horizontal";
/// Number of allocations of a group in a region of a multi-region job (`docs/rules/jobspec.md` §9.1).
pub(super) const REGION_COUNT: i64 = 1;

/// Provider of a service (N-18.13).
pub(super) const SERVICE_PROVIDER: &str = "consul";
/// The address with which a service is registered (N-18.13).
pub(super) const ADDRESS_MODE: &str = "auto";
/// How checks affect a deployment (N-18.13).
pub(super) const ON_UPDATE: &str = "require_healthy";
/// Weight of a service while its checks pass or warn (`docs/rules/jobspec.md` §12).
pub(super) const SERVICE_WEIGHT: i64 = 1;
/// Time after a start during which failures of a check do not count (N-18.13).
pub(super) const CHECK_GRACE: Nanos = Nanos::from_secs(1);
/// How long a gateway waits for a connection (`docs/rules/jobspec.md` §9.3).
pub(super) const CONNECT_TIMEOUT: Nanos = Nanos::from_secs(5);

/// Name of the default workload identity of a task (`docs/rules/jobspec.md` §12).
pub(super) const IDENTITY: &str = "default";
/// Audience of the default workload identity (`docs/rules/jobspec.md` §12).
pub(super) const IDENTITY_AUDIENCE: &str = "nomadproject.io";

/// Ephemeral disk of a group (N-18.7).
pub(super) const EPHEMERAL_DISK: EphemeralDisk =
    EphemeralDisk { sticky: false, size_mb: 300, migrate: false };
/// Rotation of a task's log files (N-18.9).
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

/// The default of a block.
pub(super) struct Block<T> {
    /// Default values of its members.
    pub(super) default: T,
    /// Whether the block is added if the job has none.
    pub(super) always: bool,
}

impl<T> Block<T> {
    /// The default of a block that is added if the job has none.
    pub(super) const fn always(default: T) -> Self {
        Self { default, always: true }
    }
}

/// The blocks whose defaults depend on the type of the job (N-18.3 to N-18.6, `docs/rules/jobspec.md` §12).
pub(super) struct Policies {
    pub(super) restart: Block<RestartPolicy>,
    pub(super) reschedule: Block<ReschedulePolicy>,
    pub(super) update: Block<UpdateStrategy>,
    pub(super) migrate: Block<MigrateStrategy>,
}

impl Policies {
    /// The defaults for a job type; `None` is an unknown type.
    pub(super) fn for_type(kind: Option<JobType>) -> Self {
        let is_service = kind == Some(JobType::Service);
        let is_long_running = is_service || kind == Some(JobType::System);
        Self {
            restart: Block::always(if is_long_running { RESTART_SERVICE } else { RESTART_BATCH }),
            reschedule: match kind {
                Some(JobType::Service) => Block::always(RESCHEDULE_SERVICE),
                Some(JobType::Batch) => Block::always(RESCHEDULE_BATCH),
                Some(JobType::System | JobType::SysBatch) => {
                    Block { default: RESCHEDULE_ZERO, always: false }
                }
                None => Block::always(RESCHEDULE_ZERO),
            },
            update: Block { default: UPDATE, always: is_long_running },
            migrate: Block { default: MIGRATE, always: is_service },
        }
    }
}
