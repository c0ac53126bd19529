//! Selects what is placed now: what is missing, and as many updates as are allowed at once (`docs/rules/scheduling.md`
//! to ).

use std::collections::BTreeSet;

use model::AllocId;
use state::AllocRef;

use super::Target;
use super::in_place::Split;
use super::nodes::Diff;
use crate::reconcile::{Rollout, number};

/// An allocation to place on a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intent<'a> {
    pub(super) group: usize,
    pub(super) slot: u32,
    pub(super) index: u32,
    pub(super) previous: Option<AllocRef<'a>>,
    /// Whether it replaces its predecessor, which stops.
    pub(super) is_update: bool,
    /// Whether it may be a canary.
    pub(super) is_canary: bool,
}

impl Intent<'_> {
    /// Whether it replaces a canary of the deployment that has failed.
    pub(super) fn renews_canary(&self, rollout: &Rollout<'_>) -> bool {
        let is_canary = |alloc: &AllocRef<'_>| alloc.health().is_some_and(|health| health.canary);
        !self.is_update && self.previous.is_some_and(|alloc| is_canary(&alloc) && rollout.has(alloc))
    }

    /// Whether it is an update of one of these allocations.
    pub(super) fn is_among(&self, withheld: &BTreeSet<AllocId>) -> bool {
        self.is_update && self.previous.is_some_and(|alloc| withheld.contains(&alloc.id()))
    }
}

/// The intents: what is missing, and then the updates. The resources that updates free count from the beginning,
/// because all updated allocations stop before anything is placed.
pub(super) fn of<'a>(
    target: Target<'a>,
    diff: &Diff<'a>,
    split: &Split<'a>,
    rollout: &Rollout<'_>,
) -> Vec<Intent<'a>> {
    let mut limits: Vec<usize> = (0..target.job.spec.task_groups.len())
        .map(|group| limit(target, group, diff, split, rollout))
        .collect();
    let missing = diff.missing.iter().map(|gap| Intent {
        group: gap.group,
        slot: gap.slot,
        index: gap.index,
        previous: gap.previous,
        is_update: false,
        is_canary: false,
    });
    let mut intents: Vec<Intent<'a>> = missing.collect();
    for update in &split.destructive {
        let limit = &mut limits[update.group];
        if *limit == 0 {
            continue;
        }
        let is_canary = may_be_canary(target, update.group, rollout);
        if !is_canary {
            *limit -= 1;
        }
        intents.push(Intent {
            group: update.group,
            slot: update.alloc.node_slot(),
            index: number(update.alloc),
            previous: Some(update.alloc),
            is_update: true,
            is_canary,
        });
    }
    intents
}

/// Number of allocations of a group that may be replaced now.
fn limit<'a>(
    target: Target<'a>,
    group: usize,
    diff: &Diff<'a>,
    split: &Split<'a>,
    rollout: &Rollout<'_>,
) -> usize {
    let spec = &target.job.spec;
    let of_group = spec.task_groups[group].update.as_ref().map_or(0, |update| update.max_parallel);
    let max_parallel = if of_group > 0 { of_group } else { spec.update.max_parallel } as usize;
    if max_parallel == 0 || !target.attempt.rollouts {
        return split.destructive.len();
    }
    let is_open = |alloc: AllocRef<'_>| alloc.health().and_then(|health| health.healthy).is_none();
    let open = diff
        .ignored
        .iter()
        .filter(|ignored| ignored.group == group && rollout.has(ignored.alloc) && is_open(ignored.alloc));
    max_parallel.saturating_sub(open.count())
}

/// Whether updates of a group are canaries (R-8.9, branch 9).
fn may_be_canary(target: Target<'_>, group: usize, rollout: &Rollout<'_>) -> bool {
    let name = &target.job.spec.task_groups[group].name;
    let is_open = match &rollout.current {
        None => true,
        Some(current) => current.groups.get(name).is_some_and(|entry| !entry.promoted),
    };
    is_open && target.update(group).is_some_and(|update| update.canary > 0)
}
