//! A process of the node-tracker: [`Heartbeats`] and [`work`], with messages around them as in `node_tracker::serve` and
//! `actor`.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::change::Change;
use model::cluster::Singleton;
use model::node::NodeStatus;
use model::{Index, Nanos, NodeId, ProcessId};
use node_tracker::heartbeats::{Heartbeats, Settings};
use node_tracker::work::work;
use state::{NodeRef, State, Step};
use wire::command::{Command, NodeReport, NodeSign, RegisterNode, ReportAllocs, UpdateNodes};
use wire::node::{AskWork, Heartbeat, NodeAnswer, Report, WorkIndex};
use wire::{Refusal, RefusalKind};

use crate::commands::Commands;
use crate::feed::{Feed, Learned};
use crate::lease::{Lease, Turn};
use crate::messages::{Address, Asked, Body, Input, Reply, Subject, Timer};
use crate::world::{Ctx, Disk, Process};

/// Shorter than by default, so that more happens in a history.
const SETTINGS: Settings = Settings {
    ttl_min: Nanos::from_secs(1),
    grace: Nanos::from_secs(1),
    per_second_max: 2_000,
    failover_ttl: Nanos::from_secs(3),
};
const WITHIN: Nanos = Nanos::from_secs(5);

/// The process.
pub(crate) struct TrackerProcess {
    feed: Feed,
    lease: Lease,
    commands: Commands<Purpose>,
    heartbeats: Heartbeats,
    is_active: bool,
    /// Requests that wait for the replica to reach an index.
    waiting: Vec<(Index, Address, NodeId)>,
    told: BTreeMap<NodeId, Index>,
}

/// What a command is for.
enum Purpose {
    TakeLease,
    /// A node waits for how it stands.
    Standing(Option<Address>, NodeId),
    Report(Option<Address>, NodeId),
    Missed(Vec<NodeId>),
}

impl TrackerProcess {
    pub(crate) fn new(id: ProcessId) -> Self {
        Self {
            feed: Feed::new(),
            lease: Lease::new(Singleton::NodeTracker, id),
            commands: Commands::new(),
            heartbeats: Heartbeats::new(SETTINGS),
            is_active: false,
            waiting: Vec::new(),
            told: BTreeMap::new(),
        }
    }

    fn begin(&mut self, ctx: &mut Ctx<'_>) {
        let Some(state) = self.feed.state(ctx.world).cloned() else { return };
        self.heartbeats.take_over(to_be_heard_of(&state), ctx.wall());
        self.is_active = true;
        self.told.clear();
        ctx.serve(Subject::Node);
    }

    fn turn(&mut self, turn: Turn, ctx: &mut Ctx<'_>) {
        match turn {
            Turn::Nothing => {}
            Turn::Take(command) => {
                self.commands.send(command, Purpose::TakeLease, WITHIN, ctx);
            }
            Turn::Lost => {
                self.is_active = false;
                ctx.leave(Subject::Node);
            }
        }
    }

