//! The invariants of every step, and those of the end of a history. The first violation is kept.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::ChangeSet;
use model::cluster::Singleton;
use model::job::JobType;
use model::{AllocId, Epoch, Index, Nanos, NodeId, RequestId, Timestamp};
use state::{State, View};
use wire::command::{Command, Done};

use crate::jobs::ROLLING;
use crate::promises::Promises;

/// How far the cluster's time may be ahead of the true time: longer than a statement takes.
const AHEAD_MAX: Nanos = Nanos::from_secs(3);
/// How far the time of a change set may be behind when it is committed. A process may have been stopped in between, and its
/// writes may have failed.
const BEHIND_MAX: Nanos = Nanos::from_secs(60);

/// Observations that later checks need.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    violation: Option<String>,
    acknowledged: Index,
    /// The acknowledged index at which each read began, by the call's number.
    reads: BTreeMap<u64, Index>,
    /// Commands of singletons, with the epoch that they carry.
    epochs: BTreeMap<RequestId, (Singleton, Epoch)>,
    committed: BTreeSet<RequestId>,
    /// The allocations that have processes on each node.
    running: BTreeMap<NodeId, BTreeSet<AllocId>>,
    promises: Promises,
}

impl Checks {
    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    pub(crate) fn record_violation(&mut self, message: String) {
        self.violation.get_or_insert(message);
    }

    /// Records that a command was sent.
    pub(crate) fn command_sent(&mut self, id: RequestId, command: &Command) {
        let carried = match command {
            Command::UpdateEvals(command) => (Singleton::EvalBroker, command.epoch),
            Command::RegisterNode(command) => (Singleton::NodeTracker, command.epoch),
            Command::UpdateNodes(command) => (Singleton::NodeTracker, command.epoch),
            Command::ReportAllocs(command) => (Singleton::NodeTracker, command.epoch),
            Command::UpdateServices(command) => (Singleton::NodeTracker, command.epoch),
            Command::UpdateDeployments(command) => (Singleton::DeploymentWatcher, command.epoch),
            Command::LaunchJobs(command) => (Singleton::DeploymentWatcher, command.epoch),
            Command::DrainAllocs(command) => (Singleton::DeploymentWatcher, command.epoch),
            Command::CompleteDrains(command) => (Singleton::DeploymentWatcher, command.epoch),
            _ => return,
        };
        self.epochs.insert(id, carried);
    }

    /// Checks that a command whose sender got an answer is committed. `committed` is the change set at the answer's index.
    pub(crate) fn command_acknowledged(&mut self, id: RequestId, done: &Done, committed: Option<&ChangeSet>) {
        if !done.written {
            return;
        }
        if committed.map(|set| set.request_id) != Some(id) {
            self.record_violation(format!(
                "{id} was acknowledged at index {} but is not committed there",
                done.index
            ));
        }
        self.acknowledged = self.acknowledged.max(done.index);
    }

    /// The highest index that was acknowledged to any sender.
    pub(crate) fn acknowledged_index(&self) -> Index {
        self.acknowledged
    }

    /// Records that a read began when `acknowledged` was the highest acknowledged index.
    pub(crate) fn read_started(&mut self, call: u64, acknowledged: Index) {
        self.reads.insert(call, acknowledged);
    }

    /// Checks the index that the read was told to wait for.
    pub(crate) fn read_answered(&mut self, call: u64, index: Index) {
        if let Some(acknowledged) = self.reads.remove(&call)
            && index < acknowledged
        {
            self.record_violation(format!("a read got index {index} after {acknowledged} was acknowledged"));
        }
    }

    /// Records how many processes of each allocation run on a node.
    pub(crate) fn set_running(&mut self, node: NodeId, processes: &BTreeMap<AllocId, u32>) {
        if let Some((id, count)) = processes.iter().find(|(_, count)| **count > 1) {
            self.record_violation(format!("{count} copies of {id} run on node {node}"));
        }
        self.running.insert(node, processes.keys().copied().collect());
    }

    /// Forgets what a restored database lacks. It has change sets up to `index`.
    pub(crate) fn restored(&mut self, index: Index, lost: &[RequestId]) {
        self.acknowledged = self.acknowledged.min(index);
        self.reads.clear();
        self.committed.retain(|id| !lost.contains(id));
        self.promises.restored();
    }

