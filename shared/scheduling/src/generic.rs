//! The scheduler of service and batch jobs: one attempt, from reconciliation to placement (`docs/rules/scheduling.md` §7).

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocatedResources, RescheduleOutcome};
use model::eval::Evaluation;
use model::job::{Job, JobType, TaskGroup};
use model::plan::{Plan, Update, Updates};
use model::{AllocId, EvalId, Text};
use state::{AllocRef, NodePage};

use crate::draft::{FollowUp, Reschedules, StopDraft, common_of_new, follow_ups, in_place_updates};
use crate::outcome::{self, Findings};
use crate::place::{Placer, Version, common_share};
use crate::placing::{GroupDraft, JobGroup, Placing};
use crate::reconcile::{
    Context, GroupPlan, InPlaceCheck, Rollout, Target, reconcile, stop_all, stop_unwanted,
    stopping_on_gone_nodes,
};
use crate::steady_state::steady_state;
use crate::{Attempt, NewId, Proposal};

/// A group's allocations, with the group's index in the job; `None` if the job does not have the group.
struct Allocs<'a> {
    group: &'a Text,
    index: Option<usize>,
    allocs: Vec<AllocRef<'a>>,
}

pub(crate) fn schedule(attempt: &Attempt<'_>, kind: JobType, new_id: NewId<'_>) -> Proposal {
    let state = attempt.state;
    let job = state.job(&attempt.eval.job).filter(|job| !job.spec.stop).map(|job| &**job);
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let mut rollout = match kind {
        JobType::Service => Rollout::of(attempt, job),
        JobType::Batch | JobType::System | JobType::SysBatch => Rollout::default(),
    };
    let mut plan = outcome::empty_plan(attempt);
    if let Some(findings) = job.and_then(|job| steady_state(attempt, job, &pages, &rollout)) {
        let findings = Findings { deployment_id: rollout.id(), ..findings };
        return Proposal { plan, outcome: outcome::finished(attempt, findings, Vec::new(), new_id) };
    }
    let groups = allocs_by_group(attempt, job);
    let mut stops = StopDraft::default();
    for stop in groups.iter().flat_map(|group| stopping_on_gone_nodes(&pages, &group.allocs)) {
        stops.add(&stop, None, None);
    }
    let context = Context { pages: &pages, eval: attempt.eval, now: attempt.now };
    let (findings, created) = match job {
        None => (stop_job(attempt, context, &groups, &mut stops), Vec::new()),
        Some(job) => place_job(attempt, context, job, groups, &mut rollout, &mut plan, &mut stops, new_id),
    };
    plan.stops = stops.into_stops();
    let deployment_id = rollout.id();
    let (deployment, updates) = rollout.into_plan();
    (plan.deployment, plan.deployment_updates) = (deployment.map(Box::new), updates);
    let findings = Findings { deployment_id, ..findings };
    let outcome = if outcome::exceeds_limit(attempt, kind) {
        plan = outcome::empty_plan(attempt);
        outcome::exhausted(attempt, kind, findings, new_id)
    } else {
        outcome::finished(attempt, findings, created, new_id)
    };
    Proposal { plan, outcome }
}

