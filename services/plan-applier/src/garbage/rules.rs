//! The rules for garbage. Pure. The search and the command that deletes garbage apply the same rules.

use std::collections::HashSet;

use model::alloc::ClientStatus;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobStatus, JobType};
use model::node::NodeStatus;
use model::{DeploymentId, JobKey, Timestamp};
use state::{AllocRef, NodeRef, State};

/// Whether jobs of this type run to completion. Deleting their completed allocations would run them again.
pub(crate) fn runs_to_completion(kind: JobType) -> bool {
    matches!(kind, JobType::Batch | JobType::SysBatch)
}

/// Whether an allocation may be deleted. For jobs that run to completion, unless the job is over, only
/// allocations of older versions may be deleted. `with_job` means that the job itself is deleted next if it is
/// over.
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
    if runs_to_completion(job.spec.kind) && !(is_dead && (job.spec.stop || with_job)) {
        return alloc.create_index() < job.job_modify_index;
    }
    let is_wanted = !job.spec.stop && !is_dead && !alloc.desired_status().is_terminal();
    !is_wanted || !may_be_replaced(alloc, job, now)
}

/// Whether a failed allocation may still be rescheduled: it contains the count of its attempts.
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

/// Whether an evaluation may be deleted once it has no allocations left.
pub(crate) fn eval_may_go(eval: &Evaluation, before: Timestamp) -> bool {
    eval.status.is_terminal() && eval.modify_time <= before
}

/// Whether a job may be deleted with all its evaluations and allocations. A dead service that was not stopped is
/// kept.
pub(crate) fn job_may_go(state: &State, job: &Job, before: Timestamp) -> bool {
    let key = job.key();
    let is_dead = job.status == JobStatus::Dead;
    let is_over = match job.spec.template() {
        Some(_) => job.spec.stop,
        None => is_dead && (job.spec.stop || runs_to_completion(job.spec.kind)),
    };
    is_over
        && job.submit_time <= before
        && state.job_versions(&key).all(|version| version.version_tag.is_none())
        && state.evals_of_job(&key).all(|eval| eval_may_go(eval, before))
        && state.allocs_of_job(&key).all(|alloc| alloc_may_go(state, alloc, before, before, true))
}

/// Whether a deployment may be deleted once all its allocations are terminal.
pub(crate) fn deployment_may_go(deployment: &Deployment, before: Timestamp) -> bool {
    deployment.status.is_terminal() && deployment.modify_time <= before
}

/// The deployments of a job with an allocation that is not terminal.
pub(crate) fn deployments_in_use(state: &State, job: &JobKey) -> HashSet<DeploymentId> {
    let live = state.allocs_of_job(job).filter(|alloc| !alloc.is_terminal());
    live.filter_map(|alloc| alloc.deployment_id()).collect()
}

/// Whether a node may be deleted: it is down, and all its allocations are terminal.
pub(crate) fn node_may_go(node: NodeRef<'_>, before: Timestamp) -> bool {
    let server = node.server();
    server.status == NodeStatus::Down
        && server.status_updated_at <= before
        && node.allocs().all(AllocRef::is_terminal)
}
