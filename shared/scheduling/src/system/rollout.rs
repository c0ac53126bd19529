//! The deployment of a system job (`docs/rules/scheduling.md` §8.5).

use model::deployment::{DeploymentGroup, DeploymentStatus};
use model::job::JobType;

use super::Target;
use super::counts::Counts;
use super::nodes::Diff;
use crate::NewId;
use crate::columns::bits;
use crate::reconcile::{Rollout, new_entry};
use state::PAGE;

/// The lowest agent version that supports deployments of system jobs.
const VERSION_MIN: [u64; 3] = [1, 11, 0];

/// Creates the deployment, or adds groups to it.
pub(super) fn begin<'a>(target: Target<'a>, diff: &Diff<'a>, rollout: &mut Rollout<'_>, new_id: NewId<'_>) {
    let job = target.job;
    let is_done = rollout.old.is_some_and(|old| old.job == job.version_key());
    let is_new = rollout.current.is_none();
    let may_begin = job.spec.kind == JobType::System
        && !is_done
        && !rollout.is_paused()
        && !rollout.has_failed()
        && !(is_new && (diff.already_running || has_old_node(target)));
    if !may_begin {
        return;
    }
    for group in &diff.to_attach {
        let entry = new_entry(target.update(*group));
        rollout.attach_to_system(target.attempt, job, &job.spec.task_groups[*group], entry, new_id);
    }
}

/// Whether some node's agent is too old for a deployment. An agent that does not report its version is not.
fn has_old_node(target: Target<'_>) -> bool {
    let words = target.base.words.iter().enumerate();
    let mut slots = words.flat_map(|(page, word)| bits(*word).map(move |bit| (page * PAGE + bit) as u32));
    slots.any(|slot| {
        let node = target.attempt.state.node_at(slot).expect("the base set contains existing nodes only");
        let version = node.spec().attributes.get("nomad.version").and_then(|text| release(text));
        version.is_some_and(|version| version < VERSION_MIN)
    })
}

/// The numeric part of a version such as `1.11.0-beta.1`.
fn release(version: &str) -> Option<[u64; 3]> {
    let numbers = version.split(['-', '+']).next()?.trim_start_matches('v');
    let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
    let major = parts.next()??;
    let mut next = || parts.next().flatten().unwrap_or(0);
    Some([major, next(), next()])
}

/// Updates the deployment's totals and status.
pub(super) fn update_deployment(target: Target<'_>, counts: &Counts, rollout: &mut Rollout<'_>) {
    let Some(current) = rollout.reopen(target.job) else { return };
    let (mut is_complete, mut is_empty) = (true, true);
    for (group, count) in target.job.spec.task_groups.iter().zip(&counts.groups) {
        let Some(entry) = current.groups.get_mut(&group.name) else { continue };
        if count.desired_canaries > 0 {
            entry.desired_canaries = count.desired_canaries;
        }
        if count.candidates > 0 {
            entry.desired_total = u32::try_from(count.candidates).unwrap_or(u32::MAX);
            is_empty = false;
        }
        is_complete &= count.desired_canaries == 0 && is_healthy(entry);
    }
    if is_empty && current.status == DeploymentStatus::Successful {
        rollout.forget();
    } else {
        rollout.conclude_system(target.job, is_complete);
    }
}

fn is_healthy(entry: &DeploymentGroup) -> bool {
    entry.healthy_allocs >= entry.desired_total
}
