//! Admission: defaults, validation and warnings of a job before the command that registers it (N-17.1 to N-17.8, N-18).
//!
//! Pure: takes a job, a snapshot and the server's rules, and returns a specification or the reasons for a rejection. The
//! applier repeats the checks that depend on the state, at the command's own index. They are made here as well, so that the
//! error texts list all problems of the job.
//!
//! Jobs that need a feature of the list of what is not built (`model::features`) are rejected.

mod fields;
pub(crate) mod host_volumes;
mod implied;
mod problems;
mod regions;
mod source;
#[cfg(test)]
mod tests;
mod unsupported;
mod validate;
mod warnings;
mod weights;

use std::sync::Arc;

use api_types::{Job, NamespaceCapabilities, Service};
use model::JobKey;
use model::cluster::NodePool;
use model::job::{JobSpec, ServiceProvider};
use model::text::quoted;
use model::{RegistrationDefaults, canonicalise_for_registration};
use state::State;

use self::fields::{items, text};
pub(crate) use self::problems::{Problems, Warnings};
pub(crate) use self::source::source;
pub(crate) use self::weights::fit as weights_fit;

/// Region of jobs that do not name one.
pub(crate) const DEFAULT_REGION: &str = "global";

/// The server's limits on jobs (http-api C.4).
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Priority of jobs that do not set one.
    pub(crate) priority_default: u16,
    /// Maximum priority.
    pub(crate) priority_max: u16,
    /// Maximum total count of a job's groups.
    pub(crate) count_max: u32,
    /// Maximum size of the source that is stored with a version of a job, in bytes.
    pub(crate) source_bytes_max: usize,
    /// Provider of services that do not name one.
    pub(crate) service_provider: ServiceProvider,
}

/// Why a job cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The job is invalid, or does not fit the cluster.
    Invalid(Invalid),
    /// The job uses features that are not built.
    NotBuilt(Problems),
    /// The job may not replace the stored one (N-17.12).
    Update(String),
}

impl Rejection {
    /// Whether the rejection is the same in every state of the cluster.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Update(_) => false,
            Self::Invalid(invalid) => !invalid.depends_on_cluster,
            Self::NotBuilt(_) => true,
        }
    }
}

/// All problems of an invalid job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// Problems.
    pub(crate) problems: Problems,
    /// Whether some of them depend on the state of the cluster.
    depends_on_cluster: bool,
}

/// Fills in the defaults of a job, and adds its implied constraints (N-17.3, N-17.6, N-18). The caller has set region and
/// namespace before.
pub(crate) fn fill_defaults(job: &mut Job, rules: &Rules) {
    // A client may send back a job that it has read. Fields that only servers set are cleared.
    job.parent_id = None;
    job.dispatched = None;
    job.dispatch_idempotency_token = None;
    job.nomad_token_id = None;
    job.status = None;
    // A priority of 0 is the default one (http-api §11.1).
    job.priority = job.priority.filter(|priority| *priority != 0);
    services_of(job).for_each(|service| {
        let provider = service.provider.get_or_insert_default();
        if provider.is_empty() {
            rules.service_provider.as_str().clone_into(provider);
        }
    });
    regions::interpolate(job);
    let defaults =
        RegistrationDefaults { priority: i64::from(rules.priority_default), node_pool: NodePool::DEFAULT };
    canonicalise_for_registration(job, defaults);
    implied::constrain(job);
}

/// The services of a job's groups and tasks.
fn services_of(job: &mut Job) -> impl Iterator<Item = &mut Service> {
    job.task_groups.iter_mut().flatten().flat_map(|group| {
        let of_tasks = group.tasks.iter_mut().flatten().flat_map(|task| task.services.iter_mut().flatten());
        group.services.iter_mut().flatten().chain(of_tasks)
    })
}

/// Warnings about a job as it was sent.
pub(crate) fn warnings(job: &Job, state: &State) -> Warnings {
    let pool = state.node_pool(pool_of(job)).and_then(|pool| pool.scheduler);
    let cluster = state.scheduler_config().is_some_and(|config| config.memory_oversubscription);
    warnings::of(job, pool.and_then(|pool| pool.memory_oversubscription).unwrap_or(cluster))
}

fn pool_of(job: &Job) -> &str {
    Some(text(&job.node_pool)).filter(|pool| !pool.is_empty()).unwrap_or(NodePool::DEFAULT)
}

