//! Builds a plan: stops grouped by reason, placements in columns, updates, and follow-up evaluations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocMetric, AllocatedResources, Assigned, ClientStatus, PackedAssigned, PackedMetric,
    RescheduleOutcome, RescheduleTracker,
};
use model::columns::AllocIds;
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Job, NetworkResource, TaskGroup};
use model::plan::{Placement, Placements, Plan, Stops, Update, Updates};
use model::{AllocId, DeploymentId, EvalId, Nanos, Text, Timestamp};
use state::{AllocRef, NodePage};

use crate::NewId;
use crate::columns::{NodeCounters, locate};
use crate::reconcile::Stop;

/// Reschedules that are due less than this after the first of a batch share its evaluation.
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

    /// Adds an allocation that stops because another replaces it.
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

/// Collects placements that share all but a few columns.
#[derive(Debug, Default)]
pub(crate) struct PlacementDraft {
    rows: Vec<Placed>,
    /// Metrics of all placements that do not have their own.
    metrics: Option<AllocMetric>,
}

/// A new allocation.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) id: AllocId,
    /// Slot of its node.
    pub(crate) slot: u32,
    pub(crate) name_index: u32,
    pub(crate) previous: Option<AllocId>,
    pub(crate) assigned: Assigned,
    /// Its group's networks, if they depend on the node.
    pub(crate) networks: Option<Vec<NetworkResource>>,
    pub(crate) tracker: Option<RescheduleTracker>,
    /// Allocations of other jobs that are preempted for it.
    pub(crate) victims: Vec<AllocId>,
    /// Metrics of this placement, if it has its own.
    pub(crate) metrics: Option<Box<AllocMetric>>,
}

impl PlacementDraft {
    /// Number of placements.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no placements.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Allocations of other jobs that are preempted.
    pub(crate) fn victims(&self) -> impl Iterator<Item = AllocId> {
        self.rows.iter().flat_map(|placed| placed.victims.iter().copied())
    }

    /// Sets the metrics of all placements that do not have their own.
    pub(crate) fn set_shared_metrics(&mut self, metrics: AllocMetric) {
        self.metrics = Some(metrics);
    }

    pub(crate) fn add(&mut self, placed: Placed) {
        self.rows.push(placed);
    }

    /// The columns: one set for each distinct common share.
    pub(crate) fn into_placements(
        self,
        common: &AllocCommon,
        is_canary: bool,
        pages: &[&NodePage],
    ) -> Vec<Placements> {
        let shared = self.metrics.unwrap_or_default();
        let mut sets: Vec<(Distinction, Columns)> = Vec::new();
        for mut placed in self.rows {
            let distinction = (placed.metrics.take(), placed.networks.take());
            let known = sets.iter().rposition(|(of, _)| *of == distinction).unwrap_or_else(|| {
                let (metrics, networks) = &distinction;
                let packed = PackedMetric::pack(metrics.as_deref().unwrap_or(&shared));
                let mut common = AllocCommon { metrics: packed, ..common.clone() };
                if let Some(networks) = networks {
                    common.resources.networks.clone_from(networks);
                }
                let placements = Placements { canary: is_canary, ..Placements::new(Arc::new(common)) };
                sets.push((distinction, Columns::new(placements, pages.len())));
                sets.len() - 1
            });
            sets[known].1.push(placed, pages);
        }
        sets.into_iter().map(|(_, columns)| columns.placements).collect()
    }
}

/// What may distinguish the common share of placements: metrics and networks of their own.
type Distinction = (Option<Box<AllocMetric>>, Option<Vec<NetworkResource>>);

/// Placements that are being converted to columns.
struct Columns {
    placements: Placements,
    /// For each slot, 1 plus the position of its node in the list of nodes; 0 if the node is not in the list.
    node_numbers: NodeCounters,
}

impl Columns {
    fn new(placements: Placements, pages: usize) -> Self {
        Self { placements, node_numbers: NodeCounters::new(pages) }
    }

