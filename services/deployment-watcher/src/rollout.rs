//! Decides the next step of one deployment, and when its progress deadline ends (N-14.3 to N-14.7). Pure.

use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, Evaluation};
use model::{AllocId, Index, Nanos, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, DeploymentHealth, Rollout, State};
use wire::command::DeploymentStep;

/// The maximum number of allocations in one finding, which bounds the size of a command. The next check finds the rest.
const ALLOCS_MAX: usize = 1_000;

/// The result of checking a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assessment {
    /// The step that the deployment needs now, if any.
    pub(crate) step: Option<DeploymentStep>,
    /// The earliest time by which a group must make progress, if nothing changes until then.
    pub(crate) deadline: Option<Timestamp>,
}

/// The health of a deployment's allocations.
#[derive(Default)]
struct Health {
    /// The healthy allocations that are not terminal.
    healthy: DeploymentHealth,
    /// The newest index at which an allocation became healthy.
    healthy_at: Index,
    /// Unhealthy allocations that may not be replaced.
    irreplaceable: Vec<AllocId>,
    /// Unhealthy allocations that may be replaced and are not yet marked for rescheduling.
    replaceable: Vec<AllocId>,
}

/// Checks a deployment. A terminal deployment needs no step and has no deadline.
pub(crate) fn assess(state: &State, deployment: &Deployment, now: Timestamp) -> Assessment {
    if deployment.status.is_terminal() {
        return Assessment::default();
    }
    let health = health(state, deployment, now);
    let deadline = deadline(deployment, &health);
    let missed_deadline = deadline.filter(|deadline| *deadline <= now);
    let Health { healthy, healthy_at, irreplaceable, replaceable } = health;
    let step = if !irreplaceable.is_empty() {
        Some(DeploymentStep::FailUnhealthy { allocs: irreplaceable })
    } else if let Some(progress_by) = missed_deadline {
        Some(DeploymentStep::FailLate { progress_by })
    } else if !replaceable.is_empty() {
        Some(DeploymentStep::Replace { allocs: replaceable })
    } else if healthy.promotes_itself(deployment) && !is_planted(Bug::NeverPromotes) {
        Some(DeploymentStep::Promote)
    } else {
        let is_unseen = healthy_at > seen_by_scheduler(state, deployment);
        (is_unseen && state.rollout(deployment) != Rollout::Waiting).then_some(DeploymentStep::Advance)
    };
    Assessment { step, deadline }
}

/// Sums up the health of the deployment's allocations. An unhealthy allocation that may not be replaced fails the
/// deployment (N-14.6).
fn health(state: &State, deployment: &Deployment, now: Timestamp) -> Health {
    let mut health = Health::default();
    for alloc in state.allocs_of_job(&deployment.job.job) {
        if alloc.deployment_id() != Some(deployment.id) {
            continue;
        }
        let Some(group) = deployment.groups.get(alloc.group_name()) else { continue };
        let Some(verdict) = alloc.health() else { continue };
        health.healthy.add(alloc);
        match verdict.healthy {
            Some(true) => health.healthy_at = health.healthy_at.max(verdict.modify_index),
            Some(false) if !may_be_replaced(alloc, group, now) => health.irreplaceable.push(alloc.id()),
            Some(false) if alloc.transition().reschedule != Some(true) => health.replaceable.push(alloc.id()),
            Some(false) | None => {}
        }
    }
    for allocs in [&mut health.irreplaceable, &mut health.replaceable] {
        allocs.sort_unstable();
        allocs.truncate(ALLOCS_MAX);
    }
    health
}

/// Whether an unhealthy allocation may be replaced within the deployment.
fn may_be_replaced(alloc: AllocRef<'_>, group: &DeploymentGroup, now: Timestamp) -> bool {
    let policy = alloc.group().and_then(|group| group.reschedule_policy.as_ref());
    // Without a progress deadline nothing else would end the deployment.
    group.progress_deadline > Nanos::ZERO
        && policy.is_some_and(|policy| policy.has_attempts_left(alloc.extra().reschedule.as_deref(), now))
}

/// The earliest progress deadline of the groups that are not done (N-14.3). There is none while the deployment is paused. A
/// group that waits for promotion is done when its canaries are healthy.
fn deadline(deployment: &Deployment, health: &Health) -> Option<Timestamp> {
    if deployment.status == DeploymentStatus::Paused {
        return None;
    }
    let is_done = |(name, group): &(&Text, &DeploymentGroup)| health.healthy.is_enough(name, group);
    let unfinished = deployment.groups.iter().filter(|group| !is_done(group));
    unfinished.map(|(_, group)| group.require_progress_by).filter(|deadline| deadline.is_set()).min()
}

/// The index up to which the scheduler has seen the job, or will have seen it. An evaluation counts with its snapshot
/// index. A pending evaluation that is not delayed counts with its own modify index if that is newer. A cancelled
/// evaluation does not count.
fn seen_by_scheduler(state: &State, deployment: &Deployment) -> Index {
    let seen_by_scheduler = |eval: &Evaluation| match eval.status {
        EvalStatus::Canceled => Index::ZERO,
        EvalStatus::Pending if !eval.wait_until.is_set() && eval.wait == Nanos::ZERO => {
            eval.snapshot_index.max(eval.modify_index)
        }
        EvalStatus::Pending | EvalStatus::Blocked | EvalStatus::Complete | EvalStatus::Failed => {
            eval.snapshot_index
        }
    };
    let evals = state.evals_of_job(&deployment.job.job);
    evals.map(|eval| seen_by_scheduler(eval)).max().unwrap_or_default()
}
