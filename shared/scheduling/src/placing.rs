//! Places the groups of a service or batch job: chooses a node for each placement that reconciliation wants, and
//! decides what happens to the predecessors (`docs/rules/scheduling.md` §7.12).

use model::alloc::{AllocMetric, AllocatedResources, RescheduleTracker};
use model::job::{Job, TaskGroup};
use model::{AllocId, DeploymentId, Text};
use state::{AllocRef, State};

use crate::downgrade::last_stable;
use crate::draft::{Placed, PlacementDraft, Reschedules, StopDraft};
use crate::place::{Chosen, EXPLAINED_MAX, PlacementRequest, Placer, Version, networks_on};
use crate::reconcile::{Cause, GroupPlan, WantedPlacement, reason, tracker};
use crate::{Attempt, NewId, metrics};

/// One group on its way into the plan.
pub(crate) struct GroupDraft<'a> {
    pub(crate) name: &'a Text,
    pub(crate) plan: GroupPlan<'a>,
    /// `None` if the job does not have the group any more.
    pub(crate) job_group: Option<JobGroup<'a>>,
}

/// A group that the job has.
pub(crate) struct JobGroup<'a> {
    pub(crate) group: &'a TaskGroup,
    /// Placements, grouped by what they share.
    pub(crate) batches: Vec<Batch<'a>>,
    /// Number of requested placements; `queued` counts those that were not placed.
    pub(crate) requested: u32,
    pub(crate) queued: u32,
    pub(crate) failed: Option<AllocMetric>,
}

/// Placements of one group that share all but a few columns.
pub(crate) struct Batch<'a> {
    version: Version,
    pub(crate) job: &'a Job,
    pub(crate) deployment: Option<DeploymentId>,
    pub(crate) is_canary: bool,
    /// The group's index in that version of the job.
    group_index: usize,
    pub(crate) group: &'a TaskGroup,
    pub(crate) share: AllocatedResources,
    pub(crate) placements: PlacementDraft,
}

impl<'a> JobGroup<'a> {
    pub(crate) fn new(group: &'a TaskGroup, plan: &GroupPlan<'a>) -> Self {
        let requested = (plan.placements.len() + plan.destructive.len()) as u32;
        Self { group, batches: Vec::new(), requested, queued: requested, failed: None }
    }

    /// Sets the metrics of all placements that do not have their own.
    fn set_shared_metrics(&mut self, metrics: AllocMetric) {
        self.batches.iter_mut().for_each(|batch| batch.placements.set_shared_metrics(metrics.clone()));
    }
}

/// Places a job's groups.
pub(crate) struct Placing<'a> {
    pub(crate) attempt: &'a Attempt<'a>,
    pub(crate) job: &'a Job,
    pub(crate) placer: Placer<'a>,
    pub(crate) reschedules: Reschedules,
    /// The deployment of new allocations.
    pub(crate) deployment: Option<DeploymentId>,
}

