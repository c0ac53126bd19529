//! The deployment of the job's current version: which deployment it is, its groups, when it is created and completed
//! (`docs/rules/scheduling.md` §7.3, R-7.17, R-7.88 to ).

use std::sync::Arc;

use model::DeploymentId;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus, DeploymentUpdate, description};
use model::job::{Job, TaskGroup, UpdateStrategy};
use state::AllocRef;

use crate::{Attempt, NewId};

/// A job's deployments, as one attempt sees and changes them.
#[derive(Debug, Default)]
pub(crate) struct Rollout<'a> {
    /// The newest deployment in the snapshot.
    latest: Option<&'a Deployment>,
    /// A deployment of an older version, or a successful one.
    pub(crate) old: Option<&'a Deployment>,
    /// The deployment of the job's current version.
    pub(crate) current: Option<Deployment>,
    /// Whether the plan contains the current deployment in full.
    is_in_plan: bool,
    is_new: bool,
    updates: Vec<DeploymentUpdate>,
}

/// A group's entry in the current deployment.
#[derive(Debug)]
pub(crate) struct GroupEntry {
    pub(crate) group: DeploymentGroup,
    /// Whether the deployment in the snapshot has the group.
    pub(crate) exists: bool,
}

impl GroupEntry {
    /// Whether canaries are tried before anything else is replaced.
    pub(crate) fn is_canarying(&self) -> bool {
        self.group.needs_promotion()
    }
}

/// The update block, unless it is empty.
pub(crate) fn pacing(update: Option<&UpdateStrategy>) -> Option<&UpdateStrategy> {
    update.filter(|update| update.max_parallel > 0)
}

impl<'a> Rollout<'a> {
    /// Selects the current deployment. `job` is `None` if the job is stopped.
    pub(crate) fn of(attempt: &Attempt<'a>, job: Option<&Job>) -> Self {
        let latest = attempt.state.latest_deployment(&attempt.eval.job).map(Arc::as_ref);
        let mut rollout = Self { latest, ..Self::default() };
        let Some(deployment) = latest else { return rollout };
        let ends_with = match job {
            None => description::STOPPED_JOB,
            Some(job) if job.version_key() != deployment.job => {
                rollout.old = latest;
                description::NEWER_JOB
            }
            Some(_) if deployment.status == DeploymentStatus::Successful => {
                rollout.old = latest;
                return rollout;
            }
            Some(_) => {
                rollout.current = Some(deployment.clone());
                return rollout;
            }
        };
        if !deployment.status.is_terminal() {
            rollout.update(deployment.id, DeploymentStatus::Cancelled, ends_with);
        }
        rollout
    }

    /// Makes a successful deployment of the job's version the current one again, to update its totals. It
    /// stays successful.
    pub(crate) fn reopen(&mut self, job: &Job) -> Option<&mut Deployment> {
        let is_done = self.old.is_some_and(|old| old.job == job.version_key());
        if self.current.is_none() && is_done {
            self.current = self.old.cloned();
        }
        self.current.as_mut()
    }

    /// Drops the deployment, so that the plan and the outcome do not refer to it.
    pub(crate) fn forget(&mut self) {
        (self.current, self.latest) = (None, None);
    }

    /// Drops a successful deployment of a job that is stopped: no group refers to it any more.
    pub(crate) fn forget_successful(&mut self) {
        if self.latest.is_some_and(|latest| latest.status == DeploymentStatus::Successful) {
            self.forget();
        }
    }

    /// The deployment that the outcome refers to, whether active or not.
    pub(crate) fn id(&self) -> Option<DeploymentId> {
        self.current.as_ref().or(self.latest).map(|deployment| deployment.id)
    }

    /// Whether the plan changes a deployment so far.
    pub(crate) fn has_changes(&self) -> bool {
        self.is_in_plan || !self.updates.is_empty()
    }

    /// The deployment of new allocations.
    pub(crate) fn active(&self) -> Option<DeploymentId> {
        self.current.as_ref().filter(|current| !current.status.is_terminal()).map(|current| current.id)
    }

    /// Whether the current deployment is paused, pending or initializing.
    pub(crate) fn is_paused(&self) -> bool {
        self.current.as_ref().is_some_and(|current| {
            matches!(
                current.status,
                DeploymentStatus::Paused | DeploymentStatus::Pending | DeploymentStatus::Initializing
            )
        })
    }

