//! Selects allocations above the count, and stops them (`docs/rules/scheduling.md` ).

use model::alloc::{ClientStatus, DesiredStatus};
use model::job::Job;
use state::AllocRef;

use super::canaries::Canaries;
use super::sets::{Sets, is_migrating, is_of_older_version};
use super::{GroupPlan, Stop, ids, number, reason};

impl<'a> Sets<'a> {
    /// Stops lost allocations, and allocations above the count.
    pub(super) fn stop_surplus(
        &mut self,
        count: usize,
        canaries: &Canaries<'a>,
        is_canarying: bool,
        plan: &mut GroupPlan<'a>,
    ) {
        for alloc in &self.lost {
            plan.count_stop(Stop::lost(*alloc));
        }
        let is_exempt = |alloc: AllocRef<'a>| is_canarying && canaries.has(alloc);
        let counts = |alloc: &&AllocRef<'a>| !self.is_not_counted(**alloc) && !is_exempt(**alloc);
        let existing = self.untainted.iter().filter(counts).count() + self.migrating.len();
        let mut surplus = existing.saturating_sub(count);
        self.stop_excess_reschedules(count.saturating_sub(existing), is_exempt, plan);
        if surplus == 0 {
            return;
        }
        if !is_canarying {
            // The canaries were just promoted: each replaces the allocation with the same name.
            self.stop_untainted(&mut surplus, plan, false, |alloc| {
                !canaries.has(alloc) && canaries.has_name(alloc)
            });
        }
        // Migrating allocations stop first, those with the highest indexes before the others.
        self.migrating.sort_unstable_by_key(|alloc| (number(*alloc), alloc.id()));
        while surplus > 0
            && let Some(alloc) = self.migrating.pop()
        {
            plan.names.release(number(alloc));
            plan.count_stop(Stop::of(alloc, reason::NOT_NEEDED));
            surplus -= 1;
        }
        let highest = plan.names.take_highest(surplus);
        self.stop_untainted(&mut surplus, plan, true, |alloc| {
            !is_exempt(alloc) && highest.contains(&number(alloc))
        });
        self.stop_untainted(&mut surplus, plan, true, |alloc| !is_exempt(alloc));
    }

    /// Stops allocations that are unknown, run an older version, and have a replacement. They would be stopped anyway
    /// when they reconnect, and an update would replace them a second time (departs from ).
    pub(super) fn stop_superseded(&mut self, job: &Job, plan: &mut GroupPlan<'a>) {
        let goes =
            |alloc: &AllocRef<'a>| self.is_replaced_while_unknown(*alloc) && is_of_older_version(*alloc, job);
        let gone: Vec<AllocRef<'a>> = self.untainted.iter().copied().filter(goes).collect();
        self.stop_now(gone, plan);
    }

    /// Stops unknown allocations that an update would replace although there are enough allocations without them.
    /// Otherwise one more than the count would run (departs from ).
    pub(super) fn stop_excess_updates(&mut self, count: usize, plan: &mut GroupPlan<'a>) {
        let mut not_counted: Vec<AllocRef<'a>> =
            plan.destructive.iter().copied().filter(|alloc| self.is_not_counted(*alloc)).collect();
        if not_counted.is_empty() {
            return;
        }
        let replaced = self.untainted.iter().filter(|alloc| self.is_replaced_while_unknown(**alloc)).count();
        let rescheduled = self.now.iter().filter(|alloc| !is_migrating(**alloc)).count();
        let existing = self.untainted.len() - replaced + self.migrating.len() + rescheduled;
        not_counted.sort_unstable_by_key(|alloc| std::cmp::Reverse((number(*alloc), alloc.id())));
        not_counted.truncate(existing.saturating_sub(count));
        not_counted.iter().for_each(|alloc| plan.names.release(number(*alloc)));
        self.stop_now(not_counted, plan);
        self.forget_stopped(plan);
    }

    /// Stops untainted allocations, and removes them from the other sets.
    fn stop_now(&mut self, gone: Vec<AllocRef<'a>>, plan: &mut GroupPlan<'a>) {
        if gone.is_empty() {
            return;
        }
        let gone_ids = ids(gone.iter().copied());
        self.untainted.retain(|alloc| !gone_ids.contains(&alloc.id()));
        plan.destructive.retain(|alloc| !gone_ids.contains(&alloc.id()));
        for alloc in gone {
            plan.count_stop(Stop::of(alloc, reason::NOT_NEEDED));
        }
    }

    /// Stops failed allocations that were already replaced, instead of rescheduling them, so that not more than the
    /// count runs.
    fn stop_excess_reschedules(
        &mut self,
        missing: usize,
        is_exempt: impl Fn(AllocRef<'a>) -> bool,
        plan: &mut GroupPlan<'a>,
    ) {
        let has_failed = |alloc: &AllocRef<'a>| alloc.client_status().is_terminal() && !is_exempt(*alloc);
        let failed = self.now.iter().filter(|alloc| has_failed(alloc)).count();
        let mut excess = failed.saturating_sub(missing);
        if excess == 0 {
            return;
        }
        self.now.sort_unstable_by_key(|alloc| std::cmp::Reverse((number(*alloc), alloc.id())));
        self.now.retain(|alloc| {
            let goes = excess > 0 && has_failed(alloc);
            if goes {
                plan.names.release(number(*alloc));
                plan.count_stop(Stop::of(*alloc, reason::NOT_NEEDED));
                excess -= 1;
            }
            !goes
        });
    }

    /// Whether an allocation is not counted among the existing ones.
    fn is_not_counted(&self, alloc: AllocRef<'a>) -> bool {
        alloc.client_status() == ClientStatus::Unknown || self.is_replaced_while_unknown(alloc)
    }

    /// Stops the untainted allocations that `selects` accepts, highest indexes first, until there is no surplus.
    /// Allocations that do not count as existing do not reduce the surplus (departs from ).
    fn stop_untainted(
        &mut self,
        surplus: &mut usize,
        plan: &mut GroupPlan<'a>,
        frees_names: bool,
        selects: impl Fn(AllocRef<'a>) -> bool,
    ) {
        if *surplus == 0 {
            return;
        }
        let shares_name = |alloc: &AllocRef<'a>| self.is_replaced_while_unknown(*alloc);
        let sharing = ids(self.untainted.iter().copied().filter(shares_name));
        let not_counted = ids(self.untainted.iter().copied().filter(|alloc| self.is_not_counted(*alloc)));
        self.untainted.sort_unstable_by_key(|alloc| std::cmp::Reverse((number(*alloc), alloc.id())));
        self.untainted.retain(|alloc| {
            let goes = *surplus > 0 && alloc.desired_status() == DesiredStatus::Run && selects(*alloc);
            if goes {
                if frees_names && !sharing.contains(&alloc.id()) {
                    plan.names.release(number(*alloc));
                }
                plan.count_stop(Stop::of(*alloc, reason::NOT_NEEDED));
                *surplus -= usize::from(!not_counted.contains(&alloc.id()));
            }
            !goes
        });
    }
}
