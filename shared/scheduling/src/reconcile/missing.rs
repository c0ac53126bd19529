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
        for alloc in by_name(&self.now) {
            missing.push(successor(alloc, Cause::Reschedule, entry));
            existing += usize::from(!is_migrating(alloc));
        }
        for alloc in by_name(&self.lost) {
            if existing < count && !self.has_replacement(alloc) {
                missing.push(WantedPlacement { is_canary: false, ..successor(alloc, Cause::Lost, entry) });
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
                && self.stops_when_rescheduled(alloc, is_ready)
            {
                plan.count_stop(Stop::of(alloc, reason::RESCHEDULED));
            }
        }
        plan.placements.append(&mut missing);
    }

    /// Whether a rescheduled allocation has to be stopped. One that is unknown may reconnect, except
    /// while the group may place nothing else.
    fn stops_when_rescheduled(&self, alloc: AllocRef<'a>, is_ready: bool) -> bool {
        let is_disconnecting = || self.disconnecting.iter().any(|other| other.id() == alloc.id());
        let may_reconnect = is_ready && alloc.client_status() == ClientStatus::Unknown;
        !may_reconnect && !is_migrating(alloc) && !is_disconnecting()
    }

    /// Stops all migrating allocations, and places their successors.
    pub(super) fn migrate(&self, is_batch: bool, entry: &GroupEntry, plan: &mut GroupPlan<'a>) {
        for alloc in by_name(&self.migrating) {
            plan.stop(Stop::of(alloc, reason::MIGRATING));
            let transition = alloc.transition();
            let has_no_successor = is_batch
                && (transition.reschedule == Some(true)
                    || transition.migrate_disable_placement == Some(true));
            if !has_no_successor {
                plan.placements.push(successor(alloc, Cause::Missing, entry));
            }
        }
        plan.updates.migrate = self.migrating.len() as u64;
    }
}

/// Allocations by the index in their names.
fn by_name<'a>(allocs: &[AllocRef<'a>]) -> Vec<AllocRef<'a>> {
    let mut allocs = allocs.to_vec();
    allocs.sort_unstable_by_key(|alloc| (number(*alloc), alloc.id()));
    allocs
}

/// A placement with the same name. While canaries are tried, other allocations keep their version.
fn successor<'a>(alloc: AllocRef<'a>, cause: Cause, entry: &GroupEntry) -> WantedPlacement<'a> {
    let is_canary = is_canary(alloc);
    let downgrade = (entry.is_canarying() && !is_canary).then(|| alloc.common().job.version);
    WantedPlacement { name: number(alloc), previous: Some(alloc), cause, is_canary, downgrade }
}