/// Groups of the job in their order, then groups that only allocations refer to, by name.
fn allocs_by_group<'a>(attempt: &Attempt<'a>, job: Option<&'a Job>) -> Vec<Allocs<'a>> {
    let of_job = job.into_iter().flat_map(|job| &job.spec.task_groups).enumerate();
    let mut groups: Vec<Allocs<'a>> = of_job
        .map(|(index, group)| Allocs { group: &group.name, index: Some(index), allocs: Vec::new() })
        .collect();
    let known = groups.len();
    // Consecutive allocations mostly have the same common share, and so the same group.
    let mut last: Option<(&'a Text, usize)> = None;
    for alloc in attempt.state.allocs_of_job(&attempt.eval.job) {
        let name = alloc.group_name();
        let index = match last {
            Some((of, index)) if std::ptr::eq(of, name) => index,
            Some(_) | None => groups.iter().position(|group| group.group == name).unwrap_or_else(|| {
                groups.push(Allocs { group: name, index: None, allocs: Vec::new() });
                groups.len() - 1
            }),
        };
        last = Some((name, index));
        groups[index].allocs.push(alloc);
    }
    groups[known..].sort_by_key(|group| group.group);
    groups
}

/// Stops all allocations of a stopped job.
fn stop_job<'a>(
    attempt: &Attempt<'_>,
    context: Context<'a>,
    groups: &[Allocs<'a>],
    stops: &mut StopDraft,
) -> Findings {
    let mut findings = Findings::default();
    // A job that was not purged still has its groups; none of them has queued allocations.
    for group in attempt.state.job(&attempt.eval.job).into_iter().flat_map(|job| &job.spec.task_groups) {
        findings.queued.insert(group.name.clone(), 0);
        findings.requested.insert(group.name.clone(), 0);
    }
    for group in groups {
        let plan = stop_all(context, &group.allocs);
        plan.stops.iter().for_each(|stop| stops.add(stop, None, None));
        findings.annotations.desired_updates.insert(Text::clone(group.group), plan.updates);
    }
    findings
}

/// Reconciles and places a job that is not stopped, and adds the result to the plan.
#[allow(clippy::too_many_arguments, reason = "the attempt's parts, which its caller owns")]
fn place_job<'a>(
    attempt: &'a Attempt<'a>,
    context: Context<'a>,
    job: &'a Job,
    groups: Vec<Allocs<'a>>,
    rollout: &mut Rollout<'a>,
    plan: &mut Plan,
    stops: &mut StopDraft,
    new_id: NewId<'_>,
) -> (Findings, Vec<Evaluation>) {
    let mut placer = Placer::of(attempt.state, context.pages, attempt.eval);
    let version = placer.version(job);
    let mut reconciler = Reconciler { attempt, context, job, placer, version };
    let mut drafts = reconciler.reconcile(groups, rollout, new_id);
    rollout.conclude(job, drafts.iter().all(|draft| draft.plan.is_complete));
    let reschedules = Reschedules::default();
    let mut placing =
        Placing { attempt, job, placer: reconciler.placer, reschedules, deployment: rollout.active() };
    placing.place(&mut drafts, stops, new_id);
    finish(placing, drafts, rollout, plan, stops, new_id)
}

/// Reconciles a job's groups, with the nodes on which allocations may be updated in place.
struct Reconciler<'a> {
    attempt: &'a Attempt<'a>,
    context: Context<'a>,
    job: &'a Job,
    placer: Placer<'a>,
    version: Version,
}

impl<'a> Reconciler<'a> {
    fn reconcile(
        &mut self,
        groups: Vec<Allocs<'a>>,
        rollout: &mut Rollout<'a>,
        new_id: NewId<'_>,
    ) -> Vec<GroupDraft<'a>> {
        let is_batch = self.job.spec.kind == JobType::Batch;
        let mut drafts = Vec::with_capacity(groups.len());
        for stop in groups.iter().flat_map(|group| stopping_on_gone_nodes(self.context.pages, &group.allocs))
        {
            self.placer.stop(stop.alloc);
        }
        for Allocs { group: name, index, allocs } in groups {
            let Some(index) = index else {
                let plan = stop_unwanted(self.context, is_batch, &allocs);
                drafts.push(GroupDraft { name, plan, job_group: None });
                continue;
            };
            let group = &self.job.spec.task_groups[index];
            let plan = self.reconcile_group(index, group, &allocs, rollout, new_id);
            let job_group = Some(JobGroup::new(group, &plan));
            drafts.push(GroupDraft { name, plan, job_group });
        }
        drafts
    }

    fn reconcile_group(
        &mut self,
        group_index: usize,
        group: &'a TaskGroup,
        allocs: &[AllocRef<'a>],
        rollout: &mut Rollout<'a>,
        new_id: NewId<'_>,
    ) -> GroupPlan<'a> {
        let target = Target { attempt: self.attempt, context: self.context, job: self.job, group };
        reconcile(target, allocs, rollout, &mut InPlace { reconciler: self, group_index }, new_id)
    }
}

/// Decides whether allocations can stay on their nodes when their group changes.
struct InPlace<'d, 'a> {
    reconciler: &'d mut Reconciler<'a>,
    group_index: usize,
}

impl<'a> InPlaceCheck<'a> for InPlace<'_, 'a> {
    fn is_allowed_on_node(&self, alloc: AllocRef<'_>) -> bool {
        alloc.node().is_some_and(|node| self.reconciler.placer.base(self.reconciler.version).covers(node))
    }

    fn fits(&mut self, alloc: AllocRef<'a>) -> bool {
        self.reconciler.placer.update_in_place(self.reconciler.version, self.group_index, alloc)
    }
}

