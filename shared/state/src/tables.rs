//! [`State`]: the tables, and what readers ask of them.

use std::ops::RangeBounds;
use std::sync::Arc;

use model::change::JobSummary;
use model::cluster::{Lease, Namespace, NodePool, SchedulerConfig, Singleton};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobSubmission};
use model::keyring::RootKey;
use model::volume::{CsiVolume, CsiVolumeKey, HostVolume, VolumeClaim};
use model::{
    AllocId, DeploymentId, EvalId, HistoryId, HostVolumeId, Index, JobKey, JobVersionKey, NodeId, RootKeyId,
    Text, Timestamp, VolumeClaimId,
};

use crate::allocs::{AllocRef, AllocTable};
use crate::btree::BTree;
use crate::filed::Filed;
use crate::jobs::JobTable;
use crate::names::Names;
use crate::nodes::{Expected, NodePage, NodeRef, NodeTable};
use crate::scope::Scope;

/// The tables, as watches and lists speak of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is named after what it holds")]
pub enum Table {
    Jobs,
    JobSubmissions,
    JobSummaries,
    Evals,
    Allocs,
    Deployments,
    Nodes,
    NodePools,
    Namespaces,
    SchedulerConfig,
    HostVolumes,
    CsiVolumes,
    VolumeClaims,
    RootKeys,
    Leases,
    Unblocked,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 16] = [
        Self::Jobs,
        Self::JobSubmissions,
        Self::JobSummaries,
        Self::Evals,
        Self::Allocs,
        Self::Deployments,
        Self::Nodes,
        Self::NodePools,
        Self::Namespaces,
        Self::SchedulerConfig,
        Self::HostVolumes,
        Self::CsiVolumes,
        Self::VolumeClaims,
        Self::RootKeys,
        Self::Leases,
        Self::Unblocked,
    ];
}

/// Something that can gain room, by name (`spec/scheduling.md` ).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnblockKey {
    /// Nodes of a computed class.
    Class(Text),
    /// A quota.
    Quota(Text),
    /// A resource that no node brings.
    Resource(Text),
}

/// The last indexes at which a job's versions, its evaluations and its deployments changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobMarks {
    pub(crate) jobs: Index,
    pub(crate) evals: Index,
    pub(crate) deployments: Index,
}

/// The cluster at one index. Cloning it takes no time and shares everything; a clone never changes under its holder.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) history: HistoryId,
    pub(crate) scope: Scope,
    pub(crate) index: Index,
    pub(crate) at: Timestamp,
    pub(crate) table_indexes: [Index; Table::ALL.len()],
    pub(crate) jobs: JobTable,
    pub(crate) allocs: AllocTable,
    pub(crate) nodes: NodeTable,
    pub(crate) evals: Filed<EvalId, Arc<Evaluation>>,
    pub(crate) evals_by_job: BTree<(JobKey, EvalId), ()>,
    pub(crate) live_evals_by_job: BTree<(JobKey, EvalId), ()>,
    pub(crate) evals_by_creation: BTree<(Index, EvalId), ()>,
    pub(crate) deployments: Filed<DeploymentId, Arc<Deployment>>,
    pub(crate) deployments_by_job: BTree<(JobKey, DeploymentId), ()>,
    pub(crate) deployments_by_creation: BTree<(Index, DeploymentId), ()>,
    /// The last indexes at which each job's versions, evaluations and deployments changed.
    pub(crate) job_marks: BTree<JobKey, JobMarks>,
    pub(crate) node_pools: BTree<Text, Arc<NodePool>>,
    pub(crate) namespaces: BTree<Text, Arc<Namespace>>,
    pub(crate) scheduler_config: Option<SchedulerConfig>,
    pub(crate) host_volumes: BTree<HostVolumeId, Arc<HostVolume>>,
    pub(crate) csi_volumes: BTree<CsiVolumeKey, Arc<CsiVolume>>,
    pub(crate) volume_claims: BTree<VolumeClaimId, Arc<VolumeClaim>>,
    pub(crate) root_keys: BTree<RootKeyId, Arc<RootKey>>,
    pub(crate) leases: BTree<Singleton, Lease>,
    pub(crate) unblocked: BTree<UnblockKey, Index>,
}

impl Default for State {
    /// Empty, of no history, for everything.
    fn default() -> Self {
        Self::new(HistoryId::default(), Scope::ALL)
    }
}