    fn push(&mut self, placed: Placed, pages: &[&NodePage]) {
        let number = self.node_numbers.at_mut(placed.slot);
        if *number == 0 {
            // The id comes from the page, because the node's registration is probably not in the cache.
            let (page, bit) = locate(placed.slot);
            *number = self.placements.add_node(pages[page].ids[bit]) + 1;
        }
        self.placements.push(Placement {
            id: placed.id,
            node: *number - 1,
            name_index: placed.name_index,
            previous: placed.previous,
            assigned: PackedAssigned::pack(&placed.assigned),
            reschedule: placed.tracker.map(Arc::new),
            preempted: placed.victims,
        });
    }
}

/// The common share of a group's new allocations, without metrics.
pub(crate) fn common_of_new(
    eval: &Evaluation,
    (job, deployment_id): (&Job, Option<DeploymentId>),
    group: &TaskGroup,
    resources: AllocatedResources,
) -> AllocCommon {
    AllocCommon {
        job: job.version_key(),
        task_group: Text::clone(&group.name),
        name_stem: format!("{}.{}", job.spec.id, group.name).into(),
        eval_id: eval.id,
        deployment_id,
        resources,
        metrics: PackedMetric::default(),
        trace: eval.trace,
    }
}

/// Updates allocations in place to the job's version and deployment. They keep their assigned
/// resources and their metrics. Allocations with the same common share keep sharing one.
pub(crate) fn in_place_updates(
    plan: &mut Plan,
    eval: &Evaluation,
    job: &Job,
    resources: &AllocatedResources,
    deployment_id: Option<DeploymentId>,
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
            deployment_id,
            resources: kept,
            trace: eval.trace,
            ..AllocCommon::clone(old)
        };
        plan.updates.push(Updates { ids, change: Update::InPlace(Arc::new(common)) });
    }
}

/// Reason for a follow-up evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// A reschedule after its delay.
    Reschedule,
    /// Replacement of lost allocations once their nodes have stopped them (`stop_on_client_after`).
    Lost,
    /// The end of `lost_after` on a disconnected node.
    Disconnect,
}

impl FollowUp {
    /// Trigger and description of the evaluations.
    fn trigger_and_description(self, is_first: bool) -> (EvalTrigger, &'static str) {
        let delayed = if is_first { "created for delayed rescheduling" } else { "" };
        match self {
            Self::Reschedule if is_first => (EvalTrigger::AllocReschedule, delayed),
            Self::Reschedule | Self::Lost => (EvalTrigger::AllocFailure, delayed),
            Self::Disconnect => (EvalTrigger::MaxDisconnectTimeout, "created for delayed disconnect timeout"),
        }
    }
}

/// Creates the delayed evaluations for `due`, each with the allocations that it covers.
pub(crate) fn follow_ups(
    eval: &Evaluation,
    job: &Job,
    kind: FollowUp,
    due: &[(Timestamp, AllocRef<'_>)],
    new_id: NewId<'_>,
) -> Vec<(Evaluation, Vec<AllocId>)> {
    let mut due: Vec<(Timestamp, AllocId)> = due.iter().map(|(time, alloc)| (*time, alloc.id())).collect();
    due.sort_unstable();
    let mut batches: Vec<(Evaluation, Vec<AllocId>)> = Vec::new();
    for (time, alloc) in due {
        match batches.last_mut() {
            Some((batch, allocs)) if time - batch.wait_until < BATCH_WINDOW => allocs.push(alloc),
            last => {
                let (trigger, description) = kind.trigger_and_description(last.is_none());
                let id = EvalId::from_bytes(new_id());
                let batch = Evaluation {
                    status_description: description.into(),
                    job_modify_index: job.modify_index,
                    wait_until: time,
                    previous_eval: Some(eval.id),
                    trace: eval.trace,
                    ..Evaluation::new(id, eval.job.clone(), job.spec.kind, eval.priority, trigger)
                };
                batches.push((batch, vec![alloc]));
            }
        }
    }
    batches
}

/// Results of a plan's reschedules.
#[derive(Debug, Default)]
pub(crate) struct Reschedules {
    /// Predecessors that were replaced.
    pub(crate) done: BTreeSet<AllocId>,
    /// Predecessors whose replacement could not be placed; they are not stopped.
    pub(crate) without_room: BTreeSet<AllocId>,
    /// Allocations that stop now and are reconsidered later, each with its follow-up evaluation.
    pub(crate) later: BTreeMap<AllocId, EvalId>,
}
