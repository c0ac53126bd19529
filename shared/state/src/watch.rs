//! Watches: being told that something changed.
//!
//! A watch never says what changed, only *look again*: its holder takes a snapshot and compares indexes. So waking too
//! often is harmless and waking too late is the only mistake, and the order is: watch, then look, then wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use model::change::{Change, ChangeSet};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Text};
use tokio::sync::Notify;

use crate::apply::table_of;
use crate::tables::{State, Table};

/// What a watch is set on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchKey {
    /// Anything in a table.
    Table(Table),
    /// What a table holds of one job: the job itself, what it was registered from, its summary, its allocations,
    /// evaluations or deployments.
    Job(Table, JobKey),
    /// The allocations on a node.
    NodeAllocs(NodeId),
    /// What the servers want of a node: its allocations, less what their agent reports of them itself (N-6.1).
    NodeWork(NodeId),
    /// One allocation.
    Alloc(AllocId),
    /// One evaluation.
    Eval(EvalId),
    /// One deployment.
    Deployment(DeploymentId),
    /// One node.
    Node(NodeId),
    /// Whatever in a table has an id, or a job id or name, that begins so.
    Prefix(Table, Text),
}

impl WatchKey {
    /// Whether it is about some of the allocations, which are looked up one by one.
    fn is_of_allocs(&self) -> bool {
        match self {
            Self::Job(table, _) | Self::Prefix(table, _) => *table == Table::Allocs,
            Self::Alloc(_) | Self::NodeAllocs(_) | Self::NodeWork(_) => true,
            Self::Table(_) | Self::Eval(_) | Self::Deployment(_) | Self::Node(_) => false,
        }
    }
}

/// Waits for changes. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    keys: Vec<WatchKey>,
    number: u64,
    waiter: Arc<Notify>,
    watches: Weak<Watches>,
}

impl Watch {
    /// Returns once something watched has changed since the watch was set, or since the last return.
    pub async fn changed(&mut self) {
        self.waiter.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.upgrade() {
            watches.lock().forget(self);
        }
    }
}

/// Everybody who waits for something of one replica.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By key, the watches by their numbers.
    by_key: HashMap<WatchKey, BTreeMap<u64, Arc<Notify>>>,
    /// How many prefixes of each length are watched, so that only those lengths are cut off ids and looked up.
    prefixes: BTreeMap<(Table, usize), usize>,
    /// How many keys are about some of the allocations; without any, none needs to be looked up.
    of_allocs: usize,
    /// Who waits for an index, the lowest first; the number tells apart those who wait for the same.
    by_index: BTreeMap<(Index, u64), Arc<Notify>>,
    last_number: u64,
}

impl Watches {
    pub(crate) fn watch(self: &Arc<Self>, keys: Vec<WatchKey>) -> Watch {
        let waiter = Arc::new(Notify::new());
        let mut waiting = self.lock();
        let number = waiting.next_number();
        for key in &keys {
            if let WatchKey::Prefix(table, prefix) = key {
                *waiting.prefixes.entry((*table, prefix.len())).or_default() += 1;
            }
            waiting.of_allocs += usize::from(key.is_of_allocs());
            waiting.by_key.entry(key.clone()).or_default().insert(number, Arc::clone(&waiter));
        }
        Watch { keys, number, waiter, watches: Arc::downgrade(self) }
    }

