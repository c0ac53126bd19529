//! Watches: notifications that something has changed.
//!
//! A watch does not contain the change: after a notification, its holder takes a new snapshot and compares indexes. A
//! superfluous notification is therefore harmless; only a missing one is an error. Holders set the watch first, then take a
//! snapshot, then wait.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use model::change::{
    AllocChange, Change, ChangeSet, Concern, DeploymentChange, EvalChange, JobChange, JobSubmissionChange,
    JobSummaryChange, NodeChange,
};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Table, Text};
use tokio::sync::Notify;

use crate::tables::State;

/// The object, or set of objects, that a watch is set on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchKey {
    /// All objects of a table.
    Table(Table),
    /// The objects of one job in a table: the job itself, its sources, its summary, its allocations, evaluations or
    /// deployments.
    Job(Table, JobKey),
    /// The allocations on a node.
    NodeAllocs(NodeId),
    /// The allocations on a node, without changes that its agent reports itself (N-6.1).
    NodeWork(NodeId),
    /// One allocation.
    Alloc(AllocId),
    /// One evaluation.
    Eval(EvalId),
    /// One deployment.
    Deployment(DeploymentId),
    /// One node.
    Node(NodeId),
    /// The objects of a table whose id, job id or name starts with a prefix.
    Prefix(Table, Text),
}

impl WatchKey {
    /// Whether the key selects some of the allocations. For such keys, changed allocations are looked up one by one.
    fn selects_allocs(&self) -> bool {
        match self {
            Self::Job(table, _) | Self::Prefix(table, _) => *table == Table::Allocs,
            Self::Alloc(_) | Self::NodeAllocs(_) | Self::NodeWork(_) => true,
            Self::Table(_) | Self::Eval(_) | Self::Deployment(_) | Self::Node(_) => false,
        }
    }
}

/// Waits for changes of its keys. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    keys: Vec<WatchKey>,
    number: u64,
    waiter: Arc<Notify>,
    watches: Weak<Watches>,
}

impl Watch {
    /// Waits until a watched object has changed, since the watch was set or since the last return.
    pub async fn changed(&mut self) {
        self.waiter.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.upgrade() {
            watches.lock().remove(self);
        }
    }
}

/// All watches of one replica, and all waits for an index.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    /// For each key, the watches by number.
    by_key: HashMap<WatchKey, BTreeMap<u64, Arc<Notify>>>,
    /// Number of watched prefixes by table and length, so that only prefixes of these lengths are looked up.
    prefixes: BTreeMap<(Table, usize), usize>,
    /// Number of keys that select some of the allocations. If it is 0, no changed allocation is looked up.
    alloc_keys: usize,
    /// Waits for an index, lowest index first. The number distinguishes waits for the same index.
    by_index: BTreeMap<(Index, u64), Arc<Notify>>,
    last_number: u64,
}

impl Watches {
    pub(crate) fn watch(self: &Arc<Self>, keys: Vec<WatchKey>) -> Watch {
        let waiter = Arc::new(Notify::new());
        let mut waiters = self.lock();
        let number = waiters.next_number();
        for key in &keys {
            if let WatchKey::Prefix(table, prefix) = key {
                *waiters.prefixes.entry((*table, prefix.len())).or_default() += 1;
            }
            waiters.alloc_keys += usize::from(key.selects_allocs());
            waiters.by_key.entry(key.clone()).or_default().insert(number, Arc::clone(&waiter));
        }
        Watch { keys, number, waiter, watches: Arc::downgrade(self) }
    }

