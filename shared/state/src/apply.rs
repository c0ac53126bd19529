//! Applying change sets: storing results and keeping indexes, nothing else (design §1).

use std::sync::Arc;

use model::JobVersionKey;
use model::change::{AllocsChanged, Change, ChangeSet, Unblocked};
use model::job::Job;
use model::node::Node;
use model::plan::Placements;

use crate::error::Inconsistent;
use crate::tables::{State, Table, UnblockKey};

impl State {
    /// Moves the state on by the change set that follows its index.
    ///
    /// # Errors
    /// If the change set does not follow, or speaks of what is not there. The state is then somewhere in between and
    /// must be thrown away: apply to a clone what may fail.
    pub fn apply(&mut self, set: &ChangeSet) -> Result<(), Inconsistent> {
        if set.index != self.index.next() {
            return Err(Inconsistent::Gap { state: self.index, found: set.index });
        }
        for change in &set.changes {
            self.apply_change(change, set)?;
        }
        self.index = set.index;
        self.at = self.at.max(set.at);
        Ok(())
    }

    /// Takes in whole objects as a database holds them, each with its own indexes; the state is then at `set.index`.
    ///
    /// For building a state, not for moving one on: the change set may leave any gap.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn load(&mut self, set: &ChangeSet) -> Result<(), Inconsistent> {
        self.index = self.index.max(set.index);
        self.at = self.at.max(set.at);
        set.changes.iter().try_for_each(|change| self.apply_change(change, set))
    }

    fn apply_change(&mut self, change: &Change, set: &ChangeSet) -> Result<(), Inconsistent> {
        self.touch(table_of(change), set.index);
        match change {
            Change::Job(job) => self.jobs.upsert(Job::clone(job)),
            Change::JobFields(fields) => self.jobs.set_fields(fields, set.index)?,
            Change::JobDeleted(key) => {
                self.jobs.delete(key);
                // Its summary goes with it.
                self.touch(Table::JobSummaries, set.index);
            }
            Change::JobVersionsDeleted(keys) => self.jobs.delete_versions(keys),
            Change::JobSummary(summary) => self.jobs.set_summary((**summary).clone()),
            Change::Eval(eval) | Change::EvalOutcome(eval) => {
                self.evals_by_job.insert((eval.job.clone(), eval.id), ());
                self.evals.insert(eval.id, Arc::new((**eval).clone()));
            }
            Change::PlanApplied { job, eval_id } => {
                self.jobs.set_plan_index(job, set.index);
                if let Some(eval) = self.evals.get_mut(eval_id) {
                    Arc::make_mut(eval).modify_index = set.index;
                }
            }
            Change::EvalsDeleted(ids) => {
                for id in ids {
                    if let Some(eval) = self.evals.remove(id) {
                        self.evals_by_job.remove(&(eval.job.clone(), *id));
                    }
                }
            }
            Change::Deployment(deployment) => {
                self.deployments_by_job.insert((deployment.job.job.clone(), deployment.id), ());
                self.deployments.insert(deployment.id, Arc::new((**deployment).clone()));
            }
            Change::DeploymentsDeleted(ids) => {
                for id in ids {
                    if let Some(deployment) = self.deployments.remove(id) {
                        self.deployments_by_job.remove(&(deployment.job.job.clone(), *id));
                    }
                }
            }
            Change::Node(node) => self.nodes.upsert(Arc::new(Node::clone(node))),
            Change::NodeServerSide { id, server } => {
                if !self.nodes.set_server_side(*id, server) {
                    return Err(Inconsistent::NoNode(*id));
                }
            }
            Change::NodesDeleted(ids) => ids.iter().for_each(|id| self.nodes.delete(*id)),
            Change::AllocsPlaced(placements) => self.place(placements, set)?,
            Change::AllocsChanged(change) => self.change_allocs(change, set)?,
            Change::Alloc(alloc) => {
                let job = self.registered(&alloc.common.job)?;
                self.allocs.upsert(alloc, job, &mut self.nodes)?;
            }
            Change::AllocsDeleted(ids) => self.allocs.delete(&ids.0, &mut self.nodes),
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
            Change::Unblocked(unblocked) => self.record_unblocked(unblocked, set),
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

    fn place(&mut self, placements: &Placements, set: &ChangeSet) -> Result<(), Inconsistent> {
        placements.check()?;
        let job = self.registered(&placements.common.job)?;
        // Not on one that is gone, whether or not it still has allocations.
        let slot = |id| self.nodes.get(id).map(|(slot, _)| slot).ok_or(Inconsistent::NoNode(id));
        let nodes: Vec<u32> = placements.nodes.iter().map(|id| slot(*id)).collect::<Result<_, _>>()?;
        self.allocs.place(placements, job, &nodes, &mut self.nodes, set)
    }

    fn change_allocs(&mut self, change: &AllocsChanged, set: &ChangeSet) -> Result<(), Inconsistent> {
        change.check()?;
        let job = change.common.as_ref().map(|common| self.registered(&common.job)).transpose()?;
        self.allocs.change(change, job, &mut self.nodes, set)
    }

    fn registered(&self, key: &JobVersionKey) -> Result<Arc<Job>, Inconsistent> {
        let job = self.jobs.version(key).map(Arc::clone);
        job.ok_or_else(|| Inconsistent::NoJobVersion(Box::new(key.clone())))
    }

    fn record_unblocked(&mut self, unblocked: &Unblocked, set: &ChangeSet) {
        let classes = unblocked.classes.iter().cloned().map(UnblockKey::Class);
        let quotas = unblocked.quotas.iter().cloned().map(UnblockKey::Quota);
        let resources = unblocked.resources.iter().cloned().map(UnblockKey::Resource);
        for key in classes.chain(quotas).chain(resources) {
            self.unblocked.insert(key, set.index);
        }
    }
}

/// The table that a change is about.
pub(crate) fn table_of(change: &Change) -> Table {
    match change {
        Change::Job(_) | Change::JobFields(_) | Change::JobDeleted(_) | Change::JobVersionsDeleted(_) => {
            Table::Jobs
        }
        Change::JobSummary(_) => Table::JobSummaries,
        Change::Eval(_) | Change::EvalOutcome(_) | Change::PlanApplied { .. } | Change::EvalsDeleted(_) => {
            Table::Evals
        }
        Change::Deployment(_) | Change::DeploymentsDeleted(_) => Table::Deployments,
        Change::Node(_) | Change::NodeServerSide { .. } | Change::NodesDeleted(_) => Table::Nodes,
        Change::AllocsPlaced(_) | Change::AllocsChanged(_) | Change::Alloc(_) | Change::AllocsDeleted(_) => {
            Table::Allocs
        }
        Change::SchedulerConfig(_) => Table::SchedulerConfig,
        Change::NodePool(_) | Change::NodePoolDeleted(_) => Table::NodePools,
        Change::Namespace(_) | Change::NamespaceDeleted(_) => Table::Namespaces,
        Change::HostVolume(_) | Change::HostVolumeDeleted(_) => Table::HostVolumes,
        Change::CsiVolume(_) | Change::CsiVolumeDeleted(_) => Table::CsiVolumes,
        Change::VolumeClaim(_) | Change::VolumeClaimDeleted(_) => Table::VolumeClaims,
        Change::Lease(_) => Table::Leases,
        Change::Unblocked(_) | Change::UnblockedForgotten(_) => Table::Unblocked,
    }
}
