//! Fast path for jobs that need no change, which is most of them: one pass over the job's allocations, without sorting
//! them.

use model::eval::DesiredUpdates;
use model::job::Job;
use state::{NodePage, PAGE};

use crate::Attempt;
use crate::outcome::Findings;
use crate::reconcile::Rollout;

/// The findings for a job that needs no change: each group has as many allocations as its count, all are of the current
/// version and on ready nodes, none has ended, migrates or is disconnected, and no deployment is active. `None` if the
/// job needs the full reconciliation.
pub(crate) fn steady_state(
    attempt: &Attempt<'_>,
    job: &Job,
    pages: &[&NodePage],
    rollout: &Rollout<'_>,
) -> Option<Findings> {
    let has_old_canaries =
        rollout.old.is_some_and(|old| old.groups.values().any(|group| !group.placed_canaries.is_empty()));
    if rollout.current.is_some() || rollout.has_changes() || has_old_canaries {
        return None;
    }
    let is_ready = |slot: u32| pages[slot as usize / PAGE].ready >> (slot as usize % PAGE) & 1 != 0;
    let counts = attempt.state.steady_counts(job, is_ready)?;
    let mut findings = Findings::default();
    for (group, count) in job.spec.task_groups.iter().zip(counts) {
        if group.count != count {
            return None;
        }
        let updates = DesiredUpdates { ignore: count.into(), ..DesiredUpdates::default() };
        findings.annotations.desired_updates.insert(group.name.clone(), updates);
        findings.queued.insert(group.name.clone(), 0);
        findings.requested.insert(group.name.clone(), 0);
    }
    Some(findings)
}
