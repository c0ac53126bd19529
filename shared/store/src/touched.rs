//! [`Touched`]: the objects that change sets touched, so that only the newest state of each is written. The caller supplies
//! that state.

use std::collections::BTreeSet;

use model::change::{Change, ChangeSet};
use model::cluster::Singleton;
use model::volume::CsiVolumeKey;
use model::{
    AllocId, DeploymentId, EvalId, HostVolumeId, Index, JobKey, JobVersionKey, NodeId, RootKeyId, Text,
    VolumeClaimId,
};
use state::UnblockKey;

/// The keys of objects that were created, changed or deleted.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) job_versions: BTreeSet<JobVersionKey>,
    /// Deleted jobs, with all the versions and sources that they had at the time.
    pub(crate) jobs_deleted: BTreeSet<JobKey>,
    /// Job versions whose sources were created, copied or deleted.
    pub(crate) submissions: BTreeSet<JobVersionKey>,
    pub(crate) summaries: BTreeSet<JobKey>,
    pub(crate) plans: BTreeSet<JobKey>,
    pub(crate) evals: BTreeSet<EvalId>,
    pub(crate) deployments: BTreeSet<DeploymentId>,
    /// Nodes of which anything changed.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// The subset of `nodes` that registered or were deleted.
    pub(crate) nodes_registered: BTreeSet<NodeId>,
    /// Allocations of which anything changed: each once, with those of one plan next to each other.
    pub(crate) allocs: Vec<AllocId>,
    /// The subset of `allocs` whose shared part may have changed, or which were replaced as a whole: each once, ordered by
    /// id.
    pub(crate) allocs_replaced: Vec<AllocId>,
    pub(crate) scheduler_config: bool,
    pub(crate) node_pools: BTreeSet<Text>,
    pub(crate) namespaces: BTreeSet<Text>,
    pub(crate) root_keys: BTreeSet<RootKeyId>,
    pub(crate) host_volumes: BTreeSet<HostVolumeId>,
    pub(crate) csi_volumes: BTreeSet<CsiVolumeKey>,
    pub(crate) volume_claims: BTreeSet<VolumeClaimId>,
    pub(crate) leases: BTreeSet<Singleton>,
    pub(crate) unblocked: BTreeSet<UnblockKey>,
    /// Unblock records before this index are deleted.
    pub(crate) unblocked_forgotten: Index,
}

impl Touched {
    pub(crate) fn by<'a>(sets: impl IntoIterator<Item = &'a ChangeSet>) -> Self {
        let mut touched = Self::default();
        sets.into_iter().flat_map(|set| &set.changes).for_each(|change| touched.add(change));
        touched.allocs.sort_unstable_by_key(|id| id.plan_order());
        touched.allocs_replaced.sort_unstable();
        for ids in [&mut touched.allocs, &mut touched.allocs_replaced] {
            ids.dedup();
        }
        touched
    }

    /// The number of rows to write in the tables that grow with load.
    pub(crate) fn rows(&self) -> usize {
        self.job_versions.len() + self.summaries.len() + self.evals.len() + self.allocs.len()
    }

    fn add(&mut self, change: &Change) {
        match change {
            Change::Job(job) => {
                self.job_versions.insert(job.version_key());
            }
            Change::JobFields(fields) => {
                self.job_versions.insert(fields.key.clone());
            }
            Change::JobVersionsDeleted(keys) => self.job_versions.extend(keys.iter().cloned()),
            Change::JobDeleted(key) => {
                self.jobs_deleted.insert(key.clone());
                self.summaries.insert(key.clone());
                self.plans.insert(key.clone());
            }
            Change::JobSubmission(submission) => {
                self.submissions.insert(submission.version.clone());
            }
            Change::JobSubmissionCopied { to, .. } => {
                self.submissions.insert(to.clone());
            }
            Change::JobSubmissionsDeleted(keys) => self.submissions.extend(keys.iter().cloned()),
            Change::JobSummary(summary) => {
                self.summaries.insert(summary.job.clone());
            }
            Change::Eval(eval) | Change::EvalOutcome(eval) => {
                self.evals.insert(eval.id);
            }
            Change::PlanApplied { job, eval_id } => {
                self.plans.insert(job.clone());
                self.evals.insert(*eval_id);
            }
            Change::EvalsChanged(change) => self.evals.extend(&change.ids),
            Change::EvalsDeleted(ids) => self.evals.extend(ids),
            Change::Deployment(deployment) => {
                self.deployments.insert(deployment.id);
            }
            Change::DeploymentFields(fields) => {
                self.deployments.insert(fields.id);
            }
            Change::DeploymentsDeleted(ids) => self.deployments.extend(ids),
            Change::Node(node) => {
                self.nodes.insert(node.id);
                self.nodes_registered.insert(node.id);
            }
            Change::NodeServerSide { id, .. } => {
                self.nodes.insert(*id);
            }
            Change::NodesChanged(change) => self.nodes.extend(&change.ids),
            Change::NodesDeleted(ids) => {
                self.nodes.extend(ids);
                self.nodes_registered.extend(ids);
            }
            Change::AllocsPlaced(placements) => {
                self.allocs.extend(&placements.ids.0);
                // A replaced allocation gets the id of its successor.
                self.allocs.extend((0..placements.len()).filter_map(|row| placements.previous.get(row)));
            }
            Change::AllocsChanged(change) => {
                self.allocs.extend(&change.ids.0);
                if change.common.is_some() {
                    self.allocs_replaced.extend(&change.ids.0);
                }
            }
            Change::Alloc(alloc) => {
                self.allocs.push(alloc.id);
                self.allocs_replaced.push(alloc.id);
            }
            Change::AllocsDeleted(ids) => {
                self.allocs.extend(&ids.0);
                self.allocs_replaced.extend(&ids.0);
            }
            Change::SchedulerConfig(_) => self.scheduler_config = true,
            Change::NodePool(pool) => {
                self.node_pools.insert(pool.name.clone());
            }
            Change::NodePoolDeleted(name) => {
                self.node_pools.insert(name.clone());
            }
            Change::Namespace(namespace) => {
                self.namespaces.insert(namespace.name.clone());
            }
            Change::NamespaceDeleted(name) => {
                self.namespaces.insert(name.clone());
            }
            Change::RootKey(key) => {
                self.root_keys.insert(key.id);
            }
            Change::HostVolume(volume) => {
                self.host_volumes.insert(volume.id);
            }
            Change::HostVolumeDeleted(id) => {
                self.host_volumes.insert(*id);
            }
            Change::CsiVolume(volume) => {
                self.csi_volumes.insert(volume.key.clone());
            }
            Change::CsiVolumeDeleted(key) => {
                self.csi_volumes.insert(key.clone());
            }
            Change::VolumeClaim(claim) => {
                self.volume_claims.insert(claim.id);
            }
            Change::VolumeClaimDeleted(id) => {
                self.volume_claims.insert(*id);
            }
            Change::Lease(lease) => {
                self.leases.insert(lease.service);
            }
            Change::Unblocked(unblocked) => {
                self.unblocked.extend(unblocked.classes.iter().cloned().map(UnblockKey::Class));
                self.unblocked.extend(unblocked.quotas.iter().cloned().map(UnblockKey::Quota));
                self.unblocked.extend(unblocked.resources.iter().cloned().map(UnblockKey::Resource));
            }
            Change::UnblockedForgotten(before) => {
                self.unblocked_forgotten = self.unblocked_forgotten.max(*before);
            }
        }
    }
}