/// Validates a job with defaults, by itself and in the cluster, and converts it into a specification.
///
/// # Errors
/// All problems of the job.
pub(crate) fn check(job: &Job, state: &State, rules: &Rules) -> Result<Arc<JobSpec>, Invalid> {
    if let Some(problems) = missing(job, state) {
        return Err(Invalid { problems, depends_on_cluster: true });
    }
    let mut problems = forbidden(job, state);
    let depends_on_cluster = !problems.is_empty();
    problems.append(validate::job(job, rules));
    if !problems.is_empty() {
        return Err(Invalid { problems, depends_on_cluster });
    }
    model::job::Job::from_api(job.clone()).map(|job| job.spec).map_err(|invalid| {
        problems.add(invalid.to_string());
        Invalid { problems, depends_on_cluster }
    })
}

/// Decides whether a job with defaults may be registered in a state of the cluster.
///
/// # Errors
/// Why it may not. Unless the rejection is final, a later state may give another result.
pub(crate) fn admit(job: &Job, state: &State, rules: &Rules) -> Result<Arc<JobSpec>, Rejection> {
    let spec = check(job, state, rules).map_err(Rejection::Invalid)?;
    let unsupported = unsupported::features(job);
    if !unsupported.is_empty() {
        return Err(Rejection::NotBuilt(unsupported));
    }
    let stored = state.job(&spec.key()).map(|stored| &*stored.spec);
    spec.check_change(stored).map_err(|forbidden| Rejection::Update(forbidden.to_string()))?;
    Ok(spec)
}

/// Features of a job that are not built, for the validation route.
pub(crate) fn not_built(job: &Job) -> Problems {
    unsupported::features(job)
}

/// What a job refers to and does not exist: its namespace, or else its node pool (N-17.17). It is the only problem of the
/// job then.
fn missing(job: &Job, state: &State) -> Option<Problems> {
    let key = JobKey::new(text(&job.namespace), text(&job.id));
    let missing = state.missing_references(&key, text(&job.node_pool)).next()?;
    let mut problems = Problems::default();
    problems.add(missing.to_string());
    Some(problems)
}

/// The drivers and network modes of a job that its namespace does not allow (N-17.7).
fn forbidden(job: &Job, state: &State) -> Problems {
    let namespace = state.namespace(text(&job.namespace));
    let capabilities = namespace.and_then(|namespace| namespace.capabilities.as_ref());
    capabilities.map_or_else(Problems::default, |capabilities| allowed(job, capabilities))
}

/// Compares the drivers and network modes of a job with those that its namespace allows.
fn allowed(job: &Job, capabilities: &NamespaceCapabilities) -> Problems {
    let mut problems = Problems::default();
    for group in items(&job.task_groups) {
        for task in items(&group.tasks) {
            let driver = text(&task.driver);
            let (on, off) = (&capabilities.enabled_task_drivers, &capabilities.disabled_task_drivers);
            problems.add_if(!is_allowed(driver, items(on), items(off)), || {
                format!(
                    "used task driver {} is not allowed in namespace {}",
                    quoted(driver),
                    quoted(text(&job.namespace))
                )
            });
        }
        for network in items(&group.networks) {
            let mode = Some(text(&network.mode)).filter(|mode| !mode.is_empty()).unwrap_or("host");
            let (on, off) = (&capabilities.enabled_network_modes, &capabilities.disabled_network_modes);
            problems.add_if(!is_allowed(mode, items(on), items(off)), || {
                format!(
                    "used group network mode {} is not allowed in namespace {}",
                    quoted(mode),
                    quoted(text(&job.namespace))
                )
            });
        }
    }
    problems
}

/// An empty list of enabled names allows all of them. A disabled name is never allowed.
fn is_allowed(name: &str, enabled: &[String], disabled: &[String]) -> bool {
    let listed = |list: &[String]| list.iter().any(|one| one == name);
    !listed(disabled) && (enabled.is_empty() || listed(enabled))
}

/// Whether a group of a system job has a scaling block, which is rejected before all other checks (N-18.2).
pub(crate) fn scales_a_system_job(job: &Job) -> bool {
    text(&job.r#type) == "system" && items(&job.task_groups).iter().any(|group| group.scaling.is_some())
}
