//! Stops that need no reconciliation: all allocations of a stopped job, removed groups, and allocations that were
//! stopping on nodes that are gone (`docs/rules/scheduling.md` ).

use model::alloc::ClientStatus;
use state::{AllocRef, NodePage};

use super::classify::{Class, classify, taint};
use super::{Context, GroupPlan, Names, Stop, reason};

/// Allocations that the servers stopped earlier, on nodes that are gone: no agent will report that they ended.
pub(crate) fn stopping_on_gone_nodes<'a>(
    pages: &[&NodePage],
    allocs: &[AllocRef<'a>],
) -> impl Iterator<Item = Stop<'a>> {
    let is_stopping = |alloc: &AllocRef<'a>| {
        alloc.desired_status().is_terminal()
            && matches!(alloc.client_status(), ClientStatus::Running | ClientStatus::Pending)
            && taint(pages, *alloc).is_gone()
    };
    allocs.iter().copied().filter(is_stopping).map(Stop::lost)
}

/// Stops all allocations of a stopped job's group.
pub(crate) fn stop_all<'a>(context: Context<'a>, allocs: &[AllocRef<'a>]) -> GroupPlan<'a> {
    let live: Vec<AllocRef<'a>> = allocs.iter().copied().filter(|alloc| !alloc.is_terminal()).collect();
    stop_group(context, &live)
}

/// Stops the allocations of a group that the job no longer has, or whose count is 0.
pub(crate) fn stop_unwanted<'a>(
    context: Context<'a>,
    is_batch: bool,
    allocs: &[AllocRef<'a>],
) -> GroupPlan<'a> {
    let base: Vec<AllocRef<'a>> =
        allocs.iter().copied().filter(|alloc| is_in_base(*alloc, is_batch)).collect();
    stop_group(context, &base)
}

/// Whether an allocation counts: allocations that the servers stopped do not, but completed work of a batch job does
///
pub(super) fn is_in_base(alloc: AllocRef<'_>, is_batch: bool) -> bool {
    !alloc.desired_status().is_terminal() || is_batch && alloc.transition().reschedule != Some(true)
}

fn stop_group<'a>(context: Context<'a>, allocs: &[AllocRef<'a>]) -> GroupPlan<'a> {
    let mut plan = GroupPlan::new(Names::new(0, &[], &[]));
    plan.is_complete = true;
    plan.updates.stop = allocs.len() as u64;
    for alloc in allocs {
        match classify(context, *alloc) {
            Class::Lost => plan.stop(Stop::lost(*alloc)),
            Class::Untainted | Class::Migrating | Class::Disconnecting | Class::Reconnecting => {
                plan.stop(Stop::of(*alloc, reason::NOT_NEEDED));
            }
            Class::Ignored | Class::Expiring if alloc.client_status() == ClientStatus::Unknown => {
                plan.stop(Stop::of(*alloc, reason::NOT_NEEDED));
            }
            Class::Ignored | Class::Expiring => {}
        }
    }
    plan
}
