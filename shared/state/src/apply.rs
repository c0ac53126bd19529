//! Application of change sets: stores the changed objects and maintains the indexes, without computing consequences
//! (`docs/architecture/state.md`).

use std::sync::Arc;

use model::change::{AllocsChanged, Change, ChangeSet, DeploymentFields, EvalsChanged, Unblocked};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::Job;
use model::node::Node;
use model::plan::Placements;
use model::{DeploymentId, EvalId, JobKey, JobVersionKey};

use crate::error::Inconsistent;
use crate::scope::Table;
use crate::stamp::Stamp;
use crate::tables::{JobIndexes, State, UnblockKey};

impl State {
    /// Advances the state by the change set with the next index.
    ///
    /// # Errors
    /// If the change set does not have the next index, or refers to objects that do not exist. The state is then partly
    /// changed and must be discarded. Apply change sets that may fail to a clone.
    pub fn apply(&mut self, set: &ChangeSet) -> Result<(), Inconsistent> {
        let stamp = Stamp::from(set);
        if stamp.index != self.index.next() {
            return Err(Inconsistent::Gap { state: self.index, found: stamp.index });
        }
        set.changes.iter().try_for_each(|change| self.apply_change(change, stamp))?;
        self.advance(stamp);
        Ok(())
    }

    /// Applies one change of a change set that is still being computed, so that the caller can compute its consequences from
    /// the result. Call [`Self::advance`] after the last change.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_change(&mut self, change: &Change, stamp: Stamp) -> Result<(), Inconsistent> {
        self.touch(table_of(change), stamp.index);
        self.store(change, stamp)
    }

    /// Ends a change set whose changes were applied one by one. The state is then at its index.
    pub fn advance(&mut self, stamp: Stamp) {
        self.index = stamp.index;
        self.at = self.at.max(stamp.at);
    }

    /// Stores complete objects that were loaded from a database, each with its own indexes. The state and all tables are
    /// then at `set.index`, because earlier deletions are unknown.
    ///
    /// Use it to build a state, not to advance one: the index of the change set need not be the next one. Objects without an
    /// index of their own (the last plan of a job, unblock records) get the index of the change set, so each such index needs
    /// a change set of its own.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn load(&mut self, set: &ChangeSet) -> Result<(), Inconsistent> {
        let stamp = Stamp::from(set);
        set.changes.iter().try_for_each(|change| self.store(change, stamp))?;
        self.advance(Stamp { index: self.index.max(stamp.index), ..stamp });
        let index = self.index;
        Table::ALL.into_iter().for_each(|table| self.touch(table, index));
        Ok(())
    }

    fn store(&mut self, change: &Change, stamp: Stamp) -> Result<(), Inconsistent> {
        if !self.scope.has(table_of(change)) {
            return Ok(());
        }
        match change {
            Change::Job(job) => {
                self.jobs.upsert(Arc::clone(job));
                self.touch_job(&job.key(), |indexes| indexes.jobs = stamp.index);
            }
            Change::JobFields(fields) => {
                self.jobs.set_fields(fields, stamp.index)?;
                self.touch_job(&fields.key.job, |indexes| indexes.jobs = stamp.index);
            }
            Change::JobDeleted(key) => {
                self.jobs.delete(key);
                self.job_indexes.remove(key);
                // The sources and the summary of the job are deleted as well.
                self.touch(Table::JobSubmissions, stamp.index);
                self.touch(Table::JobSummaries, stamp.index);
            }
            Change::JobVersionsDeleted(keys) => {
                self.jobs.delete_versions(keys);
                keys.iter().for_each(|key| self.touch_job(&key.job, |indexes| indexes.jobs = stamp.index));
            }
            Change::JobSubmission(submission) => self.jobs.set_submission((**submission).clone()),
            Change::JobSubmissionCopied { from, to } => self.jobs.copy_submission(from, to, stamp.index),
            Change::JobSubmissionsDeleted(keys) => self.jobs.delete_submissions(keys),
            Change::JobSummary(summary) => self.jobs.set_summary(Arc::clone(summary)),
            Change::Eval(eval) | Change::EvalOutcome(eval) => self.upsert_eval(Arc::clone(eval), stamp),
            Change::PlanApplied { job, eval_id } => {
                self.jobs.set_plan_index(job, stamp.index);
                self.edit_eval(*eval_id, stamp, |eval| eval.modify_index = stamp.index);
            }
            Change::EvalsChanged(change) => {
                for id in &change.ids {
                    self.edit_eval(*id, stamp, |eval| change_eval(eval, change, stamp));
                }
            }
            Change::EvalsDeleted(ids) => {
                ids.iter().for_each(|id| self.remove_eval(*id, stamp));
            }
            Change::Deployment(deployment) => self.upsert_deployment(Arc::clone(deployment), stamp),
            Change::DeploymentFields(fields) => {
                if let Some(deployment) = self.deployments.get(&fields.id) {
                    let mut deployment = Deployment::clone(deployment);
                    change_deployment(&mut deployment, fields, stamp);
                    self.upsert_deployment(Arc::new(deployment), stamp);
                }
            }
            Change::DeploymentsDeleted(ids) => {
                ids.iter().for_each(|id| self.remove_deployment(*id, stamp));
            }
            Change::Node(node) => self.nodes.upsert(Arc::new(Node::clone(node)), stamp),
            Change::NodeServerSide { id, server } => {
                if !self.nodes.set_server_side(*id, server) {
                    return Err(Inconsistent::NoNode(*id));
                }
            }
            Change::NodesChanged(change) => {
                for id in &change.ids {
                    if !self.nodes.change(*id, change, stamp) {
                        return Err(Inconsistent::NoNode(*id));
                    }
                }
            }
            Change::NodesDeleted(ids) => ids.iter().for_each(|id| self.nodes.delete(*id)),
            Change::AllocsPlaced(placements) => self.place(placements, stamp)?,
            Change::AllocsChanged(change) => self.change_allocs(change, stamp)?,
            Change::Alloc(alloc) => {
                let job = self.require_job_version(&alloc.common.job)?;
                self.allocs.upsert(alloc, job, &mut self.nodes, stamp)?;
            }
            Change::AllocsDeleted(ids) => self.allocs.delete(&ids.0, &mut self.nodes, stamp),
            Change::SchedulerConfig(config) => self.scheduler_config = Some(*config),
            Change::NodePool(pool) => {
                self.node_pools.insert(pool.name.clone(), Arc::new((**pool).clone()));
            }
            Change::NodePoolDeleted(name) => {
                self.node_pools.remove(name);
            }
            Change::Namespace(namespace) => {
                self.namespaces.insert(namespace.name.clone(), Arc::new((**namespace).clone()));
            }
            Change::NamespaceDeleted(name) => {
                self.namespaces.remove(name);
            }
            Change::RootKey(key) => {
                self.root_keys.insert(key.id, Arc::new((**key).clone()));
            }
            Change::HostVolume(volume) => {
                self.host_volumes.insert(volume.id, Arc::new((**volume).clone()));
            }
            Change::HostVolumeDeleted(id) => {
                self.host_volumes.remove(id);
            }
            Change::CsiVolume(volume) => {
                self.csi_volumes.insert(volume.key.clone(), Arc::new((**volume).clone()));
            }
            Change::CsiVolumeDeleted(key) => {
                self.csi_volumes.remove(key);
            }
            Change::VolumeClaim(claim) => {
                self.volume_claims.insert(claim.id, Arc::new((**claim).clone()));
            }
            Change::VolumeClaimDeleted(id) => {
                self.volume_claims.remove(id);
            }
            Change::Lease(lease) => {
                self.leases.insert(lease.service, *lease);
            }
            Change::Unblocked(unblocked) => self.record_unblocked(unblocked, stamp),
            Change::UnblockedForgotten(before) => {
                let old = self.unblocked.iter().filter(|(_, index)| *index < before);
                let old: Vec<_> = old.map(|(key, _)| key.clone()).collect();
                for key in old {
                    self.unblocked.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn upsert_eval(&mut self, eval: Arc<Evaluation>, stamp: Stamp) {
        let key = (eval.job.clone(), eval.id);
        if let Some(old) = self.evals.get(&eval.id)
            && (&old.job, old.create_index) != (&eval.job, eval.create_index)
        {
            self.remove_eval(eval.id, stamp);
        }
        self.touch_job(&eval.job, |indexes| indexes.evals = stamp.index);
        if eval.status.is_terminal() {
            self.live_evals_by_job.remove(&key);
        } else {
            self.live_evals_by_job.insert(key.clone(), ());
        }
        self.evals_by_job.insert(key, ());
        if self.scope.has_lists() {
            self.evals_by_creation.insert((eval.create_index, eval.id), ());
        }
        self.evals.insert(eval.id, eval);
    }

    /// Changes an evaluation in place. Its job and create index do not change, so that only the index of live evaluations
    /// may need an update.
    fn edit_eval(&mut self, id: EvalId, stamp: Stamp, edit: impl FnOnce(&mut Evaluation)) {
        let Some(eval) = self.evals.get_mut(&id).map(Arc::make_mut) else { return };
        let was_terminal = eval.status.is_terminal();
        edit(eval);
        let (job, is_terminal) = (eval.job.clone(), eval.status.is_terminal());
        self.touch_job(&job, |indexes| indexes.evals = stamp.index);
        match (was_terminal, is_terminal) {
            (false, true) => {
                self.live_evals_by_job.remove(&(job, id));
            }
            (true, false) => {
                self.live_evals_by_job.insert((job, id), ());
            }
            (false, false) | (true, true) => {}
        }
    }

    fn remove_eval(&mut self, id: EvalId, stamp: Stamp) {
        let Some(eval) = self.evals.remove(&id) else { return };
        let key = (eval.job.clone(), id);
        self.evals_by_job.remove(&key);
        self.live_evals_by_job.remove(&key);
        self.evals_by_creation.remove(&(eval.create_index, id));
        self.touch_job(&eval.job, |indexes| indexes.evals = stamp.index);
    }

    fn remove_deployment(&mut self, id: DeploymentId, stamp: Stamp) {
        let Some(deployment) = self.deployments.remove(&id) else { return };
        self.deployments_by_job.remove(&(deployment.job.job.clone(), id));
        self.deployments_by_creation.remove(&(deployment.create_index, id));
        self.touch_job(&deployment.job.job, |indexes| indexes.deployments = stamp.index);
    }

    fn upsert_deployment(&mut self, deployment: Arc<Deployment>, stamp: Stamp) {
        if let Some(old) = self.deployments.get(&deployment.id)
            && (&old.job.job, old.create_index) != (&deployment.job.job, deployment.create_index)
        {
            self.remove_deployment(deployment.id, stamp);
        }
        self.touch_job(&deployment.job.job, |indexes| indexes.deployments = stamp.index);
        self.deployments_by_job.insert((deployment.job.job.clone(), deployment.id), ());
        if self.scope.has_lists() {
            self.deployments_by_creation.insert((deployment.create_index, deployment.id), ());
        }
        self.deployments.insert(deployment.id, deployment);
    }

    /// Updates the indexes of a job. Nothing is recorded for a deleted job, for which readers use the indexes of the tables.
    fn touch_job(&mut self, job: &JobKey, set: impl FnOnce(&mut JobIndexes)) {
        if self.jobs.current(job).is_none() {
            return;
        }
        if !self.job_indexes.contains_key(job) {
            self.job_indexes.insert(job.clone(), JobIndexes::default());
        }
        set(self.job_indexes.get_mut(job).expect("the entry was inserted above"));
    }

    fn place(&mut self, placements: &Placements, stamp: Stamp) -> Result<(), Inconsistent> {
        placements.check()?;
        let job = self.require_job_version(&placements.common.job)?;
        // A deleted node is refused, even if it still has allocations.
        let slot = |id| self.nodes.get(id).map(|(slot, _)| slot).ok_or(Inconsistent::NoNode(id));
        let nodes: Vec<u32> = placements.nodes.iter().map(|id| slot(*id)).collect::<Result<_, _>>()?;
        self.allocs.place(placements, job, &nodes, &mut self.nodes, stamp)
    }

    fn change_allocs(&mut self, change: &AllocsChanged, stamp: Stamp) -> Result<(), Inconsistent> {
        change.check()?;
        let job = change.common.as_ref().map(|common| self.require_job_version(&common.job)).transpose()?;
        self.allocs.change(change, job, &mut self.nodes, stamp)
    }

    fn require_job_version(&self, key: &JobVersionKey) -> Result<Arc<Job>, Inconsistent> {
        let job = self.jobs.version(key).map(Arc::clone);
        job.ok_or_else(|| Inconsistent::NoJobVersion(Box::new(key.clone())))
    }

    fn record_unblocked(&mut self, unblocked: &Unblocked, stamp: Stamp) {
        let classes = unblocked.classes.iter().cloned().map(UnblockKey::Class);
        let quotas = unblocked.quotas.iter().cloned().map(UnblockKey::Quota);
        let resources = unblocked.resources.iter().cloned().map(UnblockKey::Resource);
        for key in classes.chain(quotas).chain(resources) {
            self.unblocked.insert(key, stamp.index);
        }
    }
}

fn change_eval(eval: &mut Evaluation, change: &EvalsChanged, stamp: Stamp) {
    if let Some((status, description)) = &change.status {
        eval.status = *status;
        eval.status_description = description.clone();
    }
    eval.next_eval = change.next_eval.or(eval.next_eval);
    eval.modify_index = stamp.index;
    eval.modify_time = stamp.at;
}

fn change_deployment(deployment: &mut Deployment, fields: &DeploymentFields, stamp: Stamp) {
    if let Some((status, description)) = &fields.status {
        deployment.status = *status;
        deployment.status_description = description.clone();
    }
    for progress in &fields.groups {
        let group = deployment.groups.entry(progress.group.clone()).or_default();
        group.placed_allocs = progress.placed_allocs;
        group.healthy_allocs = progress.healthy_allocs;
        group.unhealthy_allocs = progress.unhealthy_allocs;
        group.require_progress_by = progress.require_progress_by;
        group.placed_canaries.extend(&progress.new_canaries);
    }
    deployment.modify_index = stamp.index;
    deployment.modify_time = stamp.at;
}

/// The table that a change belongs to.
pub(crate) fn table_of(change: &Change) -> Table {
    match change {
        Change::Job(_) | Change::JobFields(_) | Change::JobDeleted(_) | Change::JobVersionsDeleted(_) => {
            Table::Jobs
        }
        Change::JobSubmission(_) | Change::JobSubmissionCopied { .. } | Change::JobSubmissionsDeleted(_) => {
            Table::JobSubmissions
        }
        Change::JobSummary(_) => Table::JobSummaries,
        Change::Eval(_)
        | Change::EvalOutcome(_)
        | Change::PlanApplied { .. }
        | Change::EvalsChanged(_)
        | Change::EvalsDeleted(_) => Table::Evals,
        Change::Deployment(_) | Change::DeploymentFields(_) | Change::DeploymentsDeleted(_) => {
            Table::Deployments
        }
        Change::Node(_)
        | Change::NodeServerSide { .. }
        | Change::NodesChanged(_)
        | Change::NodesDeleted(_) => Table::Nodes,
        Change::AllocsPlaced(_) | Change::AllocsChanged(_) | Change::Alloc(_) | Change::AllocsDeleted(_) => {
            Table::Allocs
        }
        Change::SchedulerConfig(_) => Table::SchedulerConfig,
        Change::NodePool(_) | Change::NodePoolDeleted(_) => Table::NodePools,
        Change::Namespace(_) | Change::NamespaceDeleted(_) => Table::Namespaces,
        Change::HostVolume(_) | Change::HostVolumeDeleted(_) => Table::HostVolumes,
        Change::CsiVolume(_) | Change::CsiVolumeDeleted(_) => Table::CsiVolumes,
        Change::VolumeClaim(_) | Change::VolumeClaimDeleted(_) => Table::VolumeClaims,
        Change::RootKey(_) => Table::RootKeys,
        Change::Lease(_) => Table::Leases,
        Change::Unblocked(_) | Change::UnblockedForgotten(_) => Table::Unblocked,
    }
}