    fn learned(&mut self, learned: Learned, ctx: &mut Ctx<'_>) {
        match learned {
            Learned::Nothing => return,
            Learned::Loaded => {
                if let Some(state) = self.feed.state(ctx.world) {
                    self.heartbeats.restore(to_be_heard_of(state), ctx.wall());
                }
                ctx.timer(Nanos::ZERO, Timer::Lease);
            }
            Learned::Step(step) => self.step(&step, ctx),
        }
        let Some(index) = self.feed.index() else { return };
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, ..)| *at <= index);
        self.waiting = waiting;
        let ready: Vec<_> = ready;
        ready.into_iter().for_each(|(_, to, node)| self.answer_standing(to, node, ctx));
    }

    fn step(&mut self, step: &Step, ctx: &mut Ctx<'_>) {
        let now = ctx.wall();
        let mut ids = Vec::new();
        let mut registered = Vec::new();
        for change in step.changes() {
            match change {
                Change::Node(node) => registered.push(node.id),
                Change::NodeServerSide { id, .. } => ids.push(*id),
                Change::NodesChanged(changed) => ids.extend(changed.ids.iter().copied()),
                Change::NodesDeleted(gone) => gone.iter().for_each(|id| self.heartbeats.forget(*id)),
                _ => {}
            }
        }
        for id in ids.iter().chain(&registered) {
            match is_to_be_heard_of(&step.after, *id) {
                true => self.heartbeats.track(*id, now),
                false => self.heartbeats.forget(*id),
            }
        }
        if !self.is_active {
            return registered.iter().for_each(|id| self.heartbeats.overhear(*id, now));
        }
        for node in step.after.nodes() {
            let told = self.told.entry(node.id()).or_default();
            if node.work_index() > *told {
                *told = node.work_index();
                if !planted_bugs::is_planted(planted_bugs::Bug::LosesWakeUps) {
                    ctx.publish(Subject::Wake(node.id()), Body::Wake(work_index(&step.after, node)));
                }
            }
        }
    }

    fn asked(&mut self, Asked { from, body }: Asked, ctx: &mut Ctx<'_>) {
        let Some(state) = self.feed.state(ctx.world).cloned() else { return };
        let (Some(epoch), true) = (self.lease.epoch(), self.is_active) else {
            if let Body::Heartbeat(Heartbeat { id, boot, .. }) = body
                && state.node(id).is_some_and(|node| node.spec().boot == boot)
            {
                self.heartbeats.overhear(id, ctx.wall());
            }
            return;
        };
        match body {
            Body::Register(register) => {
                let command = RegisterNode { epoch, id: register.id, spec: register.spec };
                let purpose = Purpose::Standing(from, register.id);
                self.commands.send(Command::RegisterNode(Box::new(command)), purpose, WITHIN, ctx);
            }
            Body::Heartbeat(Heartbeat { id, boot, .. }) => {
                let status = state.node(id).filter(|node| node.spec().boot == boot);
                match status.map(|node| node.server().status) {
                    None => ctx.answer(from, Reply::Node(Err(unknown()))),
                    Some(NodeStatus::Ready) => {
                        if let Some(to) = from {
                            self.answer_standing(to, id, ctx);
                        }
                    }
                    Some(_) => {
                        let heard =
                            UpdateNodes { epoch, sign: NodeSign::Heard, nodes: vec![id], event: None };
                        let purpose = Purpose::Standing(from, id);
                        self.commands.send(Command::UpdateNodes(heard), purpose, WITHIN, ctx);
                    }
                }
            }
            Body::AskWork(AskWork { id, since, seen, .. }) => {
                let node = state.node(id).filter(|_| state.index() >= seen.within(state.history()));
                let answer = node.map(|node| work(node, state.history(), since)).ok_or_else(unknown);
                ctx.answer(from, Reply::Work(answer));
            }
            Body::Report(Report { id, boot, all_since, allocs, .. }) => {
                let report = NodeReport { node: id, boot, all_since, allocs };
                let command = ReportAllocs { epoch, reports: vec![report] };
                self.commands.send(Command::ReportAllocs(command), Purpose::Report(from, id), WITHIN, ctx);
            }
            _ => {}
        }
    }

    /// How a node stands, with a new time for its next heartbeat.
    fn answer_standing(&mut self, to: Address, id: NodeId, ctx: &mut Ctx<'_>) {
        let Some(state): Option<Arc<State>> = self.feed.state(ctx.world).cloned() else { return };
        if !self.is_active {
            return;
        }
        let answer = state.node(id).ok_or_else(unknown).map(|node| {
            let server = node.server();
            let ttl = match server.status {
                NodeStatus::Down => Nanos::SECOND,
                NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected => {
                    self.heartbeats.beat(id, ctx.wall(), 0.5)
                }
            };
            let missed = server.last_missed_heartbeat_index;
            let waits = server.status == NodeStatus::Initializing
                && (missed.is_set() || node.allocs().any(|alloc| !alloc.is_terminal()));
            let is_silent = planted_bugs::is_planted(planted_bugs::Bug::LosesWakeUps);
            NodeAnswer {
                status: server.status,
                ttl_ms: u32::try_from(ttl.0 / Nanos::MILLISECOND.0).unwrap_or_default(),
                work_index: if is_silent { WorkIndex::default() } else { work_index(&state, node) },
                report_all: waits.then_some(missed),
            }
        });
        ctx.answer(Some(to), Reply::Node(answer));
    }

    fn carry_on(&mut self, ctx: &mut Ctx<'_>) {
        // The simulated bus has no connections that could be lost.
        self.heartbeats.look(ctx.wall(), Nanos::ZERO);
        let (Some(epoch), true) = (self.lease.epoch(), self.is_active) else { return };
        let missed = self.heartbeats.handle_timeout(ctx.wall(), 100);
        if !missed.is_empty() {
            let command = UpdateNodes { epoch, sign: NodeSign::Missed, nodes: missed.clone(), event: None };
            self.commands.send(Command::UpdateNodes(command), Purpose::Missed(missed), WITHIN, ctx);
        }
    }

    fn ended(
        &mut self,
        purpose: Purpose,
        result: Result<wire::command::Done, bus::CommandError>,
        ctx: &mut Ctx<'_>,
    ) {
        match purpose {
            Purpose::TakeLease => {
                if self.lease.taken(result.ok().as_ref(), ctx) {
                    self.begin(ctx);
                }
            }
            Purpose::Standing(to, id) => {
                let Some(to) = to else { return };
                match result {
                    Ok(done) if done.refused_nodes.contains(&id) => {
                        ctx.answer(Some(to), Reply::Node(Err(unknown())));
                    }
                    Ok(done) if self.feed.index().is_some_and(|index| index >= done.index) => {
                        self.answer_standing(to, id, ctx);
                    }
                    Ok(done) => self.waiting.push((done.index, to, id)),
                    Err(_) => ctx.answer(Some(to), Reply::Node(Err(away()))),
                }
            }
            Purpose::Report(to, id) => {
                let answer = match result {
                    Ok(done) if !done.refused_nodes.contains(&id) => Ok(()),
                    Ok(_) | Err(_) => Err(away()),
                };
                ctx.answer(to, Reply::Reported(answer));
            }
            Purpose::Missed(nodes) => {
                let now = ctx.wall();
                let state = self.feed.state(ctx.world).cloned();
                match (result, state) {
                    (Ok(_), Some(state)) => {
                        let there = nodes.iter().filter(|id| is_to_be_heard_of(&state, **id));
                        there.for_each(|id| self.heartbeats.track(*id, now));
                    }
                    _ => self.heartbeats.again(&nodes, now),
                }
            }
        }
    }
}

