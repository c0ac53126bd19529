//! Checks that a plan is valid in itself, independently of the recorded plan: every new allocation is on a node that
//! can run it, nothing is placed twice, only stopped allocations are replaced, and no group exceeds its count. Shares
//! no code with the scheduler.

mod conditions;
mod distinct;
mod nodes;
mod ports;
mod versions;

use std::collections::{BTreeMap, BTreeSet};

use model::AllocId;
use model::alloc::ClientStatus;
use model::job::{Job, JobType, TaskGroup};
use model::plan::{Placements, Plan, Update};
use state::{AllocRef, State};

use super::run::apply_plan;

/// How much higher the priority of a job must be than that of a job that it preempts.
const PREEMPTION_DELTA: u16 = 10;

/// Returns the faults of a plan that was made from `before`, a line for each.
pub fn faults(before: &State, plan: &Plan) -> Vec<String> {
    let mut faults = dangling_references(before, plan);
    if !faults.is_empty() {
        return faults;
    }
    let after = apply_plan(before, plan);
    let check = PlanCheck::new(before, &after, plan);
    check.predecessors(&mut faults);
    check.names(&mut faults);
    check.counts(&mut faults);
    check.victims(&mut faults);
    nodes::faults(&check, &mut faults);
    ports::faults(&check, &mut faults);
    conditions::faults(&check, &mut faults);
    distinct::faults(&check, &mut faults);
    faults
}

/// Returns faults for objects that the plan refers to and that do not exist or belong to another job.
fn dangling_references(before: &State, plan: &Plan) -> Vec<String> {
    let mut faults = Vec::new();
    let job = before.eval(plan.eval_id).map(|eval| &eval.job).or(plan.job.as_ref().map(|job| &job.job));
    let stopped = plan.stops.iter().flat_map(|stops| &stops.ids.0);
    let updated = plan.updates.iter().flat_map(|updates| &updates.ids.0);
    for id in stopped.chain(updated) {
        match before.alloc(*id) {
            None => faults.push(format!("{id} is stopped or updated, but does not exist")),
            Some(alloc) if job.is_some_and(|job| alloc.job_key() != job) => {
                faults.push(format!("{id} is stopped or updated, but is not the job's"));
            }
            Some(_) => {}
        }
    }
    let mut ids = BTreeSet::new();
    for placements in &plan.placements {
        if let Err(invalid) = placements.check() {
            faults.push(invalid.to_string());
            continue;
        }
        for (row, id) in placements.ids.0.iter().enumerate() {
            if before.alloc(*id).is_some() || !ids.insert(*id) {
                faults.push(format!("{id} is new, but already exists"));
            }
            if before.node(placements.node_of(row)).is_none() {
                faults.push(format!("{id} is placed on a node that does not exist"));
            }
        }
        if before.job_version(&placements.common.job).is_none() {
            faults.push(format!("{} does not exist", placements.common.job));
        }
        for victim in placements.preempted.iter().flatten() {
            if before.alloc(*victim).is_none() {
                faults.push(format!("{victim} is preempted, but does not exist"));
            }
        }
    }
    faults
}

/// A plan, with the state before and the state after it.
struct PlanCheck<'a> {
    before: &'a State,
    after: &'a State,
    plan: &'a Plan,
    /// Allocations that the plan stops.
    stopped: BTreeSet<AllocId>,
    /// Allocations that the plan evicts.
    evicted: BTreeSet<AllocId>,
    /// Allocations that the plan marks as unknown.
    made_unknown: BTreeSet<AllocId>,
    /// Allocations that the plan reconnects.
    reconnected: BTreeSet<AllocId>,
}

/// A new allocation.
#[derive(Clone, Copy)]
struct NewAlloc<'a> {
    alloc: AllocRef<'a>,
    placements: &'a Placements,
    row: usize,
}

impl<'a> NewAlloc<'a> {
    fn job(&self) -> &'a Job {
        self.alloc.job()
    }

    fn group(&self) -> &'a TaskGroup {
        self.alloc.group().expect("new_allocs returns only allocations whose group exists")
    }

    fn fault(&self, what: impl std::fmt::Display) -> String {
        format!("{} on {}: {what}", self.alloc.name(), self.alloc.node_id())
    }
}

