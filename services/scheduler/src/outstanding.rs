//! Plans that were submitted and are not in the newest snapshot yet. The next plan counts with what they place: all
//! workers of a process would go for the same nodes otherwise, the best ones, which have room for the first of them only.
//!
//! Nothing relies on it. A plan that turns out differently is only another reason to be refused in part, and where there is
//! too little room beside what is expected, a proposal is made again without.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::plan::{Placements, Plan, Update};
use model::{Index, JobKey, NodeId};
use scheduling::Proposal;
use state::{Expected, State};

/// The plans of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outstanding(Arc<Mutex<Vec<Arc<Submitted>>>>);

/// What a plan places.
#[derive(Debug)]
struct Submitted {
    job: JobKey,
    /// The snapshot that it was made on.
    snapshot: Index,
    expected: Vec<Expected>,
}

/// Keeps a plan outstanding until it is dropped: when the plan was refused, or is in the replica.
#[derive(Debug)]
pub(crate) struct Kept {
    outstanding: Outstanding,
    submitted: Arc<Submitted>,
}

impl Outstanding {
    /// A snapshot as if all that is outstanding had been placed; `None` if there is nothing that it lacks.
    pub(crate) fn ahead_of(&self, snapshot: &State) -> Option<State> {
        let submitted = self.submitted().clone();
        // Taken, in whole or in part, and seen before its worker heard of it.
        let is_seen = |plan: &Submitted| snapshot.plan_index(&plan.job) > plan.snapshot;
        let unseen = submitted.iter().filter(|plan| !is_seen(plan));
        let mut expected = unseen.flat_map(|plan| &plan.expected).peekable();
        expected.peek()?;
        Some(snapshot.expecting(expected))
    }

    /// Counts with a plan that was made on a snapshot; `None` if it places nothing.
    pub(crate) fn add(&self, plan: &Plan, snapshot: &State) -> Option<Kept> {
        let job = plan.job.as_ref().filter(|_| !plan.placements.is_empty())?.job.clone();
        let expected = expected(&plan.placements, snapshot);
        let submitted = Arc::new(Submitted { job, snapshot: plan.snapshot_index, expected });
        self.submitted().push(Arc::clone(&submitted));
        Some(Kept { outstanding: self.clone(), submitted })
    }

    fn submitted(&self) -> MutexGuard<'_, Vec<Arc<Submitted>>> {
        // Nothing is half done in there when somebody panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.outstanding.submitted().retain(|submitted| !Arc::ptr_eq(submitted, &self.submitted));
    }
}

/// Whether somebody pays for it that there is little room: something is not placed or stays where it failed, makes room for
/// others, or is replaced, perhaps because it cannot be updated where it is.
pub(crate) fn is_at_cost(Proposal { plan, outcome }: &Proposal) -> bool {
    let of_groups = outcome.eval.annotations.iter().flat_map(|made| made.desired_updates.values());
    !outcome.eval.failed_groups.is_empty()
        || of_groups.into_iter().any(|updates| updates.destructive_update > 0)
        || plan.placements.iter().any(|placements| !placements.preempted.is_empty())
        || plan.updates.iter().any(|updates| matches!(updates.change, Update::RescheduleFailed))
}

