//! The scheduler of service and batch jobs: one attempt, from what should be to who goes where
//! (`spec/scheduling.md` §7).

use std::collections::BTreeSet;

use model::alloc::{
    AllocMetric, AllocatedResources, ClientStatus, Demand, RescheduleOutcome, RescheduleTracker,
};
use model::deployment::{DeploymentStatus, DeploymentUpdate};
use model::job::{Job, JobType, TaskGroup};
use model::plan::{Plan, Update, Updates};
use model::{AllocId, Text};
use state::{AllocRef, NodePage, PAGE, State};

use crate::draft::{
    Placed, PlacementDraft, Reschedules, StopDraft, common_of_new, follow_ups, in_place_updates,
};
use crate::feasible::{BaseNodes, Feasibility, Filtered};
use crate::outcome::{self, Learned, attempts_max};
use crate::place::{Candidates, Chosen, Room, Wish, common_share};
use crate::reconcile::{
    Cause, Context, GroupPlan, OwnNodes, Place, Stop, reason, reconcile, stop_all, stop_unwanted,
    stopping_on_gone_nodes, tracker,
};
use crate::unbuilt::{Unbuilt, check_group, might_preempt};
use crate::{Attempt, NewId, Proposal, metrics};

/// A group's allocations; of a group that the job has, its place among the job's groups.
struct Allocs<'a> {
    group: &'a Text,
    place: Option<usize>,
    allocs: Vec<AllocRef<'a>>,
}

pub(crate) fn schedule(attempt: &Attempt<'_>, new_id: NewId<'_>) -> Proposal {
    attempt_once(attempt, new_id).unwrap_or_else(|missing| outcome::unbuilt(attempt, missing))
}

fn attempt_once(attempt: &Attempt<'_>, new_id: NewId<'_>) -> Result<Proposal, Unbuilt> {
    let state = attempt.state;
    let wanted = state.job(&attempt.eval.job).filter(|job| !job.spec.stop);
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let groups = allocs_by_group(attempt, wanted.map(|job| &**job));
    let mut stops = StopDraft::default();
    for stop in groups.iter().flat_map(|group| stopping_on_gone_nodes(&pages, &group.allocs)) {
        stops.add(&stop, None, None);
    }
    let mut plan = outcome::empty_plan(attempt);
    plan.deployment_updates = end_deployment(attempt, wanted.map(|job| &**job))?;

    let context = Context { pages: &pages, eval: attempt.eval, now: attempt.now };
    let (learned, created) = match wanted {
        None => (stop_job(context, &groups, &mut stops), Vec::new()),
        Some(job) => {
            let base = BaseNodes::of(state, &pages, &job.spec);
            let mut work = Work {
                attempt,
                context,
                job,
                base: &base,
                feasibility: Feasibility::of(state, &pages, &base, &job.spec),
                room: Room::of(state, &pages),
                reschedules: Reschedules::default(),
            };
            let mut drafts = work.reconcile(groups)?;
            work.place(&mut drafts, &mut stops, new_id);
            work.finish(drafts, &mut plan, &mut stops, new_id)
        }
    };
    plan.stops = stops.into_stops();
    let outcome = if attempt.fruitless >= attempts_max(attempt.eval.kind) {
        plan = outcome::empty_plan(attempt);
        outcome::exhausted(attempt, learned, new_id)
    } else {
        outcome::finished(attempt, learned, created, new_id)
    };
    Ok(Proposal { plan, outcome })
}

