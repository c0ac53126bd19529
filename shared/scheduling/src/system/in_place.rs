//! Decides which outdated or reconnecting allocations can be updated in place (`docs/rules/scheduling.md` ).

use std::sync::Arc;

use model::AllocId;
use model::alloc::AllocCommon;
use model::plan::{Plan, Update, Updates};
use state::AllocRef;

use super::Target;
use super::nodes::{Diff, OfGroup};
use super::placer::SystemPlacer;
use crate::draft::in_place_updates;
use crate::place::common_share;
use crate::reconcile::{Rollout, needs_restart};

/// Outdated and reconnecting allocations by how they are updated.
#[derive(Debug, Default)]
pub(super) struct Split<'a> {
    pub(super) in_place: Vec<OfGroup<'a>>,
    /// Terminal allocations of a sysbatch job. They count as updated in place, but are not written.
    pub(super) ended: Vec<OfGroup<'a>>,
    pub(super) destructive: Vec<OfGroup<'a>>,
}

impl Split<'_> {
    /// The group of each update.
    pub(super) fn groups(&self) -> impl Iterator<Item = usize> {
        self.counted_in_place().chain(self.destructive.iter().map(|update| update.group))
    }

    /// The group of each allocation that the annotations count as updated in place.
    pub(super) fn counted_in_place(&self) -> impl Iterator<Item = usize> {
        self.in_place.iter().chain(&self.ended).map(|update| update.group)
    }
}

/// Splits outdated and reconnecting allocations into in-place and destructive updates.
pub(super) fn split<'a>(target: Target<'a>, diff: &Diff<'a>, placer: &mut SystemPlacer<'a>) -> Split<'a> {
    let mut split = Split::default();
    // Allocations with the same common share run the same version, so they are compared once.
    let mut last: Option<(*const AllocCommon, bool)> = None;
    for update in diff.outdated.iter().chain(&diff.reconnecting).copied() {
        let share = Arc::as_ptr(update.alloc.common());
        let restarts = match last {
            Some((of, restarts)) if of == share => restarts,
            Some(_) | None => restarts(target, update),
        };
        last = Some((share, restarts));
        if restarts {
            split.destructive.push(update);
        } else if update.alloc.is_terminal() {
            split.ended.push(update);
        } else if update.alloc.node().is_some_and(|node| target.base.covers(node)) && placer.fits(update) {
            split.in_place.push(update);
        } else {
            split.destructive.push(update);
        }
    }
    split
}

fn restarts(target: Target<'_>, update: OfGroup<'_>) -> bool {
    let group = &target.job.spec.task_groups[update.group];
    let old = update.alloc.job();
    !target.is_up_to_date(update.alloc)
        && update
            .alloc
            .group()
            .is_none_or(|before| needs_restart((&old.spec, before), (&target.job.spec, group)))
}

/// Adds in-place updates, disconnects and reconnects to the plan.
pub(super) fn write<'a>(
    target: Target<'a>,
    diff: &Diff<'a>,
    split: &Split<'a>,
    rollout: &Rollout<'_>,
    plan: &mut Plan,
) {
    let Target { attempt, job, .. } = target;
    let deployment = rollout.current.as_ref().map(|current| current.id);
    for (group_index, group) in job.spec.task_groups.iter().enumerate() {
        let moves = |update: &&OfGroup<'a>| {
            update.group == group_index
                && (!target.is_current(update.alloc) || update.alloc.deployment_id() != deployment)
        };
        let allocs: Vec<AllocRef<'a>> =
            split.in_place.iter().filter(moves).map(|update| update.alloc).collect();
        if !allocs.is_empty() {
            let share = common_share(attempt.state, &job.spec, group);
            in_place_updates(plan, attempt.eval, job, &share, deployment, &allocs);
        }
    }
    let mut push = |ids: Vec<AllocId>, change: Update| {
        if !ids.is_empty() {
            plan.updates.push(Updates { ids: ids.into_iter().collect(), change });
        }
    };
    let unknown = diff.disconnecting.iter().map(|gone| gone.alloc.id()).collect();
    push(unknown, Update::Unknown { followup_eval: None });
    let stays =
        |back: &&OfGroup<'a>| split.in_place.iter().any(|update| update.alloc.id() == back.alloc.id());
    let back = diff.reconnecting.iter().filter(stays).map(|back| back.alloc.id()).collect();
    push(back, Update::Reconnect);
}
