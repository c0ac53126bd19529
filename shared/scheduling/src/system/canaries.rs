//! Canaries of a system job: a share of the nodes gets the new version first (`docs/rules/scheduling.md` ).

use std::collections::BTreeSet;

use model::AllocId;

use super::Target;
use super::intents::Intent;
use super::placing::PlacingResult;
use super::rollout::{Count, Counts};
use crate::reconcile::Rollout;

/// Desired number of canaries of a group; 0 unless canaries are being tried.
pub(super) fn desired(target: Target<'_>, group: usize, count: Count, rollout: &Rollout<'_>) -> u32 {
    let Some(update) = target.update(group).filter(|update| update.canary > 0) else { return 0 };
    let name = &target.job.spec.task_groups[group].name;
    let entry = rollout.current.as_ref().and_then(|current| current.groups.get(name));
    let is_promoted = entry.is_none_or(|entry| entry.promoted);
    if is_promoted || target.job.version == 0 || count.destructive == 0 {
        return 0;
    }
    let share = (u64::from(update.canary) * (count.destructive + count.canaries)).div_ceil(100);
    u32::try_from(share).unwrap_or(u32::MAX).min(update.max_parallel)
}

/// Allocations whose replacement is withheld for now: all replaceable ones except those that canaries replace.
pub(super) fn withheld(
    intents: &[Intent<'_>],
    placed: &PlacingResult<'_>,
    counts: &Counts,
) -> BTreeSet<AllocId> {
    let mut withheld = BTreeSet::new();
    for (group, count) in counts.groups.iter().enumerate().filter(|(_, count)| count.desired_canaries > 0) {
        let mut open = u64::from(count.desired_canaries).saturating_sub(count.canaries);
        for intent in intents.iter().filter(|intent| intent.group == group && intent.is_canary) {
            let Some(alloc) = intent.previous.filter(|alloc| placed.has_replaced(alloc.id())) else {
                continue;
            };
            if open > 0 {
                open -= 1;
            } else {
                withheld.insert(alloc.id());
            }
        }
    }
    withheld
}