    /// Whether there are no watches, so that changes need not be visited.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().by_key.is_empty()
    }

    /// Wakes the watches of all objects that `set` changed between two states.
    pub(crate) fn wake(&self, set: &ChangeSet, before: &State, after: &State) {
        let waiters = self.lock();
        ChangeVisitor { waiters: &waiters, before, after }.visit(set);
    }

    /// Wakes all watches, after the state was replaced by unknown changes.
    pub(crate) fn wake_all(&self) {
        let waiters = self.lock();
        waiters.by_key.values().flat_map(BTreeMap::values).for_each(|waiter| waiter.notify_one());
    }

    /// Wakes the waits for all indexes up to `index`.
    pub(crate) fn wake_until(&self, index: Index) {
        let mut waiters = self.lock();
        let later = waiters.by_index.split_off(&(index.next(), 0));
        for waiter in std::mem::replace(&mut waiters.by_index, later).into_values() {
            waiter.notify_one();
        }
    }

    pub(crate) fn wait_for(self: &Arc<Self>, index: Index) -> IndexWait {
        let waiter = Arc::new(Notify::new());
        let mut waiters = self.lock();
        let key = (index, waiters.next_number());
        waiters.by_index.insert(key, Arc::clone(&waiter));
        IndexWait { key, waiter, watches: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // No code that holds the lock can panic halfway through a change, so the data is consistent even if it is poisoned.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for an index. It ends when dropped.
pub(crate) struct IndexWait {
    key: (Index, u64),
    waiter: Arc<Notify>,
    watches: Arc<Watches>,
}

impl IndexWait {
    pub(crate) async fn reached(&self) {
        self.waiter.notified().await;
    }
}

impl Drop for IndexWait {
    fn drop(&mut self) {
        self.watches.lock().by_index.remove(&self.key);
    }
}

impl Waiters {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn remove(&mut self, watch: &Watch) {
        for key in &watch.keys {
            if let WatchKey::Prefix(table, prefix) = key {
                let length = (*table, prefix.len());
                if let Some(count) = self.prefixes.get_mut(&length) {
                    *count -= 1;
                    if *count == 0 {
                        self.prefixes.remove(&length);
                    }
                }
            }
            self.alloc_keys -= usize::from(key.selects_allocs());
            if let Some(waiters) = self.by_key.get_mut(key) {
                waiters.remove(&watch.number);
                if waiters.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
    }

    fn notify(&self, key: &WatchKey) {
        if let Some(waiters) = self.by_key.get(key) {
            waiters.values().for_each(|waiter| waiter.notify_one());
        }
    }

    /// Wakes the watches of all prefixes of `name`.
    fn notify_prefixes(&self, table: Table, name: &str) {
        for (_, length) in self.prefixes.range((table, 0)..=(table, name.len())).map(|(length, _)| *length) {
            if let Some(prefix) = name.get(..length) {
                self.notify(&WatchKey::Prefix(table, prefix.into()));
            }
        }
    }
}

/// Wakes the watches of every object that a change set touches.
struct ChangeVisitor<'a> {
    waiters: &'a Waiters,
    before: &'a State,
    after: &'a State,
}

impl ChangeVisitor<'_> {
    fn visit(&self, set: &ChangeSet) {
        let scope = self.after.scope();
        for change in set.changes.iter().filter(|change| scope.has(change.table())) {
            self.waiters.notify(&WatchKey::Table(change.table()));
            self.visit_change(change);
        }
    }

    fn visit_change(&self, change: &Change) {
        match change.concern() {
            Concern::Jobs(change) => self.job_change(change),
            Concern::JobSubmissions(change) => self.submission_change(change),
            Concern::JobSummaries(JobSummaryChange::JobSummary(summary)) => self.summary(&summary.job),
            Concern::Evals(change) => self.eval_change(change),
            Concern::Deployments(change) => self.deployment_change(change),
            Concern::Nodes(change) => self.node_change(change),
            Concern::Allocs(change) if self.waiters.alloc_keys > 0 => self.alloc_change(change),
            Concern::Small(small) => self.text(change.table(), || small.search_text()),
            Concern::Allocs(_) | Concern::SchedulerConfig(_) | Concern::Leases(_) | Concern::Unblocked(_) => {
            }
        }
    }

    fn job_change(&self, change: JobChange<'_>) {
        match change {
            JobChange::Job(job) => self.job(&job.key()),
            JobChange::JobFields(fields) => self.job(&fields.key.job),
            JobChange::JobDeleted(key) => {
                self.job(key);
                self.waiters.notify(&WatchKey::Table(Table::JobSubmissions));
                self.submission(key);
                self.waiters.notify(&WatchKey::Table(Table::JobSummaries));
                self.summary(key);
            }
            JobChange::JobVersionsDeleted(keys) => keys.iter().for_each(|key| self.job(&key.job)),
        }
    }

    fn submission_change(&self, change: JobSubmissionChange<'_>) {
        match change {
            JobSubmissionChange::JobSubmission(submission) => self.submission(&submission.version.job),
            JobSubmissionChange::JobSubmissionCopied { to, .. } => self.submission(&to.job),
            JobSubmissionChange::JobSubmissionsDeleted(keys) => {
                keys.iter().for_each(|key| self.submission(&key.job));
            }
        }
    }

    fn eval_change(&self, change: EvalChange<'_>) {
        match change {
            EvalChange::Eval(eval) | EvalChange::EvalOutcome(eval) => self.eval(eval.id, &eval.job),
            EvalChange::PlanApplied { job, eval_id } => self.eval(*eval_id, job),
            EvalChange::EvalsChanged(change) => {
                for eval in change.ids.iter().filter_map(|id| self.after.eval(*id)) {
                    self.eval(eval.id, &eval.job);
                }
            }
            EvalChange::EvalsDeleted(ids) => {
                for eval in ids.iter().filter_map(|id| self.before.eval(*id)) {
                    self.eval(eval.id, &eval.job);
                }
            }
        }
    }

    fn deployment_change(&self, change: DeploymentChange<'_>) {
        match change {
            DeploymentChange::Deployment(deployment) => {
                self.deployment(deployment.id, &deployment.job.job);
            }
            DeploymentChange::DeploymentFields(fields) => {
                if let Some(deployment) = self.after.deployment(fields.id) {
                    self.deployment(fields.id, &deployment.job.job);
                }
            }
            DeploymentChange::DeploymentsDeleted(ids) => {
                for deployment in ids.iter().filter_map(|id| self.before.deployment(*id)) {
                    self.deployment(deployment.id, &deployment.job.job);
                }
            }
        }
    }

    fn node_change(&self, change: NodeChange<'_>) {
        match change {
            NodeChange::Node(node) => {
                self.node(node.id);
                if self.before.node(node.id).is_none() {
                    self.waiters.notify(&WatchKey::NodeWork(node.id));
                }
            }
            NodeChange::NodeServerSide { id, .. } => self.node(*id),
            NodeChange::NodesChanged(change) => change.ids.iter().for_each(|id| self.node(*id)),
            NodeChange::NodesDeleted(ids) => ids.iter().for_each(|id| self.node(*id)),
        }
    }

    fn alloc_change(&self, change: AllocChange<'_>) {
        match change {
            AllocChange::AllocsPlaced(placements) => {
                self.work(&placements.ids.0, self.after);
                // The replaced allocations get the ids of their successors.
                self.allocs(&placements.previous.0, self.after);
            }
            AllocChange::AllocsChanged(change) if change.by_servers => {
                self.work(&change.ids.0, self.after);
            }
            AllocChange::AllocsChanged(change) => self.allocs(&change.ids.0, self.after),
            AllocChange::Alloc(alloc) => {
                // The allocation may have belonged to another job or node before.
                self.work(&[alloc.id], self.before);
                self.work(&[alloc.id], self.after);
            }
            AllocChange::AllocsDeleted(ids) => self.work(&ids.0, self.before),
        }
    }

    fn job(&self, key: &JobKey) {
        self.waiters.notify(&WatchKey::Job(Table::Jobs, key.clone()));
        self.waiters.notify_prefixes(Table::Jobs, &key.id);
    }

    fn submission(&self, key: &JobKey) {
        self.waiters.notify(&WatchKey::Job(Table::JobSubmissions, key.clone()));
        self.waiters.notify_prefixes(Table::JobSubmissions, &key.id);
    }

    fn summary(&self, key: &JobKey) {
        self.waiters.notify(&WatchKey::Job(Table::JobSummaries, key.clone()));
        self.waiters.notify_prefixes(Table::JobSummaries, &key.id);
    }

    fn eval(&self, id: EvalId, job: &JobKey) {
        self.waiters.notify(&WatchKey::Eval(id));
        self.waiters.notify(&WatchKey::Job(Table::Evals, job.clone()));
        self.uuid(Table::Evals, id.as_bytes());
    }

    fn deployment(&self, id: DeploymentId, job: &JobKey) {
        self.waiters.notify(&WatchKey::Deployment(id));
        self.waiters.notify(&WatchKey::Job(Table::Deployments, job.clone()));
        self.uuid(Table::Deployments, id.as_bytes());
    }

    fn node(&self, id: NodeId) {
        self.waiters.notify(&WatchKey::Node(id));
        self.uuid(Table::Nodes, id.as_bytes());
    }

    /// Visits allocations that the servers changed, and the work of their nodes.
    fn work(&self, ids: &[AllocId], state: &State) {
        self.allocs(ids, state);
        let mut last_node = None;
        for alloc in ids.iter().filter_map(|id| state.alloc(*id)) {
            if last_node != Some(alloc.node_id()) {
                last_node = Some(alloc.node_id());
                self.waiters.notify(&WatchKey::NodeWork(alloc.node_id()));
            }
        }
    }

    /// Visits allocations, and their jobs and nodes in `state`. Consecutive allocations of the same job or node wake its
    /// watches once, because the allocations of a plan are grouped.
    fn allocs(&self, ids: &[AllocId], state: &State) {
        let (mut last_job, mut last_node) = (None, None);
        for alloc in ids.iter().filter_map(|id| state.alloc(*id)) {
            self.waiters.notify(&WatchKey::Alloc(alloc.id()));
            self.uuid(Table::Allocs, alloc.id().as_bytes());
            if last_job != Some(alloc.job_key()) {
                last_job = Some(alloc.job_key());
                self.waiters.notify(&WatchKey::Job(Table::Allocs, alloc.job_key().clone()));
            }
            if last_node != Some(alloc.node_id()) {
                last_node = Some(alloc.node_id());
                self.waiters.notify(&WatchKey::NodeAllocs(alloc.node_id()));
            }
        }
    }

    fn uuid(&self, table: Table, id: &[u8; 16]) {
        self.text(table, || AllocId::from_bytes(*id).to_string().into());
    }

    /// Wakes the watches of all prefixes of an object's id or name, which is computed only if there are such watches.
    fn text<'t>(&self, table: Table, text: impl FnOnce() -> Cow<'t, str>) {
        let is_watched = self.waiters.prefixes.range((table, 0)..=(table, usize::MAX)).next().is_some();
        if is_watched {
            self.waiters.notify_prefixes(table, &text());
        }
    }
}
