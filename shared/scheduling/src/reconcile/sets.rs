//! Sorts a group's allocations into sets by what has to be done with them (`docs/rules/scheduling.md` ).

use std::collections::BTreeSet;

use model::alloc::ClientStatus;
use model::job::Job;
use model::{AllocId, Timestamp};
use state::AllocRef;

use super::classify::{Class, classify, lost_after};
use super::reschedule::{Due, Rescheduler};
use super::rollout::Rollout;
use super::stopping::is_in_base;
use super::{GroupPlan, Target, ids};

/// Sets of allocations. They are disjoint, except that migrating allocations may also be rescheduled.
#[derive(Debug, Default)]
pub(super) struct Sets<'a> {
    pub(super) untainted: Vec<AllocRef<'a>>,
    pub(super) migrating: Vec<AllocRef<'a>>,
    pub(super) lost: Vec<AllocRef<'a>>,
    /// To be rescheduled now; may include migrating or disconnecting allocations.
    pub(super) now: Vec<AllocRef<'a>>,
    pub(super) later: Vec<(Timestamp, AllocRef<'a>)>,
    pub(super) disconnecting: Vec<AllocRef<'a>>,
    pub(super) reconnecting: Vec<AllocRef<'a>>,
    replacements: BTreeSet<AllocId>,
    /// Disconnecting allocations that already have a replacement, because the node was connected again too briefly for
    /// reconciliation to choose between the two.
    unknown_again: BTreeSet<AllocId>,
}

/// The allocations that count.
pub(super) fn base<'a>(
    target: Target<'a>,
    allocs: &[AllocRef<'a>],
    plan: &mut GroupPlan<'a>,
) -> Vec<AllocRef<'a>> {
    let is_batch = target.is_batch();
    let mut base = Vec::with_capacity(allocs.len());
    for alloc in allocs.iter().copied().filter(|alloc| is_in_base(*alloc, is_batch)) {
        if is_batch && alloc.is_terminal() && is_of_older_version(alloc, target.job) {
            plan.updates.ignore += 1;
        } else {
            base.push(alloc);
        }
    }
    base
}

/// Whether an allocation runs an older version of the job, or a version of an earlier incarnation.
pub(super) fn is_of_older_version(alloc: AllocRef<'_>, job: &Job) -> bool {
    let version = &alloc.common().job;
    version.version < job.version || version.create_index < job.create_index
}