    /// Whether nobody watches anything, so that nothing needs to be worked out for them.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().by_key.is_empty()
    }

    /// Wakes those who watch what `set` changed between two states.
    pub(crate) fn wake(&self, set: &ChangeSet, before: &State, after: &State) {
        let waiting = self.lock();
        Touched { waiting: &waiting, before, after }.visit(set);
    }

    /// Wakes everybody: the state was replaced, and nobody knows by what.
    pub(crate) fn wake_all(&self) {
        for waiters in self.lock().by_key.values() {
            waiters.values().for_each(|waiter| waiter.notify_one());
        }
    }

    /// Wakes those who wait for an index that is reached.
    pub(crate) fn wake_until(&self, index: Index) {
        let mut waiting = self.lock();
        let later = waiting.by_index.split_off(&(index.next(), 0));
        for waiter in std::mem::replace(&mut waiting.by_index, later).into_values() {
            waiter.notify_one();
        }
    }

    pub(crate) fn wait_for(self: &Arc<Self>, index: Index) -> IndexWait {
        let waiter = Arc::new(Notify::new());
        let mut waiting = self.lock();
        let key = (index, waiting.next_number());
        waiting.by_index.insert(key, Arc::clone(&waiter));
        IndexWait { key, waiter, watches: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing here leaves the lists half changed, so what another thread's panic left is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for an index; stops when dropped.
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

impl Waiting {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn forget(&mut self, watch: &Watch) {
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
            self.of_allocs -= usize::from(key.is_of_allocs());
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

    /// Wakes those who watch a prefix of `name`.
    fn notify_prefixes(&self, table: Table, name: &str) {
        for (_, length) in self.prefixes.range((table, 0)..=(table, name.len())).map(|(length, _)| *length) {
            if let Some(prefix) = name.get(..length) {
                self.notify(&WatchKey::Prefix(table, prefix.into()));
            }
        }
    }
}

/// Finds out what a change set touched, for those who watch.
struct Touched<'a> {
    waiting: &'a Waiting,
    before: &'a State,
    after: &'a State,
}

impl Touched<'_> {
    fn visit(&self, set: &ChangeSet) {
        let scope = self.after.scope();
        for change in set.changes.iter().filter(|change| scope.has(table_of(change))) {
            self.waiting.notify(&WatchKey::Table(table_of(change)));
            self.visit_change(change);
        }
    }

    fn visit_change(&self, change: &Change) {
        match change {
            Change::Job(job) => self.job(&job.key()),
            Change::JobFields(fields) => self.job(&fields.key.job),
            Change::JobDeleted(key) => {
                self.job(key);
                self.waiting.notify(&WatchKey::Table(Table::JobSubmissions));
                self.submission(key);
                self.waiting.notify(&WatchKey::Table(Table::JobSummaries));
                self.summary(key);
            }
            Change::JobVersionsDeleted(keys) => keys.iter().for_each(|key| self.job(&key.job)),
            Change::JobSubmission(submission) => self.submission(&submission.version.job),
            Change::JobSubmissionCopied { to, .. } => self.submission(&to.job),
            Change::JobSubmissionsDeleted(keys) => keys.iter().for_each(|key| self.submission(&key.job)),
            Change::JobSummary(summary) => self.summary(&summary.job),
            Change::Eval(eval) | Change::EvalOutcome(eval) => self.eval(eval.id, &eval.job),
            Change::PlanApplied { job, eval_id } => self.eval(*eval_id, job),
            Change::EvalsChanged(change) => {
                for eval in change.ids.iter().filter_map(|id| self.after.eval(*id)) {
                    self.eval(eval.id, &eval.job);
                }
            }
            Change::EvalsDeleted(ids) => {
                for eval in ids.iter().filter_map(|id| self.before.eval(*id)) {
                    self.eval(eval.id, &eval.job);
                }
            }
            Change::Deployment(deployment) => self.deployment(deployment.id, &deployment.job.job),
            Change::DeploymentFields(fields) => {
                if let Some(deployment) = self.after.deployment(fields.id) {
                    self.deployment(fields.id, &deployment.job.job);
                }
            }
            Change::DeploymentsDeleted(ids) => {
                for deployment in ids.iter().filter_map(|id| self.before.deployment(*id)) {
                    self.deployment(deployment.id, &deployment.job.job);
                }
            }
            Change::Node(node) => {
                self.node(node.id);
                if self.before.node(node.id).is_none() {
                    self.waiting.notify(&WatchKey::NodeWork(node.id));
                }
            }
            Change::NodeServerSide { id, .. } => self.node(*id),
            Change::NodesChanged(change) => change.ids.iter().for_each(|id| self.node(*id)),
            Change::NodesDeleted(ids) => ids.iter().for_each(|id| self.node(*id)),
            Change::AllocsPlaced(_)
            | Change::AllocsChanged(_)
            | Change::Alloc(_)
            | Change::AllocsDeleted(_)
                if self.waiting.of_allocs == 0 => {}
            Change::AllocsPlaced(placements) => {
                self.work(&placements.ids.0, self.after);
                // Those that are replaced learn of their successors.
                self.allocs(&placements.previous.0, self.after);
            }
            Change::AllocsChanged(change) if change.by_servers => self.work(&change.ids.0, self.after),
            Change::AllocsChanged(change) => self.allocs(&change.ids.0, self.after),
            Change::Alloc(alloc) => {
                // It may have been another job's, or on another node.
                self.work(&[alloc.id], self.before);
                self.work(&[alloc.id], self.after);
            }
            Change::AllocsDeleted(ids) => self.work(&ids.0, self.before),
            Change::NodePool(pool) => self.waiting.notify_prefixes(Table::NodePools, &pool.name),
            Change::NodePoolDeleted(name) => self.waiting.notify_prefixes(Table::NodePools, name),
            Change::Namespace(namespace) => self.waiting.notify_prefixes(Table::Namespaces, &namespace.name),
            Change::NamespaceDeleted(name) => self.waiting.notify_prefixes(Table::Namespaces, name),
            Change::HostVolume(volume) => self.uuid(Table::HostVolumes, volume.id.as_bytes()),
            Change::HostVolumeDeleted(id) => self.uuid(Table::HostVolumes, id.as_bytes()),
            Change::CsiVolume(volume) => self.waiting.notify_prefixes(Table::CsiVolumes, &volume.key.id),
            Change::CsiVolumeDeleted(key) => self.waiting.notify_prefixes(Table::CsiVolumes, &key.id),
            Change::VolumeClaim(claim) => self.uuid(Table::VolumeClaims, claim.id.as_bytes()),
            Change::VolumeClaimDeleted(id) => self.uuid(Table::VolumeClaims, id.as_bytes()),
            Change::SchedulerConfig(_)
            | Change::RootKey(_)
            | Change::Lease(_)
            | Change::Unblocked(_)
            | Change::UnblockedForgotten(_) => {}
        }
    }

    fn job(&self, key: &JobKey) {
        self.waiting.notify(&WatchKey::Job(Table::Jobs, key.clone()));
        self.waiting.notify_prefixes(Table::Jobs, &key.id);
    }

    fn submission(&self, key: &JobKey) {
        self.waiting.notify(&WatchKey::Job(Table::JobSubmissions, key.clone()));
        self.waiting.notify_prefixes(Table::JobSubmissions, &key.id);
    }

    fn summary(&self, key: &JobKey) {
        self.waiting.notify(&WatchKey::Job(Table::JobSummaries, key.clone()));
        self.waiting.notify_prefixes(Table::JobSummaries, &key.id);
    }

    fn eval(&self, id: EvalId, job: &JobKey) {
        self.waiting.notify(&WatchKey::Eval(id));
        self.waiting.notify(&WatchKey::Job(Table::Evals, job.clone()));
        self.uuid(Table::Evals, id.as_bytes());
    }

    fn deployment(&self, id: DeploymentId, job: &JobKey) {
        self.waiting.notify(&WatchKey::Deployment(id));
        self.waiting.notify(&WatchKey::Job(Table::Deployments, job.clone()));
        self.uuid(Table::Deployments, id.as_bytes());
    }

    fn node(&self, id: NodeId) {
        self.waiting.notify(&WatchKey::Node(id));
        self.uuid(Table::Nodes, id.as_bytes());
    }

    /// Allocations that the servers changed: their nodes have other work.
    fn work(&self, ids: &[AllocId], state: &State) {
        self.allocs(ids, state);
        let mut last_node = None;
        for alloc in ids.iter().filter_map(|id| state.alloc(*id)) {
            if last_node != Some(alloc.node_id()) {
                last_node = Some(alloc.node_id());
                self.waiting.notify(&WatchKey::NodeWork(alloc.node_id()));
            }
        }
    }

    /// Allocations with their jobs and nodes, as `state` has them. Each job and node is looked up once in a row of
    /// equal ones, for a plan's allocations come grouped.
    fn allocs(&self, ids: &[AllocId], state: &State) {
        let (mut last_job, mut last_node) = (None, None);
        for alloc in ids.iter().filter_map(|id| state.alloc(*id)) {
            self.waiting.notify(&WatchKey::Alloc(alloc.id()));
            self.uuid(Table::Allocs, alloc.id().as_bytes());
            if last_job != Some(alloc.job_key()) {
                last_job = Some(alloc.job_key());
                self.waiting.notify(&WatchKey::Job(Table::Allocs, alloc.job_key().clone()));
            }
            if last_node != Some(alloc.node_id()) {
                last_node = Some(alloc.node_id());
                self.waiting.notify(&WatchKey::NodeAllocs(alloc.node_id()));
            }
        }
    }

    fn uuid(&self, table: Table, id: &[u8; 16]) {
        let watched = self.waiting.prefixes.range((table, 0)..=(table, usize::MAX)).next().is_some();
        if watched {
            self.waiting.notify_prefixes(table, &AllocId::from_bytes(*id).to_string());
        }
    }
}
