//! Application of change sets: stores the changed objects and maintains the indexes, without computing consequences
//! (`docs/architecture/state.md`).

use std::sync::Arc;

use model::change::{
    AllocChange, AllocsChanged, Change, ChangeSet, Concern, DeploymentChange, DeploymentFields, EvalChange,
    EvalsChanged, JobChange, JobSubmissionChange, JobSummaryChange, LeaseChange, NodeChange,
    SchedulerConfigChange, Unblocked, UnblockedChange,
};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::Job;
use model::node::Node;
use model::plan::Placements;
use model::{DeploymentId, EvalId, JobKey, JobVersionKey, Table};

use crate::error::Inconsistent;
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
        self.touch(change.table(), stamp.index);
        self.store(change, stamp)
    }

    /// Ends a change set whose changes were applied one by one. The state is then at its index.
    pub fn advance(&mut self, stamp: Stamp) {
        self.index = stamp.index;
        self.at = self.at.max(stamp.at);
        self.last_request = stamp.request_id;
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
        self.advance(Stamp { index: self.index.max(stamp.index), request_id: None, ..stamp });
        let index = self.index;
        Table::ALL.into_iter().for_each(|table| self.touch(table, index));
        Ok(())
    }

    fn store(&mut self, change: &Change, stamp: Stamp) -> Result<(), Inconsistent> {
        if !self.scope.has(change.table()) {
            return Ok(());
        }
        match change.concern() {
            Concern::Jobs(change) => self.store_job(change, stamp)?,
            Concern::JobSubmissions(change) => self.store_submission(change, stamp),
            Concern::JobSummaries(JobSummaryChange::JobSummary(summary)) => {
                self.jobs.set_summary(Arc::clone(summary));
            }
            Concern::Evals(change) => self.store_eval(change, stamp),
            Concern::Deployments(change) => self.store_deployment(change, stamp),
            Concern::Nodes(change) => self.store_node(change, stamp)?,
            Concern::Allocs(change) => self.store_alloc(change, stamp)?,
            Concern::SchedulerConfig(SchedulerConfigChange::SchedulerConfig(config)) => {
                self.scheduler_config = Some(*config);
            }
            Concern::Leases(LeaseChange::Lease(lease)) => {
                self.leases.insert(lease.service, *lease);
            }
            Concern::Unblocked(change) => self.store_unblocked(change, stamp),
            Concern::Small(change) => self.small.apply(change),
        }
        Ok(())
    }

    fn store_job(&mut self, change: JobChange<'_>, stamp: Stamp) -> Result<(), Inconsistent> {
        match change {
            JobChange::Job(job) => {
                self.jobs.upsert(Arc::clone(job));
                self.touch_job(&job.key(), |indexes| indexes.jobs = stamp.index);
            }
            JobChange::JobFields(fields) => {
                self.jobs.set_fields(fields, stamp.index)?;
                self.touch_job(&fields.key.job, |indexes| indexes.jobs = stamp.index);
            }
            JobChange::JobDeleted(key) => {
                self.jobs.delete(key);
                self.job_indexes.remove(key);
                // The sources and the summary of the job are deleted as well.
                self.touch(Table::JobSubmissions, stamp.index);
                self.touch(Table::JobSummaries, stamp.index);
            }
            JobChange::JobVersionsDeleted(keys) => {
                self.jobs.delete_versions(keys);
                keys.iter().for_each(|key| self.touch_job(&key.job, |indexes| indexes.jobs = stamp.index));
            }
        }
        Ok(())
    }

    fn store_submission(&mut self, change: JobSubmissionChange<'_>, stamp: Stamp) {
        match change {
            JobSubmissionChange::JobSubmission(submission) => {
                self.jobs.set_submission((**submission).clone());
            }
            JobSubmissionChange::JobSubmissionCopied { from, to } => {
                self.jobs.copy_submission(from, to, stamp.index);
            }
            JobSubmissionChange::JobSubmissionsDeleted(keys) => self.jobs.delete_submissions(keys),
        }
    }

    fn store_eval(&mut self, change: EvalChange<'_>, stamp: Stamp) {
        match change {
            EvalChange::Eval(eval) | EvalChange::EvalOutcome(eval) => {
                self.upsert_eval(Arc::clone(eval), stamp);
            }
            EvalChange::PlanApplied { job, eval_id } => {
                self.jobs.set_plan_index(job, stamp.index);
                self.edit_eval(*eval_id, stamp, |eval| eval.modify_index = stamp.index);
            }
            EvalChange::EvalsChanged(change) => {
                for id in &change.ids {
                    self.edit_eval(*id, stamp, |eval| change_eval(eval, change, stamp));
                }
            }
            EvalChange::EvalsDeleted(ids) => ids.iter().for_each(|id| self.remove_eval(*id, stamp)),
        }
    }

    fn store_deployment(&mut self, change: DeploymentChange<'_>, stamp: Stamp) {
        match change {
            DeploymentChange::Deployment(deployment) => {
                self.upsert_deployment(Arc::clone(deployment), stamp);
            }
            DeploymentChange::DeploymentFields(fields) => {
                if let Some(deployment) = self.deployments.get(&fields.id) {
                    let mut deployment = Deployment::clone(deployment);
                    change_deployment(&mut deployment, fields, stamp);
                    self.upsert_deployment(Arc::new(deployment), stamp);
                }
            }
            DeploymentChange::DeploymentsDeleted(ids) => {
                ids.iter().for_each(|id| self.remove_deployment(*id, stamp));
            }
        }
    }

    fn store_node(&mut self, change: NodeChange<'_>, stamp: Stamp) -> Result<(), Inconsistent> {
        match change {
            NodeChange::Node(node) => self.nodes.upsert(Arc::new(Node::clone(node)), stamp),
            NodeChange::NodeServerSide { id, server } => {
                if !self.nodes.set_server_side(*id, server) {
                    return Err(Inconsistent::NoNode(*id));
                }
            }
            NodeChange::NodesChanged(change) => {
                for id in &change.ids {
                    if !self.nodes.change(*id, change, stamp) {
                        return Err(Inconsistent::NoNode(*id));
                    }
                }
            }
            NodeChange::NodesDeleted(ids) => ids.iter().for_each(|id| self.nodes.delete(*id)),
        }
        Ok(())
    }

    fn store_alloc(&mut self, change: AllocChange<'_>, stamp: Stamp) -> Result<(), Inconsistent> {
        match change {
            AllocChange::AllocsPlaced(placements) => self.place(placements, stamp)?,
            AllocChange::AllocsChanged(change) => self.change_allocs(change, stamp)?,
            AllocChange::Alloc(alloc) => {
                let job = self.require_job_version(&alloc.common.job)?;
                self.allocs.upsert(alloc, job, &mut self.nodes, stamp)?;
            }
            AllocChange::AllocsDeleted(ids) => self.allocs.delete(&ids.0, &mut self.nodes, stamp),
        }
        Ok(())
    }

    fn store_unblocked(&mut self, change: UnblockedChange<'_>, stamp: Stamp) {
        match change {
            UnblockedChange::Unblocked(unblocked) => self.record_unblocked(unblocked, stamp),
            UnblockedChange::UnblockedForgotten(before) => {
                let old = self.unblocked.iter().filter(|(_, index)| *index < before);
                let old: Vec<_> = old.map(|(key, _)| key.clone()).collect();
                for key in old {
                    self.unblocked.remove(&key);
                }
            }
        }
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