impl State {
    /// An empty state of a history, which will keep so much of the cluster.
    ///
    /// # Panics
    /// If the scope is not whole: if it has allocations without nodes, or something of jobs without jobs.
    pub fn new(history: HistoryId, scope: Scope) -> Self {
        assert!(scope.is_whole(), "what rows refer to must be in scope: {scope:?}");
        let (jobs, allocs) = (JobTable::new(scope.has_lists()), AllocTable::new(scope.has_lists()));
        Self {
            history,
            scope,
            jobs,
            allocs,
            index: Default::default(),
            at: Default::default(),
            table_indexes: Default::default(),
            nodes: Default::default(),
            evals: Default::default(),
            evals_by_job: Default::default(),
            live_evals_by_job: Default::default(),
            evals_by_creation: Default::default(),
            deployments: Default::default(),
            deployments_by_job: Default::default(),
            deployments_by_creation: Default::default(),
            job_marks: Default::default(),
            node_pools: Default::default(),
            namespaces: Default::default(),
            scheduler_config: Default::default(),
            host_volumes: Default::default(),
            csi_volumes: Default::default(),
            volume_claims: Default::default(),
            root_keys: Default::default(),
            leases: Default::default(),
            unblocked: Default::default(),
        }
    }

    /// What of the cluster it keeps.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The history that its indexes belong to; those of another say nothing here (design §4).
    pub fn history(&self) -> HistoryId {
        self.history
    }

    /// The index of the last change set in it.
    pub fn index(&self) -> Index {
        self.index
    }

    /// The cluster's time at that change set.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The index at which a table changed last.
    pub fn table_index(&self, table: Table) -> Index {
        self.table_indexes[table as usize]
    }

    /// The last index at which what a table holds of one job changed, came or went, for those who wait for just that. Of
    /// a job that is not registered, and where none is known, it is the table's: what there was may have gone just now.
    pub fn job_index(&self, table: Table, job: &JobKey) -> Index {
        let marks = self.job_marks.get(job);
        let index = match table {
            Table::Jobs => marks.map(|marks| marks.jobs),
            Table::JobSummaries => self.job_summary(job).map(|summary| summary.modify_index),
            Table::Allocs => self.allocs.index_of_job(job),
            Table::Evals => marks.map(|marks| marks.evals),
            Table::Deployments => marks.map(|marks| marks.deployments),
            Table::JobSubmissions
            | Table::Nodes
            | Table::NodePools
            | Table::Namespaces
            | Table::SchedulerConfig
            | Table::HostVolumes
            | Table::CsiVolumes
            | Table::VolumeClaims
            | Table::RootKeys
            | Table::Leases
            | Table::Unblocked => None,
        };
        index.filter(|index| index.is_set()).unwrap_or_else(|| self.table_index(table))
    }

    /// The current version of a job.
    pub fn job(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.reads(Table::Jobs);
        self.jobs.current(key)
    }

