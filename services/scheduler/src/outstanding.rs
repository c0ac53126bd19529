//! Plans that were submitted and are not in the newest snapshot yet. The next proposal takes their placements into
//! account. Otherwise all workers of a process would choose the same best nodes, which have capacity for the first plan
//! only.
//!
//! Correctness does not depend on it. A plan that ends differently than expected may cause a partial refusal. If
//! capacity is short with the outstanding plans, the proposal is computed again without them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::plan::{Placements, Plan, Update};
use model::{Index, JobKey, NodeId};
use scheduling::Proposal;
use state::{Expected, State};

/// The outstanding plans of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outstanding(Arc<Mutex<Vec<Arc<Submitted>>>>);

/// The placements of a submitted plan.
#[derive(Debug)]
struct Submitted {
    job: JobKey,
    /// Index of the snapshot on which it was made.
    snapshot: Index,
    expected: Vec<Expected>,
}

/// Guard that keeps a plan outstanding until it is dropped, after the plan was refused or is in the replica.
#[derive(Debug)]
pub(crate) struct OutstandingGuard {
    outstanding: Outstanding,
    submitted: Arc<Submitted>,
}

impl Outstanding {
    /// The snapshot with all outstanding placements added; `None` if there are none.
    pub(crate) fn overlay_on(&self, snapshot: &State) -> Option<State> {
        let submitted = self.submitted().clone();
        // The snapshot may already contain the result of a plan whose worker has not received the answer yet.
        let is_applied = |plan: &Submitted| snapshot.plan_index(&plan.job) > plan.snapshot;
        let pending = submitted.iter().filter(|plan| !is_applied(plan));
        let mut expected = pending.flat_map(|plan| &plan.expected).peekable();
        expected.peek()?;
        Some(snapshot.expecting(expected))
    }

    /// Adds a plan that was made on a snapshot; `None` if it places nothing.
    pub(crate) fn add(&self, plan: &Plan, snapshot: &State) -> Option<OutstandingGuard> {
        let job = plan.job.as_ref().filter(|_| !plan.placements.is_empty())?.job.clone();
        let expected = expected(&plan.placements, snapshot);
        let submitted = Arc::new(Submitted { job, snapshot: plan.snapshot_index, expected });
        self.submitted().push(Arc::clone(&submitted));
        Some(OutstandingGuard { outstanding: self.clone(), submitted })
    }

    fn submitted(&self) -> MutexGuard<'_, Vec<Arc<Submitted>>> {
        // Poisoning is ignored, because every change under the lock is complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OutstandingGuard {
    fn drop(&mut self) {
        self.outstanding.submitted().retain(|submitted| !Arc::ptr_eq(submitted, &self.submitted));
    }
}

/// Whether a proposal suffers from a lack of capacity: something is not placed, is not rescheduled, preempts others, or
/// is replaced, possibly because an in-place update does not fit.
pub(crate) fn lacks_capacity(Proposal { plan, outcome }: &Proposal) -> bool {
    let of_groups = outcome.eval.annotations.iter().flat_map(|made| made.desired_updates.values());
    !outcome.eval.failed_groups.is_empty()
        || of_groups.into_iter().any(|updates| updates.destructive_update > 0)
        || plan.placements.iter().any(|placements| !placements.preempted.is_empty())
        || plan.updates.iter().any(|updates| matches!(updates.change, Update::RescheduleFailed))
}

/// Amounts that placements add to each node.
fn expected(placements: &[Placements], snapshot: &State) -> Vec<Expected> {
    let mut by_node: BTreeMap<NodeId, Expected> = BTreeMap::new();
    for placements in placements {
        let demand = placements.common.resources.demand();
        for row in 0..placements.len() {
            let id = placements.node_of(row);
            let own_cores = placements.assigned.get(row).map_or(0, |assigned| assigned.own_cores_mhz());
            let Some(node) = snapshot.node(id) else { continue };
            let empty = Expected { node: id, slot: node.slot(), allocs: 0, demand: Default::default() };
            let on_node = by_node.entry(id).or_insert(empty);
            on_node.allocs += 1;
            let sum = &mut on_node.demand;
            sum.cpu_mhz = sum.cpu_mhz.saturating_add(demand.cpu_mhz).saturating_add(own_cores);
            sum.memory_mb = sum.memory_mb.saturating_add(demand.memory_mb);
            sum.disk_mb = sum.disk_mb.saturating_add(demand.disk_mb);
        }
    }
    by_node.into_values().collect()
}

#[cfg(test)]
mod tests {
    use model::AllocId;
    use model::alloc::{AllocMetric, Demand};
    use model::change::Change;
    use model::columns::AllocIds;
    use model::eval::{DesiredUpdates, PlanAnnotations};
    use model::plan::{Outcome, Updates};
    use state::View;

    use super::*;
    use crate::testing::{DEMAND, eval, following, job, node, placements, ready};

