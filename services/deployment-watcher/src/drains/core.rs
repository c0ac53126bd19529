//! [`Drainer`]: the core that drains nodes. It decides when to check which node and which job, and which commands to send.
//!
//! Pure: change sets and times go in, commands come out. Any change leads to a full check of the nodes and jobs concerned,
//! and the deadline of a drain is in the state, so a process that takes over continues where the one before stopped.

use std::collections::BTreeSet;

use model::change::{AllocChange, Concern, JobChange, NodeChange};
use model::job::JobType;
use model::{AllocId, Epoch, Index, JobKey, Nanos, NodeId, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, Snapshot, Step};
use wire::WriteGate;
use wire::command::{Command, CompleteDrains, DRAINED_ALLOCS_MAX, DrainAllocs, DrainEnd};

use super::batch::{Batch, next_batch};
use crate::agenda::Agenda;
use crate::core::is_progress_only;

/// The maximum number of drains that one command completes.
const ENDS_MAX: usize = 1_000;
/// The pause before something is sent again, if the applier committed the command without acting on it.
const REPEAT_AFTER: Nanos = Nanos::SECOND;

/// The draining nodes, and when each of them, and each job on them, is due for a check.
#[derive(Debug)]
pub(crate) struct Drainer {
    /// How long changes are batched before jobs and nodes are checked.
    batch_delay: Nanos,
    state: Snapshot,
    nodes: BTreeSet<NodeId>,
    /// Services with allocations on draining nodes.
    jobs: BTreeSet<JobKey>,
    node_checks: Agenda<NodeId>,
    job_checks: Agenda<JobKey>,
    gate: WriteGate,
}

impl Drainer {
    /// Creates a drainer that checks every draining node in `state` at once.
    pub(crate) fn restore(batch_delay: Nanos, state: Snapshot, now: Timestamp) -> Self {
        let draining = state.nodes().filter(|node| node.server().drain.is_some());
        let draining: Vec<NodeId> = draining.map(|node| node.id()).collect();
        let mut drainer = Self {
            batch_delay,
            state,
            nodes: BTreeSet::new(),
            jobs: BTreeSet::new(),
            node_checks: Agenda::default(),
            job_checks: Agenda::default(),
            gate: WriteGate::default(),
        };
        if !is_planted(Bug::ForgetsDrains) {
            draining.into_iter().for_each(|id| drainer.follow_node(id, now));
        }
        drainer
    }

    /// Follows a step of the state.
    pub(crate) fn step(&mut self, step: &Step, now: Timestamp) {
        self.state = step.after.clone();
        self.gate.saw(self.state.index());
        let now = self.at_least_state_time(now);
        for change in step.changes() {
            match change.concern() {
                Concern::Nodes(change) => self.follow_nodes(change, now),
                Concern::Allocs(change) if !self.nodes.is_empty() => self.follow_allocs(step, change, now),
                Concern::Jobs(JobChange::Job(job)) => self.check_job(&job.key(), now + self.batch_delay),
                Concern::Allocs(_)
                | Concern::Jobs(_)
                | Concern::JobSubmissions(_)
                | Concern::JobSummaries(_)
                | Concern::Evals(_)
                | Concern::Deployments(_)
                | Concern::SchedulerConfig(_)
                | Concern::Leases(_)
                | Concern::Unblocked(_)
                | Concern::Small(_) => {}
            }
        }
    }

    fn follow_nodes(&mut self, change: NodeChange<'_>, now: Timestamp) {
        match change {
            NodeChange::Node(node) => self.follow_node(node.id, now),
            NodeChange::NodeServerSide { id, .. } => self.follow_node(*id, now),
            NodeChange::NodesDeleted(ids) => ids.iter().for_each(|id| self.follow_node(*id, now)),
            // It changes no drain. What a new status does to allocations is a change of theirs.
            NodeChange::NodesChanged(_) => {}
        }
    }

    /// Checks a draining node and the services on it at `now`, or forgets a node that does not drain (N-10.1, N-10.2).
    fn follow_node(&mut self, id: NodeId, now: Timestamp) {
        let state = self.state.clone();
        let Some(node) = state.node(id).filter(|node| node.server().drain.is_some()) else {
            self.nodes.remove(&id);
            return self.node_checks.remove(&id);
        };
        self.nodes.insert(id);
        self.node_checks.add(id, now);
        for alloc in node.allocs().filter(|alloc| !alloc.client_status().is_terminal()) {
            self.follow_alloc(alloc, now);
        }
    }

    /// Checks the job of an allocation on a draining node no later than `due`, if it migrates step by step.
    fn follow_alloc(&mut self, alloc: AllocRef<'_>, due: Timestamp) {
        if alloc.job().spec.kind == JobType::Service {
            let key = alloc.job_key();
            if !self.jobs.contains(key) {
                self.jobs.insert(key.clone());
            }
            self.job_checks.add(key.clone(), due);
        }
    }