    /// The current versions of all jobs by namespace and id.
    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.reads(Table::Jobs);
        self.jobs.iter()
    }

    /// The same within a range, for lists that begin somewhere.
    pub fn jobs_in(&self, range: impl RangeBounds<JobKey>) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.jobs.range(range)
    }

    /// The current versions of jobs in the order of their last changes, and by namespace and id where that is the same.
    pub fn jobs_by_change(
        &self,
        range: impl RangeBounds<(Index, JobKey)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.lists();
        self.jobs.by_change(range)
    }

    /// The current jobs of type system that are not stopped: those that every node may be for (N-5.2).
    pub fn system_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.system()
    }

    /// How many jobs there are.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// One version of a job.
    pub fn job_version(&self, key: &JobVersionKey) -> Option<&Arc<Job>> {
        self.jobs.version(key)
    }

    /// The versions of a job that are still kept, the oldest first.
    pub fn job_versions<'a>(
        &'a self,
        key: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Job>> + use<'a> {
        self.jobs.versions(key)
    }

    /// What a version of a job was registered from, if that is kept.
    pub fn job_submission(&self, version: &JobVersionKey) -> Option<&Arc<JobSubmission>> {
        self.reads(Table::JobSubmissions);
        self.jobs.submission(version)
    }

    /// What the versions of a job were registered from, as far as that is kept, the oldest first.
    pub fn job_submissions<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<JobSubmission>> + use<'a> {
        self.reads(Table::JobSubmissions);
        self.jobs.submissions(job)
    }

    /// What a job's allocations add up to.
    pub fn job_summary(&self, key: &JobKey) -> Option<&Arc<JobSummary>> {
        self.reads(Table::JobSummaries);
        self.jobs.summary(key)
    }

    /// The last index at which a scheduler's attempt on the job was taken, in whole or in part; no attempt from an older
    /// snapshot may be taken after it (design §6). 0 before any.
    pub fn plan_index(&self, job: &JobKey) -> Index {
        self.jobs.plan_index(job)
    }

    /// An evaluation.
    pub fn eval(&self, id: EvalId) -> Option<&Arc<Evaluation>> {
        self.reads(Table::Evals);
        self.evals.get(&id)
    }

    /// All evaluations by id.
    pub fn evals(&self) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> {
        self.reads(Table::Evals);
        self.evals.values()
    }

    /// The same within a range of ids.
    pub fn evals_in(
        &self,
        range: impl RangeBounds<EvalId>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> {
        self.reads(Table::Evals);
        self.evals.range(range)
    }

    /// A job's evaluations by id.
    pub fn evals_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Evaluation>> + use<'a> {
        self.reads(Table::Evals);
        let range = (job.clone(), FIRST_EVAL)..=(job.clone(), LAST_EVAL);
        self.evals_by_job.range(range).filter_map(|((_, id), ())| self.evals.get(id))
    }

    /// All evaluations that are not terminal, by job.
    pub fn live_evals(&self) -> impl Iterator<Item = &Arc<Evaluation>> {
        self.reads(Table::Evals);
        self.live_evals_by_job.keys().filter_map(|(_, id)| self.evals.get(id))
    }

    /// A job's evaluations that are not terminal.
    pub fn live_evals_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Evaluation>> + use<'a> {
        self.reads(Table::Evals);
        let range = (job.clone(), FIRST_EVAL)..=(job.clone(), LAST_EVAL);
        self.live_evals_by_job.range(range).filter_map(|((_, id), ())| self.evals.get(id))
    }

    /// Evaluations in the order of their creation, and by id where that is the same.
    pub fn evals_by_creation(
        &self,
        range: impl RangeBounds<(Index, EvalId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> {
        self.lists();
        self.evals_by_creation.range(range).filter_map(|((_, id), ())| self.evals.get(id))
    }

    /// An allocation.
    pub fn alloc(&self, id: AllocId) -> Option<AllocRef<'_>> {
        self.reads(Table::Allocs);
        self.allocs.slot(id).map(|slot| self.alloc_at(slot))
    }

    /// All allocations, in no order that means anything.
    pub fn allocs(&self) -> impl DoubleEndedIterator<Item = AllocRef<'_>> {
        self.reads(Table::Allocs);
        self.allocs.iter().map(|slot| self.alloc_at(slot))
    }

    /// Allocations within a range of ids, by id.
    pub fn allocs_in(
        &self,
        range: impl RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = AllocRef<'_>> {
        self.lists();
        self.allocs.range(range).map(|slot| self.alloc_at(slot))
    }

    /// Allocations in the order of their creation, and by id where that is the same.
    pub fn allocs_by_creation(
        &self,
        range: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = AllocRef<'_>> {
        self.lists();
        self.allocs.by_creation(range).map(|slot| self.alloc_at(slot))
    }

    /// How many of a job's allocations are not terminal.
    pub fn live_alloc_count(&self, job: &JobKey) -> usize {
        self.reads(Table::Allocs);
        self.allocs.live_of_job(job)
    }

    /// Whether some allocation runs a version of a job. Such a version must be kept: an allocation that is loaded anew
    /// looks for it.
    pub fn is_version_in_use(&self, version: &JobVersionKey) -> bool {
        self.reads(Table::Allocs);
        self.allocs.run_version(version)
    }

    /// How many allocations there are.
    pub fn alloc_count(&self) -> usize {
        self.reads(Table::Allocs);
        self.allocs.len()
    }

    /// A job's allocations of every incarnation, the finished ones too, in no order that means anything.
    pub fn allocs_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl ExactSizeIterator<Item = AllocRef<'a>> + use<'a> {
        self.reads(Table::Allocs);
        self.allocs.of_job(job).iter().map(|slot| self.alloc_at(*slot))
    }

    /// The allocations on a node, also on one that is gone.
    pub fn allocs_of_node(&self, node: NodeId) -> impl ExactSizeIterator<Item = AllocRef<'_>> {
        self.reads(Table::Allocs);
        let slots = self.nodes.slot(node).map_or(&[][..], |slot| self.nodes.allocs(slot));
        slots.iter().map(|slot| self.alloc_at(*slot))
    }

    /// A deployment.
    pub fn deployment(&self, id: DeploymentId) -> Option<&Arc<Deployment>> {
        self.reads(Table::Deployments);
        self.deployments.get(&id)
    }

    /// All deployments by id.
    pub fn deployments(&self) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.reads(Table::Deployments);
        self.deployments.values()
    }

    /// The same within a range of ids.
    pub fn deployments_in(
        &self,
        range: impl RangeBounds<DeploymentId>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.reads(Table::Deployments);
        self.deployments.range(range)
    }

    /// Deployments in the order of their creation, and by id where that is the same.
    pub fn deployments_by_creation(
        &self,
        range: impl RangeBounds<(Index, DeploymentId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.lists();
        self.deployments_by_creation.range(range).filter_map(|((_, id), ())| self.deployments.get(id))
    }

    /// A job's deployments by id.
    pub fn deployments_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Deployment>> + use<'a> {
        self.reads(Table::Deployments);
        let range = (job.clone(), FIRST_DEPLOYMENT)..=(job.clone(), LAST_DEPLOYMENT);
        self.deployments_by_job.range(range).filter_map(|((_, id), ())| self.deployments.get(id))
    }

    /// A job's newest deployment.
    pub fn latest_deployment(&self, job: &JobKey) -> Option<&Arc<Deployment>> {
        self.deployments_of_job(job).max_by_key(|deployment| deployment.create_index)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<NodeRef<'_>> {
        self.reads(Table::Nodes);
        self.nodes.get(id).map(|(slot, node)| NodeRef::new(self, slot, node))
    }

    /// All nodes by id.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeRef<'_>> {
        self.reads(Table::Nodes);
        self.nodes.iter().map(|(slot, node)| NodeRef::new(self, slot, node))
    }

    /// The same within a range of ids.
    pub fn nodes_in(&self, range: impl RangeBounds<NodeId>) -> impl DoubleEndedIterator<Item = NodeRef<'_>> {
        self.reads(Table::Nodes);
        self.nodes.range(range).map(|(slot, node)| NodeRef::new(self, slot, node))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes in columns, for scans. A node's place is its slot: page times 64, plus the place in the page.
    pub fn node_pages(&self) -> impl ExactSizeIterator<Item = &NodePage> {
        self.reads(Table::Nodes);
        self.nodes.pages()
    }

    /// One of these pages, by its number.
    pub fn node_page(&self, number: usize) -> Option<&NodePage> {
        self.nodes.page_numbered(number)
    }

    /// The node in a slot.
    pub fn node_at(&self, slot: u32) -> Option<NodeRef<'_>> {
        self.nodes.node(slot).map(|node| NodeRef::new(self, slot, node))
    }

    /// The cluster as if nodes held further allocations, for whoever plans ahead: they are counted ([`View::Held`]), and
    /// nowhere to be found.
    ///
    /// [`View::Held`]: crate::View::Held
    #[must_use]
    pub fn expecting<'a>(&self, expected: impl IntoIterator<Item = &'a Expected>) -> Self {
        let mut ahead = self.clone();
        expected.into_iter().for_each(|expected| ahead.nodes.expect(expected));
        ahead
    }

    /// The numbers of computed classes in [`NodePage::class`].
    pub fn classes(&self) -> &Names {
        &self.nodes.classes
    }

    /// The numbers of datacenters in [`NodePage::datacenter`].
    pub fn datacenters(&self) -> &Names {
        &self.nodes.datacenters
    }

    /// The numbers of node pools in [`NodePage::pool`].
    pub fn pools_in_use(&self) -> &Names {
        &self.nodes.pools
    }

    /// How many kinds of nodes there were so far; their numbers in [`NodePage::kind`] are below.
    pub fn node_kinds(&self) -> usize {
        self.nodes.kinds.len()
    }

    /// A node pool.
    pub fn node_pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.reads(Table::NodePools);
        self.node_pools.get(name)
    }

    /// All node pools by name.
    pub fn node_pools(&self) -> impl DoubleEndedIterator<Item = &Arc<NodePool>> {
        self.node_pools.values()
    }

    /// A namespace.
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.reads(Table::Namespaces);
        self.namespaces.get(name)
    }

    /// All namespaces by name.
    pub fn namespaces(&self) -> impl DoubleEndedIterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// The scheduler's settings; `None` before they were first written, which is not the same as the defaults.
    pub fn scheduler_config(&self) -> Option<&SchedulerConfig> {
        self.reads(Table::SchedulerConfig);
        self.scheduler_config.as_ref()
    }

    /// All keys that the cluster signs with, by id.
    pub fn root_keys(&self) -> impl DoubleEndedIterator<Item = &Arc<RootKey>> {
        self.reads(Table::RootKeys);
        self.root_keys.values()
    }

    /// A key that the cluster signs with.
    pub fn root_key(&self, id: RootKeyId) -> Option<&Arc<RootKey>> {
        self.root_keys.get(&id)
    }

    /// A dynamic host volume.
    pub fn host_volume(&self, id: HostVolumeId) -> Option<&Arc<HostVolume>> {
        self.reads(Table::HostVolumes);
        self.host_volumes.get(&id)
    }

    /// All dynamic host volumes by id.
    pub fn host_volumes(&self) -> impl DoubleEndedIterator<Item = &Arc<HostVolume>> {
        self.host_volumes.values()
    }

    /// A CSI volume.
    pub fn csi_volume(&self, key: &CsiVolumeKey) -> Option<&Arc<CsiVolume>> {
        self.reads(Table::CsiVolumes);
        self.csi_volumes.get(key)
    }

    /// All CSI volumes by namespace and id.
    pub fn csi_volumes(&self) -> impl DoubleEndedIterator<Item = &Arc<CsiVolume>> {
        self.csi_volumes.values()
    }

    /// A claim of a sticky volume.
    pub fn volume_claim(&self, id: VolumeClaimId) -> Option<&Arc<VolumeClaim>> {
        self.reads(Table::VolumeClaims);
        self.volume_claims.get(&id)
    }

    /// All claims of sticky volumes by id.
    pub fn volume_claims(&self) -> impl DoubleEndedIterator<Item = &Arc<VolumeClaim>> {
        self.volume_claims.values()
    }

    /// Who is active for a service.
    pub fn lease(&self, service: Singleton) -> Option<&Lease> {
        self.reads(Table::Leases);
        self.leases.get(&service)
    }

    /// The last index at which each thing gained room, of all that are remembered.
    pub fn unblocked(&self) -> impl Iterator<Item = (&UnblockKey, Index)> {
        self.reads(Table::Unblocked);
        self.unblocked.iter().map(|(key, index)| (key, *index))
    }

    /// What the allocations take on the heap, in bytes: rows, indexes, task states; for figures, not for decisions.
    pub fn alloc_heap_bytes(&self) -> usize {
        self.allocs.heap_bytes()
    }

    pub(crate) fn alloc_at(&self, slot: u32) -> AllocRef<'_> {
        AllocRef::new(self, self.allocs.row(slot))
    }

    pub(crate) fn allocs_at(&self, node: u32) -> impl ExactSizeIterator<Item = AllocRef<'_>> {
        self.nodes.allocs(node).iter().map(|slot| self.alloc_at(*slot))
    }

    /// Somebody looks at a table.
    fn reads(&self, table: Table) {
        debug_assert!(self.scope.has(table), "{table:?} are out of this state's scope");
    }

    /// Somebody asks for a list.
    fn lists(&self) {
        debug_assert!(self.scope.has_lists(), "lists are out of this state's scope");
    }

    pub(crate) fn touch(&mut self, table: Table, index: Index) {
        let touched = &mut self.table_indexes[table as usize];
        *touched = (*touched).max(index);
    }
}

const FIRST_EVAL: EvalId = EvalId::from_bytes([0; 16]);
const LAST_EVAL: EvalId = EvalId::from_bytes([u8::MAX; 16]);
const FIRST_DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([0; 16]);
const LAST_DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([u8::MAX; 16]);
