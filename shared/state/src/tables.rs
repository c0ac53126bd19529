//! [`State`]: the tables, and the methods to read them. Reads of allocations, nodes and small objects are in `views`.

use std::ops::RangeBounds;
use std::sync::Arc;

use model::change::JobSummary;
use model::cluster::{Lease, SchedulerConfig, Singleton};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobSubmission};
use model::{
    DeploymentId, EvalId, HistoryId, Index, JobKey, JobVersionKey, RequestId, Table, Text, Timestamp,
};

use crate::allocs::AllocTable;
use crate::btree::BTree;
use crate::jobs::JobTable;
use crate::names::Names;
use crate::nodes::{Expected, NodePage, NodeTable};
use crate::scope::Scope;
use crate::slab_map::SlabMap;
use crate::small::SmallObjects;

/// Something that can gain capacity, by name (`docs/rules/scheduling.md` ).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnblockKey {
    /// Nodes of a computed class.
    Class(Text),
    /// A quota.
    Quota(Text),
    /// A resource that is not part of a node, such as a CSI volume.
    Resource(Text),
}

/// The last indexes at which a job's versions, its evaluations and its deployments changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobIndexes {
    pub(crate) jobs: Index,
    pub(crate) evals: Index,
    pub(crate) deployments: Index,
}

/// The state of the cluster at one index. Cloning it is cheap and shares all data; a clone does not see later changes of the
/// original.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) history: HistoryId,
    pub(crate) scope: Scope,
    pub(crate) index: Index,
    pub(crate) at: Timestamp,
    pub(crate) last_request: Option<RequestId>,
    pub(crate) table_indexes: [Index; Table::ALL.len()],
    pub(crate) jobs: JobTable,
    pub(crate) allocs: AllocTable,
    pub(crate) nodes: NodeTable,
    pub(crate) evals: SlabMap<EvalId, Arc<Evaluation>>,
    pub(crate) evals_by_job: BTree<(JobKey, EvalId), ()>,
    pub(crate) live_evals_by_job: BTree<(JobKey, EvalId), ()>,
    pub(crate) evals_by_creation: BTree<(Index, EvalId), ()>,
    pub(crate) deployments: SlabMap<DeploymentId, Arc<Deployment>>,
    pub(crate) deployments_by_job: BTree<(JobKey, DeploymentId), ()>,
    pub(crate) deployments_by_creation: BTree<(Index, DeploymentId), ()>,
    /// The last indexes at which each job's versions, evaluations and deployments changed.
    pub(crate) job_indexes: BTree<JobKey, JobIndexes>,
    pub(crate) small: SmallObjects,
    pub(crate) scheduler_config: Option<SchedulerConfig>,
    pub(crate) leases: BTree<Singleton, Lease>,
    pub(crate) unblocked: BTree<UnblockKey, Index>,
}

/// An immutable view of the state at one index.
pub type Snapshot = Arc<State>;

impl Default for State {
    /// An empty state of no history, with all tables in scope.
    fn default() -> Self {
        Self::new(HistoryId::default(), Scope::ALL)
    }
}

impl State {
    /// Creates an empty state of a history, with a scope.
    ///
    /// # Panics
    /// If the scope lacks a table that rows of another table refer to ([`Scope::is_whole`]).
    pub fn new(history: HistoryId, scope: Scope) -> Self {
        assert!(scope.is_whole(), "every table that rows refer to must be in scope: {scope:?}");
        let (jobs, allocs) = (JobTable::new(scope.has_lists()), AllocTable::new(scope.has_lists()));
        Self {
            history,
            scope,
            jobs,
            allocs,
            index: Default::default(),
            at: Default::default(),
            last_request: Default::default(),
            table_indexes: Default::default(),
            nodes: Default::default(),
            evals: Default::default(),
            evals_by_job: Default::default(),
            live_evals_by_job: Default::default(),
            evals_by_creation: Default::default(),
            deployments: Default::default(),
            deployments_by_job: Default::default(),
            deployments_by_creation: Default::default(),
            job_indexes: Default::default(),
            small: Default::default(),
            scheduler_config: Default::default(),
            leases: Default::default(),
            unblocked: Default::default(),
        }
    }

