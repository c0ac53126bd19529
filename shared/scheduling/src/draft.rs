//! A plan in the making: stops by reason, placements in columns, updates, and the evaluations that come of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocMetric, AllocatedResources, Assigned, ClientStatus, PackedAssigned, RescheduleOutcome,
    RescheduleTracker,
};
use model::columns::AllocIds;
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Job, TaskGroup};
use model::plan::{Placement, Placements, Plan, Stops, Update, Updates};
use model::{AllocId, EvalId, Nanos, NodeId, Text, Timestamp};
use state::AllocRef;

use crate::NewId;
use crate::reconcile::Stop;

/// Reschedules that are due within this of the first of a batch share its evaluation.
const BATCH_WINDOW: Nanos = Nanos::from_secs(5);

/// Collects the stops of a plan.
#[derive(Debug, Default)]
pub(crate) struct StopDraft {
    stops: Vec<Stops>,
}

impl StopDraft {
    pub(crate) fn add(
        &mut self,
        stop: &Stop<'_>,
        followup_eval: Option<EvalId>,
        reschedule: Option<RescheduleOutcome>,
    ) {
        self.add_as(stop.alloc.id(), stop.description, stop.client_status, followup_eval, reschedule);
    }

    /// One that stops because another takes its place.
    pub(crate) fn add_replaced(&mut self, alloc: AllocId, description: &'static str) {
        self.add_as(alloc, description, None, None, None);
    }

    pub(crate) fn into_stops(self) -> Vec<Stops> {
        self.stops
    }

    fn add_as(
        &mut self,
        alloc: AllocId,
        description: &'static str,
        client_status: Option<ClientStatus>,
        followup_eval: Option<EvalId>,
        reschedule: Option<RescheduleOutcome>,
    ) {
        let key = (description, client_status, followup_eval, reschedule);
        let alike = self.stops.iter_mut().rev().find(|stops| {
            (&*stops.description, stops.client_status, stops.followup_eval, stops.reschedule) == key
        });
        match alike {
            Some(stops) => stops.ids.0.push(alloc),
            None => self.stops.push(Stops {
                ids: AllocIds(vec![alloc]),
                description: description.into(),
                client_status,
                followup_eval,
                reschedule,
            }),
        }
    }
}

/// Collects the placements of a group.
#[derive(Debug, Default)]
pub(crate) struct PlacementDraft {
    rows: Vec<(u32, Placement)>,
    /// How the choice went, of the pass for the first.
    metrics: Option<AllocMetric>,
}

/// A new allocation.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) id: AllocId,
    /// Its node's slot.
    pub(crate) slot: u32,
    pub(crate) name_index: u32,
    pub(crate) previous: Option<AllocId>,
    pub(crate) assigned: Assigned,
    pub(crate) tracker: Option<RescheduleTracker>,
}

impl PlacementDraft {
    /// Whether nothing was placed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Says how the choice of the first node went.
    pub(crate) fn tell(&mut self, metrics: AllocMetric) {
        self.metrics = Some(metrics);
    }

    pub(crate) fn add(&mut self, placed: Placed) {
        let placement = Placement {
            id: placed.id,
            node: 0,
            name_index: placed.name_index,
            previous: placed.previous,
            assigned: PackedAssigned::pack(&placed.assigned),
            reschedule: placed.tracker.map(Arc::new),
            preempted: Vec::new(),
        };
        self.rows.push((placed.slot, placement));
    }

    /// The columns; `slots` is how many slots there are, `node` says who is in one.
    pub(crate) fn into_placements(
        self,
        common: impl FnOnce(AllocMetric) -> AllocCommon,
        slots: usize,
        node: impl Fn(u32) -> NodeId,
    ) -> Placements {
        const UNUSED: u32 = u32::MAX;
        let mut place_of_slot = vec![UNUSED; slots];
        let mut placements = Placements::new(Arc::new(common(self.metrics.unwrap_or_default())));
        placements.ids.0.reserve(self.rows.len());
        for (slot, placement) in self.rows {
            let place = &mut place_of_slot[slot as usize];
            if *place == UNUSED {
                *place = placements.add_node(node(slot));
            }
            placements.push(Placement { node: *place, ..placement });
        }
        placements
    }
}