    /// Two nodes and a job.
    fn cluster() -> State {
        let changes = vec![ready(1), ready(2), Change::Job(Arc::new(job(1)))];
        after(&State::default(), changes)
    }

    fn after(state: &State, changes: Vec<Change>) -> State {
        let mut state = state.clone();
        state.apply(&following(&state, changes)).unwrap();
        state
    }

    /// A plan that places allocations of the job on these nodes.
    fn plan(state: &State, on: &[u8]) -> Plan {
        let job = job(1);
        let placements = placements(&job, on);
        Plan { placements: vec![placements], ..Plan::new(&eval(1), Some(job.version_key()), state.index()) }
    }

    fn held(state: &State, number: u8) -> (Demand, u32) {
        let node = state.node(node(number)).unwrap();
        let (page, bit) = node.page();
        (node.usage(View::Held), page.held.allocs[bit])
    }

    fn times(count: u32) -> (Demand, u32) {
        let Demand { cpu_mhz, memory_mb, disk_mb } = DEMAND;
        let demand =
            Demand { cpu_mhz: cpu_mhz * count, memory_mb: memory_mb * count, disk_mb: disk_mb * count };
        (demand, count)
    }

    #[test]
    fn allocations_of_outstanding_plans_count_until_the_guards_drop() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        assert!(outstanding.overlay_on(&state).is_none(), "nothing is outstanding");
        let first = outstanding.add(&plan(&state, &[1, 2, 1]), &state).unwrap();
        let second = outstanding.add(&plan(&state, &[2]), &state).unwrap();
        let with_outstanding = outstanding.overlay_on(&state).unwrap();
        assert_eq!((held(&with_outstanding, 1), held(&with_outstanding, 2)), (times(2), times(2)));
        assert_eq!((with_outstanding.index(), held(&state, 1)), (state.index(), times(0)));
        drop(first);
        let with_outstanding = outstanding.overlay_on(&state).unwrap();
        assert_eq!((held(&with_outstanding, 1), held(&with_outstanding, 2)), (times(0), times(1)));
        drop(second);
        assert!(outstanding.overlay_on(&state).is_none());
    }

    #[test]
    fn a_plan_that_is_in_the_snapshot_is_not_counted_twice() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        let plan = plan(&state, &[1]);
        let _kept = outstanding.add(&plan, &state).unwrap();
        let taken = Change::AllocsPlaced(Box::new(plan.placements[0].clone()));
        let applied = Change::PlanApplied { job: job(1).key(), eval_id: plan.eval_id };
        let after_commit = after(&state, vec![applied, taken]);
        assert_eq!(held(&after_commit, 1), times(1));
        assert!(outstanding.overlay_on(&after_commit).is_none());
    }

    #[test]
    fn nothing_is_expected_of_a_node_that_is_gone() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        let _kept = outstanding.add(&plan(&state, &[1]), &state).unwrap();
        let without = after(&state, vec![Change::NodesDeleted(vec![node(1)])]);
        let another = after(&without, vec![ready(3)]);
        let with_outstanding = outstanding.overlay_on(&another).unwrap();
        assert_eq!(held(&with_outstanding, 3), times(0), "node 3 has the slot of the deleted node");
    }

    #[test]
    fn a_plan_without_placements_is_not_kept() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        let empty = Plan { placements: Vec::new(), ..plan(&state, &[]) };
        assert!(outstanding.add(&empty, &state).is_none());
    }

    #[test]
    fn little_room_shows_in_failures_victims_replacements_and_reschedules_put_off() {
        let state = cluster();
        let proposal = |plan: Plan| {
            let eval = Box::new(eval(1));
            Proposal { plan, outcome: Outcome { eval, creates: Vec::new() } }
        };
        let good = proposal(plan(&state, &[1]));
        assert!(!lacks_capacity(&good));
        let mut failed = good.clone();
        failed.outcome.eval.failed_groups.insert("web".into(), AllocMetric::default());
        assert!(lacks_capacity(&failed));
        let mut preempting = good.clone();
        preempting.plan.placements[0].preempted = vec![vec![AllocId::from_bytes([9; 16])]];
        assert!(lacks_capacity(&preempting));
        let mut replacing = good.clone();
        let updates = DesiredUpdates { destructive_update: 1, ..DesiredUpdates::default() };
        let desired_updates = [("web".into(), updates)].into();
        replacing.outcome.eval.annotations =
            Some(Box::new(PlanAnnotations { desired_updates, ..PlanAnnotations::default() }));
        assert!(lacks_capacity(&replacing));
        let failed_reschedule = Updates { ids: AllocIds::default(), change: Update::RescheduleFailed };
        let staying = proposal(Plan { updates: vec![failed_reschedule], ..plan(&state, &[]) });
        assert!(lacks_capacity(&staying));
    }
}
