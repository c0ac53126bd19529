//! The scheduler of jobs that run on every feasible node, permanently (system) or until they complete (sysbatch): one
//! attempt (`spec/scheduling.md` §8).
//!
//! `nodes` compares required and existing allocations node by node, `in_place` decides which allocations can be updated
//! in place, `intents` selects what is placed now, `placing` places it, `canaries` withholds most updates while
//! canaries are tried, and `rollout` maintains the deployment.

mod canaries;
mod in_place;
mod intents;
mod nodes;
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
use in_place::Split;
use nodes::Sorted;
use placing::{Desk, Placed};

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
        None => (stop_job(&allocs, &mut stops), Vec::new()),
        Some(job) => {
            let base = BaseNodes::of(state, &pages, &job.spec);
            let context = Context { pages: &pages, eval: attempt.eval, now: attempt.now };
            let wanted = Target { attempt, context, job, base: &base };
            run(wanted, &allocs, &mut rollout, &mut plan, &mut stops, new_id)
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
        outcome::done(attempt, findings, creates)
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
    wanted: Target<'a>,
    allocs: &[AllocRef<'a>],
    rollout: &mut Rollout<'_>,
    plan: &mut Plan,
    stops: &mut StopDraft,
    new_id: NewId<'_>,
) -> (Findings, Vec<Evaluation>) {
    let sorted = nodes::sort(wanted, allocs, rollout);
    rollout::begin(wanted, &sorted, rollout, new_id);
    let mut desk = Desk::of(wanted, &sorted);
    let split = in_place::split(wanted, &sorted, &mut desk);
    let intents = intents::of(wanted, &sorted, &split, rollout);
    let mut placed = placing::place(wanted, desk, &intents, rollout, new_id);
    let counts = rollout::Counts::of(wanted, &sorted, &split, &placed, rollout);
    let withheld = canaries::withheld(&intents, &placed, &counts);
    if !withheld.is_empty() {
        // The remaining intents are placed as if the withheld ones had never been tried.
        let mut desk = Desk::of(wanted, &sorted);
        split.in_place.iter().for_each(|update| desk.stays(*update));
        let kept: Vec<_> = intents.iter().filter(|intent| !intent.is_among(&withheld)).copied().collect();
        placed = placing::place(wanted, desk, &kept, rollout, new_id);
    }
    rollout::settle(wanted, &counts, rollout);
    let updates = annotate(wanted, &sorted, &split, &intents, &placed, &counts);
    in_place::write(wanted, &sorted, &split, rollout, plan);
    sorted.stops.iter().for_each(|stop| stops.add(stop, None, None));
    placed.write(wanted, updates, rollout, plan, stops, new_id)
}

/// Counts the changes of each group for the annotations.
fn annotate(
    wanted: Target<'_>,
    sorted: &Sorted<'_>,
    split: &Split<'_>,
    intents: &[intents::Intent<'_>],
    placed: &Placed<'_>,
    counts: &rollout::Counts,
) -> Map<Text, DesiredUpdates> {
    let spec = &wanted.job.spec;
    let mut all: Map<Text, DesiredUpdates> = Map::default();
    for stop in &sorted.stops {
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
    sorted.ignored.iter().for_each(|ignored| of_group(ignored.group, |updates| &mut updates.ignore, 1));
    for gone in &sorted.disconnecting {
        of_group(gone.group, |updates| &mut updates.disconnect, 1);
    }
    for back in &sorted.reconnecting {
        of_group(back.group, |updates| &mut updates.reconnect, 1);
    }
    split
        .in_place
        .iter()
        .for_each(|update| of_group(update.group, |updates| &mut updates.in_place_update, 1));
    for update in &split.destructive {
        of_group(update.group, |updates| &mut updates.destructive_update, 1);
    }
    for group in 0..spec.task_groups.len() {
        let place = match wanted.is_sysbatch() {
            true => {
                let new = intents.iter().filter(|intent| intent.group == group && !intent.is_update).count();
                (new as u64).saturating_sub(placed.infeasible(group))
            }
            false => counts.groups[group].candidates,
        };
        of_group(group, |updates| &mut updates.place, place);
        of_group(group, |updates| &mut updates.canary, placed.canaries(group, counts));
    }
    all
}
