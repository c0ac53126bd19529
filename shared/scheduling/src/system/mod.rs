//! The scheduler of jobs that run on every feasible node, permanently (system) or until they complete (sysbatch): one
//! attempt (`docs/rules/scheduling.md` §8).
//!
//! `nodes` compares required and existing allocations node by node, `in_place` decides which allocations can be updated
//! in place, `intents` selects what is placed now, `placing` places it with the `placer`, `counts` counts nodes, updates and
//! canaries, `canaries` withholds most updates while canaries are tried, and `rollout` maintains the deployment.

mod canaries;
mod counts;
mod in_place;
mod intents;
mod nodes;
mod placer;
mod placing;
mod rollout;

use model::eval::{DesiredUpdates, Evaluation};
use model::job::{Job, JobType, UpdateStrategy};
use model::plan::Plan;
use model::{Map, Text};
use state::{AllocRef, NodePage};

use crate::draft::StopDraft;
use crate::feasible::BaseNodes;
use crate::outcome::{self, Findings};
use crate::reconcile::{Context, Rollout, Stop, pacing, reason, stopping_on_gone_nodes};
use crate::{Attempt, NewId, Proposal};
use counts::Counts;
use in_place::Split;
use nodes::Diff;
use placer::SystemPlacer;
use placing::PlacingResult;

/// The job that an attempt reconciles; it is not stopped.
#[derive(Debug, Clone, Copy)]
struct Target<'a> {
    attempt: &'a Attempt<'a>,
    context: Context<'a>,
    job: &'a Job,
    base: &'a BaseNodes,
}

impl<'a> Target<'a> {
    fn is_sysbatch(&self) -> bool {
        self.job.spec.kind == JobType::SysBatch
    }

    /// The update block that paces updates of a group; `None` if nothing paces them.
    fn update(&self, group: usize) -> Option<&'a UpdateStrategy> {
        let update = self.job.spec.task_groups[group].update.as_ref();
        pacing(update).filter(|_| self.attempt.rollouts && !self.is_sysbatch())
    }

    /// Whether an allocation runs the job's current version.
    fn is_current(&self, alloc: AllocRef<'_>) -> bool {
        alloc.common().job == self.job.version_key()
    }

    /// Whether an allocation's specification is that of the current version.
    fn is_up_to_date(&self, alloc: AllocRef<'_>) -> bool {
        alloc.job().job_modify_index == self.job.job_modify_index
    }
}

pub(crate) fn schedule(attempt: &Attempt<'_>, kind: JobType, new_id: NewId<'_>) -> Proposal {
    let state = attempt.state;
    let job = state.job(&attempt.eval.job).filter(|job| !job.spec.stop).map(|job| &**job);
    let pages: Vec<&NodePage> = state.node_pages().collect();
    let allocs: Vec<AllocRef<'_>> = state.allocs_of_job(&attempt.eval.job).collect();
    let mut stops = StopDraft::default();
    stopping_on_gone_nodes(&pages, &allocs).for_each(|stop| stops.add(&stop, None, None));
    let mut rollout = match kind {
        JobType::System => Rollout::of(attempt, job),
        JobType::Service | JobType::Batch | JobType::SysBatch => Rollout::default(),
    };
    let mut plan = outcome::empty_plan(attempt);
    let (findings, creates) = match job {
        None => {
            rollout.forget_successful();
            (stop_job(&allocs, &mut stops), Vec::new())
        }
        Some(job) => {
            let base = BaseNodes::of(state, &pages, &job.spec);
            let context = Context { pages: &pages, eval: attempt.eval, now: attempt.now };
            let target = Target { attempt, context, job, base: &base };
            run(target, &allocs, &mut rollout, &mut plan, &mut stops, new_id)
        }
    };
    plan.stops = stops.into_stops();
    let deployment_id = rollout.id();
    let (deployment, updates) = rollout.into_plan();
    (plan.deployment, plan.deployment_updates) = (deployment.map(Box::new), updates);
    let findings = Findings { deployment_id, ..findings };
    let outcome = if outcome::exceeds_limit(attempt, kind) {
        plan = outcome::empty_plan(attempt);
        outcome::exhausted_system(attempt, kind, findings)
    } else {
        outcome::finished_system(attempt, findings, creates)
    };
    Proposal { plan, outcome }
}

