//! Jobs of which everything is as it should be, by far the most that evaluations look at: found out in one pass over their
//! allocations, without sorting any of them.

use model::eval::DesiredUpdates;
use model::job::Job;
use state::{NodePage, PAGE};

use crate::Attempt;
use crate::outcome::Learned;
use crate::reconcile::Rollout;

/// What there is to say of a job that needs nothing: as many allocations as the count in each group, all of this version,
/// none ended, moving or out of sight, all on nodes that are ready, and no deployment under way. `None`: look closely.
pub(crate) fn undisturbed(
    attempt: &Attempt<'_>,
    job: &Job,
    pages: &[&NodePage],
    rollout: &Rollout<'_>,
) -> Option<Learned> {
    let has_old_canaries =
        rollout.old.is_some_and(|old| old.groups.values().any(|group| !group.placed_canaries.is_empty()));
    if rollout.current.is_some() || rollout.has_news() || has_old_canaries {
        return None;
    }
    let is_ready = |slot: u32| pages[slot as usize / PAGE].ready >> (slot as usize % PAGE) & 1 != 0;
    let counts = attempt.state.settled_counts(job, is_ready)?;
    let mut learned = Learned::default();
    for (group, count) in job.spec.task_groups.iter().zip(counts) {
        if group.count != count {
            return None;
        }
        let updates = DesiredUpdates { ignore: count.into(), ..DesiredUpdates::default() };
        learned.annotations.desired_updates.insert(group.name.clone(), updates);
        learned.queued.insert(group.name.clone(), 0);
        learned.wanted.insert(group.name.clone(), 0);
    }
    Some(learned)
}