/// What placements come to on each node.
fn expected(placements: &[Placements], snapshot: &State) -> Vec<Expected> {
    let mut by_node: BTreeMap<NodeId, Expected> = BTreeMap::new();
    for placements in placements {
        let demand = placements.common.resources.demand();
        for row in 0..placements.len() {
            let id = placements.node_of(row);
            let own_cores = placements.assigned.get(row).map_or(0, |assigned| assigned.own_cores_mhz());
            let Some(node) = snapshot.node(id) else { continue };
            let nothing = Expected { node: id, slot: node.slot(), allocs: 0, demand: Default::default() };
            let on_node = by_node.entry(id).or_insert(nothing);
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
    use crate::scene::{DEMAND, eval, following, job, node, placements, ready};

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
        let (page, place) = node.page();
        (node.usage(View::Held), page.held.allocs[place])
    }

    fn times(count: u32) -> (Demand, u32) {
        let Demand { cpu_mhz, memory_mb, disk_mb } = DEMAND;
        let demand =
            Demand { cpu_mhz: cpu_mhz * count, memory_mb: memory_mb * count, disk_mb: disk_mb * count };
        (demand, count)
    }

    #[test]
    fn what_plans_place_is_counted_until_they_are_let_go() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        assert!(outstanding.ahead_of(&state).is_none(), "nothing is outstanding");
        let first = outstanding.add(&plan(&state, &[1, 2, 1]), &state).unwrap();
        let second = outstanding.add(&plan(&state, &[2]), &state).unwrap();
        let ahead = outstanding.ahead_of(&state).unwrap();
        assert_eq!((held(&ahead, 1), held(&ahead, 2)), (times(2), times(2)));
        assert_eq!((ahead.index(), held(&state, 1)), (state.index(), times(0)));
        drop(first);
        let ahead = outstanding.ahead_of(&state).unwrap();
        assert_eq!((held(&ahead, 1), held(&ahead, 2)), (times(0), times(1)));
        drop(second);
        assert!(outstanding.ahead_of(&state).is_none());
    }

    #[test]
    fn a_plan_that_is_in_the_snapshot_is_not_counted_twice() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        let plan = plan(&state, &[1]);
        let _kept = outstanding.add(&plan, &state).unwrap();
        let taken = Change::AllocsPlaced(Box::new(plan.placements[0].clone()));
        let applied = Change::PlanApplied { job: job(1).key(), eval_id: plan.eval_id };
        let seen = after(&state, vec![applied, taken]);
        assert_eq!(held(&seen, 1), times(1));
        assert!(outstanding.ahead_of(&seen).is_none());
    }

    #[test]
    fn nothing_is_expected_of_a_node_that_is_gone() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        let _kept = outstanding.add(&plan(&state, &[1]), &state).unwrap();
        let without = after(&state, vec![Change::NodesDeleted(vec![node(1)])]);
        let another = after(&without, vec![ready(3)]);
        let ahead = outstanding.ahead_of(&another).unwrap();
        assert_eq!(held(&ahead, 3), times(0), "which has its place now");
    }

    #[test]
    fn a_plan_without_placements_is_not_kept() {
        let (state, outstanding) = (cluster(), Outstanding::default());
        let nothing = Plan { placements: Vec::new(), ..plan(&state, &[]) };
        assert!(outstanding.add(&nothing, &state).is_none());
    }

    #[test]
    fn little_room_shows_in_failures_victims_replacements_and_reschedules_put_off() {
        let state = cluster();
        let proposal = |plan: Plan| {
            let eval = Box::new(eval(1));
            Proposal { plan, outcome: Outcome { eval, creates: Vec::new() } }
        };
        let good = proposal(plan(&state, &[1]));
        assert!(!is_at_cost(&good));
        let mut failed = good.clone();
        failed.outcome.eval.failed_groups.insert("web".into(), AllocMetric::default());
        assert!(is_at_cost(&failed));
        let mut preempting = good.clone();
        preempting.plan.placements[0].preempted = vec![vec![AllocId::from_bytes([9; 16])]];
        assert!(is_at_cost(&preempting));
        let mut replacing = good.clone();
        let updates = DesiredUpdates { destructive_update: 1, ..DesiredUpdates::default() };
        let desired_updates = [("web".into(), updates)].into();
        replacing.outcome.eval.annotations =
            Some(Box::new(PlanAnnotations { desired_updates, ..PlanAnnotations::default() }));
        assert!(is_at_cost(&replacing));
        let put_off = Updates { ids: AllocIds::default(), change: Update::RescheduleFailed };
        let staying = proposal(Plan { updates: vec![put_off], ..plan(&state, &[]) });
        assert!(is_at_cost(&staying));
    }
}
