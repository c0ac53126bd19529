//! Consequences for deployments: counters when their allocations change (N-12.8 to N-12.11), and status changes that a plan
//! or a command requests.

use std::sync::Arc;

use model::alloc::AllocCommon;
use model::change::{Change, DeploymentFields, DeploymentProgress, JobFields};
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus, DeploymentUpdate};
use model::eval::EvalTrigger;
use model::{AllocId, DeploymentId, Nanos, Text, Timestamp};
use wire::{Refusal, RefusalKind};

use super::jobs;
use super::work::{Work, refusal};

impl Work<'_> {
    /// Counts allocations that are new in their deployment (N-12.8 to N-12.10).
    pub(super) fn count_placed(&mut self, common: &AllocCommon, count: u32, canaries: &[AllocId]) {
        let at = self.at();
        let Some(id) = common.deployment_id else { return };
        let Some((progress, deadline)) = self.progress(id, &common.task_group) else { return };
        progress.placed_allocs += count;
        progress.new_canaries.extend(canaries);
        if deadline != Nanos::ZERO && !progress.require_progress_by.is_set() {
            progress.require_progress_by = at + deadline;
        }
    }

    /// Counts a health verdict on one allocation: the first one, or a change from healthy to unhealthy (N-12.8, N-12.10).
    pub(super) fn count_verdict(
        &mut self,
        common: &AllocCommon,
        before: Option<bool>,
        (healthy, at): (bool, Timestamp),
    ) {
        let Some(id) = common.deployment_id else { return };
        let Some((progress, deadline)) = self.progress(id, &common.task_group) else { return };
        match (before, healthy) {
            (None, true) => {
                progress.healthy_allocs += 1;
                if deadline != Nanos::ZERO {
                    progress.require_progress_by = progress.require_progress_by.max(at + deadline);
                }
            }
            (None, false) => progress.unhealthy_allocs += 1,
            (Some(true), false) => {
                progress.healthy_allocs = progress.healthy_allocs.saturating_sub(1);
                progress.unhealthy_allocs += 1;
            }
            (Some(true), true) | (Some(false), _) => {}
        }
    }

    /// Sets a deployment's status, unless it is terminal or deleted.
    pub(super) fn set_deployment_status(&mut self, update: &DeploymentUpdate) -> Result<(), Refusal> {
        let Some(deployment) = self.state().deployment(update.id).cloned() else { return Ok(()) };
        if deployment.status.is_terminal() {
            return Ok(());
        }
        if matches!(update.status, DeploymentStatus::Paused | DeploymentStatus::Running) {
            let at = self.at();
            for group in deployment.groups.keys() {
                let Some((progress, deadline)) = self.progress(update.id, group) else { continue };
                if deadline != Nanos::ZERO {
                    progress.require_progress_by = at + deadline;
                }
            }
        }
        let status = (update.status, Text::clone(&update.description));
        self.deployments.entry(update.id).or_default().status = Some(status);
        self.touch_job(&deployment.job.job);
        if update.status == DeploymentStatus::Successful
            && let Some(version) = self.state().job_version(&deployment.job).filter(|version| !version.stable)
        {
            let fields = JobFields { stable: true, ..jobs::fields(version) };
            self.apply(Change::JobFields(fields))?;
        }
        Ok(())
    }

    /// The deployment that a user's command is about (N-15.1).
    ///
    /// # Errors
    /// If it does not exist, or if it is terminal. `forbidden` says what cannot be done to a terminal one.
    pub(super) fn active_deployment(
        &self,
        id: DeploymentId,
        forbidden: &str,
    ) -> Result<Arc<Deployment>, Refusal> {
        let Some(deployment) = self.state().deployment(id) else {
            return Err(refusal(RefusalKind::NotFound, "deployment not found"));
        };
        if deployment.status.is_terminal() {
            return Err(refusal(RefusalKind::Invalid, forbidden));
        }
        Ok(Arc::clone(deployment))
    }

    /// Creates an evaluation of a deployment's job for the deployment (N-14.8).
    pub(super) fn evaluate_deployment(&mut self, deployment: &Deployment) -> Result<(), Refusal> {
        let key = &deployment.job.job;
        let Some(job) = self.state().job(key).cloned() else { return Ok(()) };
        let priority =
            if deployment.eval_priority > 0 { deployment.eval_priority } else { job.spec.priority };
        self.create_eval(key, job.spec.kind, priority, EvalTrigger::DeploymentWatcher, |eval| {
            eval.deployment_id = Some(deployment.id);
        })?;
        Ok(())
    }

    /// Writes counters and statuses that have changed.
    pub(super) fn write_deployments(&mut self) -> Result<(), Refusal> {
        for (id, touched) in std::mem::take(&mut self.deployments) {
            let Some(stored) = self.state().deployment(id) else { continue };
            let is_new = |(name, progress): &(Text, DeploymentProgress)| {
                stored.groups.get(name).is_none_or(|group| *progress != progress_of(name, group))
            };
            let groups = touched.groups.into_iter().filter(is_new).map(|(_, progress)| progress);
            let fields = DeploymentFields { id, status: touched.status, groups: groups.collect() };
            if fields.status.is_some() || !fields.groups.is_empty() {
                self.apply(Change::DeploymentFields(Box::new(fields)))?;
            }
        }
        Ok(())
    }

    /// The progress of a group in a deployment, and the group's progress deadline. `None` if the group is not part of the
    /// deployment.
    fn progress(&mut self, id: DeploymentId, group: &Text) -> Option<(&mut DeploymentProgress, Nanos)> {
        let stored = self.state().deployment(id)?.groups.get(group)?;
        let (stored, deadline) = (progress_of(group, stored), stored.progress_deadline);
        let touched = self.deployments.entry(id).or_default();
        Some((touched.groups.entry(Text::clone(group)).or_insert(stored), deadline))
    }
}

fn progress_of(name: &Text, group: &DeploymentGroup) -> DeploymentProgress {
    DeploymentProgress {
        group: Text::clone(name),
        placed_allocs: group.placed_allocs,
        healthy_allocs: group.healthy_allocs,
        unhealthy_allocs: group.unhealthy_allocs,
        require_progress_by: group.require_progress_by,
        new_canaries: Vec::new(),
    }
}