    /// The part of the cluster's state that it keeps.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The history that its indexes belong to. Indexes of different histories are not comparable (`docs/architecture/log.md`).
    pub fn history(&self) -> HistoryId {
        self.history
    }

    /// The index of the last change set that was applied.
    pub fn index(&self) -> Index {
        self.index
    }

    /// The cluster time of that change set.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The request that the last change set carries out; `None` if the state was loaded without it.
    pub fn last_request(&self) -> Option<RequestId> {
        self.last_request
    }

    /// Sets the request that the last change set carries out, after the state was loaded.
    pub fn set_last_request(&mut self, request: Option<RequestId>) {
        self.last_request = request;
    }

    /// The last index at which a table changed.
    pub fn table_index(&self, table: Table) -> Index {
        self.table_indexes[table as usize]
    }

    /// The last index at which an object of one job was added to a table, changed or removed. Blocking queries for a job wait
    /// for it. If the job is not registered or its index is unknown, this is the index of the table, because objects of the
    /// job may have been deleted just before.
    pub fn job_index(&self, table: Table, job: &JobKey) -> Index {
        let indexes = self.job_indexes.get(job);
        #[allow(clippy::wildcard_enum_match_arm, reason = "the other tables record no indexes of jobs")]
        let index = match table {
            Table::Jobs => indexes.map(|indexes| indexes.jobs),
            Table::JobSummaries => self.job_summary(job).map(|summary| summary.modify_index),
            Table::Allocs => self.allocs.index_of_job(job),
            Table::Evals => indexes.map(|indexes| indexes.evals),
            Table::Deployments => indexes.map(|indexes| indexes.deployments),
            _ => None,
        };
        index.filter(|index| index.is_set()).unwrap_or_else(|| self.table_index(table))
    }

    /// The current version of a job.
    pub fn job(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.assert_in_scope(Table::Jobs);
        self.jobs.current(key)
    }

