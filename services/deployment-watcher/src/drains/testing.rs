//! A test scene: nodes and jobs, which change sets move on, and a drainer that follows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{AllocCommon, AllocatedResources, ClientStatus, DesiredTransition, PackedMetric};
use model::change::{AllocsChanged, Cause, Change, ChangeSet};
use model::columns::AllocIds;
use model::job::{Job, JobSpec, JobType, MigrateStrategy, TaskGroup};
use model::node::{DrainSpec, Eligibility, Node, NodeServerSide};
use model::plan::{Placement, Placements};
use model::{
    AllocId, Epoch, EvalId, HistoryId, Index, JobKey, JobVersionKey, Nanos, NodeId, RequestId, Timestamp,
};
use state::{Snapshot, State, Step};
use wire::command::Command;

use super::core::Drainer;

/// How long changes are batched.
pub(super) const DELAY: Nanos = Nanos::SECOND;

/// What a command of the drainer is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// These allocations are marked to migrate.
    Marked(Vec<AllocId>),
    /// The drains of these nodes are over, each with whether its deadline was reached.
    Ended(Vec<(NodeId, bool)>),
}

pub(super) struct Scene {
    pub(super) state: Snapshot,
    pub(super) drainer: Drainer,
    pub(super) now: Timestamp,
}

pub(super) fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

pub(super) fn alloc(number: u8) -> AllocId {
    AllocId::from_bytes([number; 16])
}

pub(super) fn marked(numbers: &[u8]) -> Found {
    Found::Marked(numbers.iter().copied().map(alloc).collect())
}

pub(super) fn ended(number: u8, deadline_reached: bool) -> Found {
    Found::Ended(vec![(node(number), deadline_reached)])
}

fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

fn version(id: &str) -> JobVersionKey {
    JobVersionKey { job: key(id), create_index: Index(1), version: 0 }
}

impl Scene {
    /// Three nodes, and a service `web` of four allocations, of which so many may migrate at a time.
    pub(super) fn new(max_parallel: u32) -> Self {
        let now = Timestamp::from_secs(1_800_000_000);
        let state = Snapshot::new(State::new(HistoryId::default(), crate::SCOPE));
        let drainer = Drainer::restore(DELAY, state.clone(), now);
        let mut scene = Self { state, drainer, now };
        let nodes = [1, 2, 3].map(|number| {
            let server = NodeServerSide::default();
            Change::Node(Box::new(Node { id: node(number), spec: Arc::default(), server }))
        });
        scene.apply(nodes.into());
        scene.register("web", JobType::Service, max_parallel);
        scene
    }

    /// Registers a job of four allocations.
    pub(super) fn register(&mut self, id: &str, kind: JobType, max_parallel: u32) {
        let group = TaskGroup {
            name: "app".into(),
            count: 4,
            migrate: Some(MigrateStrategy { max_parallel, ..MigrateStrategy::default() }),
            ..TaskGroup::default()
        };
        let JobKey { namespace, id } = key(id);
        let spec = JobSpec { namespace, id, kind, task_groups: vec![group].into(), ..JobSpec::default() };
        self.apply(vec![Change::Job(Arc::new(Job {
            spec: Arc::new(spec),
            create_index: Index(1),
            ..Job::default()
        }))]);
    }

    /// Commits changes at the next index and passes them to the drainer.
    fn apply(&mut self, changes: Vec<Change>) {
        let set = ChangeSet {
            index: self.state.index().next(),
            at: self.now,
            request_id: RequestId::from_bytes([0; 16]),
            cause: Cause::PlanResult,
            trace: None,
            result: Vec::new(),
            changes,
        };
        let mut after = State::clone(&self.state);
        after.apply(&set).expect("the change applies to the state");
        let (before, after) = (Arc::clone(&self.state), Arc::new(after));
        self.state = Arc::clone(&after);
        self.drainer.step(&Step::new(before, vec![Arc::new(set)], after), self.now);
    }