/// The common share of a group's new allocations.
pub(crate) fn common_of_new(
    eval: &Evaluation,
    job: &Job,
    group: &TaskGroup,
    resources: AllocatedResources,
    metrics: AllocMetric,
) -> AllocCommon {
    AllocCommon {
        job: job.version_key(),
        task_group: Text::clone(&group.name),
        name_stem: format!("{}.{}", job.spec.id, group.name).into(),
        eval_id: eval.id,
        deployment_id: None,
        resources,
        metrics,
        trace: eval.trace,
    }
}

/// Moves allocations to the job's version where they are: they keep what they got of their nodes, and how those
/// were chosen. Those of one common share stay together.
pub(crate) fn in_place_updates(
    plan: &mut Plan,
    eval: &Evaluation,
    job: &Job,
    resources: &AllocatedResources,
    allocs: &[AllocRef<'_>],
) {
    let mut shares: Vec<(&Arc<AllocCommon>, AllocIds)> = Vec::new();
    for alloc in allocs {
        match shares.iter_mut().rev().find(|(share, _)| Arc::ptr_eq(share, alloc.common())) {
            Some((_, ids)) => ids.0.push(alloc.id()),
            None => shares.push((alloc.common(), AllocIds(vec![alloc.id()]))),
        }
    }
    for (old, ids) in shares {
        let kept = AllocatedResources {
            networks: old.resources.networks.clone(),
            ports: old.resources.ports.clone(),
            ..resources.clone()
        };
        let common = AllocCommon {
            job: job.version_key(),
            eval_id: eval.id,
            resources: kept,
            trace: eval.trace,
            ..AllocCommon::clone(old)
        };
        plan.updates.push(Updates { ids, change: Update::InPlace(Arc::new(common)) });
    }
}

/// Evaluations for what is to be rescheduled later, and which one each allocation waits for.
pub(crate) fn follow_ups(
    eval: &Evaluation,
    job: &Job,
    mut later: Vec<(Timestamp, AllocRef<'_>)>,
    new_id: NewId<'_>,
) -> Vec<(Evaluation, Vec<AllocId>)> {
    later.sort_by_key(|(time, alloc)| (*time, alloc.id()));
    let mut batches: Vec<(Evaluation, Vec<AllocId>)> = Vec::new();
    for (time, alloc) in later {
        match batches.last_mut() {
            Some((batch, allocs)) if time - batch.wait_until < BATCH_WINDOW => allocs.push(alloc.id()),
            last => {
                let (trigger, description) = match last {
                    None => (EvalTrigger::AllocReschedule, "created for delayed rescheduling"),
                    Some(_) => (EvalTrigger::AllocFailure, ""),
                };
                let id = EvalId::from_bytes(new_id());
                let batch = Evaluation {
                    status_description: description.into(),
                    job_modify_index: job.modify_index,
                    wait_until: time,
                    previous_eval: Some(eval.id),
                    trace: eval.trace,
                    ..Evaluation::new(id, eval.job.clone(), job.spec.kind, eval.priority, trigger)
                };
                batches.push((batch, vec![alloc.id()]));
            }
        }
    }
    batches
}

/// What became of the reschedules of a plan.
#[derive(Debug, Default)]
pub(crate) struct Reschedules {
    /// Predecessors that were replaced.
    pub(crate) done: BTreeSet<AllocId>,
    /// Predecessors for which there was no room; they stay as they are.
    pub(crate) without_room: BTreeSet<AllocId>,
    /// Those that stop now and are looked at again later, with the evaluation that does so.
    pub(crate) later: BTreeMap<AllocId, EvalId>,
}
