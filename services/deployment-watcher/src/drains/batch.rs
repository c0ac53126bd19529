//! Decides which allocations of a job have to leave draining nodes next (N-10.5 to N-10.8). Pure.

use std::collections::BTreeMap;

use model::job::JobType;
use model::{AllocId, JobKey, Text};
use planted_bugs::{Bug, is_planted};
use state::State;

/// The result of checking a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The allocations that can be marked to migrate now.
    pub(crate) allocs: Vec<AllocId>,
    /// Whether the job has allocations on draining nodes that have not ended.
    pub(crate) is_concerned: bool,
}

/// A task group's allocations, on all nodes.
#[derive(Debug, Default)]
struct Counts {
    /// Those that should run, do not migrate, and have a verdict of their agent, whichever it is.
    judged: u32,
    /// Those on draining nodes that can be marked.
    drainable: Vec<AllocId>,
}

/// Checks a job. Only services migrate step by step: other work ends by itself, or at the deadline.
///
/// Of each group, so many allocations may migrate at a time that at most `migrate.max_parallel` of its count are without a
/// verdict, over all draining nodes together. Allocations on draining nodes count as well (N-10.6, N-10.7).
pub(crate) fn next_batch(state: &State, key: &JobKey) -> Batch {
    let Some(job) = state.job(key).filter(|job| job.spec.kind == JobType::Service) else {
        return Batch::default();
    };
    let mut batch = Batch::default();
    let mut groups: BTreeMap<&Text, Counts> = BTreeMap::new();
    for alloc in state.allocs_of_job(key) {
        let is_draining = !alloc.client_status().is_terminal() && alloc.is_on_draining_node();
        batch.is_concerned |= is_draining;
        if !alloc.may_migrate() {
            continue;
        }
        let counts = groups.entry(alloc.group_name()).or_default();
        let is_judged = alloc.health().is_some_and(|health| health.healthy.is_some());
        if is_judged || is_planted(Bug::IgnoresVerdicts) {
            counts.judged = counts.judged.saturating_add(1);
        }
        if is_draining {
            counts.drainable.push(alloc.id());
        }
    }
    for group in job.spec.task_groups.iter() {
        let Some(Counts { judged, mut drainable }) = groups.remove(&group.name) else { continue };
        let Some(migrate) = &group.migrate else { continue };
        let needed = group.count.saturating_sub(migrate.max_parallel);
        // With more than the whole group in parallel, those beyond the count may go as well.
        let beyond = migrate.max_parallel.saturating_sub(group.count);
        let room = judged.saturating_add(beyond).saturating_sub(needed);
        drainable.sort();
        if !is_planted(Bug::OverdrainsGroups) {
            drainable.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        }
        batch.allocs.append(&mut drainable);
    }
    batch
}