/// The job's groups in their order, then those that only allocations still know, by name.
fn allocs_by_group<'a>(attempt: &Attempt<'a>, job: Option<&'a Job>) -> Vec<Allocs<'a>> {
    let of_job = job.into_iter().flat_map(|job| &job.spec.task_groups).enumerate();
    let mut groups: Vec<Allocs<'a>> = of_job
        .map(|(place, group)| Allocs { group: &group.name, place: Some(place), allocs: Vec::new() })
        .collect();
    let known = groups.len();
    // Neighbours mostly share their common part, and with it the group.
    let mut last: Option<(&'a Text, usize)> = None;
    for alloc in attempt.state.allocs_of_job(&attempt.eval.job) {
        let name = alloc.group_name();
        let place = match last {
            Some((of, place)) if std::ptr::eq(of, name) => place,
            Some(_) | None => groups.iter().position(|group| group.group == name).unwrap_or_else(|| {
                groups.push(Allocs { group: name, place: None, allocs: Vec::new() });
                groups.len() - 1
            }),
        };
        last = Some((name, place));
        groups[place].allocs.push(alloc);
    }
    groups[known..].sort_by_key(|group| group.group);
    groups
}

/// A deployment ends when its job stops or has a newer version. One that goes on, or has canaries to be
/// stopped, needs what is not built.
fn end_deployment(attempt: &Attempt<'_>, wanted: Option<&Job>) -> Result<Vec<DeploymentUpdate>, Unbuilt> {
    let is_service = attempt.eval.kind == JobType::Service;
    let latest = attempt.state.latest_deployment(&attempt.eval.job).filter(|_| is_service);
    let Some(deployment) = latest else { return Ok(Vec::new()) };
    let ends_with = match wanted {
        None => "Cancelled because job is stopped",
        Some(job) if job.version_key() != deployment.job => "Cancelled due to newer version of job",
        Some(_) if deployment.status == DeploymentStatus::Successful => "",
        Some(_) => return Err(Unbuilt("deployments")),
    };
    let has_canaries =
        |group: &model::deployment::DeploymentGroup| !group.promoted && !group.placed_canaries.is_empty();
    if wanted.is_some() && deployment.groups.values().any(has_canaries) {
        return Err(Unbuilt("canaries"));
    }
    if deployment.status.is_terminal() {
        return Ok(Vec::new());
    }
    Ok(vec![DeploymentUpdate {
        id: deployment.id,
        status: DeploymentStatus::Cancelled,
        description: ends_with.into(),
    }])
}

///
fn stop_job<'a>(context: Context<'a>, groups: &[Allocs<'a>], stops: &mut StopDraft) -> Learned {
    let mut learned = Learned::default();
    for group in groups {
        let plan = stop_all(context, &group.allocs);
        plan.stops.iter().for_each(|stop| stops.add(stop, None, None));
        learned.annotations.desired_updates.insert(Text::clone(group.group), plan.updates);
    }
    learned
}

/// An attempt on a job that should run.
struct Work<'a> {
    attempt: &'a Attempt<'a>,
    context: Context<'a>,
    job: &'a Job,
    base: &'a BaseNodes,
    feasibility: Feasibility<'a>,
    room: Room<'a>,
    reschedules: Reschedules,
}

/// One group on its way into the plan.
struct GroupDraft<'a> {
    name: &'a Text,
    plan: GroupPlan<'a>,
    /// `None`: the job does not have the group any more.
    of_job: Option<OfJob<'a>>,
}

/// A group that the job has.
struct OfJob<'a> {
    place: usize,
    group: &'a TaskGroup,
    share: AllocatedResources,
    ask: Demand,
    allocs: Vec<AllocRef<'a>>,
    placements: PlacementDraft,
    candidates: Option<(Candidates<'a>, Filtered)>,
    /// How many are to be placed, and how many of them were not.
    wanted: u32,
    queued: u32,
    failed: Option<AllocMetric>,
}