    /// Commits new allocations of a job, each with its node.
    pub(super) fn place(&mut self, job: &str, allocs: &[(u8, u8)]) {
        let common = AllocCommon {
            job: version(job),
            task_group: "app".into(),
            name_stem: format!("{job}.app").into(),
            eval_id: EvalId::from_bytes([7; 16]),
            deployment_id: None,
            resources: AllocatedResources::default(),
            metrics: PackedMetric::default(),
            trace: None,
        };
        let mut placements = Placements::new(Arc::new(common));
        let mut nodes = BTreeMap::new();
        for (number, on) in allocs {
            let node = *nodes.entry(*on).or_insert_with(|| placements.add_node(node(*on)));
            placements.push(Placement {
                id: alloc(*number),
                node,
                name_index: (*number).into(),
                previous: None,
                assigned: Default::default(),
                reschedule: None,
                preempted: Vec::new(),
            });
        }
        self.apply(vec![Change::AllocsPlaced(Box::new(placements))]);
    }

    /// Commits health verdicts.
    pub(super) fn verdict(&mut self, numbers: &[u8], healthy: bool) {
        let verdicts = vec![Some((healthy, self.now)); numbers.len()];
        self.change(numbers, AllocsChanged { verdicts, ..AllocsChanged::default() });
    }

    /// Commits a client status.
    pub(super) fn report(&mut self, numbers: &[u8], status: ClientStatus) {
        self.change(numbers, AllocsChanged { client: Some((status, "".into())), ..AllocsChanged::default() });
    }

    fn change(&mut self, numbers: &[u8], change: AllocsChanged) {
        let ids: AllocIds = numbers.iter().copied().map(alloc).collect();
        self.apply(vec![Change::AllocsChanged(Box::new(AllocsChanged { ids, ..change }))]);
    }

    /// Commits that a node drains, or does so in another way.
    pub(super) fn drain(&mut self, number: u8, deadline: Nanos) {
        let spec = DrainSpec { deadline, ignore_system_jobs: false };
        let drain = Some(spec.begin(self.now, self.now));
        let server = self.server(number);
        let server = NodeServerSide { drain, eligibility: Eligibility::Ineligible, ..server };
        self.apply(vec![Change::NodeServerSide { id: node(number), server: Box::new(server) }]);
    }

    /// Commits that a drain is cancelled.
    pub(super) fn cancel(&mut self, number: u8) {
        let server = NodeServerSide { drain: None, ..self.server(number) };
        self.apply(vec![Change::NodeServerSide { id: node(number), server: Box::new(server) }]);
    }

    fn server(&self, number: u8) -> NodeServerSide {
        self.state.node(node(number)).expect("the node exists").server().clone()
    }

    /// Lets time pass. Commits what the drainer sends meanwhile, and returns it.
    pub(super) fn run(&mut self, length: Nanos) -> Vec<Found> {
        let end = self.now + length;
        let mut found = Vec::new();
        for _ in 0..1_000 {
            let Some(due) = self.drainer.poll_timeout().filter(|due| *due <= end) else {
                self.now = end;
                return found;
            };
            self.now = self.now.max(due);
            if let Some(command) = self.drainer.next_write(Epoch(1), self.now) {
                found.push(self.carry_out(command));
                self.drainer.written(self.state.index());
            }
        }
        panic!("the drainer does not come to rest: {found:?}");
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the drainer sends two kinds of commands")]
    fn carry_out(&mut self, command: Command) -> Found {
        let transition = Some(DesiredTransition { migrate: Some(true), ..DesiredTransition::default() });
        let mark = |ids: Vec<AllocId>| {
            let ids = AllocIds(ids);
            Change::AllocsChanged(Box::new(AllocsChanged {
                ids,
                by_servers: true,
                transition,
                ..AllocsChanged::default()
            }))
        };
        match command {
            Command::DrainAllocs(marked) => {
                self.apply(vec![mark(marked.allocs.clone())]);
                Found::Marked(marked.allocs)
            }
            Command::CompleteDrains(ended) => {
                let mut changes = Vec::new();
                for end in &ended.drains {
                    let node = self.state.node(end.node).expect("the node exists");
                    let left: Vec<AllocId> = node.left_to_drain(false).map(|alloc| alloc.id()).collect();
                    if !left.is_empty() {
                        changes.push(mark(left));
                    }
                    let server = NodeServerSide { drain: None, ..node.server().clone() };
                    changes.push(Change::NodeServerSide { id: end.node, server: Box::new(server) });
                }
                self.apply(changes);
                Found::Ended(ended.drains.iter().map(|end| (end.node, end.deadline_reached)).collect())
            }
            other => panic!("the drainer sent {other:?}"),
        }
    }

    pub(super) fn migrates(&self, number: u8) -> bool {
        let alloc = self.state.alloc(alloc(number)).expect("the allocation exists");
        alloc.transition().migrate == Some(true)
    }
}
