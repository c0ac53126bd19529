//! Promotes the canaries of a deployment, at a user's request or because its groups ask for it (N-13.5, R-7.93, R-7.94).

use std::sync::Arc;

use model::alloc::Health;
use model::change::{AllocsChanged, Change};
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus, description};
use model::text::quoted;
use model::{AllocId, Nanos, Text};
use state::DeploymentHealth;
use wire::command::{Done, Handler, PromoteDeployment};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal_of};

/// Groups that need no promotion are ignored, and so are unknown ones.
impl Handler<PromoteDeployment> for Work<'_> {
    fn handle(&mut self, command: PromoteDeployment) -> Result<Done, Refusal> {
        let deployment = self.active_deployment(command.id, "can't promote terminal deployment")?;
        let is_chosen = |name: &Text| command.groups.as_ref().is_none_or(|groups| groups.contains(name));
        check_canaries(self, &deployment, &is_chosen)?;
        self.promote(&deployment, &is_chosen)?;
        let object_index = self.state().deployment(command.id).map_or(self.index(), |one| one.modify_index);
        Ok(Done { object_index, ..Done::default() })
    }
}

/// Refuses a promotion while a chosen group has fewer healthy canaries than it desires.
fn check_canaries(
    work: &Work<'_>,
    deployment: &Deployment,
    is_chosen: &dyn Fn(&Text) -> bool,
) -> Result<(), Refusal> {
    let health = DeploymentHealth::of(work.state(), deployment);
    let mut problems = Vec::new();
    for (name, group) in deployment.groups.iter().filter(|(name, group)| is_waiting(name, group, is_chosen)) {
        let (have, need) = (health.group(name).canaries, group.desired_canaries);
        if have < need {
            problems.push(format!("Task group {} has {have}/{need} healthy allocations", quoted(name)));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(refusal_of(RefusalKind::Conflict, &problems)) }
}

fn is_waiting(name: &Text, group: &DeploymentGroup, is_chosen: &dyn Fn(&Text) -> bool) -> bool {
    group.needs_promotion() && is_chosen(name)
}

impl Work<'_> {
    /// Promotes the chosen groups of a deployment, and evaluates its job. The canaries become ordinary allocations, which
    /// their agents get to know.
    pub(super) fn promote(
        &mut self,
        deployment: &Deployment,
        is_chosen: &dyn Fn(&Text) -> bool,
    ) -> Result<(), Refusal> {
        let canaries = self.waiting_canaries(deployment, is_chosen);
        let promoted = self.promoted(deployment, is_chosen);
        if let Some(promoted) = promoted {
            self.apply(Change::Deployment(Arc::new(promoted)))?;
        }
        for (health, ids) in canaries {
            let health = Some(Some(Health { canary: false, ..health }));
            let ids = AllocIds(ids);
            self.change_allocs(AllocsChanged { ids, by_servers: true, health, ..AllocsChanged::default() })?;
        }
        self.evaluate_deployment(deployment)
    }

    /// The deployment after the promotion; `None` if no group is promoted.
    fn promoted(&self, deployment: &Deployment, is_chosen: &dyn Fn(&Text) -> bool) -> Option<Deployment> {
        let promoted = |(name, group): (&Text, &DeploymentGroup)| {
            let mut group = group.clone();
            if is_waiting(name, &group, is_chosen) {
                group.promoted = true;
                if group.progress_deadline != Nanos::ZERO {
                    group.require_progress_by = self.at() + group.progress_deadline;
                }
            }
            (Text::clone(name), group)
        };
        let mut after = Deployment {
            groups: deployment.groups.iter().map(promoted).collect(),
            modify_index: self.index(),
            modify_time: self.at(),
            ..deployment.clone()
        };
        let waits = after.groups.values().any(DeploymentGroup::needs_promotion);
        if !waits && after.status == DeploymentStatus::Running {
            after.status_description = description::RUNNING.into();
        }
        (after.groups != deployment.groups).then_some(after)
    }

    /// The canaries of the chosen groups that are not terminal. Adjacent ones with the same health are together.
    fn waiting_canaries(
        &self,
        deployment: &Deployment,
        is_chosen: &dyn Fn(&Text) -> bool,
    ) -> Vec<(Health, Vec<AllocId>)> {
        let mut canaries: Vec<(Health, Vec<AllocId>)> = Vec::new();
        for alloc in self.state().allocs_of_job(&deployment.job.job) {
            let name = alloc.group_name();
            let group = deployment.groups.get(name).filter(|group| is_waiting(name, group, is_chosen));
            let health = alloc.health().filter(|health| health.canary);
            let (Some(_), Some(health)) = (group, health) else { continue };
            if alloc.deployment_id() != Some(deployment.id) || alloc.is_terminal() {
                continue;
            }
            match canaries.last_mut() {
                Some((same, ids)) if *same == health => ids.push(alloc.id()),
                Some(_) | None => canaries.push((health, vec![alloc.id()])),
            }
        }
        canaries
    }
}
