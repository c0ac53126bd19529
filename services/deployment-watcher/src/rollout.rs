//! One deployment at one moment: what is to come of it, and by when something must (N-14.3 to N-14.6). Pure.

use std::collections::BTreeMap;

use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, Evaluation};
use model::{AllocId, Index, Nanos, Text, Timestamp};
use state::{AllocRef, Rollout, State};
use wire::command::DeploymentStep;

/// The most allocations that one finding names, so that a command stays small. Others are found by the next look.
const ALLOCS_MAX: usize = 1_000;

/// What a look at a deployment shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// What should come of it now.
    pub(crate) step: Option<DeploymentStep>,
    /// The moment by which there must be progress, if it goes on as it is.
    pub(crate) deadline: Option<Timestamp>,
}

/// What its allocations add up to.
#[derive(Default)]
struct Health {
    /// By group, how many are healthy and have not ended.
    healthy: BTreeMap<Text, u32>,
    /// The newest index at which one became healthy.
    healthy_at: Index,
    /// Unhealthy, and nothing may replace them.
    hopeless: Vec<AllocId>,
    /// Unhealthy, to be replaced, and not marked for it yet.
    replaceable: Vec<AllocId>,
}

/// Looks at a deployment. Of one that is over nothing is to come.
pub(crate) fn look(state: &State, deployment: &Deployment, now: Timestamp) -> Look {
    if deployment.status.is_terminal() {
        return Look::default();
    }
    let health = health(state, deployment, now);
    let deadline = deadline(deployment, &health);
    let is_late = deadline.filter(|deadline| *deadline <= now);
    let Health { healthy_at, hopeless, replaceable, .. } = health;
    let step = if !hopeless.is_empty() {
        Some(DeploymentStep::FailUnhealthy { allocs: hopeless })
    } else if let Some(progress_by) = is_late {
        Some(DeploymentStep::FailLate { progress_by })
    } else if !replaceable.is_empty() {
        Some(DeploymentStep::Replace { allocs: replaceable })
    } else {
        let has_news = healthy_at > looked_at(state, deployment);
        (has_news && state.rollout(deployment) != Rollout::Waiting).then_some(DeploymentStep::Advance)
    };
    Look { step, deadline }
}

/// N-14.6.
fn health(state: &State, deployment: &Deployment, now: Timestamp) -> Health {
    let mut found = Health::default();
    for alloc in state.allocs_of_job(&deployment.job.job) {
        if alloc.deployment_id() != Some(deployment.id) {
            continue;
        }
        let Some(group) = deployment.groups.get(alloc.group_name()) else { continue };
        let Some(verdict) = alloc.health() else { continue };
        match verdict.healthy {
            Some(true) => {
                found.healthy_at = found.healthy_at.max(verdict.modify_index);
                if !alloc.is_terminal() {
                    *found.healthy.entry(Text::clone(alloc.group_name())).or_default() += 1;
                }
            }
            Some(false) if !may_be_replaced(alloc, group, now) => found.hopeless.push(alloc.id()),
            Some(false) if alloc.transition().reschedule != Some(true) => found.replaceable.push(alloc.id()),
            Some(false) | None => {}
        }
    }
    for allocs in [&mut found.hopeless, &mut found.replaceable] {
        allocs.sort_unstable();
        allocs.truncate(ALLOCS_MAX);
    }
    found
}

/// Whether another allocation may be tried in the place of an unhealthy one.
fn may_be_replaced(alloc: AllocRef<'_>, group: &DeploymentGroup, now: Timestamp) -> bool {
    let policy = alloc.group().and_then(|group| group.reschedule_policy.as_ref());
    // Without a deadline nothing else would end it.
    group.progress_deadline > Nanos::ZERO
        && policy.is_some_and(|policy| policy.has_attempts_left(alloc.extra().reschedule.as_deref(), now))
}

/// The earliest moment by which a group that is not done must make progress (N-14.3). While a deployment rests, or waits
/// for its canaries to be promoted, no time is counted.
fn deadline(deployment: &Deployment, health: &Health) -> Option<Timestamp> {
    if deployment.status == DeploymentStatus::Paused {
        return None;
    }
    let is_done = |(name, group): &(&Text, &DeploymentGroup)| {
        let healthy = health.healthy.get(*name).copied().unwrap_or(0);
        let waits_for_promotion = group.desired_canaries > 0 && !group.promoted;
        healthy >= if waits_for_promotion { group.desired_canaries } else { group.desired_total }
    };
    let late = deployment.groups.iter().filter(|group| !is_done(group));
    late.map(|(_, group)| group.require_progress_by).filter(|by| by.is_set()).min()
}

/// The index up to which schedulers have seen the job, or will: that of the newest snapshot that was looked at, and of an
/// evaluation that waits for a worker its own.
fn looked_at(state: &State, deployment: &Deployment) -> Index {
    let looked_at = |eval: &Evaluation| match eval.status {
        EvalStatus::Canceled => Index::ZERO,
        EvalStatus::Pending if !eval.wait_until.is_set() && eval.wait == Nanos::ZERO => {
            eval.snapshot_index.max(eval.modify_index)
        }
        EvalStatus::Pending | EvalStatus::Blocked | EvalStatus::Complete | EvalStatus::Failed => {
            eval.snapshot_index
        }
    };
    let evals = state.evals_of_job(&deployment.job.job);
    evals.map(|eval| looked_at(eval)).max().unwrap_or_default()
}
