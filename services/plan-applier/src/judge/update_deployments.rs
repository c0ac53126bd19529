//! Applies the deployment watcher's findings, if they are still true (N-14).

use model::alloc::DesiredTransition;
use model::change::AllocsChanged;
use model::cluster::Singleton;
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus, DeploymentUpdate};
use model::{AllocId, Timestamp};
use state::{AllocRef, Rollout};
use wire::Refusal;
use wire::command::{DeploymentFinding, DeploymentStep, Done, Handler, UpdateDeployments};

use super::work::Work;

const DONE: &str = "Deployment completed successfully";
const UNHEALTHY: &str = "Failed due to unhealthy allocations";
const LATE: &str = "Failed due to progress deadline";

/// Findings about terminal or deleted deployments are ignored.
impl Handler<UpdateDeployments> for Work<'_> {
    fn handle(&mut self, command: UpdateDeployments) -> Result<Done, Refusal> {
        self.check_epoch(Singleton::DeploymentWatcher, command.epoch)?;
        for DeploymentFinding { id, step } in &command.findings {
            let Some(deployment) = self.state().deployment(*id).cloned() else { continue };
            if !deployment.status.is_terminal() {
                apply_step(self, &deployment, step)?;
            }
        }
        Ok(Done::default())
    }
}

fn apply_step(work: &mut Work<'_>, deployment: &Deployment, step: &DeploymentStep) -> Result<(), Refusal> {
    match step {
        DeploymentStep::Advance => advance(work, deployment),
        DeploymentStep::Replace { allocs } => replace(work, deployment, allocs),
        DeploymentStep::FailUnhealthy { allocs } if !unhealthy(work, deployment, allocs).is_empty() => {
            work.fail_deployment(deployment, UNHEALTHY)
        }
        DeploymentStep::FailLate { progress_by } if is_late(deployment, *progress_by) => {
            work.fail_deployment(deployment, LATE)
        }
        DeploymentStep::FailUnhealthy { .. } | DeploymentStep::FailLate { .. } => Ok(()),
    }
}

/// Completes a deployment that has everything it needs; for any other, evaluates its job (N-14.6).
fn advance(work: &mut Work<'_>, deployment: &Deployment) -> Result<(), Refusal> {
    if work.state().rollout(deployment) != Rollout::Done {
        return work.evaluate_deployment(deployment);
    }
    let status = DeploymentStatus::Successful;
    work.set_deployment_status(&DeploymentUpdate { id: deployment.id, status, description: DONE.into() })
}

/// Marks unhealthy allocations for replacement by the scheduler (N-14.6).
fn replace(work: &mut Work<'_>, deployment: &Deployment, allocs: &[AllocId]) -> Result<(), Refusal> {
    let mut ids = unhealthy(work, deployment, allocs);
    ids.retain(|id| {
        let alloc = work.state().alloc(*id);
        alloc.is_some_and(|alloc| alloc.transition().reschedule != Some(true))
    });
    if ids.is_empty() {
        return Ok(());
    }
    work.change_allocs(AllocsChanged {
        ids: AllocIds(ids),
        by_servers: true,
        transition: Some(DesiredTransition { reschedule: Some(true), ..DesiredTransition::default() }),
        ..AllocsChanged::default()
    })?;
    work.evaluate_deployment(deployment)
}

/// Those of `allocs` that are unhealthy in the deployment.
fn unhealthy(work: &Work<'_>, deployment: &Deployment, allocs: &[AllocId]) -> Vec<AllocId> {
    let is_unhealthy = |alloc: &AllocRef<'_>| {
        alloc.deployment_id() == Some(deployment.id)
            && alloc.health().is_some_and(|health| health.healthy == Some(false))
    };
    let allocs = allocs.iter().filter_map(|id| work.state().alloc(*id));
    allocs.filter(is_unhealthy).map(|alloc| alloc.id()).collect()
}

/// Whether the progress deadline of a group was at or before `progress_by`. Each healthy allocation, and each pause,
/// postpones the deadline (N-12.10, N-13.2).
fn is_late(deployment: &Deployment, progress_by: Timestamp) -> bool {
    let is_late = |group: &DeploymentGroup| {
        group.require_progress_by.is_set() && group.require_progress_by <= progress_by
    };
    deployment.status != DeploymentStatus::Paused && deployment.groups.values().any(is_late)
}