impl<'a> PlanCheck<'a> {
    fn new(before: &'a State, after: &'a State, plan: &'a Plan) -> Self {
        let victims = plan.placements.iter().flat_map(|placements| placements.preempted.iter().flatten());
        let of_kind = |is: fn(&Update) -> bool| {
            let updates = plan.updates.iter().filter(move |updates| is(&updates.change));
            updates.flat_map(|updates| &updates.ids.0).copied().collect::<BTreeSet<AllocId>>()
        };
        Self {
            before,
            after,
            plan,
            stopped: plan.stops.iter().flat_map(|stops| &stops.ids.0).copied().collect(),
            evicted: victims.copied().collect(),
            made_unknown: of_kind(|update| matches!(update, Update::Unknown { .. })),
            reconnected: of_kind(|update| matches!(update, Update::Reconnect)),
        }
    }

    /// The new allocations, without those whose job version has no such group.
    fn new_allocs(&self) -> impl Iterator<Item = NewAlloc<'a>> + use<'a> {
        let after = self.after;
        let rows = |placements: &'a Placements| (0..placements.len()).map(move |row| (placements, row));
        self.plan.placements.iter().flat_map(rows).filter_map(move |(placements, row)| {
            let alloc = after.alloc(placements.ids.0[row])?;
            alloc.group()?;
            Some(NewAlloc { alloc, placements, row })
        })
    }