/// Stops all allocations of a stopped job, which requires none.
fn stop_job(allocs: &[AllocRef<'_>], stops: &mut StopDraft) -> Findings {
    let mut findings = Findings::default();
    for alloc in allocs.iter().filter(|alloc| !alloc.is_terminal()) {
        stops.add(&Stop::of(*alloc, reason::NOT_NEEDED), None, None);
        let updates = &mut findings.annotations.desired_updates;
        updates.entry(Text::clone(alloc.group_name())).or_default().stop += 1;
    }
    findings
}

/// Runs an attempt on a job that is not stopped.
fn run<'a>(
    target: Target<'a>,
    allocs: &[AllocRef<'a>],
    rollout: &mut Rollout<'_>,
    plan: &mut Plan,
    stops: &mut StopDraft,
    new_id: NewId<'_>,
) -> (Findings, Vec<Evaluation>) {
    let diff = nodes::diff(target, allocs, rollout);
    rollout::begin(target, &diff, rollout, new_id);
    let mut placer = SystemPlacer::of(target, &diff);
    let split = in_place::split(target, &diff, &mut placer);
    let intents = intents::of(target, &diff, &split, rollout);
    let mut placed = placing::place(target, placer, &intents, rollout, new_id);
    let counts = Counts::of(target, &diff, &split, &placed, rollout);
    let withheld = canaries::withheld(&intents, &placed, &counts);
    if !withheld.is_empty() {
        // The remaining intents are placed as if the withheld ones had never been tried.
        let mut placer = SystemPlacer::of(target, &diff);
        split.in_place.iter().for_each(|update| placer.stays(*update));
        let kept: Vec<_> = intents.iter().filter(|intent| !intent.is_among(&withheld)).copied().collect();
        placed = placing::place(target, placer, &kept, rollout, new_id);
    }
    rollout::update_deployment(target, &counts, rollout);
    let updates = annotate(target, &diff, &split, &intents, &placed, &counts);
    in_place::write(target, &diff, &split, rollout, plan);
    diff.stops.iter().for_each(|stop| stops.add(stop, None, None));
    placed.write(target, updates, rollout, plan, stops, new_id)
}

/// Counts the changes of each group for the annotations.
fn annotate(
    target: Target<'_>,
    diff: &Diff<'_>,
    split: &Split<'_>,
    intents: &[intents::Intent<'_>],
    placed: &PlacingResult<'_>,
    counts: &Counts,
) -> Map<Text, DesiredUpdates> {
    let spec = &target.job.spec;
    let mut all: Map<Text, DesiredUpdates> = Map::default();
    for stop in &diff.stops {
        let updates = all.entry(Text::clone(stop.alloc.group_name())).or_default();
        match stop.description {
            reason::NOT_NEEDED => updates.stop += 1,
            reason::TAINTED => updates.migrate += 1,
            _ => {}
        }
    }
    let mut of_group = |group: usize, count: fn(&mut DesiredUpdates) -> &mut u64, more: u64| {
        if more > 0 {
            *count(all.entry(Text::clone(&spec.task_groups[group].name)).or_default()) += more;
        }
    };
    diff.ignored.iter().for_each(|ignored| of_group(ignored.group, |updates| &mut updates.ignore, 1));
    for gone in &diff.disconnecting {
        of_group(gone.group, |updates| &mut updates.disconnect, 1);
    }
    for back in &diff.reconnecting {
        of_group(back.group, |updates| &mut updates.reconnect, 1);
    }
    split.counted_in_place().for_each(|group| of_group(group, |updates| &mut updates.in_place_update, 1));
    for update in &split.destructive {
        of_group(update.group, |updates| &mut updates.destructive_update, 1);
    }
    for group in 0..spec.task_groups.len() {
        let place = match target.is_sysbatch() {
            true => {
                let new = intents.iter().filter(|intent| intent.group == group && !intent.is_update).count();
                (new as u64).saturating_sub(placed.infeasible(group))
            }
            false => counts.groups[group].candidates,
        };
        of_group(group, |updates| &mut updates.place, place);
        of_group(group, |updates| &mut updates.canary, counts.canaries(group, placed));
    }
    all
}