    fn check_job(&mut self, key: &JobKey, due: Timestamp) {
        if self.jobs.contains(key) {
            self.job_checks.add(key.clone(), due);
        }
    }

    fn follow_allocs(&mut self, step: &Step, change: AllocChange<'_>, now: Timestamp) {
        let due = now + self.batch_delay;
        match change {
            // New allocations have no verdict yet. They are not placed on draining nodes, but those that are there count.
            AllocChange::AllocsPlaced(placements) => {
                let nodes: Vec<NodeId> =
                    placements.nodes.iter().filter(|id| self.nodes.contains(id)).copied().collect();
                nodes.into_iter().for_each(|id| self.follow_node(id, due));
            }
            AllocChange::AllocsChanged(changed) if is_progress_only(changed) => {}
            AllocChange::AllocsChanged(changed) => self.changed(step, &changed.ids.0, due),
            AllocChange::Alloc(alloc) => self.changed(step, &[alloc.id], due),
            AllocChange::AllocsDeleted(ids) => self.changed(step, &ids.0, due),
        }
    }

    /// Schedules checks of the jobs and the nodes of allocations that have changed.
    fn changed(&mut self, step: &Step, ids: &[AllocId], due: Timestamp) {
        for alloc in ids.iter().filter_map(|id| step.after.alloc(*id).or_else(|| step.before.alloc(*id))) {
            let node = alloc.node_id();
            if self.nodes.contains(&node) {
                self.node_checks.add(node, due);
                self.follow_alloc(alloc, due);
            } else {
                self.check_job(alloc.job_key(), due);
            }
        }
    }

    /// The number of draining nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// When [`Self::next_write`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let from = self.gate.from()?;
        let due = [self.node_checks.first(), self.job_checks.first()].into_iter().flatten().min()?;
        Some(from.max(due))
    }

    /// Checks what is due and returns the next command, if there is one: the ends of drains first, because they are about
    /// whole nodes. Returns no other command until [`Self::written`] or [`Self::not_written`] is called.
    pub(crate) fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<Command> {
        let now = self.at_least_state_time(now);
        if self.gate.from().is_none_or(|from| now < from) {
            return None;
        }
        let drains = self.ended(now);
        let command = if drains.is_empty() {
            let allocs = self.next_allocs(now);
            (!allocs.is_empty()).then_some(Command::DrainAllocs(DrainAllocs { epoch, allocs }))
        } else {
            Some(Command::CompleteDrains(CompleteDrains { epoch, drains }))
        };
        if command.is_some() {
            self.gate.begin();
        }
        command
    }

    /// The drains that are over, of nodes that are due for a check. Limits how many allocations they leave to be marked,
    /// but takes at least one node.
    fn ended(&mut self, now: Timestamp) -> Vec<DrainEnd> {
        let (mut ends, mut left, mut later) = (Vec::new(), 0_usize, Vec::new());
        while ends.len() < ENDS_MAX
            && left < DRAINED_ALLOCS_MAX
            && let Some(id) = self.node_checks.pop(now)
        {
            let Some(node) = self.state.node(id) else { continue };
            let Some(drain) = node.server().drain else { continue };
            let due = drain.due();
            let is_late = due.is_some_and(|due| due <= now);
            if is_late || node.is_drained() {
                ends.push(DrainEnd { node: id, deadline_reached: !node.is_drained() });
                left = left.saturating_add(node.left_to_drain(drain.ignore_system_jobs).count());
                later.push((id, now + REPEAT_AFTER));
            } else {
                later.extend(due.map(|due| (id, due)));
            }
        }
        later.into_iter().for_each(|(id, due)| self.node_checks.add(id, due));
        ends
    }

    /// The allocations that can be marked to migrate now, of jobs that are due for a check.
    fn next_allocs(&mut self, now: Timestamp) -> Vec<AllocId> {
        let (mut allocs, mut later) = (Vec::new(), Vec::new());
        while allocs.len() < DRAINED_ALLOCS_MAX
            && let Some(key) = self.job_checks.pop(now)
        {
            let Batch { allocs: next, is_concerned } = next_batch(&self.state, &key);
            if !is_concerned {
                self.jobs.remove(&key);
            } else if !next.is_empty() {
                allocs.extend(next);
                later.push(key);
            }
        }
        // The rest is found by the next check.
        allocs.truncate(DRAINED_ALLOCS_MAX);
        later.into_iter().for_each(|key| self.job_checks.add(key, now + REPEAT_AFTER));
        allocs
    }

    /// The command was committed at `index`.
    pub(crate) fn written(&mut self, index: Index) {
        self.gate.written(index, self.state.index());
    }

    /// The command failed, or its outcome is unknown.
    pub(crate) fn not_written(&mut self, now: Timestamp) {
        self.gate.not_written(self.at_least_state_time(now));
    }

    /// The later of `now` and the state's time, as in the watcher of deployments.
    fn at_least_state_time(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.at())
    }
}