    /// Checks the time of a change set that is committed at `now`, the true time.
    pub(crate) fn check_time(&mut self, set: &ChangeSet, now: Timestamp) {
        let ahead = set.at - now;
        if ahead > AHEAD_MAX || ahead.0 < -BEHIND_MAX.0 {
            self.record_violation(format!(
                "index {} has a time that is {} s ahead of the true one",
                set.index,
                ahead.0 / Nanos::SECOND.0
            ));
        }
    }

    /// Checks a change set that was committed.
    pub(crate) fn check_commit(&mut self, before: &State, set: &ChangeSet, after: &State) {
        if !self.committed.insert(set.request_id) {
            self.record_violation(format!(
                "{} was carried out twice, the second time at {}",
                set.request_id, set.index
            ));
        }
        if let Some((service, epoch)) = self.epochs.get(&set.request_id)
            && before.lease(*service).map(|lease| lease.epoch) != Some(*epoch)
        {
            self.record_violation(format!(
                "a command of the {service} with old epoch {epoch} was carried out at {}",
                set.index
            ));
        }
        for node in after.nodes() {
            let (used, capacity) = (node.usage(View::Live), node.capacity());
            if used.cpu_mhz > capacity.cpu_mhz {
                let message = format!("node {} holds {} MHz at {}", node.id(), used.cpu_mhz, set.index);
                self.record_violation(message);
            }
        }
        if let Some(message) = self.promises.check_commit(before, set, after) {
            self.record_violation(format!("{message} at {}", set.index));
        }
        let mut names = BTreeSet::new();
        for alloc in after.allocs() {
            // An allocation that was unknown may have been replaced, and may run again.
            let was_unknown =
                alloc.extra().states.iter().any(|state| state.client_status == Some(ClientStatus::Unknown));
            let is_live = alloc.desired_status() == DesiredStatus::Run
                && !alloc.client_status().is_terminal()
                && !was_unknown
                // A canary has the name of the allocation that it will replace.
                && *alloc.job_key().id != *ROLLING;
            if is_live && !names.insert((alloc.job_key().clone(), alloc.name_index())) {
                let message = format!("{} runs twice at {}", alloc.name(), set.index);
                self.record_violation(message);
            }
        }
        for alloc in before.allocs().filter(|alloc| alloc.client_status().is_terminal()) {
            let again = after.alloc(alloc.id()).filter(|now| !now.client_status().is_terminal());
            if again.is_some() {
                self.record_violation(format!(
                    "{} was terminal and is not terminal any more at {}",
                    alloc.name(),
                    set.index
                ));
            }
        }
    }

    /// Returns why the cluster has not reached its desired state, or `None` if it has.
    pub(crate) fn why_not_settled(&self, state: &State) -> Option<String> {
        if let Some(eval) = state.live_evals().next() {
            let failed = &eval.failed_groups;
            return Some(format!("evaluation {} of {} is {}: {failed:?}", eval.id, eval.job, eval.status));
        }
        let mut wanted: BTreeMap<NodeId, BTreeSet<AllocId>> = BTreeMap::new();
        let mut copies: BTreeMap<_, u32> = BTreeMap::new();
        for alloc in state.allocs().filter(|alloc| alloc.desired_status() == DesiredStatus::Run) {
            match alloc.client_status() {
                ClientStatus::Running => {
                    wanted.entry(alloc.node_id()).or_default().insert(alloc.id());
                    *copies.entry(alloc.job_key().clone()).or_default() += 1;
                }
                status if status.is_terminal() => {}
                status => return Some(format!("{} is {status}", alloc.name())),
            }
        }
        for job in state.jobs() {
            let is_run = !job.spec.stop && job.spec.kind == JobType::Service;
            let count = if is_run { job.spec.task_groups[0].count } else { 0 };
            let found = copies.remove(&job.key()).unwrap_or_default();
            if found != count {
                return Some(format!("{} has {found} copies instead of {count}", job.key()));
            }
        }
        if let Some((job, _)) = copies.first_key_value() {
            return Some(format!("{job} does not exist but has allocations that run"));
        }
        for (node, running) in &self.running {
            if *running != wanted.remove(node).unwrap_or_default() {
                return Some(format!("node {node} runs other allocations than it should"));
            }
        }
        None
    }

    /// Forgets a node that was killed for good, whose tasks are unknown.
    pub(crate) fn node_removed(&mut self, node: NodeId) {
        self.running.remove(&node);
    }
}
