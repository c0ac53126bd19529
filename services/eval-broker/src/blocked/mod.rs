//! [`BlockedEvals`]: evaluations that wait for capacity, and the records of capacity gained.
//!
//! Pure. Unblocked evaluations go to the [`EvalQueue`](crate::queue::EvalQueue). [`Broker`](crate::core::Broker)
//! cancels duplicates.

mod records;
mod shortages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::change::Unblocked;
use model::eval::{EvalTrigger, Evaluation};
use model::job::JobType;
use model::{EvalId, Index, JobKey, Nanos, NodeId, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::UnblockKey;

use records::Records;
pub(crate) use shortages::{Location, Shortages};

/// Interval at which evaluations are retried whose plans were refused too often, since no capacity gain would unblock
/// them. asks for a minute. It is shorter here: after many nodes failed, plans compete for the remaining
/// capacity, and the losers should be placed soon; another lost attempt costs a few milliseconds.
const RETRY_EVERY: Nanos = Nanos::from_secs(2);

/// Blocked evaluations, at most one for each job, or for each job and node of system jobs.
#[derive(Debug)]
pub(crate) struct BlockedEvals {
    waiting: HashMap<EvalId, Arc<Evaluation>>,
    by_scope: HashMap<Scope, EvalId>,
    /// Evaluations that the same keys unblock share a group, so that a key is compared once for each group.
    groups: BTreeMap<Needs, BTreeSet<EvalId>>,
    by_node: BTreeMap<NodeId, BTreeSet<EvalId>>,
    /// Evaluations that are blocked because their plans were refused too often.
    refused: BTreeSet<EvalId>,
    retry_at: Timestamp,
    /// Evaluations that a newer one of the same scope replaces.
    duplicates: BTreeMap<EvalId, JobKey>,
    records: Records,
    shortages: Shortages,
}

/// Identifies what at most one evaluation is blocked for: a job, or a job on a node.
type Scope = (JobKey, Option<NodeId>);

/// The capacity that unblocks an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Needs {
    /// Any class may be feasible.
    escaped: bool,
    /// The quota that was reached; empty if none was.
    quota: Text,
    /// Infeasible classes.
    ineligible: Vec<Text>,
    /// Missing resources that do not belong to a node.
    resources: Vec<Text>,
}

/// Result of tracking a blocked evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Tracked {
    /// The evaluation is tracked, or it is a duplicate.
    Blocked,
    /// The evaluation missed an unblock: a key gained capacity after its snapshot.
    Missed,
}

/// Number of blocked evaluations, in total and by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockedStats {
    pub(crate) total: usize,
    pub(crate) escaped: usize,
    pub(crate) quota_limited: usize,
}

