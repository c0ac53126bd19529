//! Stops a job, or purges it with everything that belongs to it (N-21).

use std::sync::Arc;

use model::JobKey;
use model::alloc::DesiredTransition;
use model::change::{AllocsChanged, Change, EvalsChanged};
use model::columns::AllocIds;
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{Job, JobSpec, JobStatus, JobType};
use wire::Refusal;
use wire::command::{DeregisterJob, Done, Handler};

use super::submissions::NewSource;
use super::versions::job_modify_index;
use super::work::Work;

/// The priority of an evaluation if neither the command nor the job has one.
const PRIORITY_DEFAULT: u16 = 50;

impl Handler<DeregisterJob> for Work<'_> {
    fn handle(&mut self, command: DeregisterJob) -> Result<Done, Refusal> {
        let key = &command.job;
        let Some(job) = self.state().job(key).cloned() else { return Ok(Done::default()) };
        if command.purge {
            purge(self, &job)?;
        } else {
            if command.no_shutdown_delay {
                skip_shutdown_delays(self, key)?;
            }
            let stopped = JobSpec { stop: true, ..JobSpec::clone(&job.spec) };
            self.write_version(Arc::new(stopped), NewSource::Previous)?;
        }
        if job.spec.template().is_none() {
            let priorities = [command.eval_priority, Some(job.spec.priority)].into_iter().flatten();
            let priority = priorities.into_iter().find(|priority| *priority > 0).unwrap_or(PRIORITY_DEFAULT);
            // Whatever the job's type: the generic scheduler can stop any job.
            self.create_eval(key, JobType::Service, priority, EvalTrigger::JobDeregister, |_| {})?;
        }
        // A purged job has no index of its own any more, so the answer contains this one.
        let object_index = if command.purge { self.index() } else { job_modify_index(self.state(), key) };
        Ok(Done { object_index, ..Done::default() })
    }
}

/// Marks the job's allocations to end without their shutdown delays (N-21.6).
fn skip_shutdown_delays(work: &mut Work<'_>, key: &JobKey) -> Result<(), Refusal> {
    let allocs = work.state().allocs_of_job(key).filter(|alloc| !alloc.client_status().is_terminal());
    let ids: AllocIds = allocs.map(|alloc| alloc.id()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let transition = DesiredTransition { no_shutdown_delay: Some(true), ..DesiredTransition::default() };
    let transition = Some(transition);
    work.change_allocs(AllocsChanged { ids, by_servers: true, transition, ..AllocsChanged::default() })
}

/// Deletes a job with its versions, sources, summary, allocations, deployments and volume claims. Its pending evaluations
/// become complete and its blocked ones canceled (N-21.4). Its children stay. If it is a child that was not dead, its parent
/// counts it as dead from now on (N-21.8).
pub(super) fn purge(work: &mut Work<'_>, job: &Job) -> Result<(), Refusal> {
    let key = job.key();
    for (from, to) in
        [(EvalStatus::Pending, EvalStatus::Complete), (EvalStatus::Blocked, EvalStatus::Canceled)]
    {
        let evals = work.state().live_evals_of_job(&key).filter(|eval| eval.status == from);
        let ids: Vec<_> = evals.map(|eval| eval.id).collect();
        if !ids.is_empty() {
            let status = Some((to, format!("job {} deleted", key.id).into()));
            work.apply(Change::EvalsChanged(EvalsChanged { ids, status, next_eval: None }))?;
        }
    }
    // Agents will not report the end of these allocations, so their resources are free now.
    let held = work.state().allocs_of_job(&key).filter(|alloc| !alloc.client_status().is_terminal());
    let nodes: Vec<_> = held.map(|alloc| alloc.node_id()).collect();
    nodes.into_iter().for_each(|node| work.unblock_node(node));
    let mut allocs: Vec<_> = work.state().allocs_of_job(&key).map(|alloc| alloc.id()).collect();
    if !allocs.is_empty() {
        allocs.sort_unstable();
        work.apply(Change::AllocsDeleted(AllocIds(allocs)))?;
    }
    let deployments: Vec<_> = work.state().deployments_of_job(&key).map(|deployment| deployment.id).collect();
    if !deployments.is_empty() {
        work.apply(Change::DeploymentsDeleted(deployments))?;
    }
    let claims = work.state().volume_claims().filter(|claim| claim.job == key);
    let claims: Vec<_> = claims.map(|claim| claim.id).collect();
    claims.into_iter().try_for_each(|claim| work.apply(Change::VolumeClaimDeleted(claim)))?;
    work.count_child(&job.spec, Some(job.status), JobStatus::Dead);
    if job.spec.template().is_some() {
        work.parents.insert(JobKey::clone(&key));
    }
    work.apply(Change::JobDeleted(key))
}