    /// The current versions of all jobs, by namespace and id.
    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.assert_in_scope(Table::Jobs);
        self.jobs.iter()
    }

    /// The current versions of the jobs with keys in `range`, by namespace and id.
    pub fn jobs_in(&self, range: impl RangeBounds<JobKey>) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.jobs.range(range)
    }

    /// The children of a periodic or parameterized job, by id. It takes time in proportion to their number.
    pub fn children_of_job<'a>(
        &'a self,
        parent: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Job>> + use<'a> {
        self.assert_in_scope(Table::Jobs);
        // The ids of children begin with that of the parent and a slash; the character after the slash is `0`.
        let bound = |end: &str| JobKey::new(Text::clone(&parent.namespace), format!("{}{end}", parent.id));
        let below = self.jobs.range(bound("/")..bound("0"));
        let parent = Text::clone(&parent.id);
        below.filter(move |child| child.spec.parent_id == parent)
    }

    /// The current versions of jobs, by the index of their last change, then namespace and id.
    pub fn jobs_by_change(
        &self,
        range: impl RangeBounds<(Index, JobKey)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.assert_lists_in_scope();
        self.jobs.by_change(range)
    }

    /// The current jobs of type system that are not stopped. A change of any node concerns them (N-5.2).
    pub fn system_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.system()
    }

    /// The number of jobs.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// A job version.
    pub fn job_version(&self, key: &JobVersionKey) -> Option<&Arc<Job>> {
        self.jobs.version(key)
    }

    /// The stored versions of a job, oldest first.
    pub fn job_versions<'a>(
        &'a self,
        key: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Job>> + use<'a> {
        self.jobs.versions(key)
    }

    /// The source of a job version, if it is stored.
    pub fn job_submission(&self, version: &JobVersionKey) -> Option<&Arc<JobSubmission>> {
        self.assert_in_scope(Table::JobSubmissions);
        self.jobs.submission(version)
    }

    /// The stored sources of the versions of a job, oldest first.
    pub fn job_submissions<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<JobSubmission>> + use<'a> {
        self.assert_in_scope(Table::JobSubmissions);
        self.jobs.submissions(job)
    }

    /// The counts of a job's allocations and children.
    pub fn job_summary(&self, key: &JobKey) -> Option<&Arc<JobSummary>> {
        self.assert_in_scope(Table::JobSummaries);
        self.jobs.summary(key)
    }

    /// The last index at which a scheduler's plan for the job was accepted, in whole or in part. The applier refuses later
    /// plans from older snapshots (`docs/architecture/evaluations.md`). 0 if there was none.
    pub fn plan_index(&self, job: &JobKey) -> Index {
        self.jobs.plan_index(job)
    }

    /// An evaluation.
    pub fn eval(&self, id: EvalId) -> Option<&Arc<Evaluation>> {
        self.assert_in_scope(Table::Evals);
        self.evals.get(&id)
    }

    /// All evaluations by id.
    pub fn evals(&self) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> {
        self.assert_in_scope(Table::Evals);
        self.evals.values()
    }

    /// The evaluations with ids in `range`, by id.
    pub fn evals_in(
        &self,
        range: impl RangeBounds<EvalId>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> {
        self.assert_in_scope(Table::Evals);
        self.evals.range(range)
    }

    /// A job's evaluations, by id.
    pub fn evals_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Evaluation>> + use<'a> {
        self.assert_in_scope(Table::Evals);
        let range = (job.clone(), FIRST_EVAL)..=(job.clone(), LAST_EVAL);
        self.evals_by_job.range(range).filter_map(|((_, id), ())| self.evals.get(id))
    }

    /// All evaluations that are not terminal, by job.
    pub fn live_evals(&self) -> impl Iterator<Item = &Arc<Evaluation>> {
        self.assert_in_scope(Table::Evals);
        self.live_evals_by_job.keys().filter_map(|(_, id)| self.evals.get(id))
    }

    /// A job's evaluations that are not terminal.
    pub fn live_evals_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Evaluation>> + use<'a> {
        self.assert_in_scope(Table::Evals);
        let range = (job.clone(), FIRST_EVAL)..=(job.clone(), LAST_EVAL);
        self.live_evals_by_job.range(range).filter_map(|((_, id), ())| self.evals.get(id))
    }

    /// Evaluations by create index, then id.
    pub fn evals_by_creation(
        &self,
        range: impl RangeBounds<(Index, EvalId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> {
        self.assert_lists_in_scope();
        self.evals_by_creation.range(range).filter_map(|((_, id), ())| self.evals.get(id))
    }

    /// The number of a job's allocations that are not terminal.
    pub fn live_alloc_count(&self, job: &JobKey) -> usize {
        self.assert_in_scope(Table::Allocs);
        self.allocs.live_of_job(job)
    }

    /// Whether any allocation runs a job version. Such a version must be kept, because loading the allocation from the
    /// database needs it.
    pub fn is_version_in_use(&self, version: &JobVersionKey) -> bool {
        self.assert_in_scope(Table::Allocs);
        self.allocs.has_version(version)
    }

    /// The number of allocations.
    pub fn alloc_count(&self) -> usize {
        self.assert_in_scope(Table::Allocs);
        self.allocs.len()
    }

    /// A deployment.
    pub fn deployment(&self, id: DeploymentId) -> Option<&Arc<Deployment>> {
        self.assert_in_scope(Table::Deployments);
        self.deployments.get(&id)
    }

    /// All deployments by id.
    pub fn deployments(&self) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.assert_in_scope(Table::Deployments);
        self.deployments.values()
    }

    /// The deployments with ids in `range`, by id.
    pub fn deployments_in(
        &self,
        range: impl RangeBounds<DeploymentId>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.assert_in_scope(Table::Deployments);
        self.deployments.range(range)
    }

    /// Deployments by create index, then id.
    pub fn deployments_by_creation(
        &self,
        range: impl RangeBounds<(Index, DeploymentId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.assert_lists_in_scope();
        self.deployments_by_creation.range(range).filter_map(|((_, id), ())| self.deployments.get(id))
    }

    /// A job's deployments, by id.
    pub fn deployments_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Deployment>> + use<'a> {
        self.assert_in_scope(Table::Deployments);
        let range = (job.clone(), FIRST_DEPLOYMENT)..=(job.clone(), LAST_DEPLOYMENT);
        self.deployments_by_job.range(range).filter_map(|((_, id), ())| self.deployments.get(id))
    }

    /// A job's newest deployment.
    pub fn latest_deployment(&self, job: &JobKey) -> Option<&Arc<Deployment>> {
        self.deployments_of_job(job).max_by_key(|deployment| deployment.create_index)
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes in columns, for scans. The slot of a node is its page number times 64, plus its bit in the page.
    pub fn node_pages(&self) -> impl ExactSizeIterator<Item = &NodePage> {
        self.assert_in_scope(Table::Nodes);
        self.nodes.pages()
    }

    /// The page with a number.
    pub fn node_page(&self, number: usize) -> Option<&NodePage> {
        self.nodes.page_numbered(number)
    }

    /// Returns the state with expected allocations, for schedulers that continue before their plans are committed. The
    /// resources of the allocations are counted ([`View::Held`]), but the allocations themselves do not exist in the state.
    ///
    /// [`View::Held`]: crate::View::Held
    #[must_use]
    pub fn expecting<'a>(&self, expected: impl IntoIterator<Item = &'a Expected>) -> Self {
        let mut state = self.clone();
        expected.into_iter().for_each(|expected| state.nodes.add_expected(expected));
        state
    }

    /// The names for the numbers in the column `class` of [`NodePage`].
    pub fn classes(&self) -> &Names {
        &self.nodes.classes
    }

    /// The names for the numbers in the column `datacenter` of [`NodePage`].
    pub fn datacenters(&self) -> &Names {
        &self.nodes.datacenters
    }

    /// The names for the numbers in the column `pool` of [`NodePage`].
    pub fn pools_in_use(&self) -> &Names {
        &self.nodes.pools
    }

    /// The number of node kinds so far. All numbers in the column `kind` of [`NodePage`] are less.
    pub fn node_kinds(&self) -> usize {
        self.nodes.kinds.len()
    }

    /// The scheduler configuration. `None` until it is first written, which differs from the defaults.
    pub fn scheduler_config(&self) -> Option<&SchedulerConfig> {
        self.assert_in_scope(Table::SchedulerConfig);
        self.scheduler_config.as_ref()
    }

    /// The lease of a singleton service.
    pub fn lease(&self, service: Singleton) -> Option<&Lease> {
        self.assert_in_scope(Table::Leases);
        self.leases.get(&service)
    }

    /// The unblock records: the last index at which each key gained capacity.
    pub fn unblocked(&self) -> impl Iterator<Item = (&UnblockKey, Index)> {
        self.assert_in_scope(Table::Unblocked);
        self.unblocked.iter().map(|(key, index)| (key, *index))
    }

    /// Heap memory of the allocations in bytes: rows, indexes, task states. Used for benchmarks, not for decisions.
    pub fn alloc_heap_bytes(&self) -> usize {
        self.allocs.heap_bytes()
    }

    /// In a debug build, panics if a table is out of scope. Every read calls it.
    pub(crate) fn assert_in_scope(&self, table: Table) {
        debug_assert!(self.scope.has(table), "{table:?} are out of this state's scope");
    }

    /// In a debug build, panics if lists are out of scope.
    pub(crate) fn assert_lists_in_scope(&self) {
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