impl<'a> Sets<'a> {
    /// Sorts the allocations in `base`.
    pub(super) fn of(
        target: Target<'a>,
        base: &[AllocRef<'a>],
        rollout: &Rollout<'a>,
        plan: &mut GroupPlan<'a>,
    ) -> Self {
        let context = target.context;
        let policy = target.group.reschedule_policy.as_ref();
        let rescheduler = Rescheduler {
            policy,
            is_batch: target.is_batch(),
            now: context.now,
            eval: context.eval.id,
            rollout,
        };
        let untainted = Vec::with_capacity(base.len());
        let mut sets = Self { untainted, replacements: replacements(base), ..Self::default() };
        for alloc in base.iter().copied() {
            match classify(context, alloc) {
                Class::Ignored => plan.updates.ignore += 1,
                Class::Untainted if sets.is_replaced_while_unknown(alloc) => sets.untainted.push(alloc),
                Class::Untainted => sets.put(alloc, rescheduler.due(alloc)),
                Class::Migrating => {
                    match rescheduler.due(alloc) {
                        Due::Now => sets.now.push(alloc),
                        Due::At(time) => sets.later.push((time, alloc)),
                        Due::Never | Due::Dropped => {}
                    }
                    sets.migrating.push(alloc);
                }
                Class::Lost | Class::Expiring => sets.lost.push(alloc),
                Class::Reconnecting => sets.reconnecting.push(alloc),
                Class::Disconnecting => {
                    sets.disconnecting.push(alloc);
                    let due = rescheduler.due_disconnecting(alloc);
                    if due != Due::Dropped && sets.has_replacement(alloc) {
                        sets.unknown_again.insert(alloc.id());
                        sets.untainted.push(alloc);
                    } else {
                        sets.put(alloc, due);
                    }
                }
            }
        }
        plan.updates.disconnect = sets.disconnecting.len() as u64;
        plan.disconnecting =
            sets.disconnecting.iter().map(|alloc| (context.now + lost_after(*alloc), *alloc)).collect();
        sets
    }

    /// Whether an allocation has a replacement that should run.
    pub(super) fn has_replacement(&self, alloc: AllocRef<'_>) -> bool {
        alloc.extra().next.is_some_and(|next| self.replacements.contains(&next))
    }

    /// Whether an allocation is unknown and already replaced, so that it is not replaced again. This happens if an
    /// evaluation is tried again, or comes slightly before its time.
    pub(super) fn is_replaced_while_unknown(&self, alloc: AllocRef<'_>) -> bool {
        let is_unknown =
            alloc.client_status() == ClientStatus::Unknown || self.unknown_again.contains(&alloc.id());
        is_unknown && self.has_replacement(alloc)
    }

    fn put(&mut self, alloc: AllocRef<'a>, due: Due) {
        match due {
            Due::Never => self.untainted.push(alloc),
            Due::Now => self.now.push(alloc),
            Due::At(time) => {
                self.untainted.push(alloc);
                self.later.push((time, alloc));
            }
            Due::Dropped => {}
        }
    }

    /// The allocations whose names are in use, each once. An allocation that was replaced while unknown is
    /// left out, because it shares its name with its replacement, which would otherwise get another name (departs from
    ///
    pub(super) fn named(&self) -> impl Iterator<Item = AllocRef<'a>> {
        let untainted = self.untainted.iter().filter(|alloc| !self.is_replaced_while_unknown(**alloc));
        let now = self.now.iter().filter(|alloc| !is_migrating(**alloc));
        let lost = self.lost.iter().filter(|alloc| !self.has_replacement(**alloc));
        untainted.chain(&self.migrating).chain(now).chain(lost).copied()
    }

    /// Removes stopped allocations, which are neither rescheduled nor marked as unknown.
    pub(super) fn forget_stopped(&mut self, plan: &mut GroupPlan<'a>) {
        if self.later.is_empty() && self.now.is_empty() && plan.disconnecting.is_empty() {
            return;
        }
        let stopped = ids(plan.stops.iter().map(|stop| stop.alloc));
        self.later.retain(|(_, alloc)| !stopped.contains(&alloc.id()));
        self.now.retain(|alloc| !stopped.contains(&alloc.id()));
        plan.disconnecting.retain(|(_, alloc)| !stopped.contains(&alloc.id()));
    }

    /// Removes allocations that are replaced by another version, which are not rescheduled later.
    pub(super) fn forget_replaced(&mut self, plan: &GroupPlan<'a>) {
        if !self.later.is_empty() && !plan.destructive.is_empty() {
            let replaced = ids(plan.destructive.iter().copied());
            self.later.retain(|(_, alloc)| !replaced.contains(&alloc.id()));
        }
    }

    /// Whether no allocation migrates or is rescheduled, now or later.
    pub(super) fn is_stable(&self) -> bool {
        self.migrating.is_empty() && self.now.is_empty() && self.later.is_empty()
    }

    /// Adds the remaining results to the plan.
    pub(super) fn conclude(self, mut plan: GroupPlan<'a>) -> GroupPlan<'a> {
        plan.updates.reschedule_now = self.now.len() as u64;
        plan.updates.reschedule_later = self.later.len() as u64;
        plan.later = self.later;
        plan
    }
}

/// Ids of possible replacements: all allocations that should run, or none if no non-terminal allocation was replaced.
fn replacements(base: &[AllocRef<'_>]) -> BTreeSet<AllocId> {
    if !base.iter().any(|alloc| !alloc.is_terminal() && alloc.extra().next.is_some()) {
        return BTreeSet::new();
    }
    ids(base.iter().copied().filter(|alloc| !alloc.desired_status().is_terminal()))
}

/// Whether an allocation that is rescheduled now is also one that migrates.
pub(super) fn is_migrating(alloc: AllocRef<'_>) -> bool {
    !alloc.is_terminal() && alloc.transition().migrate == Some(true)
}