impl<'a> Work<'a> {
    fn state(&self) -> &'a State {
        self.attempt.state
    }

    fn reconcile(&mut self, groups: Vec<Allocs<'a>>) -> Result<Vec<GroupDraft<'a>>, Unbuilt> {
        let is_batch = self.job.spec.kind == JobType::Batch;
        let mut drafts = Vec::with_capacity(groups.len());
        for Allocs { group: name, place, allocs } in groups {
            let Some(place) = place else {
                let plan = stop_unwanted(self.context, is_batch, &allocs);
                drafts.push(GroupDraft { name, plan, of_job: None });
                continue;
            };
            let group = &self.job.spec.task_groups[place];
            let share = common_share(self.state(), &self.job.spec, group);
            let ask = share.demand();
            let plan =
                reconcile(self.context, self.job, group, &allocs, &mut InPlace { work: self, place, ask })?;
            let changes =
                !plan.places.is_empty() || !plan.destructive.is_empty() || !plan.in_place.is_empty();
            if changes {
                check_group(&self.job.spec, group)?;
            }
            let wanted = (plan.places.len() + plan.destructive.len()) as u32;
            let of_job = OfJob {
                place,
                group,
                share,
                ask,
                allocs,
                placements: PlacementDraft::default(),
                candidates: None,
                wanted,
                queued: wanted,
                failed: None,
            };
            drafts.push(GroupDraft { name, plan, of_job: Some(of_job) });
        }
        Ok(drafts)
    }

    /// Places what is wanted; what takes another's place goes first, so that what becomes free counts.
    fn place(&mut self, drafts: &mut [GroupDraft<'a>], stops: &mut StopDraft, new_id: NewId<'_>) {
        for stop in drafts.iter().flat_map(|draft| &draft.plan.stops) {
            self.room.leave(stop.alloc);
        }
        for GroupDraft { plan, of_job, .. } in drafts.iter_mut() {
            let Some(group) = of_job else { continue };
            let destructive = std::mem::take(&mut plan.destructive);
            let updates = destructive.iter().map(|alloc| Place {
                name: alloc.name_index().unwrap_or(0),
                previous: Some(*alloc),
                cause: Cause::Update,
            });
            self.place_all(group, plan, updates, stops, new_id);
        }
        for GroupDraft { plan, of_job, .. } in drafts.iter_mut() {
            let Some(group) = of_job else { continue };
            let places = std::mem::take(&mut plan.places);
            self.place_all(group, plan, places.into_iter(), stops, new_id);
        }
    }

    fn place_all(
        &mut self,
        group: &mut OfJob<'a>,
        plan: &mut GroupPlan<'a>,
        places: impl ExactSizeIterator<Item = Place<'a>>,
        stops: &mut StopDraft,
        new_id: NewId<'_>,
    ) {
        if places.len() == 0 {
            return;
        }
        let (mut candidates, filtered) = match group.candidates.take() {
            Some(candidates) => candidates,
            None => self.candidates(group, plan),
        };
        candidates.rank_all(&self.room);
        for place in places {
            if let Some(failed) = &mut group.failed {
                metrics::coalesce(failed, group.group);
                self.give_up(&place);
                continue;
            }
            let id = AllocId::from_bytes(new_id());
            match self.place_one(group, &mut candidates, &filtered, &place, id) {
                Ok(chosen) => {
                    group.queued -= 1;
                    let tracker = self.succeed(group.group, &place, stops);
                    group.placements.add(Placed {
                        id,
                        slot: chosen.slot,
                        name_index: plan.names.settle(place.name),
                        previous: place.previous.map(AllocRef::id),
                        assigned: chosen.assigned,
                        tracker,
                    });
                }
                Err(failed) => {
                    group.failed = Some(*failed);
                    self.give_up(&place);
                }
            }
        }
        group.candidates = Some((candidates, filtered));
    }

    /// Chooses a node; if there is none, says why.
    fn place_one(
        &mut self,
        group: &mut OfJob<'a>,
        candidates: &mut Candidates<'a>,
        filtered: &Filtered,
        place: &Place<'a>,
        id: AllocId,
    ) -> Result<Chosen, Box<AllocMetric>> {
        let leaves = place.previous.filter(|_| place.cause == Cause::Update);
        if let Some(alloc) = leaves {
            self.move_out(candidates, alloc, true);
        }
        let penalised = place.previous.map_or_else(Vec::new, |alloc| self.penalised(alloc));
        let preferred = place.previous.and_then(|alloc| self.preferred(group.group, alloc));
        let wish = Wish { id, penalised: &penalised, preferred };
        if group.placements.is_empty() {
            let survey = candidates.survey(&mut self.room, wish);
            group.placements.tell(metrics::of_success(&self.job.spec, self.base, filtered, survey));
        }
        let chosen = candidates.choose(&mut self.room, wish);
        chosen.ok_or_else(|| {
            let failed = self.failure(group, candidates, filtered, id);
            if let Some(alloc) = leaves {
                self.move_out(candidates, alloc, false);
            }
            Box::new(failed)
        })
    }

    /// What becomes of the predecessor of one that was placed, and what that one carries of earlier runs.
    fn succeed(
        &mut self,
        group: &TaskGroup,
        place: &Place<'a>,
        stops: &mut StopDraft,
    ) -> Option<RescheduleTracker> {
        let alloc = place.previous?;
        match place.cause {
            Cause::Missing => None,
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

    /// The nodes that a group can run on, with what was ruled out.
    fn candidates(&mut self, group: &OfJob<'a>, plan: &GroupPlan<'a>) -> (Candidates<'a>, Filtered) {
        let (feasible, filtered) = self.feasibility.scan(group.place);
        let mut others = vec![0; self.context.pages.len() * PAGE];
        let stopped: BTreeSet<AllocId> = plan.stops.iter().map(|stop| stop.alloc.id()).collect();
        for alloc in &group.allocs {
            if !alloc.client_status().is_terminal() && !stopped.contains(&alloc.id()) {
                others[alloc.node_slot() as usize] += 1;
            }
        }
        let what = (&*self.job.spec, group.group);
        let pages = self.context.pages;
        let candidates =
            Candidates::new(self.state(), self.attempt.eval, what, group.ask, pages, feasible, others);
        (candidates, filtered)
    }

    /// Takes an allocation off its node for another of its group, or puts it back.
    fn move_out(&mut self, candidates: &mut Candidates<'a>, alloc: AllocRef<'a>, out: bool) {
        if alloc.client_status().is_terminal() {
            return;
        }
        if out {
            self.room.leave(alloc);
            candidates.leave(&self.room, alloc.node_slot());
        } else {
            self.room.stay(alloc);
            candidates.stay(&self.room, alloc.node_slot());
        }
    }

    /// A reschedule for which there is no room leaves its predecessor as it is.
    fn give_up(&mut self, place: &Place<'a>) {
        if let (Cause::Reschedule, Some(alloc)) = (place.cause, place.previous) {
            self.reschedules.without_room.insert(alloc.id());
            self.room.stay(alloc);
        }
    }

    /// Why nothing could be placed. Had something been placed before, this would be another pass over the nodes, which
    /// knows the classes already.
    fn failure(
        &mut self,
        group: &OfJob<'a>,
        candidates: &Candidates<'a>,
        filtered: &Filtered,
        id: AllocId,
    ) -> AllocMetric {
        let again = (!group.placements.is_empty()).then(|| self.feasibility.scan(group.place).1);
        let filtered = again.as_ref().unwrap_or(filtered);
        let shortages = candidates.shortages(&mut self.room, id);
        metrics::of_failure((&self.job.spec, group.group), self.base, filtered, &self.room, &shortages)
    }

    /// Slots of the nodes on which an allocation and its predecessors failed.
    fn penalised(&self, alloc: AllocRef<'a>) -> Vec<u32> {
        let own = (alloc.client_status() == ClientStatus::Failed).then(|| alloc.node_slot());
        let events = alloc.extra().reschedule.iter().flat_map(|tracker| &tracker.events);
        let earlier =
            events.filter_map(|event| self.state().node(event.previous_node).map(|node| node.slot()));
        own.into_iter().chain(earlier).collect()
    }

    /// Where an allocation's data is, if its successor should go there.
    fn preferred(&self, group: &TaskGroup, alloc: AllocRef<'a>) -> Option<u32> {
        let disk = &group.ephemeral_disk;
        let (old, new) = (&alloc.job().spec, &self.job.spec);
        let same_nodes = old.node_pool == new.node_pool && old.datacenters == new.datacenters;
        let node = alloc.node().filter(|node| node.is_ready())?;
        ((disk.sticky || disk.migrate) && same_nodes).then(|| node.slot())
    }

    fn finish(
        mut self,
        drafts: Vec<GroupDraft<'a>>,
        plan: &mut Plan,
        stops: &mut StopDraft,
        new_id: NewId<'_>,
    ) -> (Learned, Vec<model::eval::Evaluation>) {
        let eval = self.attempt.eval;
        let mut learned = Learned::default();
        let mut created = Vec::new();
        for GroupDraft { name, plan: wanted, of_job } in drafts {
            learned.annotations.desired_updates.insert(Text::clone(name), wanted.updates);
            let stopping: BTreeSet<AllocId> = match wanted.later.is_empty() {
                true => BTreeSet::new(),
                false => wanted.stops.iter().map(|stop| stop.alloc.id()).collect(),
            };
            for (follow_up, allocs) in follow_ups(eval, self.job, wanted.later, new_id) {
                let (stopping, staying): (Vec<_>, Vec<_>) =
                    allocs.into_iter().partition(|id| stopping.contains(id));
                self.reschedules.later.extend(stopping.into_iter().map(|id| (id, follow_up.id)));
                if !staying.is_empty() {
                    let change = Update::RescheduleLater { followup_eval: follow_up.id };
                    plan.updates.push(Updates { ids: staying.into_iter().collect(), change });
                }
                created.push(follow_up);
            }
            self.stop(&wanted.stops, stops);
            let Some(group) = of_job else { continue };
            learned.queued.insert(Text::clone(name), group.queued);
            learned.wanted.insert(Text::clone(name), group.wanted);
            in_place_updates(plan, eval, self.job, &group.share, &wanted.in_place);
            if let Some(failed) = group.failed {
                learned.failed_groups.insert(Text::clone(name), failed);
            }
            if !group.placements.is_empty() {
                let common = |metrics| common_of_new(eval, self.job, group.group, group.share, metrics);
                let slots = self.context.pages.len() * PAGE;
                let id = |slot: u32| self.room.node(slot).id();
                plan.placements.push(group.placements.into_placements(common, slots, id));
            }
        }
        if !self.reschedules.without_room.is_empty() {
            let ids = self.reschedules.without_room.iter().copied().collect();
            plan.updates.push(Updates { ids, change: Update::RescheduleFailed });
        }
        learned.class_eligibility = self.feasibility.class_eligibility();
        learned.escaped_class = self.feasibility.escapes_class();
        learned.might_preempt =
            !learned.failed_groups.is_empty() && might_preempt(self.state(), &self.job.spec);
        (learned, created)
    }

    fn stop(&self, wanted: &[Stop<'a>], stops: &mut StopDraft) {
        for stop in wanted {
            let id = stop.alloc.id();
            if self.reschedules.without_room.contains(&id) {
                continue;
            }
            let rescheduled = self.reschedules.done.contains(&id).then_some(RescheduleOutcome::Ok);
            stops.add(stop, self.reschedules.later.get(&id).copied(), rescheduled);
        }
    }
}

/// Whether allocations can stay where they are when their group changes.
struct InPlace<'w, 'a> {
    work: &'w mut Work<'a>,
    place: usize,
    ask: Demand,
}

impl OwnNodes for InPlace<'_, '_> {
    fn may_be_there(&self, alloc: AllocRef<'_>) -> bool {
        alloc.node().is_some_and(|node| self.work.base.covers(node))
    }

    fn fits(&mut self, alloc: AllocRef<'_>) -> bool {
        let Some(node) = alloc.node() else { return false };
        if !self.work.feasibility.allows(self.place, node) {
            return false;
        }
        let room = &mut self.work.room;
        room.give(node.slot(), alloc.demand());
        let fits = room.short(node.slot(), self.ask).is_none();
        room.take(node.slot(), if fits { self.ask } else { alloc.demand() });
        fits
    }
}