    /// Whether the current deployment has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.status == DeploymentStatus::Failed)
    }

    /// Whether an allocation belongs to the current deployment.
    pub(crate) fn has(&self, alloc: AllocRef<'_>) -> bool {
        self.current.as_ref().is_some_and(|current| alloc.deployment_id() == Some(current.id))
    }

    /// A group's entry; a new one if the deployment does not have the group.
    pub(crate) fn entry(&self, group: &TaskGroup, update: Option<&UpdateStrategy>) -> GroupEntry {
        let known = self.current.as_ref().and_then(|current| current.groups.get(&group.name));
        match known {
            Some(known) => GroupEntry { group: known.clone(), exists: true },
            None => GroupEntry { group: new_entry(update), exists: false },
        }
    }

    /// Adds a group to the deployment, which is created with the first group.
    pub(crate) fn attach(
        &mut self,
        attempt: &Attempt<'_>,
        job: &Job,
        group: &TaskGroup,
        entry: DeploymentGroup,
        new_id: NewId<'_>,
    ) {
        let is_new = self.current.is_none();
        let current = self.current.get_or_insert_with(|| begin(attempt, job, attempt.eval.priority, new_id));
        current.groups.insert(group.name.clone(), entry);
        self.is_new |= is_new;
        self.is_in_plan |= self.is_new;
    }

    /// The same for a system job.
    pub(crate) fn attach_to_system(
        &mut self,
        attempt: &Attempt<'_>,
        job: &Job,
        group: &TaskGroup,
        entry: DeploymentGroup,
        new_id: NewId<'_>,
    ) {
        if self.current.is_none() {
            let begun = begin(attempt, job, job.spec.priority, new_id);
            self.update(begun.id, begun.status, description::RUNNING);
            self.current = Some(begun);
        }
        if let Some(current) = &mut self.current {
            current.groups.insert(group.name.clone(), entry);
        }
    }

    /// Updates status and description of a system job's deployment after all groups were reconciled.
    pub(crate) fn conclude_system(&mut self, job: &Job, is_complete: bool) {
        let Some(current) = &mut self.current else { return };
        match promotion_text(current) {
            _ if current.status.is_terminal() => {}
            Some(text) if current.status == DeploymentStatus::Running => {
                current.status_description = text.into();
            }
            Some(_) => {}
            None => {
                let (id, status) = (current.id, current.status);
                if let Some((status, text)) = completed(job, status, is_complete) {
                    self.update(id, status, text);
                } else if status == DeploymentStatus::Initializing {
                    self.update(id, DeploymentStatus::Pending, description::PENDING);
                }
            }
        }
        self.is_in_plan = self.current.as_ref() != self.latest || !self.updates.is_empty();
    }

    /// Updates status and description of the current deployment after all groups were reconciled (R-7.36, R-7.90,
    ///
    pub(crate) fn conclude(&mut self, job: &Job, all_complete: bool) {
        let Some(current) = &mut self.current else { return };
        let (id, status) = (current.id, current.status);
        if status == DeploymentStatus::Initializing {
            self.is_in_plan = true;
        }
        if self.is_new
            && let Some(description) = promotion_text(current)
        {
            current.status_description = description.into();
        }
        if let Some((status, text)) = completed(job, status, all_complete) {
            self.update(id, status, text);
        }
        if status == DeploymentStatus::Initializing {
            self.update(id, DeploymentStatus::Pending, description::PENDING);
        }
    }

    /// The plan's changes of deployments: one deployment in full, and status updates.
    pub(crate) fn into_plan(self) -> (Option<Deployment>, Vec<DeploymentUpdate>) {
        (self.current.filter(|_| self.is_in_plan), self.updates)
    }

    fn update(&mut self, id: DeploymentId, status: DeploymentStatus, description: &str) {
        self.updates.push(DeploymentUpdate { id, status, description: description.into() });
    }
}

/// The new status of a deployment whose groups are complete; `None` if it does not change. The deployment of a job
/// in one region has no others to wait for.
fn completed(
    job: &Job,
    status: DeploymentStatus,
    is_complete: bool,
) -> Option<(DeploymentStatus, &'static str)> {
    let was_released = matches!(status, DeploymentStatus::Unblocking | DeploymentStatus::Successful);
    match (is_complete, job.spec.has_other_regions()) {
        (false, _) => None,
        (true, true) if was_released => None,
        (true, true) => Some((DeploymentStatus::Blocked, description::BLOCKED)),
        (true, false) => Some((DeploymentStatus::Successful, description::SUCCESSFUL)),
    }
}

/// A new deployment of the job, without groups.
fn begin(attempt: &Attempt<'_>, job: &Job, eval_priority: u16, new_id: NewId<'_>) -> Deployment {
    debug_assert_eq!(job.key(), attempt.eval.job);
    Deployment {
        id: DeploymentId::from_bytes(new_id()),
        job: job.version_key(),
        job_modify_index: job.modify_index,
        job_spec_modify_index: job.job_modify_index,
        is_multiregion: job.spec.multiregion.is_some(),
        groups: Default::default(),
        status: DeploymentStatus::Running,
        status_description: description::RUNNING.into(),
        eval_priority,
        create_index: Default::default(),
        modify_index: Default::default(),
        create_time: Default::default(),
        modify_time: Default::default(),
        trace: attempt.eval.trace,
    }
}

/// A new entry for a group.
pub(crate) fn new_entry(update: Option<&UpdateStrategy>) -> DeploymentGroup {
    update.map_or_else(DeploymentGroup::default, |update| DeploymentGroup {
        auto_revert: update.auto_revert,
        auto_promote: update.auto_promote,
        progress_deadline: update.progress_deadline,
        ..DeploymentGroup::default()
    })
}

/// The description of a deployment that waits for a promotion; `None` if it does not wait for one.
fn promotion_text(deployment: &Deployment) -> Option<&'static str> {
    let mut waiting = deployment.groups.values().filter(|group| group.needs_promotion()).peekable();
    waiting.peek()?;
    let is_automatic = waiting.all(|group| group.auto_promote);
    Some(if is_automatic { description::RUNNING_AUTOMATIC } else { description::RUNNING_MANUAL })
}
