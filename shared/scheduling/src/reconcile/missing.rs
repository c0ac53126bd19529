//! Determines what has to be placed: successors of failed, lost and migrating allocations, and new allocations up to
//! the count (`docs/rules/scheduling.md` ).

use model::alloc::ClientStatus;
use state::AllocRef;

use super::classify::is_canary;
use super::rollout::{GroupEntry, Rollout};
use super::sets::{Sets, is_migrating};
use super::{Cause, GroupPlan, Stop, WantedPlacement, number, reason};

impl<'a> Sets<'a> {
    /// The placements that the group needs, without those for migrating allocations.
    pub(super) fn missing(
        &self,
        count: usize,
        entry: &GroupEntry,
        plan: &mut GroupPlan<'a>,
    ) -> Vec<WantedPlacement<'a>> {
        let mut missing = Vec::new();
        let mut existing = self.untainted.len() + self.migrating.len();
        for alloc in &self.now {
            missing.push(successor(*alloc, Cause::Reschedule, entry));
            existing += usize::from(!is_migrating(*alloc));
        }
        for alloc in &self.lost {
            if existing < count && !self.has_replacement(*alloc) {
                missing.push(WantedPlacement { is_canary: false, ..successor(*alloc, Cause::Lost, entry) });
                existing += 1;
            }
        }
        let downgrade = entry.is_canarying().then_some(0);
        for _ in existing..count {
            let name = plan.names.next();
            let cause = Cause::Missing;
            missing.push(WantedPlacement { name, previous: None, cause, is_canary: false, downgrade });
        }
        missing
    }

    /// Adds those of the missing placements that are allowed now to the plan.
    pub(super) fn emit(
        &self,
        mut missing: Vec<WantedPlacement<'a>>,
        is_ready: bool,
        rollout: &Rollout<'a>,
        plan: &mut GroupPlan<'a>,
    ) {
        if !is_ready {
            let is_of_failed = |alloc: Option<AllocRef<'a>>| {
                rollout.has_failed() && alloc.is_some_and(|alloc| rollout.has(alloc))
            };
            missing.retain(|placement| match placement.cause {
                Cause::Reschedule => !is_of_failed(placement.previous),
                Cause::Lost => true,
                Cause::Missing | Cause::Update => false,
            });
        }
        plan.updates.place = missing.len() as u64;
        for placement in &missing {
            if let (Cause::Reschedule, Some(alloc)) = (placement.cause, placement.previous)
                && self.has_failed(alloc)
            {
                plan.count_stop(Stop::of(alloc, reason::RESCHEDULED));
            }
        }
        plan.placements.append(&mut missing);
    }

    /// Whether a rescheduled allocation really failed, so that it has to be stopped.
    fn has_failed(&self, alloc: AllocRef<'a>) -> bool {
        let is_disconnecting = || self.disconnecting.iter().any(|other| other.id() == alloc.id());
        alloc.client_status() != ClientStatus::Unknown && !is_migrating(alloc) && !is_disconnecting()
    }

    /// Stops all migrating allocations, and places their successors.
    pub(super) fn migrate(&self, is_batch: bool, entry: &GroupEntry, plan: &mut GroupPlan<'a>) {
        for alloc in &self.migrating {
            plan.stop(Stop::of(*alloc, reason::MIGRATING));
            let transition = alloc.transition();
            let has_no_successor = is_batch
                && (transition.reschedule == Some(true)
                    || transition.migrate_disable_placement == Some(true));
            if !has_no_successor {
                plan.placements.push(successor(*alloc, Cause::Missing, entry));
            }
        }
        plan.updates.migrate = self.migrating.len() as u64;
    }
}

/// A placement with the same name. While canaries are tried, other allocations keep their version.
fn successor<'a>(alloc: AllocRef<'a>, cause: Cause, entry: &GroupEntry) -> WantedPlacement<'a> {
    let is_canary = is_canary(alloc);
    let downgrade = (entry.is_canarying() && !is_canary).then(|| alloc.common().job.version);
    WantedPlacement { name: number(alloc), previous: Some(alloc), cause, is_canary, downgrade }
}