impl BlockedEvals {
    /// No blocked evaluations yet; `records` are the state's unblock records.
    pub(crate) fn new<'a>(records: impl Iterator<Item = (&'a UnblockKey, Index)>) -> Self {
        Self {
            waiting: HashMap::new(),
            by_scope: HashMap::new(),
            groups: BTreeMap::new(),
            by_node: BTreeMap::new(),
            refused: BTreeSet::new(),
            retry_at: Timestamp::UNSET,
            duplicates: BTreeMap::new(),
            records: Records::new(records),
            shortages: Shortages::default(),
        }
    }

    /// Missing CPU in MHz and memory in MB by job, of at most `max` evaluations.
    pub(crate) fn shortages_by_job(&self, max: usize) -> BTreeMap<JobKey, (u64, u64)> {
        let mut shortages: BTreeMap<JobKey, (u64, u64)> = BTreeMap::new();
        for eval in self.waiting.values().take(max) {
            let (cpu_mhz, memory_mb) = shortages.entry(eval.job.clone()).or_default();
            let (more_cpu_mhz, more_memory_mb) = shortages::shortage_of(eval);
            *cpu_mhz += more_cpu_mhz;
            *memory_mb += more_memory_mb;
        }
        shortages
    }

    /// Tracks a blocked evaluation, unless it has missed an unblock.
    pub(crate) fn track(&mut self, eval: &Arc<Evaluation>, now: Timestamp) -> Tracked {
        self.remove(eval.id);
        let other = self.by_scope.get(&scope(eval)).map(|id| Arc::clone(&self.waiting[id]));
        if let Some(other) = other {
            if freshness(&other) > freshness(eval) {
                self.duplicates.insert(eval.id, eval.job.clone());
                return Tracked::Blocked;
            }
            self.untrack(other.id);
            self.duplicates.insert(other.id, other.job.clone());
        }
        let needs = Needs::of(eval);
        let is_missed = self.records.after(eval.snapshot_index).any(|key| needs.missed(key));
        if is_missed && !is_planted(Bug::MissesUnblocks) {
            return Tracked::Missed;
        }
        self.insert(eval, needs, now);
        Tracked::Blocked
    }

    /// Removes an evaluation that is finished or deleted.
    pub(crate) fn remove(&mut self, id: EvalId) {
        self.duplicates.remove(&id);
        self.untrack(id);
    }

    /// Handles a gain of capacity at `index`. Removes and returns the evaluations that it unblocks.
    pub(crate) fn unblock(&mut self, unblocked: &Unblocked, index: Index) -> Vec<Arc<Evaluation>> {
        let classes = unblocked.classes.iter().cloned().map(UnblockKey::Class);
        let quotas =
            unblocked.quotas.iter().filter(|quota| !quota.is_empty()).cloned().map(UnblockKey::Quota);
        let resources = unblocked.resources.iter().cloned().map(UnblockKey::Resource);
        let keys: Vec<UnblockKey> = classes.chain(quotas).chain(resources).collect();

        let mut unblocked_ids = BTreeSet::new();
        for (needs, ids) in &self.groups {
            if keys.iter().any(|key| needs.unblocked_by(key)) {
                unblocked_ids.extend(ids);
            }
        }
        unblocked_ids.extend(unblocked.nodes.iter().filter_map(|node| self.by_node.get(node)).flatten());
        for key in keys {
            self.records.add(key, index);
        }
        unblocked_ids.into_iter().filter_map(|id| self.untrack(id)).collect()
    }

    /// Deletes the records before `index`, as the state did.
    pub(crate) fn forget_unblocked_before(&mut self, index: Index) {
        self.records.forget_before(index);
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        (!self.refused.is_empty()).then_some(self.retry_at)
    }

    /// Removes and returns the evaluations to retry without a capacity gain.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> Vec<Arc<Evaluation>> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return Vec::new();
        }
        let refused = std::mem::take(&mut self.refused);
        refused.into_iter().filter_map(|id| self.untrack(id)).collect()
    }

    /// Duplicates, with their jobs.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = (EvalId, &JobKey)> {
        self.duplicates.iter().map(|(id, job)| (*id, job))
    }

    pub(crate) fn stats(&self) -> BlockedStats {
        let count = |matches: fn(&Needs) -> bool| {
            self.groups.iter().filter(|(needs, _)| matches(needs)).map(|(_, ids)| ids.len()).sum()
        };
        BlockedStats {
            total: self.waiting.len(),
            escaped: count(|needs| needs.escaped),
            quota_limited: count(|needs| !needs.quota.is_empty()),
        }
    }

    /// Missing resources of all blocked evaluations.
    pub(crate) fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    #[cfg(test)]
    pub(crate) fn ids(&self) -> BTreeSet<EvalId> {
        self.waiting.keys().copied().collect()
    }

    fn insert(&mut self, eval: &Arc<Evaluation>, needs: Needs, now: Timestamp) {
        self.groups.entry(needs).or_default().insert(eval.id);
        self.by_scope.insert(scope(eval), eval.id);
        if let Some(node) = waits_for_node(eval) {
            self.by_node.entry(node).or_default().insert(eval.id);
        }
        if eval.trigger == EvalTrigger::MaxPlanAttempts {
            if self.refused.is_empty() {
                self.retry_at = now + RETRY_EVERY;
            }
            self.refused.insert(eval.id);
        }
        self.shortages.add(eval);
        self.waiting.insert(eval.id, Arc::clone(eval));
    }

    fn untrack(&mut self, id: EvalId) -> Option<Arc<Evaluation>> {
        let eval = self.waiting.remove(&id)?;
        remove_from(&mut self.groups, &Needs::of(&eval), id);
        self.by_scope.remove(&scope(&eval));
        if let Some(node) = waits_for_node(&eval) {
            remove_from(&mut self.by_node, &node, id);
        }
        self.refused.remove(&id);
        self.shortages.remove(&eval);
        Some(eval)
    }
}

impl Needs {
    fn of(eval: &Evaluation) -> Self {
        let ineligible = eval.class_eligibility.iter().filter(|(_, eligible)| !**eligible);
        let mut resources = eval.missing_resources.clone();
        resources.sort_unstable();
        Self {
            escaped: eval.escaped_class,
            quota: eval.quota_limit.clone(),
            ineligible: ineligible.map(|(class, _)| class.clone()).collect(),
            resources,
        }
    }

    /// Whether a capacity gain of `key` unblocks this. A class that was not checked may be feasible.
    fn unblocked_by(&self, key: &UnblockKey) -> bool {
        match key {
            UnblockKey::Class(class) => self.escaped || self.ineligible.binary_search(class).is_err(),
            UnblockKey::Quota(quota) => !self.escaped && (self.quota.is_empty() || self.quota == *quota),
            UnblockKey::Resource(name) => self.resources.binary_search(name).is_ok(),
        }
    }

    /// Whether a capacity gain of `key` would have unblocked this if it had been tracked. If a quota was reached, only
    /// that quota counts.
    fn missed(&self, key: &UnblockKey) -> bool {
        if self.quota.is_empty() {
            self.unblocked_by(key)
        } else {
            matches!(key, UnblockKey::Quota(quota) if *quota == self.quota)
        }
    }
}

/// Orders evaluations of one scope by how recent their snapshots are.
fn freshness(eval: &Evaluation) -> (Index, Index, EvalId) {
    (eval.create_index.max(eval.snapshot_index), eval.modify_index, eval.id)
}

fn scope(eval: &Evaluation) -> Scope {
    (eval.job.clone(), waits_for_node(eval))
}

/// The node that an evaluation of a system job is blocked for; `None` for other jobs.
fn waits_for_node(eval: &Evaluation) -> Option<NodeId> {
    match eval.kind {
        JobType::System | JobType::SysBatch => eval.node_id,
        JobType::Service | JobType::Batch => None,
    }
}

fn remove_from<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<EvalId>>, key: &K, id: EvalId) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
