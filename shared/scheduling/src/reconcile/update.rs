//! Finds allocations that have to be updated, and limits how many are replaced at once (`docs/rules/scheduling.md` §7.10,
//!

use std::sync::Arc;

use model::alloc::{AllocCommon, ClientStatus};
use model::job::{Job, TaskGroup};
use model::node::NodeStatus;
use state::AllocRef;

use super::rollout::{GroupEntry, Rollout};
use super::sets::Sets;
use super::{GroupPlan, InPlaceCheck, Target, changed, number, pacing};

/// How the version of an allocation differs from the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Not at all.
    None,
    /// Only in `max_run_duration`; the fit is not checked.
    Runtime,
    /// In properties that running tasks can adopt.
    Light,
    /// In properties that need a restart.
    Restart,
}

impl Change {
    fn of(alloc: AllocRef<'_>, job: &Job, group: &TaskGroup) -> Self {
        let old = alloc.job();
        if old.job_modify_index == job.job_modify_index {
            return Self::None;
        }
        let Some(old_group) = alloc.group() else { return Self::Restart };
        if changed::needs_restart((&old.spec, old_group), (&job.spec, group)) {
            Self::Restart
        } else if old_group.max_run_duration != group.max_run_duration {
            Self::Runtime
        } else {
            Self::Light
        }
    }
}

impl<'a> Sets<'a> {
    /// Sorts untainted allocations by the update that they need. Allocations with the same common
    /// share run the same version, so they are compared once.
    pub(super) fn update(
        &mut self,
        target: Target<'a>,
        plan: &mut GroupPlan<'a>,
        nodes: &mut dyn InPlaceCheck<'a>,
    ) {
        let mut last: Option<(*const AllocCommon, Change)> = None;
        for alloc in self.untainted.iter().copied() {
            let share = Arc::as_ptr(alloc.common());
            let change = match last {
                Some((of, change)) if of == share => change,
                Some(_) | None => Change::of(alloc, target.job, target.group),
            };
            last = Some((share, change));
            let stays = match change {
                Change::None | Change::Restart => false,
                Change::Runtime | Change::Light if alloc.is_terminal() || is_unreachable(alloc) => false,
                Change::Runtime => nodes.is_allowed_on_node(alloc),
                Change::Light => nodes.is_allowed_on_node(alloc) && nodes.fits(alloc),
            };
            match change {
                Change::None => plan.updates.ignore += 1,
                Change::Runtime | Change::Light if alloc.is_terminal() || is_unreachable(alloc) => {
                    plan.updates.ignore += 1
                }
                Change::Runtime | Change::Light if stays => plan.in_place.push(alloc),
                Change::Runtime | Change::Light | Change::Restart => plan.destructive.push(alloc),
            }
        }
        plan.updates.in_place_update = plan.in_place.len() as u64;
    }

    /// How many allocations may be replaced now.
    pub(super) fn limit(
        &self,
        target: Target<'a>,
        entry: &GroupEntry,
        rollout: &Rollout<'a>,
        plan: &GroupPlan<'a>,
    ) -> usize {
        let is_calm = plan.destructive.is_empty() && self.migrating.is_empty();
        let Some(update) = pacing(target.update()).filter(|_| !is_calm) else { return target.count() };
        let max_parallel = update.max_parallel as usize;
        if rollout.current.is_none() {
            return max_parallel;
        }
        if rollout.is_paused() || rollout.has_failed() || entry.is_canarying() {
            return 0;
        }
        let mut open = 0;
        for alloc in self.untainted.iter().filter(|alloc| rollout.has(**alloc)) {
            match alloc.health().and_then(|health| health.healthy) {
                Some(true) => {}
                Some(false) => return 0,
                None => open += 1,
            }
        }
        max_parallel.saturating_sub(open)
    }
}

/// Whether the node is not ready, and the allocation is not recorded as unknown yet. The applier refuses to update such
/// an allocation in place. The node's next change creates an evaluation anyway (N-3.8).
fn is_unreachable(alloc: AllocRef<'_>) -> bool {
    alloc.client_status() != ClientStatus::Unknown
        && alloc.node().is_some_and(|node| node.server().status != NodeStatus::Ready)
}

/// Keeps the allowed number of allocations to replace, lowest indexes first; the others wait.
pub(super) fn cut_destructive(limit: usize, plan: &mut GroupPlan<'_>) {
    plan.destructive.sort_unstable_by_key(|alloc| (number(*alloc), alloc.id()));
    plan.updates.ignore += plan.destructive.len().saturating_sub(limit) as u64;
    plan.destructive.truncate(limit);
    plan.updates.destructive_update = plan.destructive.len() as u64;
}
