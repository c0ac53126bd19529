//! Applies the deployment watcher's findings, if they are still true (N-14).

use model::alloc::DesiredTransition;
use model::change::AllocsChanged;
use model::cluster::Singleton;
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus, DeploymentUpdate, description};
use model::{AllocId, Timestamp};
use state::{AllocRef, DeploymentHealth, Rollout};
use wire::Refusal;
use wire::command::{DeploymentFinding, DeploymentStep, Done, Handler, UpdateDeployments};

use super::work::Work;

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
        DeploymentStep::Promote => promote(work, deployment),
        DeploymentStep::FailUnhealthy { allocs } => fail_unhealthy(work, deployment, allocs),
        DeploymentStep::FailLate { progress_by } => fail_late(work, deployment, *progress_by),
    }
}

/// Completes a deployment that has everything it needs; for any other, evaluates its job (N-14.6).
fn advance(work: &mut Work<'_>, deployment: &Deployment) -> Result<(), Refusal> {
    if work.state().rollout(deployment) != Rollout::Done {
        return work.evaluate_deployment(deployment);
    }
    let status = DeploymentStatus::Successful;
    work.set_deployment_status(&DeploymentUpdate {
        id: deployment.id,
        status,
        description: description::SUCCESSFUL.into(),
    })
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

/// Promotes all canaries, if they are still all healthy (N-14.7).
fn promote(work: &mut Work<'_>, deployment: &Deployment) -> Result<(), Refusal> {
    if !DeploymentHealth::of(work.state(), deployment).promotes_itself(deployment) {
        return Ok(());
    }
    work.promote(deployment, &|_| true)
}

/// Fails a deployment if one of these allocations is still unhealthy. The job returns to a stable version if the group of
/// one of them asks for it (N-14.6).
fn fail_unhealthy(work: &mut Work<'_>, deployment: &Deployment, allocs: &[AllocId]) -> Result<(), Refusal> {
    let unhealthy = unhealthy(work, deployment, allocs);
    if unhealthy.is_empty() {
        return Ok(());
    }
    let groups = unhealthy.iter().filter_map(|id| work.state().alloc(*id)).map(|alloc| alloc.group_name());
    let mut groups = groups.filter_map(|name| deployment.groups.get(name));
    let reverts = groups.any(|group| group.auto_revert);
    work.fail_deployment(deployment, description::UNHEALTHY, reverts).map(drop)
}

/// Fails a deployment of which a group is still late. Each healthy allocation, and each pause, postpones the progress
/// deadline (N-12.10, N-13.2). The job returns to a stable version if a group that lacks healthy allocations asks for it
/// (N-14.4).
fn fail_late(work: &mut Work<'_>, deployment: &Deployment, progress_by: Timestamp) -> Result<(), Refusal> {
    let health = DeploymentHealth::of(work.state(), deployment);
    let groups = deployment.groups.iter().filter(|(name, group)| !health.is_enough(name, group));
    let unfinished: Vec<&DeploymentGroup> = groups.map(|(_, group)| group).collect();
    let is_late = |group: &&DeploymentGroup| {
        group.require_progress_by.is_set() && group.require_progress_by <= progress_by
    };
    if deployment.status == DeploymentStatus::Paused || !unfinished.iter().any(is_late) {
        return Ok(());
    }
    let reverts = unfinished.iter().any(|group| group.auto_revert);
    work.fail_deployment(deployment, description::LATE, reverts).map(drop)
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
