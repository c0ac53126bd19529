//! A group's allocations by what is to become of them (`spec/scheduling.md` ).

use std::collections::BTreeSet;

use model::alloc::ClientStatus;
use model::job::Job;
use model::{AllocId, Timestamp};
use state::AllocRef;

use super::classify::{Class, classify, lost_after};
use super::reschedule::{Asking, Due};
use super::rollout::Rollout;
use super::stopping::is_in_base;
use super::{GroupPlan, Wanted, ids};

/// See the module. Each allocation is in one of them, but that some of the migrating ones are rescheduled as well.
#[derive(Debug, Default)]
pub(super) struct Sets<'a> {
    pub(super) untainted: Vec<AllocRef<'a>>,
    pub(super) migrating: Vec<AllocRef<'a>>,
    pub(super) lost: Vec<AllocRef<'a>>,
    /// To be rescheduled now; some of them may be among the migrating or the disconnecting, too.
    pub(super) now: Vec<AllocRef<'a>>,
    pub(super) later: Vec<(Timestamp, AllocRef<'a>)>,
    pub(super) disconnecting: Vec<AllocRef<'a>>,
    pub(super) reconnecting: Vec<AllocRef<'a>>,
    replacements: BTreeSet<AllocId>,
    /// Those of the disconnecting that have theirs: they were back, but not long enough for one of the two to be chosen.
    away_again: BTreeSet<AllocId>,
}

/// The allocations that count.
pub(super) fn base<'a>(
    wanted: Wanted<'a>,
    allocs: &[AllocRef<'a>],
    plan: &mut GroupPlan<'a>,
) -> Vec<AllocRef<'a>> {
    let is_batch = wanted.is_batch();
    let mut base = Vec::with_capacity(allocs.len());
    for alloc in allocs.iter().copied().filter(|alloc| is_in_base(*alloc, is_batch)) {
        if is_batch && alloc.is_terminal() && is_of_older_version(alloc, wanted.job) {
            plan.updates.ignore += 1;
        } else {
            base.push(alloc);
        }
    }
    base
}

/// Whether it runs a version before the job's, or one of an earlier incarnation.
pub(super) fn is_of_older_version(alloc: AllocRef<'_>, job: &Job) -> bool {
    let version = &alloc.common().job;
    version.version < job.version || version.create_index < job.create_index
}

impl<'a> Sets<'a> {
    ///
    pub(super) fn of(
        wanted: Wanted<'a>,
        base: &[AllocRef<'a>],
        rollout: &Rollout<'a>,
        plan: &mut GroupPlan<'a>,
    ) -> Self {
        let context = wanted.context;
        let policy = wanted.group.reschedule_policy.as_ref();
        let asking =
            Asking { policy, is_batch: wanted.is_batch(), now: context.now, eval: context.eval.id, rollout };
        let untainted = Vec::with_capacity(base.len());
        let mut sets = Self { untainted, replacements: replacements(base), ..Self::default() };
        for alloc in base.iter().copied() {
            match classify(context, alloc) {
                Class::Ignored => plan.updates.ignore += 1,
                Class::Untainted if sets.is_replaced_while_away(alloc) => sets.untainted.push(alloc),
                Class::Untainted => sets.put(alloc, asking.due(alloc)),
                Class::Migrating => {
                    match asking.due(alloc) {
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
                    let due = asking.due_out_of_sight(alloc);
                    if due != Due::Dropped && sets.has_replacement(alloc) {
                        sets.away_again.insert(alloc.id());
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

    /// Whether another has taken its place that is still to run.
    pub(super) fn has_replacement(&self, alloc: AllocRef<'_>) -> bool {
        alloc.extra().next.is_some_and(|next| self.replacements.contains(&next))
    }

    /// Whether it is out of sight, and need not be replaced for that any more. An evaluation may be tried again, or come a
    /// little before its time.
    pub(super) fn is_replaced_while_away(&self, alloc: AllocRef<'_>) -> bool {
        let is_away = alloc.client_status() == ClientStatus::Unknown || self.away_again.contains(&alloc.id());
        is_away && self.has_replacement(alloc)
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

    /// Those whose names are in use, each once. What was replaced while it was away shares its name with its
    /// successor, which is not given another for that (departs from ).
    pub(super) fn named(&self) -> impl Iterator<Item = AllocRef<'a>> {
        let untainted = self.untainted.iter().filter(|alloc| !self.is_replaced_while_away(**alloc));
        let now = self.now.iter().filter(|alloc| !is_migrating(**alloc));
        let lost = self.lost.iter().filter(|alloc| !self.has_replacement(**alloc));
        untainted.chain(&self.migrating).chain(now).chain(lost).copied()
    }

    /// What stops is neither rescheduled nor marked as unknown.
    pub(super) fn forget_stopped(&mut self, plan: &mut GroupPlan<'a>) {
        if self.later.is_empty() && self.now.is_empty() && plan.disconnecting.is_empty() {
            return;
        }
        let stopped = ids(plan.stops.iter().map(|stop| stop.alloc));
        self.later.retain(|(_, alloc)| !stopped.contains(&alloc.id()));
        self.now.retain(|alloc| !stopped.contains(&alloc.id()));
        plan.disconnecting.retain(|(_, alloc)| !stopped.contains(&alloc.id()));
    }

    /// What is replaced by another version is not rescheduled later.
    pub(super) fn forget_replaced(&mut self, plan: &GroupPlan<'a>) {
        if !self.later.is_empty() && !plan.destructive.is_empty() {
            let replaced = ids(plan.destructive.iter().copied());
            self.later.retain(|(_, alloc)| !replaced.contains(&alloc.id()));
        }
    }

    /// Whether none of them moves, now or later.
    pub(super) fn is_settled(&self) -> bool {
        self.migrating.is_empty() && self.now.is_empty() && self.later.is_empty()
    }

    /// Writes down what is left to say.
    pub(super) fn conclude(self, mut plan: GroupPlan<'a>) -> GroupPlan<'a> {
        plan.updates.reschedule_now = self.now.len() as u64;
        plan.updates.reschedule_later = self.later.len() as u64;
        plan.later = self.later;
        plan
    }
}

/// What may have taken the place of one that may be there again: all that is to run, if any such was replaced.
fn replacements(base: &[AllocRef<'_>]) -> BTreeSet<AllocId> {
    if !base.iter().any(|alloc| !alloc.is_terminal() && alloc.extra().next.is_some()) {
        return BTreeSet::new();
    }
    ids(base.iter().copied().filter(|alloc| !alloc.desired_status().is_terminal()))
}

/// Whether one that is to be rescheduled now is among those that have to move.
pub(super) fn is_migrating(alloc: AllocRef<'_>) -> bool {
    !alloc.is_terminal() && alloc.transition().migrate == Some(true)
}
