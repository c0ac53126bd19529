//! What must hold at every step, and at the end. The first violation is kept.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::ChangeSet;
use model::cluster::Singleton;
use model::{AllocId, Epoch, Index, NodeId, RequestId};
use state::{State, View};
use wire::command::{Command, Done};

use crate::agent::Task;
use crate::database::Database;

/// What was seen, as far as later checks need it.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    violation: Option<String>,
    acknowledged: Index,
    reads: BTreeMap<u64, Index>,
    /// Commands of singletons, with the epoch that they carry.
    epochs: BTreeMap<RequestId, (Singleton, Epoch)>,
    committed: BTreeSet<RequestId>,
    running: BTreeMap<NodeId, BTreeMap<AllocId, ClientStatus>>,
}

impl Checks {
    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    pub(crate) fn violated(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A command is on its way.
    pub(crate) fn sent(&mut self, id: RequestId, command: &Command) {
        let carried = match command {
            Command::UpdateEvals(command) => (Singleton::EvalBroker, command.epoch),
            Command::RegisterNode(command) => (Singleton::NodeTracker, command.epoch),
            Command::UpdateNodes(command) => (Singleton::NodeTracker, command.epoch),
            Command::ReportAllocs(command) => (Singleton::NodeTracker, command.epoch),
            Command::UpdateDeployments(command) => (Singleton::DeploymentWatcher, command.epoch),
            _ => return,
        };
        self.epochs.insert(id, carried);
    }

    /// Whoever sent a command heard that it is done.
    pub(crate) fn acknowledged(&mut self, id: RequestId, done: &Done, database: &Database) {
        if !done.written {
            return;
        }
        if database.set(done.index).map(|set| set.request_id) != Some(id) {
            self.violated(format!("{id} was acknowledged at index {} and is not there", done.index));
        }
        self.acknowledged = self.acknowledged.max(done.index);
    }

    /// The highest index that anybody has heard of as done.
    pub(crate) fn acknowledged_index(&self) -> Index {
        self.acknowledged
    }

    /// A read began when so much was acknowledged.
    pub(crate) fn reads(&mut self, call: u64, acknowledged: Index) {
        self.reads.insert(call, acknowledged);
    }

    /// It was told to wait for this index.
    pub(crate) fn read(&mut self, call: u64, index: Index) {
        if let Some(acknowledged) = self.reads.remove(&call)
            && index < acknowledged
        {
            self.violated(format!("a read was told index {index} after {acknowledged} was acknowledged"));
        }
    }

    /// What runs on a node, as its agent knows.
    pub(crate) fn runs<'a>(&mut self, node: NodeId, tasks: impl Iterator<Item = (&'a AllocId, &'a Task)>) {
        self.running.insert(node, tasks.map(|(id, task)| (*id, task.status)).collect());
    }

    /// A change set was committed.
    pub(crate) fn committed(&mut self, before: &State, set: &ChangeSet, after: &State) {
        if !self.committed.insert(set.request_id) {
            self.violated(format!(
                "{} was carried out twice, the second time at {}",
                set.request_id, set.index
            ));
        }
        if let Some((service, epoch)) = self.epochs.get(&set.request_id)
            && before.lease(*service).map(|lease| lease.epoch) != Some(*epoch)
        {
            self.violated(format!(
                "epoch {epoch} of the {service} was heeded at {} although it is over",
                set.index
            ));
        }
        for node in after.nodes() {
            let (used, capacity) = (node.usage(View::Live), node.capacity());
            if used.cpu_mhz > capacity.cpu_mhz {
                let message = format!("node {} holds {} MHz at {}", node.id(), used.cpu_mhz, set.index);
                self.violated(message);
            }
        }
        let mut names = BTreeSet::new();
        for alloc in after.allocs() {
            // One that was out of sight may have been replaced, and may be there again.
            let was_away =
                alloc.extra().states.iter().any(|state| state.client_status == Some(ClientStatus::Unknown));
            let is_live = alloc.desired_status() == DesiredStatus::Run
                && !alloc.client_status().is_terminal()
                && !was_away;
            if is_live && !names.insert((alloc.job_key().clone(), alloc.name_index())) {
                let message = format!("{} runs twice at {}", alloc.name(), set.index);
                self.violated(message);
            }
        }
        for alloc in before.allocs().filter(|alloc| alloc.client_status().is_terminal()) {
            let again = after.alloc(alloc.id()).filter(|now| !now.client_status().is_terminal());
            if again.is_some() {
                self.violated(format!("{} had ended and has not any more at {}", alloc.name(), set.index));
            }
        }
    }

    /// What keeps the cluster from being as everybody wants it, if anything does.
    pub(crate) fn unsettled(&self, state: &State) -> Option<String> {
        if let Some(eval) = state.live_evals().next() {
            let why = &eval.failed_groups;
            return Some(format!("evaluation {} of {} is {}: {why:?}", eval.id, eval.job, eval.status));
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
            let count = if job.spec.stop { 0 } else { job.spec.task_groups[0].count };
            let found = copies.remove(&job.key()).unwrap_or_default();
            if found != count {
                return Some(format!("{} has {found} copies instead of {count}", job.key()));
            }
        }
        if let Some((job, _)) = copies.first_key_value() {
            return Some(format!("{job} is gone and runs"));
        }
        for (node, tasks) in &self.running {
            let running = tasks.iter().filter(|(_, status)| **status == ClientStatus::Running);
            let running: BTreeSet<AllocId> = running.map(|(id, _)| *id).collect();
            if running != wanted.remove(node).unwrap_or_default() {
                return Some(format!("node {node} runs other allocations than it should"));
            }
        }
        None
    }

    /// A node is gone for good; nobody knows what it runs.
    pub(crate) fn gone(&mut self, node: NodeId) {
        self.running.remove(&node);
    }
}
