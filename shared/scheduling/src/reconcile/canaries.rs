//! Canaries of a group: those that are no longer needed, those that exist, and those that are missing
//! (`docs/rules/scheduling.md` ).

use std::collections::BTreeSet;

use model::AllocId;
use model::deployment::{Deployment, DeploymentStatus};
use model::job::UpdateStrategy;
use state::AllocRef;

use super::classify::{Class, classify};
use super::rollout::{GroupEntry, Rollout};
use super::{Cause, Context, GroupPlan, Stop, WantedPlacement, number, reason};

/// A group's untainted canaries.
#[derive(Debug, Default)]
pub(super) struct Canaries<'a> {
    allocs: Vec<AllocRef<'a>>,
    ids: BTreeSet<AllocId>,
}

/// Stops unpromoted canaries of an old or failed deployment.
pub(super) fn stop_unneeded<'a>(
    base: &mut Vec<AllocRef<'a>>,
    rollout: &Rollout<'a>,
    plan: &mut GroupPlan<'a>,
) {
    let failed = rollout.current.as_ref().filter(|current| current.status == DeploymentStatus::Failed);
    let unpromoted = |deployment: &Deployment| {
        let groups = deployment.groups.values().filter(|group| !group.promoted);
        groups.flat_map(|group| group.placed_canaries.iter().copied()).collect::<Vec<_>>()
    };
    let unneeded: BTreeSet<AllocId> = rollout.old.into_iter().chain(failed).flat_map(unpromoted).collect();
    if unneeded.is_empty() {
        return;
    }
    base.retain(|alloc| {
        let goes = unneeded.contains(&alloc.id());
        if goes {
            plan.count_stop(Stop::of(*alloc, reason::NOT_NEEDED));
        }
        !goes
    });
}

impl<'a> Canaries<'a> {
    /// The untainted canaries of the current deployment. Migrating and lost canaries are stopped.
    pub(super) fn current(
        context: Context<'a>,
        base: &mut Vec<AllocRef<'a>>,
        rollout: &Rollout<'a>,
        plan: &mut GroupPlan<'a>,
    ) -> Self {
        let groups = rollout.current.iter().flat_map(|current| current.groups.values());
        let placed: BTreeSet<AllocId> =
            groups.flat_map(|group| group.placed_canaries.iter().copied()).collect();
        let mut canaries = Self::default();
        if placed.is_empty() {
            return canaries;
        }
        base.retain(|alloc| {
            if !placed.contains(&alloc.id()) {
                return true;
            }
            match classify(context, *alloc) {
                Class::Migrating => plan.stop(Stop::of(*alloc, reason::MIGRATING)),
                Class::Lost => plan.stop(Stop::lost(*alloc)),
                Class::Untainted => {
                    canaries.ids.insert(alloc.id());
                    canaries.allocs.push(*alloc);
                    return true;
                }
                Class::Ignored | Class::Disconnecting | Class::Reconnecting | Class::Expiring => return true,
            }
            false
        });
        canaries
    }

    pub(super) fn has(&self, alloc: AllocRef<'_>) -> bool {
        !self.ids.is_empty() && self.ids.contains(&alloc.id())
    }

    /// Whether a canary has the same name as an allocation.
    pub(super) fn has_name(&self, alloc: AllocRef<'_>) -> bool {
        self.allocs.iter().any(|canary| canary.name_index() == alloc.name_index())
    }

    /// Adds placements of missing canaries. Returns whether canaries are needed.
    pub(super) fn place(
        &self,
        update: Option<&UpdateStrategy>,
        entry: &mut GroupEntry,
        rollout: &Rollout<'a>,
        plan: &mut GroupPlan<'a>,
    ) -> bool {
        let desired = update.map_or(0, |update| update.canary);
        let missing = (desired as usize).saturating_sub(self.allocs.len());
        if plan.destructive.is_empty() || missing == 0 || entry.group.promoted {
            return false;
        }
        entry.group.desired_canaries = desired;
        if !rollout.is_paused() && !rollout.has_failed() {
            plan.updates.canary += missing as u64;
            let [existing, replaced] = [&self.allocs, &plan.destructive]
                .map(|allocs| allocs.iter().copied().map(number).collect::<BTreeSet<u32>>());
            for name in plan.names.next_canaries(missing, &existing, &replaced) {
                let cause = Cause::Missing;
                plan.placements.push(WantedPlacement {
                    name,
                    previous: None,
                    cause,
                    is_canary: true,
                    downgrade: None,
                });
            }
        }
        true
    }
}
