//! [`Counts`]: candidate nodes, replaced allocations and canaries of each group of a system job. A share of the nodes gets
//! a new version first, on canaries (`docs/rules/scheduling.md` ).

use super::Target;
use super::in_place::Split;
use super::nodes::Diff;
use super::placing::PlacingResult;
use crate::reconcile::Rollout;

/// Counts of one group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    /// Nodes on which the group runs or can run.
    pub(super) candidates: u64,
    /// Allocations that have to be replaced, without those whose node cannot take the replacement.
    pub(super) destructive: u64,
    /// Running canaries.
    pub(super) canaries: u64,
    /// Desired number of canaries; 0 unless canaries are being tried.
    pub(super) desired_canaries: u32,
}

/// By group index.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) groups: Vec<Count>,
}

impl Counts {
    pub(super) fn of(
        target: Target<'_>,
        diff: &Diff<'_>,
        split: &Split<'_>,
        placed: &PlacingResult<'_>,
        rollout: &Rollout<'_>,
    ) -> Self {
        let mut groups = vec![Count::default(); target.job.spec.task_groups.len()];
        diff.missing.iter().for_each(|gap| groups[gap.group].candidates += 1);
        split.groups().for_each(|group| groups[group].candidates += 1);
        split.destructive.iter().for_each(|update| groups[update.group].destructive += 1);
        for ignored in &diff.ignored {
            groups[ignored.group].candidates += 1;
            let is_canary = ignored.alloc.health().is_some_and(|health| health.canary);
            groups[ignored.group].canaries += u64::from(is_canary);
        }
        for failure in &placed.failures {
            let group = &mut groups[failure.group];
            group.candidates = group.candidates.saturating_sub(1);
            group.destructive = group.destructive.saturating_sub(u64::from(failure.is_update));
        }
        for (index, group) in groups.iter_mut().enumerate() {
            group.desired_canaries = desired_canaries(target, index, *group, rollout);
        }
        Self { groups }
    }
    /// Number of canaries of a group, including new ones.
    pub(super) fn canaries(&self, group: usize, placed: &PlacingResult<'_>) -> u64 {
        let count = &self.groups[group];
        if count.desired_canaries > 0 { count.canaries + placed.new_canaries(group) } else { 0 }
    }
}

/// Desired number of canaries of a group; 0 unless canaries are being tried.
fn desired_canaries(target: Target<'_>, group: usize, count: Count, rollout: &Rollout<'_>) -> u32 {
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
