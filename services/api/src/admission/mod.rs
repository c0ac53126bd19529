//! Admission: what happens to a job between its arrival and the command that registers it (N-17.1 to N-17.8, N-18).
//!
//! Pure: a job, a snapshot and the server's rules in; a specification or the reasons against it out. What depends on the
//! state is judged again by the applier, at the command's own index; here it is asked early, for the reasons people get.
//! Not here yet: Connect, Consul and Vault, and what comes of identities.

mod fields;
mod implied;
mod problems;
mod source;
#[cfg(test)]
mod tests;
mod unsupported;
mod validate;
mod warnings;
mod weights;

use std::sync::Arc;

use api_types::{Job, NamespaceCapabilities};
use model::JobKey;
use model::job::JobSpec;
use model::text::quoted;
use model::{RegistrationDefaults, canonicalise_for_registration};
use state::State;

use self::fields::{items, text};
pub(crate) use self::problems::{Problems, Warnings};
pub(crate) use self::source::source;
pub(crate) use self::weights::fit as weights_fit;

/// The node pool of jobs that name none (N-17.3).
const DEFAULT_NODE_POOL: &str = "default";
/// The region of jobs that name none.
pub(crate) const DEFAULT_REGION: &str = "global";
/// The namespace of requests that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// What the server allows of jobs (http-api C.4).
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The priority of jobs that name none.
    pub(crate) priority_default: u16,
    /// The highest priority.
    pub(crate) priority_max: u16,
    /// The most allocations that a job's groups may ask for together.
    pub(crate) count_max: u32,
    /// The largest source that is kept with a version of a job, in bytes.
    pub(crate) source_bytes_max: usize,
}

/// Why a job may not be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// It makes no sense, or does not fit the cluster.
    Invalid(Invalid),
    /// It asks for what is not built.
    NotBuilt(Problems),
    /// It is not what may replace the stored job (N-17.12).
    Update(String),
}

impl Rejection {
    /// Whether the answer would be the same in every state of the cluster.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Update(_) => false,
            Self::Invalid(invalid) => !invalid.depends_on_cluster,
            Self::NotBuilt(_) => true,
        }
    }
}

/// Everything that is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// What.
    pub(crate) problems: Problems,
    /// Whether some of it is that the job does not fit the cluster.
    depends_on_cluster: bool,
}

/// Fills in what a job leaves out, and what that implies (N-17.3, N-17.6, N-18). Region and namespace are the request's, settled before.
pub(crate) fn fill_defaults(job: &mut Job, rules: &Rules) {
    // A job that was read and is sent back carries what only the servers say.
    job.parent_id = None;
    job.dispatched = None;
    job.dispatch_idempotency_token = None;
    job.nomad_token_id = None;
    job.status = None;
    // A priority of 0 is none (http-api §11.1).
    job.priority = job.priority.filter(|priority| *priority != 0);
    let defaults =
        RegistrationDefaults { priority: i64::from(rules.priority_default), node_pool: DEFAULT_NODE_POOL };
    canonicalise_for_registration(job, defaults);
    implied::constrain(job);
}

/// The warnings about a job as it was sent.
pub(crate) fn warnings(job: &Job, state: &State) -> Warnings {
    let pool = state.node_pool(pool_of(job)).and_then(|pool| pool.scheduler);
    let cluster = state.scheduler_config().is_some_and(|config| config.memory_oversubscription);
    warnings::of(job, pool.and_then(|pool| pool.memory_oversubscription).unwrap_or(cluster))
}

fn pool_of(job: &Job) -> &str {
    Some(text(&job.node_pool)).filter(|pool| !pool.is_empty()).unwrap_or(DEFAULT_NODE_POOL)
}

/// What a settled job specifies, if it makes sense in itself and in this cluster.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn check(job: &Job, state: &State, rules: &Rules) -> Result<Arc<JobSpec>, Invalid> {
    let mut problems = cluster_problems(job, state);
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

/// Decides whether a settled job may be registered in the cluster as `state` has it.
///
/// # Errors
/// If not; once the state has moved on, the answer may be another.
pub(crate) fn admit(job: &Job, state: &State, rules: &Rules) -> Result<Arc<JobSpec>, Rejection> {
    let spec = check(job, state, rules).map_err(Rejection::Invalid)?;
    let unsupported = unsupported::features(job);
    if !unsupported.is_empty() {
        return Err(Rejection::NotBuilt(unsupported));
    }
    check_replacement(&spec, state)?;
    Ok(spec)
}

/// What of a job is not built, as the validation route tells it.
pub(crate) fn not_built(job: &Job) -> Problems {
    unsupported::features(job)
}

/// Namespace and node pool are there, and the namespace allows what the job uses (N-17.7, N-17.17).
fn cluster_problems(job: &Job, state: &State) -> Problems {
    let mut problems = Problems::default();
    let (id, namespace, pool) = (text(&job.id), text(&job.namespace), text(&job.node_pool));
    match state.namespace(namespace) {
        None => problems.add(format!("job {} is in nonexistent namespace {}", quoted(id), quoted(namespace))),
        Some(namespace) => {
            if let Some(capabilities) = &namespace.capabilities {
                problems.append(allowed(job, capabilities));
            }
        }
    }
    problems.add_if(state.node_pool(pool).is_none(), || {
        format!("job {} is in nonexistent node pool {}", quoted(id), quoted(pool))
    });
    problems
}

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

/// An empty list of what is enabled is all; what is disabled wins.
fn is_allowed(name: &str, enabled: &[String], disabled: &[String]) -> bool {
    let listed = |list: &[String]| list.iter().any(|one| one == name);
    !listed(disabled) && (enabled.is_empty() || listed(enabled))
}

/// What a job may become (N-17.12); a stopped one is no exception.
fn check_replacement(spec: &JobSpec, state: &State) -> Result<(), Rejection> {
    let key = JobKey::new(spec.namespace.clone(), spec.id.clone());
    let Some(stored) = state.job(&key) else { return Ok(()) };
    let stored = &stored.spec;
    let refuse = |reason: String| Err(Rejection::Update(reason));
    if stored.kind != spec.kind {
        return refuse(format!(
            "cannot update job from type {} to {}",
            quoted(stored.kind.as_str()),
            quoted(spec.kind.as_str())
        ));
    }
    let becomes = |was: bool, is: bool, what: &str| match (was, is) {
        (true, false) => Some(format!("cannot update {what} job to being non-{what}")),
        (false, true) => Some(format!("cannot update non-{what} job to being {what}")),
        (true, true) | (false, false) => None,
    };
    let periodic = becomes(stored.periodic.is_some(), spec.periodic.is_some(), "periodic");
    let parameterized =
        becomes(stored.parameterized_job.is_some(), spec.parameterized_job.is_some(), "parameterized");
    match periodic.or(parameterized) {
        Some(reason) => refuse(reason),
        None => Ok(()),
    }
}

/// Whether some group of a system job has a scaling block, which is refused before all else (N-18.2).
pub(crate) fn scales_a_system_job(job: &Job) -> bool {
    text(&job.r#type) == "system" && items(&job.task_groups).iter().any(|group| group.scaling.is_some())
}
