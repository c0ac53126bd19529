//! The invariants of registrations of services, of drains, and of launched and dispatched jobs: those of every commit
//! ([`Promises`]) and those of the end of a history ([`why_not_settled`]).

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::{Cause, Change, ChangeSet};
use model::eval::EvalTrigger;
use model::job::{JobStatus, JobType};
use model::node::{DrainStatus, Eligibility, NodeStatus};
use model::service::ServiceRegistration;
use model::{AllocId, JobKey, NodeId, Text};
use state::{AllocRef, State};

use crate::jobs::{
    self, CHILDREN_MAX, PARAMETERIZED, PERIODIC, ROLLING, STEADY, STEADY_COUNT, STEADY_PARALLEL,
};

/// What later checks of commits need.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Whether something else than drains has taken allocations of [`STEADY`] away, so that it may have fewer healthy ones
    /// than its `migrate` block allows.
    is_disturbed: bool,
}

impl Promises {
    /// The database was replaced with an earlier copy, so decisions were made on states that do not exist any more.
    pub(crate) fn restored(&mut self) {
        self.is_disturbed = true;
    }

    /// The first invariant that a commit violates.
    pub(crate) fn check_commit(&mut self, before: &State, set: &ChangeSet, after: &State) -> Option<String> {
        let of_drains = self.check_drains(before, set, after);
        of_drains
            .or_else(|| check_registrations(after))
            .or_else(|| check_placements(before, after))
            .or_else(|| check_launches(before, set))
            .or_else(|| check_dispatches(after))
    }

    /// Drains leave nothing behind, do not end early, and move services step by step (N-10.4, N-10.6, N-10.7).
    fn check_drains(&mut self, before: &State, set: &ChangeSet, after: &State) -> Option<String> {
        let key = jobs::key(STEADY);
        let is_newly_marked = |alloc: &AllocRef<'_>| {
            is_marked(*alloc) && before.alloc(alloc.id()).is_some_and(|known| !is_marked(known))
        };
        let marked = after.allocs_of_job(&key).filter(is_newly_marked).count();
        self.is_disturbed |= after.allocs_of_job(&key).any(is_taken);
        if set.cause == Cause::AllocTransition {
            let allowed = usize::try_from(STEADY_PARALLEL).unwrap_or(usize::MAX);
            if marked > allowed {
                return Some(format!("{marked} allocations of {STEADY} were marked to migrate at once"));
            }
            let healthy = after.allocs_of_job(&key).filter(|alloc| is_healthy(*alloc)).count();
            let needed = usize::try_from(STEADY_COUNT.saturating_sub(STEADY_PARALLEL)).unwrap_or(usize::MAX);
            if marked > 0 && healthy < needed && !self.is_disturbed {
                return Some(format!("a drain leaves {healthy} healthy allocations of {STEADY}"));
            }
        } else {
            // The end of a drain takes what is left, however much that is.
            self.is_disturbed |= marked > 0;
        }
        for node in before.nodes() {
            let Some(drain) = node.server().drain else { continue };
            let Some(now) = after.node(node.id()).filter(|now| now.server().drain.is_none()) else {
                continue;
            };
            let last = now.server().last_drain.as_ref();
            if last.is_none_or(|last| last.status != DrainStatus::Complete) {
                continue;
            }
            let id = node.id();
            if let Some(left) = now.allocs().find(|alloc| should_run(*alloc) && !is_marked(*alloc)) {
                return Some(format!("the drain of node {id} left {} behind", left.name()));
            }
            let is_late = drain.due().is_some_and(|due| due <= set.at);
            if !is_late && now.allocs().any(|alloc| !alloc.client_status().is_terminal()) {
                return Some(format!("the drain of node {id} ended before its deadline, but is not done"));
            }
        }
        None
    }
}

/// A registration does not outlive its allocation, and none is of a node that is down or gone (A-20.4, N-7.10).
fn check_registrations(after: &State) -> Option<String> {
    after.small_objects::<ServiceRegistration>().find_map(|registration| {
        let Some(alloc) = after.alloc(registration.alloc_id) else {
            return Some(format!("{} is registered without an allocation", registration.key.id));
        };
        if alloc.client_status().is_terminal() {
            return Some(format!("{} is registered although its allocation has ended", registration.key.id));
        }
        let is_up = alloc.node().is_some_and(|node| node.server().status != NodeStatus::Down);
        (!is_up).then(|| format!("{} is registered although its node is down", registration.key.id))
    })
}

/// Nothing new is placed on a node that drains or is not eligible.
fn check_placements(before: &State, after: &State) -> Option<String> {
    let closed = before.nodes().filter(|node| node.server().eligibility != Eligibility::Eligible);
    let closed: BTreeSet<NodeId> = closed.map(|node| node.id()).collect();
    if closed.is_empty() {
        return None;
    }
    let is_new = |alloc: &AllocRef<'_>| before.alloc(alloc.id()).is_none();
    let placed = after.allocs().find(|alloc| closed.contains(&alloc.node_id()) && is_new(alloc))?;
    Some(format!("{} was placed on node {}, which is not eligible", placed.name(), placed.node_id()))
}

