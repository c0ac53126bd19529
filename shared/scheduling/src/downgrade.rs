//! Chooses the older job version that replaces failed, lost or migrating allocations while canaries are tried
//! (`docs/rules/scheduling.md` ).

use std::sync::Arc;

use model::job::{Job, TaskGroup};
use model::{DeploymentId, Index, JobVersionKey};
use state::State;

use crate::reconcile::pacing;

/// The last stable version of a group, not older than `at_least`, and the deployment of that version. `None` if there
/// is no such version; then the job's current version is placed.
pub(crate) fn last_stable<'a>(
    state: &'a State,
    job: &Job,
    group: &TaskGroup,
    at_least: u64,
) -> Option<(&'a Job, Option<DeploymentId>)> {
    let of_instance: Index = job.create_index;
    let version = |version| {
        let key = JobVersionKey { version, ..job.version_key() };
        state.job_version(&key).map(Arc::as_ref)
    };
    let mut deployments: Vec<_> = state.deployments_of_job(&job.key()).collect();
    deployments.retain(|deployment| deployment.job.create_index == of_instance);
    deployments.sort_by_key(|deployment| std::cmp::Reverse(deployment.job.version));
    let promoted = deployments.into_iter().find(|deployment| {
        let entry = deployment.groups.get(&group.name);
        entry.is_some_and(|entry| entry.promoted || entry.desired_canaries == 0)
    });
    let found = match promoted {
        Some(deployment) => version(deployment.job.version).map(|job| (job, Some(deployment.id))),
        None => version(at_least)
            .filter(|job| {
                let group = job.spec.group(&group.name);
                group.is_none_or(|(_, group)| pacing(group.update.as_ref()).is_none())
            })
            .map(|job| (job, None)),
    };
    found.filter(|(job, _)| job.version >= at_least && job.spec.group(&group.name).is_some())
}