impl<'a> Placing<'a> {
    fn state(&self) -> &'a State {
        self.attempt.state
    }

    /// Places all groups. Destructive updates come first, so that the resources which they free count.
    pub(crate) fn place(&mut self, drafts: &mut [GroupDraft<'a>], stops: &mut StopDraft, new_id: NewId<'_>) {
        for stop in drafts.iter().flat_map(|draft| &draft.plan.stops) {
            self.placer.stop(stop.alloc);
        }
        for (_, alloc) in drafts.iter().flat_map(|draft| &draft.plan.later) {
            self.placer.keep_ended(*alloc);
        }
        for GroupDraft { plan, job_group, .. } in drafts.iter_mut() {
            let Some(group) = job_group else { continue };
            let destructive = std::mem::take(&mut plan.destructive);
            let updates = destructive.iter().map(|alloc| WantedPlacement {
                name: alloc.name_index().unwrap_or(0),
                previous: Some(*alloc),
                cause: Cause::Update,
                is_canary: false,
                downgrade: None,
            });
            self.place_all(group, plan, updates, stops, new_id);
        }
        for GroupDraft { plan, job_group, .. } in drafts.iter_mut() {
            let Some(group) = job_group else { continue };
            let placements = std::mem::take(&mut plan.placements);
            self.place_all(group, plan, placements.into_iter(), stops, new_id);
        }
    }

    fn place_all(
        &mut self,
        group: &mut JobGroup<'a>,
        plan: &mut GroupPlan<'a>,
        placements: impl ExactSizeIterator<Item = WantedPlacement<'a>>,
        stops: &mut StopDraft,
        new_id: NewId<'_>,
    ) {
        let count = placements.len();
        let explain_all = self.attempt.explain || self.attempt.eval.annotate_plan || count <= EXPLAINED_MAX;
        for (number, placement) in placements.enumerate() {
            if let Some(failed) = &mut group.failed {
                metrics::coalesce(failed, group.group);
                self.give_up(&placement);
                continue;
            }
            let batch = self.batch(group, &placement);
            let id = AllocId::from_bytes(new_id());
            let explain = explain_all || number + 1 == count;
            match self.place_one(&group.batches[batch], &placement, id, explain) {
                Ok(chosen) => {
                    group.queued -= 1;
                    let tracker = self.succeed(group.group, &placement, stops);
                    let mut metrics = chosen.metric;
                    if !explain_all && let Some(last) = metrics.take() {
                        group.set_shared_metrics(*last);
                    }
                    let node = self.state().node_at(chosen.slot);
                    let batch = &mut group.batches[batch];
                    batch.placements.add(Placed {
                        networks: node.and_then(|node| networks_on(&batch.share, node)),
                        id,
                        slot: chosen.slot,
                        name_index: plan.names.assign(placement.name),
                        previous: placement.previous.map(AllocRef::id),
                        assigned: chosen.assigned,
                        tracker,
                        victims: chosen.victims,
                        metrics,
                    });
                }
                Err(failed) => {
                    group.set_shared_metrics(AllocMetric::clone(&failed));
                    group.failed = Some(*failed);
                    self.give_up(&placement);
                }
            }
        }
    }

    /// Index of the batch that a placement belongs to.
    fn batch(&mut self, group: &mut JobGroup<'a>, placement: &WantedPlacement<'a>) -> usize {
        let current = self.job;
        let older =
            placement.downgrade.and_then(|least| last_stable(self.state(), current, group.group, least));
        let (job, deployment) = older.unwrap_or((current, self.deployment));
        let is_canary = placement.is_canary && deployment.is_some();
        let same = group.batches.iter().position(|batch| {
            (batch.job.version, batch.deployment, batch.is_canary) == (job.version, deployment, is_canary)
        });
        same.unwrap_or_else(|| {
            let version = self.placer.version(job);
            let (group_index, of_version) =
                job.spec.group(&group.group.name).expect("the chosen version has the group");
            let share = self.placer.share(version, group_index).clone();
            let placements = PlacementDraft::default();
            group.batches.push(Batch {
                version,
                job,
                deployment,
                is_canary,
                group_index,
                group: of_version,
                share,
                placements,
            });
            group.batches.len() - 1
        })
    }

    /// Chooses a node; the error holds the metrics of the failure.
    fn place_one(
        &mut self,
        batch: &Batch<'a>,
        placement: &WantedPlacement<'a>,
        id: AllocId,
        explain: bool,
    ) -> Result<Chosen, Box<AllocMetric>> {
        self.placer.place(&PlacementRequest {
            version: batch.version,
            group: batch.group_index,
            id,
            name_index: placement.name,
            previous: placement.previous,
            replaces: placement.cause == Cause::Update,
            explain,
        })
    }

    /// Decides what happens to the predecessor of a placed allocation. Returns the new allocation's reschedule tracker.
    fn succeed(
        &mut self,
        group: &TaskGroup,
        placement: &WantedPlacement<'a>,
        stops: &mut StopDraft,
    ) -> Option<RescheduleTracker> {
        let alloc = placement.previous?;
        match placement.cause {
            Cause::Missing | Cause::Lost => None,
            Cause::Update => {
                stops.add_replaced(alloc.id(), reason::UPDATING);
                None
            }
            Cause::Reschedule => {
                self.reschedules.done.insert(alloc.id());
                let policy = group.reschedule_policy.clone().unwrap_or_default();
                Some(tracker(&policy, alloc, self.attempt.now))
            }
        }
    }

    /// Handles a failed placement: the predecessor of a reschedule is not stopped.
    fn give_up(&mut self, placement: &WantedPlacement<'a>) {
        if let (Cause::Reschedule, Some(alloc)) = (placement.cause, placement.previous) {
            self.reschedules.without_room.insert(alloc.id());
            if alloc.transition().migrate == Some(true) {
                self.placer.unstop(alloc);
            }
        }
    }
}
