//! What can be told of a job and its deployment at a glance, without a scheduler's reconciliation: that all is as it should
//! be, or waits only for its allocations to become healthy.

use std::sync::Arc;

use model::alloc::AllocCommon;
use model::deployment::{Deployment, DeploymentStatus};
use model::job::{Job, JobType};

use crate::nodes::PAGE;
use crate::tables::State;

/// What is left to do for a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollout {
    /// Nothing: all that it wants is there, and healthy.
    Done,
    /// Nothing before more of it is healthy.
    Waiting,
    /// Perhaps something: that is for a scheduler to say.
    Open,
}

impl State {
    /// How many allocations each of a job's groups has, where everything is as it should be: all are of the job's
    /// specification, none ended, moving or out of sight, and all on nodes that are ready. `None` where something is not.
    ///
    /// What is over does not count; of a batch job it may have done what it was for, so there it is not as it should be.
    /// `is_ready` says it of the node in a slot.
    pub fn settled_counts(&self, job: &Job, is_ready: impl Fn(u32) -> bool) -> Option<Vec<u32>> {
        let groups = &job.spec.task_groups;
        let mut counts = vec![0u32; groups.len()];
        // Neighbours mostly share their common part, and with it version and group.
        let mut last: Option<(*const AllocCommon, usize)> = None;
        let is_batch = job.spec.kind == JobType::Batch;
        for alloc in self.allocs_of_job(&job.key()) {
            if !(alloc.is_undisturbed() && is_ready(alloc.node_slot())) {
                let is_over = alloc.desired_status().is_terminal() && alloc.client_status().is_terminal();
                if is_over && !is_batch && alloc.extra().states.is_empty() {
                    continue;
                }
                return None;
            }
            let common = Arc::as_ptr(alloc.common());
            let group = match last {
                Some((of, group)) if of == common => group,
                Some(_) | None => {
                    if alloc.job().job_modify_index != job.job_modify_index {
                        return None;
                    }
                    groups.iter().position(|group| group.name == *alloc.group_name())?
                }
            };
            last = Some((common, group));
            counts[group] += 1;
        }
        Some(counts)
    }

    /// What is left to do for a deployment. [`Rollout::Open`] wherever that takes more than a glance: while it rests or
    /// tries canaries, once something was unhealthy, and for jobs that run on every node.
    pub fn rollout(&self, deployment: &Deployment) -> Rollout {
        let Some(job) = self.job(&deployment.job.job) else { return Rollout::Open };
        let is_newest = job.version_key() == deployment.job
            && self.latest_deployment(&deployment.job.job).is_some_and(|latest| latest.id == deployment.id);
        let is_simple = job.spec.kind == JobType::Service && job.spec.multiregion.is_none() && !job.spec.stop;
        if !is_newest || !is_simple || deployment.status != DeploymentStatus::Running {
            return Rollout::Open;
        }
        let is_ready = |slot: u32| {
            let (page, place) = (slot as usize / PAGE, slot as usize % PAGE);
            self.node_page(page).is_some_and(|page| page.ready >> place & 1 != 0)
        };
        let Some(counts) = self.settled_counts(job, is_ready) else { return Rollout::Open };
        let mut is_healthy = true;
        for (group, count) in job.spec.task_groups.iter().zip(counts) {
            let Some(part) = deployment.groups.get(&group.name) else { return Rollout::Open };
            if count != group.count || part.desired_canaries > 0 || part.unhealthy_allocs > 0 {
                return Rollout::Open;
            }
            is_healthy &= part.healthy_allocs >= part.desired_total;
        }
        if is_healthy { Rollout::Done } else { Rollout::Waiting }
    }
}
