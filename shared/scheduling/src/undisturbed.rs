//! Jobs of which everything is as it should be, by far the most that evaluations look at: found out in one pass over their
//! allocations, without sorting any of them.

use model::eval::DesiredUpdates;
use model::job::{Job, JobType};
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
    let groups = &job.spec.task_groups;
    let mut counts = vec![0u32; groups.len()];
    // Neighbours mostly share their common part, and with it version and group.
    let mut last: Option<(*const model::alloc::AllocCommon, usize)> = None;
    let is_batch = job.spec.kind == JobType::Batch;
    for alloc in attempt.state.allocs_of_job(&attempt.eval.job) {
        let slot = alloc.node_slot() as usize;
        let is_well = alloc.is_undisturbed() && pages[slot / PAGE].ready >> (slot % PAGE) & 1 != 0;
        if !is_well {
            let is_over = alloc.desired_status().is_terminal() && alloc.client_status().is_terminal();
            if is_over && !is_batch && alloc.extra().states.is_empty() {
                continue;
            }
            return None;
        }
        let common = std::sync::Arc::as_ptr(alloc.common());
        let group = match last {
            Some((of, group)) if of == common => group,
            Some(_) | None => {
                if alloc.job().job_modify_index != job.job_modify_index {
                    return None;
                }
                groups.iter().position(|group| group.name == *alloc.group_name())?
            }
        };
        last = Some((common, group));
        counts[group] += 1;
    }
    let mut learned = Learned::default();
    for (group, count) in groups.iter().zip(counts) {
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
