//! Deletes garbage. The rules are checked again, because the garbage was found in an older state;
//! objects that are needed again are kept.

use std::collections::{BTreeMap, HashSet};

use model::change::Change;
use model::columns::AllocIds;
use model::{AllocId, DeploymentId, EvalId, JobKey, NodeId, Timestamp};
use wire::command::{CollectGarbage, Done, GARBAGE_SLICE_MAX, Garbage, Handler};
use wire::{Refusal, RefusalKind};

use super::deregister_job::purge;
use super::host_volumes;
use super::nodes::affected_jobs;
use super::work::{Work, refusal};
use crate::garbage::rules;

impl Handler<CollectGarbage> for Work<'_> {
    fn handle(&mut self, command: CollectGarbage) -> Result<Done, Refusal> {
        let CollectGarbage { before, garbage } = command;
        let len = match &garbage {
            Garbage::Allocs { ids, .. } => ids.len(),
            Garbage::Evals(ids) => ids.len(),
            Garbage::Jobs(keys) => keys.len(),
            Garbage::Deployments(ids) => ids.len(),
            Garbage::Nodes(ids) => ids.len(),
        };
        if len > GARBAGE_SLICE_MAX {
            let message = format!("{len} objects are more than the {GARBAGE_SLICE_MAX} that may go at once");
            return Err(refusal(RefusalKind::Invalid, message));
        }
        match garbage {
            Garbage::Allocs { ids, with_jobs } => delete_allocs(self, ids, before, with_jobs)?,
            Garbage::Evals(ids) => delete_evals(self, ids, before)?,
            Garbage::Jobs(keys) => keys.iter().try_for_each(|key| delete_job(self, key, before))?,
            Garbage::Deployments(ids) => delete_deployments(self, ids, before)?,
            Garbage::Nodes(ids) => delete_nodes(self, ids, before)?,
        }
        Ok(Done::default())
    }
}

fn delete_allocs(
    work: &mut Work<'_>,
    mut ids: Vec<AllocId>,
    before: Timestamp,
    with_jobs: bool,
) -> Result<(), Refusal> {
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|id| {
        let alloc = work.state().alloc(*id);
        alloc.is_some_and(|alloc| rules::alloc_may_go(work.state(), alloc, before, work.at(), with_jobs))
    });
    // Agents will not report the end of these allocations, so their resources are free now.
    let held = ids.iter().filter_map(|id| work.state().alloc(*id));
    let held = held.filter(|alloc| !alloc.client_status().is_terminal()).map(|alloc| alloc.node_id());
    let held: Vec<NodeId> = held.collect();
    held.into_iter().for_each(|node| work.unblock_node(node));
    if ids.is_empty() { Ok(()) } else { work.apply(Change::AllocsDeleted(AllocIds(ids))) }
}

/// Deletes evaluations that have no allocations left.
fn delete_evals(work: &mut Work<'_>, mut ids: Vec<EvalId>, before: Timestamp) -> Result<(), Refusal> {
    let state = work.state();
    let mut in_use: BTreeMap<&JobKey, HashSet<EvalId>> = BTreeMap::new();
    ids.retain(|id| {
        let Some(eval) = state.eval(*id).filter(|eval| rules::eval_may_go(eval, before)) else {
            return false;
        };
        let of_allocs = || state.allocs_of_job(&eval.job).map(|alloc| alloc.eval_id()).collect();
        !in_use.entry(&eval.job).or_insert_with(of_allocs).contains(id)
    });
    if ids.is_empty() { Ok(()) } else { work.apply(Change::EvalsDeleted(ids)) }
}

/// Deletes a job once it has no evaluations and no allocations left. This creates no evaluation.
fn delete_job(work: &mut Work<'_>, key: &JobKey, before: Timestamp) -> Result<(), Refusal> {
    let state = work.state();
    let Some(job) = state.job(key).filter(|job| rules::job_may_go(state, job, before)).cloned() else {
        return Ok(());
    };
    let is_empty = state.evals_of_job(key).next().is_none() && state.allocs_of_job(key).len() == 0;
    if is_empty { purge(work, &job) } else { Ok(()) }
}

fn delete_deployments(
    work: &mut Work<'_>,
    mut ids: Vec<DeploymentId>,
    before: Timestamp,
) -> Result<(), Refusal> {
    let state = work.state();
    let mut in_use = BTreeMap::new();
    ids.retain(|id| {
        let Some(deployment) = state.deployment(*id) else { return false };
        let key = &deployment.job.job;
        let in_use = in_use.entry(key).or_insert_with(|| rules::deployments_in_use(state, key));
        rules::deployment_may_go(deployment, before) && !in_use.contains(id)
    });
    if ids.is_empty() { Ok(()) } else { work.apply(Change::DeploymentsDeleted(ids)) }
}

fn delete_nodes(work: &mut Work<'_>, mut ids: Vec<NodeId>, before: Timestamp) -> Result<(), Refusal> {
    let state = work.state();
    ids.retain(|id| state.node(*id).is_some_and(|node| rules::node_may_go(node, before)));
    if ids.is_empty() {
        return Ok(());
    }
    let affected = affected_jobs(state, &ids);
    host_volumes::lose_nodes(work, &ids)?;
    work.apply(Change::NodesDeleted(ids))?;
    work.evaluate_affected(affected)
}
