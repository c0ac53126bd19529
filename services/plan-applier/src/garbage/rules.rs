//! What nobody needs any more. Pure; whoever looks for garbage and whoever forgets it go by the same
//! rules.

use std::collections::HashSet;

use model::alloc::ClientStatus;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobStatus, JobType};
use model::node::NodeStatus;
use model::{DeploymentId, JobKey, Timestamp};
use state::{AllocRef, NodeRef, State};

/// Whether work of this type is done once, so that to forget that it is done would do it again.
pub(crate) fn is_done_once(kind: JobType) -> bool {
    matches!(kind, JobType::Batch | JobType::SysBatch)
}

/// and for work that is done once: unless the job is over, only what an older version did may be
/// forgotten. `with_job`: the job goes next, if it is over.
pub(crate) fn alloc_may_go(
    state: &State,
    alloc: AllocRef<'_>,
    before: Timestamp,
    now: Timestamp,
    with_job: bool,
) -> bool {
    let has_ended = alloc.is_terminal() && alloc.client_status() != ClientStatus::Running;
    if !has_ended || alloc.modify_time() > before {
        return false;
    }
    let Some(job) = state.job(alloc.job_key()) else { return true };
    let is_dead = job.status == JobStatus::Dead;
    if is_done_once(job.spec.kind) && !(is_dead && (job.spec.stop || with_job)) {
        return alloc.create_index() < job.job_modify_index;
    }
    let is_wanted = !job.spec.stop && !is_dead && !alloc.desired_status().is_terminal();
    !is_wanted || !may_be_replaced(alloc, job, now)
}

/// Whether an allocation failed and may yet be tried elsewhere: it remembers how often it was.
fn may_be_replaced(alloc: AllocRef<'_>, job: &Job, now: Timestamp) -> bool {
    if alloc.client_status() != ClientStatus::Failed || alloc.extra().next.is_some() {
        return false;
    }
    let group = job.spec.group(alloc.group_name());
    let Some(policy) = group.and_then(|(_, group)| group.reschedule_policy.as_ref()) else { return false };
    if !policy.unlimited && policy.attempts == 0 {
        return false;
    }
    let last = alloc.extra().reschedule.as_ref().and_then(|tracker| tracker.events.last());
    policy.unlimited || last.is_none_or(|last| now - last.time <= policy.interval)
}

/// Whether an evaluation may go once no allocation of it is left.
pub(crate) fn eval_may_go(eval: &Evaluation, before: Timestamp) -> bool {
    eval.status.is_terminal() && eval.modify_time <= before
}

/// Whether a job may go with all its evaluations and allocations. A service that died but was not stopped stays.
pub(crate) fn job_may_go(state: &State, job: &Job, before: Timestamp) -> bool {
    let key = job.key();
    let is_dead = job.status == JobStatus::Dead;
    let is_over = match crate::judge::is_template(job) {
        true => job.spec.stop,
        false => is_dead && (job.spec.stop || is_done_once(job.spec.kind)),
    };
    is_over
        && job.submit_time <= before
        && state.job_versions(&key).all(|version| version.version_tag.is_none())
        && state.evals_of_job(&key).all(|eval| eval_may_go(eval, before))
        && state.allocs_of_job(&key).all(|alloc| alloc_may_go(state, alloc, before, before, true))
}

/// Whether a deployment may go once all its allocations have ended.
pub(crate) fn deployment_may_go(deployment: &Deployment, before: Timestamp) -> bool {
    deployment.status.is_terminal() && deployment.modify_time <= before
}

/// The deployments of a job of which some allocation has not ended.
pub(crate) fn deployments_in_use(state: &State, job: &JobKey) -> HashSet<DeploymentId> {
    let live = state.allocs_of_job(job).filter(|alloc| !alloc.is_terminal());
    live.filter_map(|alloc| alloc.deployment_id()).collect()
}

///
pub(crate) fn node_may_go(node: NodeRef<'_>, before: Timestamp) -> bool {
    let server = node.server();
    server.status == NodeStatus::Down
        && server.status_updated_at <= before
        && node.allocs().all(AllocRef::is_terminal)
}