    /// The allocations that hold resources of a node after the plan: those that the node still runs, without
    /// those that the plan stops.
    fn holders(&self, node: model::NodeId) -> impl Iterator<Item = AllocRef<'a>> {
        let is_removed = |id: AllocId| self.stopped.contains(&id) || self.evicted.contains(&id);
        let allocs: Vec<AllocRef<'a>> = self.after.allocs_of_node(node).collect();
        allocs
            .into_iter()
            .filter(move |alloc| !alloc.client_status().is_terminal() && !is_removed(alloc.id()))
    }

    fn is_new(&self, id: AllocId) -> bool {
        self.before.alloc(id).is_none()
    }

    /// Checks that every replaced allocation stops, and that none is replaced twice.
    fn predecessors(&self, faults: &mut Vec<String>) {
        let mut replaced = BTreeSet::new();
        for new in self.new_allocs() {
            let Some(id) = new.placements.previous.get(new.row) else { continue };
            let Some(previous) = self.before.alloc(id) else {
                faults.push(new.fault(format_args!("its predecessor {id} does not exist")));
                continue;
            };
            if previous.job_key() != new.alloc.job_key() || previous.group_name() != new.alloc.group_name() {
                faults.push(new.fault(format_args!("its predecessor {id} is of another group")));
            }
            if !replaced.insert(id) {
                faults.push(new.fault(format_args!("its predecessor {id} is replaced twice")));
            }
            let is_unknown =
                previous.client_status() == ClientStatus::Unknown || self.made_unknown.contains(&id);
            if !previous.is_terminal() && !is_unknown && !self.stopped.contains(&id) {
                faults.push(new.fault(format_args!("its predecessor {id} does not stop")));
            }
        }
        for id in &self.stopped {
            let is_updated = |updates: &&model::plan::Updates| updates.ids.0.contains(id);
            if self.plan.updates.iter().any(|updates| is_updated(&updates)) {
                faults.push(format!("{id} is stopped and updated"));
            }
        }
    }

    /// Checks that new allocations of a group have different names, or different nodes if the job runs on every node.
    fn names(&self, faults: &mut Vec<String>) {
        let mut names = BTreeSet::new();
        for new in self.new_allocs() {
            let node = is_per_node(new.job()).then(|| new.alloc.node_id());
            if !names.insert((new.alloc.name(), new.placements.canary, node)) {
                faults.push(new.fault("the name is given twice"));
            }
            let count = new.group().count;
            let is_beyond = new.alloc.name_index().is_none_or(|index| index >= count);
            if is_beyond && !new.placements.canary && new.placements.previous.get(new.row).is_none() {
                faults.push(new.fault(format_args!("the name is beyond the count of {count}")));
            }
        }
    }

    /// Checks that a group does not exceed its count, its number of canaries, or its number of parallel updates.
    fn counts(&self, faults: &mut Vec<String>) {
        let mut groups: BTreeMap<&str, (Vec<NewAlloc<'a>>, &'a Job)> = BTreeMap::new();
        for new in self.new_allocs() {
            let of_group = groups.entry(new.alloc.group_name()).or_insert((Vec::new(), new.job()));
            of_group.0.push(new);
            if new.job().version > of_group.1.version {
                of_group.1 = new.job();
            }
        }
        for (name, (new, newest)) in groups {
            let key = newest.key();
            let job = self.after.job(&key).map_or(newest, |job| job);
            let Some((_, group)) = job.spec.group(name) else {
                faults.push(format!("{name}: placed, although the job does not have it"));
                continue;
            };
            if is_per_node(job) {
                continue;
            }
            let (canaries, ordinary): (Vec<NewAlloc<'a>>, Vec<NewAlloc<'a>>) =
                new.into_iter().partition(|new| new.placements.canary);
            let runs = |alloc: &AllocRef<'a>| {
                *alloc.group_name() == *name
                    && !alloc.is_terminal()
                    && alloc.client_status() != ClientStatus::Unknown
                    && !self.is_new(alloc.id())
            };
            let staying: Vec<AllocRef<'a>> = self.after.allocs_of_job(&key).filter(runs).collect();
            let is_canary = |alloc: &AllocRef<'a>| alloc.health().is_some_and(|health| health.canary);
            let (old_canaries, old): (Vec<AllocRef<'a>>, Vec<AllocRef<'a>>) =
                staying.into_iter().partition(is_canary);
            if !ordinary.is_empty() && old.len() + ordinary.len() > group.count as usize {
                let all = old.len() + ordinary.len();
                faults.push(format!(
                    "{name}: {all} allocations with desired status run, but the count is {}",
                    group.count
                ));
            }
            let of_deployment = canaries.first().and_then(|new| new.alloc.deployment_id());
            let counts = |alloc: &&AllocRef<'a>| {
                alloc.deployment_id() == of_deployment && !self.reconnected.contains(&alloc.id())
            };
            let old_canaries: Vec<_> = old_canaries.iter().filter(counts).collect();
            let canaries_max = group.update.as_ref().map_or(0, |update| update.canary) as usize;
            if !canaries.is_empty() && canaries.len() + old_canaries.len() > canaries_max {
                let all = canaries.len() + old_canaries.len();
                faults.push(format!("{name}: {all} canaries instead of {canaries_max}"));
            }
            let at_once = group.update.as_ref().map_or(0, |update| update.max_parallel) as usize;
            let updating = |new: &&NewAlloc<'a>| {
                let previous = new.placements.previous.get(new.row).and_then(|id| self.before.alloc(id));
                previous.is_some_and(|previous| {
                    !previous.is_terminal()
                        && previous.transition().migrate != Some(true)
                        && previous.node().is_some_and(|node| node.is_ready())
                        && previous.common().job != new.alloc.common().job
                })
            };
            let replaced = ordinary.iter().filter(updating).count();
            if job.spec.kind == JobType::Service && at_once > 0 && replaced > at_once {
                faults.push(format!("{name}: {replaced} are replaced at once instead of {at_once}"));
            }
        }
    }

    /// Checks that only jobs of lower priority are preempted, on the node of the new allocation, and each allocation
    /// once.
    fn victims(&self, faults: &mut Vec<String>) {
        let mut seen = BTreeSet::new();
        for new in self.new_allocs() {
            for id in new.placements.preempted.get(new.row).into_iter().flatten() {
                let Some(victim) = self.before.alloc(*id) else { continue };
                let is_less_important =
                    victim.job().spec.priority.saturating_add(PREEMPTION_DELTA) <= new.job().spec.priority;
                if !is_less_important || victim.job_key() == new.alloc.job_key() {
                    faults.push(new.fault(format_args!("{id} is preempted, but its priority is not lower")));
                }
                if victim.node_id() != new.alloc.node_id() {
                    faults.push(new.fault(format_args!("{id} is preempted on another node")));
                }
                if !seen.insert(*id) {
                    faults.push(new.fault(format_args!("{id} is preempted twice")));
                }
            }
        }
    }
}

fn is_per_node(job: &Job) -> bool {
    matches!(job.spec.kind, JobType::System | JobType::SysBatch)
}