fn is_to_be_heard_of(state: &State, id: NodeId) -> bool {
    state.node(id).is_some_and(|node| node.server().status != NodeStatus::Down)
}

fn to_be_heard_of(state: &State) -> impl Iterator<Item = NodeId> {
    state.nodes().map(|node| node.id()).filter(|id| is_to_be_heard_of(state, *id))
}

fn work_index(state: &State, node: NodeRef<'_>) -> WorkIndex {
    WorkIndex { history: state.history(), index: node.work_index() }
}

fn unknown() -> Refusal {
    Refusal { kind: RefusalKind::NotFound, message: "node not found".into() }
}

fn away() -> Refusal {
    Refusal { kind: RefusalKind::NotReady, message: "later".into() }
}

impl Process for TrackerProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => {
                self.feed.start(ctx);
                ctx.serve(Subject::Heartbeat);
                ctx.timer(Nanos::ZERO, Timer::Look);
            }
            Input::Timer(Timer::Look) => ctx.timer(Nanos(250 * Nanos::MILLISECOND.0), Timer::Look),
            Input::Timer(Timer::Lease) => {
                let turn = self.lease.turn(ctx);
                self.turn(turn, ctx);
            }
            Input::Timer(Timer::Again(id)) => self.commands.again(id, ctx),
            Input::Timer(_) => {}
            Input::Asked(asked) => {
                let learned = self.feed.hear(&asked.body, ctx);
                self.learned(learned, ctx);
                self.asked(asked, ctx);
            }
            Input::Reply(call, reply) => {
                let turn = self.lease.replied(call, &reply, ctx);
                self.turn(turn, ctx);
                if let Some((purpose, result)) = self.commands.replied(call, &reply, ctx) {
                    self.ended(purpose, result, ctx);
                }
            }
            Input::Row(call, row) => {
                let learned = self.feed.read_row(call, &row, ctx);
                self.learned(learned, ctx);
            }
        }
        self.carry_on(ctx);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }
}