/// A periodic job is launched for a moment at most once, and never for an earlier one than before (N-23.6).
fn check_launches(before: &State, set: &ChangeSet) -> Option<String> {
    if set.cause != Cause::JobRegistered {
        return None;
    }
    let parent = jobs::key(PERIODIC);
    let children = before.job_summary(&parent).and_then(|summary| summary.children);
    let last = children.unwrap_or_default().last_launch.as_secs();
    for change in &set.changes {
        let Change::Eval(eval) = change else { continue };
        if eval.trigger != EvalTrigger::PeriodicJob {
            continue;
        }
        if before.job(&eval.job).is_some() {
            return Some(format!("{} was launched twice", eval.job));
        }
        let moment = eval.job.id.rsplit('-').next().and_then(|seconds| seconds.parse::<i64>().ok());
        if moment.is_some_and(|moment| moment <= last) {
            return Some(format!("{} was launched after a later one", eval.job));
        }
    }
    None
}

/// Two dispatches with one token have one child, and no more children run than the job allows (N-24.5).
fn check_dispatches(after: &State) -> Option<String> {
    let parent = jobs::key(PARAMETERIZED);
    let mut tokens: BTreeSet<&Text> = BTreeSet::new();
    let mut running = 0_u32;
    for child in after.children_of_job(&parent) {
        let token = &child.spec.dispatch_idempotency_token;
        if !token.is_empty() && !tokens.insert(token) {
            return Some(format!("{parent} was dispatched twice with {token}"));
        }
        // A child whose allocation the servers have stopped may run again, when a node that it was drained from is evaluated.
        let is_undisturbed =
            after.allocs_of_job(&child.key()).all(|alloc| alloc.desired_status() == DesiredStatus::Run);
        running += u32::from(is_undisturbed && after.allocs_of_job(&child.key()).any(should_run));
    }
    (running > CHILDREN_MAX).then(|| format!("{running} children of {parent} run at once"))
}

/// Why services, drains and children of jobs have not come to rest, or `None` if they have.
pub(crate) fn why_not_settled(state: &State) -> Option<String> {
    for node in state.nodes() {
        let (id, server) = (node.id(), node.server());
        if server.drain.is_some() {
            return Some(format!("the drain of node {id} is not over"));
        }
        if server.eligibility != Eligibility::Eligible {
            return Some(format!("node {id} is not eligible"));
        }
    }
    for job in state.jobs() {
        let key = job.key();
        if *key.id == *PERIODIC && !job.spec.stop {
            return Some(format!("{key} is not stopped, so its launches do not keep up"));
        }
        let is_batch = job.spec.kind == JobType::Batch && job.spec.template().is_none();
        if is_batch && job.status != JobStatus::Dead {
            return Some(format!("{key} is {}", job.status));
        }
    }
    unfinished_rollout(state).or_else(|| missing_registration(state))
}

/// A deployment ends, and then all allocations have the newest version (N-14).
fn unfinished_rollout(state: &State) -> Option<String> {
    let key = jobs::key(ROLLING);
    let job = state.job(&key)?;
    if let Some(deployment) =
        state.deployments_of_job(&key).find(|deployment| !deployment.status.is_terminal())
    {
        return Some(format!("deployment {} of {key} is {}", deployment.id, deployment.status));
    }
    let older = |alloc: &AllocRef<'_>| should_run(*alloc) && alloc.common().job != job.version_key();
    state.allocs_of_job(&key).find(older).map(|alloc| format!("{} has an older version", alloc.name()))
}

/// Each service of an allocation that runs is registered, and nothing else is.
fn missing_registration(state: &State) -> Option<String> {
    let mut wanted: BTreeMap<AllocId, (JobKey, &Text)> = BTreeMap::new();
    for alloc in state.allocs().filter(|alloc| should_run(*alloc)) {
        let service = alloc.group().and_then(|group| group.services.first());
        if let Some(service) = service.filter(|_| alloc.client_status() == ClientStatus::Running) {
            wanted.insert(alloc.id(), (alloc.job_key().clone(), &service.name));
        }
    }
    for registration in state.small_objects::<ServiceRegistration>() {
        let found = wanted.remove(&registration.alloc_id);
        if found.is_none_or(|(_, name)| *name != registration.key.name) {
            return Some(format!("{} is registered but should not be", registration.key.id));
        }
    }
    let (alloc, (job, name)) = wanted.pop_first()?;
    Some(format!("service {name} of {alloc} of {job} is not registered"))
}

/// Whether an allocation should run and has not ended.
fn should_run(alloc: AllocRef<'_>) -> bool {
    alloc.desired_status() == DesiredStatus::Run && !alloc.client_status().is_terminal()
}

fn is_marked(alloc: AllocRef<'_>) -> bool {
    alloc.transition().migrate == Some(true)
}

/// Whether an allocation should run where it is, and its agent has found it healthy.
fn is_healthy(alloc: AllocRef<'_>) -> bool {
    should_run(alloc)
        && !is_marked(alloc)
        && alloc.health().is_some_and(|health| health.healthy == Some(true))
}

/// Whether an allocation was taken away by something else than a drain.
fn is_taken(alloc: AllocRef<'_>) -> bool {
    match alloc.client_status() {
        ClientStatus::Failed | ClientStatus::Lost | ClientStatus::Unknown => true,
        ClientStatus::Complete => alloc.desired_status() == DesiredStatus::Run,
        ClientStatus::Pending | ClientStatus::Running => false,
    }
}
