//! Finding garbage in a state. Pure. The result is split into commands that are small enough not to delay others.

use std::collections::{BTreeSet, HashSet};

use model::{EvalId, JobKey, Nanos, Timestamp};
use state::State;
use wire::command::{CollectGarbage, GARBAGE_SLICE_MAX, Garbage};

use super::rules;

/// How old objects must be to be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ages {
    pub(super) jobs: Nanos,
    pub(super) evals: Nanos,
    /// For evaluations of batch and sysbatch jobs.
    pub(super) batch_evals: Nanos,
    pub(super) deployments: Nanos,
    pub(super) nodes: Nanos,
}

impl Ages {
    /// Any age, for a collection that a user forces.
    pub(crate) const FORCED: Self = {
        let age = Nanos::MILLISECOND;
        Self { jobs: age, evals: age, batch_evals: age, deployments: age, nodes: age }
    };
}

/// All garbage of a state, in the order in which to delete it: evaluations after their allocations, jobs after both, nodes
/// last.
pub(crate) fn find(state: &State, ages: Ages, now: Timestamp) -> Vec<CollectGarbage> {
    let mut found = Vec::new();
    let jobs = jobs(state, earlier(now, ages.jobs), &mut found);
    for (runs_to_completion, age) in [(true, ages.batch_evals), (false, ages.evals)] {
        evals(state, runs_to_completion, now, age, &jobs, &mut found);
    }
    deployments(state, earlier(now, ages.deployments), &jobs, &mut found);
    let before = earlier(now, ages.nodes);
    let nodes = state.nodes().filter(|node| rules::node_may_go(*node, before)).map(|node| node.id());
    slice(nodes.collect(), before, Garbage::Nodes, &mut found);
    found
}

/// Adds dead jobs with their allocations and evaluations. Returns the keys of the jobs.
fn jobs(state: &State, before: Timestamp, found: &mut Vec<CollectGarbage>) -> BTreeSet<JobKey> {
    let jobs = state.jobs().filter(|job| rules::job_may_go(state, job, before));
    let jobs: BTreeSet<JobKey> = jobs.map(|job| job.key()).collect();
    let allocs = jobs.iter().flat_map(|job| state.allocs_of_job(job)).map(|alloc| alloc.id());
    slice(allocs.collect(), before, |ids| Garbage::Allocs { ids, with_jobs: true }, found);
    let evals = jobs.iter().flat_map(|job| state.evals_of_job(job)).map(|eval| eval.id);
    slice(evals.collect(), before, Garbage::Evals, found);
    slice(jobs.iter().cloned().collect(), before, Garbage::Jobs, found);
    jobs
}

/// Adds terminal evaluations and their allocations. Allocations are added even if their evaluation stays.
fn evals(
    state: &State,
    runs_to_completion: bool,
    now: Timestamp,
    age: Nanos,
    deleted_jobs: &BTreeSet<JobKey>,
    found: &mut Vec<CollectGarbage>,
) {
    let before = earlier(now, age);
    let old = state.evals().filter(|eval| {
        rules::runs_to_completion(eval.kind) == runs_to_completion
            && rules::eval_may_go(eval, before)
            && !deleted_jobs.contains(&eval.job)
    });
    let old: HashSet<EvalId> = old.map(|eval| eval.id).collect();
    let jobs: BTreeSet<&JobKey> = old.iter().filter_map(|id| state.eval(*id)).map(|eval| &eval.job).collect();
    let (mut allocs, mut in_use) = (Vec::new(), HashSet::new());
    for alloc in jobs.into_iter().flat_map(|job| state.allocs_of_job(job)) {
        // An allocation whose evaluation was deleted by a user counts as old, too.
        let is_old = old.contains(&alloc.eval_id()) || state.eval(alloc.eval_id()).is_none();
        if is_old && rules::alloc_may_go(state, alloc, before, now, false) {
            allocs.push(alloc.id());
        } else {
            in_use.insert(alloc.eval_id());
        }
    }
    slice(allocs, before, |ids| Garbage::Allocs { ids, with_jobs: false }, found);
    slice(old.difference(&in_use).copied().collect(), before, Garbage::Evals, found);
}

fn deployments(
    state: &State,
    before: Timestamp,
    deleted_jobs: &BTreeSet<JobKey>,
    found: &mut Vec<CollectGarbage>,
) {
    let old = || state.deployments().filter(|deployment| rules::deployment_may_go(deployment, before));
    let jobs: BTreeSet<&JobKey> = old().map(|deployment| &deployment.job.job).collect();
    let in_use: HashSet<_> = jobs.into_iter().flat_map(|job| rules::deployments_in_use(state, job)).collect();
    let may_go = old()
        .filter(|deployment| !in_use.contains(&deployment.id) && !deleted_jobs.contains(&deployment.job.job));
    slice(may_go.map(|deployment| deployment.id).collect(), before, Garbage::Deployments, found);
}

fn earlier(now: Timestamp, age: Nanos) -> Timestamp {
    Timestamp(now.0.saturating_sub(age.0))
}

/// Splits objects into commands, in a stable order.
fn slice<T: Ord + Clone>(
    mut objects: Vec<T>,
    before: Timestamp,
    garbage: impl Fn(Vec<T>) -> Garbage,
    found: &mut Vec<CollectGarbage>,
) {
    objects.sort_unstable();
    let slices = objects.chunks(GARBAGE_SLICE_MAX);
    found.extend(slices.map(|slice| CollectGarbage { before, garbage: garbage(slice.to_vec()) }));
}
