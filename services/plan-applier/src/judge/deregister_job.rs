//! A job is stopped, or forgotten with all that belongs to it (N-21).

use std::sync::Arc;

use model::JobKey;
use model::alloc::DesiredTransition;
use model::change::{AllocsChanged, Change, EvalsChanged};
use model::columns::AllocIds;
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{Job, JobSpec, JobType};
use wire::Refusal;
use wire::command::{DeregisterJob, Done};

use super::jobs::is_template;
use super::versions::job_modify_index;
use super::work::Work;

/// The priority of the evaluation for a job that has none.
const PRIORITY_DEFAULT: u16 = 50;

pub(super) fn deregister_job(work: &mut Work<'_>, command: &DeregisterJob) -> Result<Done, Refusal> {
    let key = &command.job;
    let Some(job) = work.state().job(key).cloned() else { return Ok(Done::default()) };
    if command.purge {
        purge(work, &job)?;
    } else {
        if command.no_shutdown_delay {
            skip_shutdown_delays(work, key)?;
        }
        work.write_version(Arc::new(JobSpec { stop: true, ..JobSpec::clone(&job.spec) }), None)?;
    }
    if !is_template(&job) {
        let asked = [command.eval_priority, Some(job.spec.priority)].into_iter().flatten();
        let priority = asked.into_iter().find(|priority| *priority > 0).unwrap_or(PRIORITY_DEFAULT);
        // Whatever the job's type: the generic scheduler knows how to stop any.
        work.make_eval(key, JobType::Service, priority, EvalTrigger::JobDeregister, |_| {})?;
    }
    // Of a job that is gone, this is the last index.
    let object_index = if command.purge { work.index() } else { job_modify_index(work.state(), key) };
    Ok(Done { object_index, ..Done::default() })
}

/// Has the job's allocations end without their shutdown delays (N-21.6).
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

/// Forgets a job with its versions, their sources, its summary, allocations and deployments; nothing waits for it any
/// more (N-21.4).
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
    // No agent will report these, so their room is free now.
    let held = work.state().allocs_of_job(&key).filter(|alloc| !alloc.client_status().is_terminal());
    let nodes: Vec<_> = held.map(|alloc| alloc.node_id()).collect();
    nodes.into_iter().for_each(|node| work.gain_room(node));
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
    work.apply(Change::JobDeleted(key))
}