/// Adds the decisions to the plan.
fn finish<'a>(
    mut placing: Placing<'a>,
    drafts: Vec<GroupDraft<'a>>,
    rollout: &Rollout<'a>,
    plan: &mut Plan,
    stops: &mut StopDraft,
    new_id: NewId<'_>,
) -> (Findings, Vec<Evaluation>) {
    let (attempt, job) = (placing.attempt, placing.job);
    let eval = attempt.eval;
    let mut findings = Findings::default();
    let mut created = Vec::new();
    for GroupDraft { name, plan: group_plan, job_group } in drafts {
        findings.annotations.desired_updates.insert(Text::clone(name), group_plan.updates);
        add_follow_ups(&mut placing.reschedules, eval, job, &group_plan, plan, &mut created, new_id);
        for stop in &group_plan.stops {
            let id = stop.alloc.id();
            if placing.reschedules.without_room.contains(&id) {
                continue;
            }
            let rescheduled = placing.reschedules.done.contains(&id).then_some(RescheduleOutcome::Ok);
            stops.add(stop, placing.reschedules.later.get(&id).copied(), rescheduled);
        }
        let Some(group) = job_group else { continue };
        findings.queued.insert(Text::clone(name), group.queued);
        findings.requested.insert(Text::clone(name), group.requested);
        if !group_plan.in_place.is_empty() {
            let share: AllocatedResources = common_share(attempt.state, &job.spec, group.group);
            in_place_updates(plan, eval, job, &share, rollout.id(), &group_plan.in_place);
        }
        if let Some(failed) = group.failed {
            findings.failed_groups.insert(Text::clone(name), failed);
        }
        for batch in group.batches.into_iter().filter(|batch| !batch.placements.is_empty()) {
            findings.record_victims(name, batch.placements.victims());
            let version = (batch.job, batch.deployment);
            let common = common_of_new(eval, version, batch.group, batch.share);
            let pages = placing.placer.pages();
            plan.placements.extend(batch.placements.into_placements(&common, batch.is_canary, pages));
        }
    }
    if !placing.reschedules.without_room.is_empty() {
        let ids = placing.reschedules.without_room.iter().copied().collect();
        plan.updates.push(Updates { ids, change: Update::RescheduleFailed });
    }
    // Only blocked evaluations need to know which classes are eligible.
    if !findings.failed_groups.is_empty() || outcome::exceeds_limit(attempt, job.spec.kind) {
        findings.class_eligibility = placing.placer.class_eligibility();
    }
    findings.escaped_class = placing.placer.escapes_class();
    findings.missing_resources = placing.placer.missing_resources().to_vec();
    (findings, created)
}

/// Creates the follow-up evaluations, and the updates that refer to them.
fn add_follow_ups<'a>(
    reschedules: &mut Reschedules,
    eval: &Evaluation,
    job: &Job,
    group_plan: &GroupPlan<'a>,
    plan: &mut Plan,
    created: &mut Vec<Evaluation>,
    new_id: NewId<'_>,
) {
    let stopping: BTreeSet<AllocId> = match group_plan.later.is_empty() && group_plan.delayed.is_empty() {
        true => BTreeSet::new(),
        false => group_plan.stops.iter().map(|stop| stop.alloc.id()).collect(),
    };
    let mut disconnecting: BTreeMap<AllocId, Option<EvalId>> =
        group_plan.disconnecting.iter().map(|(_, alloc)| (alloc.id(), None)).collect();
    let kinds = [
        (FollowUp::Disconnect, &group_plan.disconnecting),
        (FollowUp::Lost, &group_plan.delayed),
        (FollowUp::Reschedule, &group_plan.later),
    ];
    for (kind, due) in kinds {
        for (follow_up, allocs) in follow_ups(eval, job, kind, due, new_id) {
            let mut staying = Vec::new();
            for id in allocs {
                if stopping.contains(&id) {
                    // A migrating allocation does not carry its follow-up: it is not looked at again.
                    if kind == FollowUp::Lost {
                        reschedules.later.insert(id, follow_up.id);
                    }
                } else if let Some(followup) = disconnecting.get_mut(&id) {
                    *followup = Some(follow_up.id);
                } else {
                    staying.push(id);
                }
            }
            if !staying.is_empty() {
                let change = Update::RescheduleLater { followup_eval: follow_up.id };
                plan.updates.push(Updates { ids: staying.into_iter().collect(), change });
            }
            created.push(follow_up);
        }
    }
    let mut by_eval: BTreeMap<Option<EvalId>, Vec<AllocId>> = BTreeMap::new();
    for (id, followup_eval) in disconnecting {
        by_eval.entry(followup_eval).or_default().push(id);
    }
    for (followup_eval, ids) in by_eval {
        plan.updates
            .push(Updates { ids: ids.into_iter().collect(), change: Update::Unknown { followup_eval } });
    }
    if !group_plan.reconnecting.is_empty() {
        let ids = group_plan.reconnecting.iter().map(|alloc| alloc.id()).collect();
        plan.updates.push(Updates { ids, change: Update::Reconnect });
    }
}
