//! Fast check of a job and its deployment, without reconciliation: whether all allocations are as the job requires, and
//! whether the deployment only waits for them to become healthy.

use std::sync::Arc;

use model::alloc::AllocCommon;
use model::deployment::{Deployment, DeploymentStatus};
use model::job::{Job, JobType};

use crate::nodes::PAGE;
use crate::tables::State;

/// Result of the fast check of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollout {
    /// The deployment is complete: all its allocations are placed and healthy.
    Done,
    /// The deployment waits for placed allocations to become healthy; a scheduler would do nothing.
    Waiting,
    /// Unknown: a scheduler must reconcile the job.
    Open,
}

impl State {
    /// The number of allocations of each group, by group index, if no allocation of the job needs a scheduler: all run the
    /// job's current specification on ready nodes, and none has ended, is migrating or is disconnected. Otherwise `None`.
    ///
    /// Allocations that are terminal on both sides are not counted. For a batch job they lead to `None`, because such an
    /// allocation may have done its work. `is_ready` returns whether the node in a slot is ready.
    pub fn steady_counts(&self, job: &Job, is_ready: impl Fn(u32) -> bool) -> Option<Vec<u32>> {
        let groups = &job.spec.task_groups;
        let mut counts = vec![0u32; groups.len()];
        // Consecutive allocations usually share their common part, and so have the same version and group.
        let mut last: Option<(*const AllocCommon, usize)> = None;
        let is_batch = job.spec.kind == JobType::Batch;
        for alloc in self.allocs_of_job(&job.key()) {
            if !(alloc.is_steady() && is_ready(alloc.node_slot())) {
                let has_ended = alloc.desired_status().is_terminal() && alloc.client_status().is_terminal();
                if has_ended && !is_batch && alloc.extra().states.is_empty() {
                    continue;
                }
                return None;
            }
            let common = Arc::as_ptr(alloc.common());
            let group_index = match last {
                Some((last_common, group_index)) if last_common == common => group_index,
                Some(_) | None => {
                    if alloc.job().job_modify_index != job.job_modify_index {
                        return None;
                    }
                    groups.iter().position(|group| group.name == *alloc.group_name())?
                }
            };
            last = Some((common, group_index));
            counts[group_index] += 1;
        }
        Some(counts)
    }

    /// Checks a deployment without reconciling its job. The result is [`Rollout::Open`] in all cases that are not simple:
    /// while the deployment is paused or has canaries, once an allocation was unhealthy, and for all jobs that are not
    /// service jobs.
    pub fn rollout(&self, deployment: &Deployment) -> Rollout {
        let Some(job) = self.job(&deployment.job.job) else { return Rollout::Open };
        let is_newest = job.version_key() == deployment.job
            && self.latest_deployment(&deployment.job.job).is_some_and(|latest| latest.id == deployment.id);
        let is_simple = job.spec.kind == JobType::Service && job.spec.multiregion.is_none() && !job.spec.stop;
        if !is_newest || !is_simple || deployment.status != DeploymentStatus::Running {
            return Rollout::Open;
        }
        let is_ready = |slot: u32| {
            let (page, bit) = (slot as usize / PAGE, slot as usize % PAGE);
            self.node_page(page).is_some_and(|page| page.ready >> bit & 1 != 0)
        };
        let Some(counts) = self.steady_counts(job, is_ready) else { return Rollout::Open };
        let mut is_healthy = true;
        for (group, count) in job.spec.task_groups.iter().zip(counts) {
            let Some(progress) = deployment.groups.get(&group.name) else { return Rollout::Open };
            if count != group.count || progress.desired_canaries > 0 || progress.unhealthy_allocs > 0 {
                return Rollout::Open;
            }
            is_healthy &= progress.healthy_allocs >= progress.desired_total;
        }
        if is_healthy { Rollout::Done } else { Rollout::Waiting }
    }
}
