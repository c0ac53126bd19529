//! A process of the node-tracker: [`Heartbeats`] and [`work`] with messages around them, as in `node_tracker::serve`
//! and `actor`.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::change::Change;
use model::cluster::Singleton;
use model::node::NodeStatus;
use model::{AllocId, Index, Nanos, NodeId, ProcessId};
use node_tracker::core::{Heartbeats, Settings};
use node_tracker::work::work;
use state::{NodeRef, State, Step};
use wire::command::{
    Command, NodeLiveness, NodeReport, NodeServices, RegisterNode, ReportAllocs, UpdateNodes, UpdateServices,
};
use wire::node::{GetWork, Heartbeat, NodeResponse, Report, WorkIndex};
use wire::services::{
    RegisterServices, RegisteredServices, ServicesAnswer, ServicesDigest, ServicesRejection,
};
use wire::{Refusal, RefusalKind};

use crate::commands::Commands;
use crate::disk::Disk;
use crate::lease::{Lease, LeaseAction};
use crate::messages::{Address, Body, Input, Message, Reply, Subject, Timer};
use crate::replica::{Replica, Update};
use crate::world::{Ctx, Process};

/// Shorter than the defaults, so that a history contains more events.
const SETTINGS: Settings = Settings {
    ttl_min: Nanos::from_secs(1),
    grace: Nanos::from_secs(1),
    per_second_max: 2_000,
    failover_ttl: Nanos::from_secs(3),
};
const COMMAND_TIMEOUT: Nanos = Nanos::from_secs(5);

/// The tracker process.
pub(crate) struct TrackerProcess {
    replica: Replica,
    lease: Lease,
    commands: Commands<Purpose>,
    heartbeats: Heartbeats,
    is_active: bool,
    /// Requests that are answered when the replica reaches an index.
    waiting: Vec<(Index, Address, NodeId)>,
    /// Requests about services that are answered when the replica reaches an index, with what was rejected.
    waiting_services: Vec<(Index, Address, Vec<AllocId>)>,
    /// The work index that was last announced to each node.
    announced: BTreeMap<NodeId, Index>,
}

/// The purpose of a command.
enum Purpose {
    TakeLease,
    /// A node waits for an answer with its status.
    AnswerNode(Option<Address>, NodeId),
    Report(Option<Address>, NodeId),
    /// A node waits for the outcome of its sets of services, which are of these allocations.
    Services(Option<Address>, NodeId, Vec<AllocId>),
    Missed(Vec<NodeId>),
}

impl TrackerProcess {
    pub(crate) fn new(id: ProcessId) -> Self {
        Self {
            replica: Replica::new(true),
            lease: Lease::new(Singleton::NodeTracker, id),
            commands: Commands::new(),
            heartbeats: Heartbeats::new(SETTINGS),
            is_active: false,
            waiting: Vec::new(),
            waiting_services: Vec::new(),
            announced: BTreeMap::new(),
        }
    }

    fn activate(&mut self, ctx: &mut Ctx<'_>) {
        let Some(state) = self.replica.state().cloned() else { return };
        self.heartbeats.take_over(nodes_with_heartbeats(&state), ctx.steady());
        self.is_active = true;
        self.announced.clear();
        ctx.subscribe(Subject::Node);
    }

    fn act_on_lease(&mut self, action: LeaseAction, ctx: &mut Ctx<'_>) {
        match action {
            LeaseAction::Nothing => {}
            LeaseAction::Take(command) => {
                self.commands.send(command, Purpose::TakeLease, COMMAND_TIMEOUT, ctx);
            }
            LeaseAction::Lost => {
                self.is_active = false;
                ctx.unsubscribe(Subject::Node);
            }
        }
    }

    fn handle_update(&mut self, update: Update, ctx: &mut Ctx<'_>) {
        match update {
            Update::Nothing => return,
            Update::Loaded => {
                if let Some(state) = self.replica.state() {
                    self.heartbeats.restore(nodes_with_heartbeats(state), ctx.steady());
                }
                ctx.timer(Nanos::ZERO, Timer::Lease);
            }
            Update::Step(step) => self.step(&step, ctx),
            Update::Reset => self.reset(ctx),
        }
        let Some(index) = self.replica.index() else { return };
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, ..)| *at <= index);
        self.waiting = waiting;
        let ready: Vec<_> = ready;
        ready.into_iter().for_each(|(_, to, node)| self.answer_node(to, node, ctx));
        self.answer_services(ctx);
    }

    /// Answers the requests about services whose index the replica has reached.
    fn answer_services(&mut self, ctx: &mut Ctx<'_>) {
        let Some(state) = self.replica.state().cloned() else { return };
        for (index, to, unknown) in std::mem::take(&mut self.waiting_services) {
            if index > state.index() {
                self.waiting_services.push((index, to, unknown));
                continue;
            }
            let rejected = unknown.into_iter().map(|alloc| (alloc, ServicesRejection::Unknown)).collect();
            let index = WorkIndex { history: state.history(), index };
            ctx.answer(Some(to), Reply::Services(Ok(ServicesAnswer { index, rejected })));
        }
    }

    /// Begins again with the state of another history. Indexes of the earlier one mean nothing.
    fn reset(&mut self, ctx: &mut Ctx<'_>) {
        self.waiting.clear();
        self.waiting_services.clear();
        self.announced.clear();
        let Some(state) = self.replica.state().cloned() else { return };
        self.heartbeats.restore(nodes_with_heartbeats(&state), ctx.steady());
        if self.is_active && !planted_bugs::is_planted(planted_bugs::Bug::LosesWakes) {
            for node in state.nodes() {
                ctx.publish(Subject::Wake(node.id()), Body::Wake(work_index(&state, node)));
            }
        }
    }

    fn step(&mut self, step: &Step, ctx: &mut Ctx<'_>) {
        let now = ctx.steady();
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
            match expects_heartbeats(&step.after, *id) {
                true => self.heartbeats.track(*id, now),
                false => self.heartbeats.forget(*id),
            }
        }
        if !self.is_active {
            return registered.iter().for_each(|id| self.heartbeats.record_standby_heartbeat(*id, now));
        }
        for node in step.after.nodes() {
            let announced = self.announced.entry(node.id()).or_default();
            if node.work_index() > *announced {
                *announced = node.work_index();
                if !planted_bugs::is_planted(planted_bugs::Bug::LosesWakes) {
                    ctx.publish(Subject::Wake(node.id()), Body::Wake(work_index(&step.after, node)));
                }
            }
        }
    }

    fn handle_message(&mut self, Message { from, body }: Message, ctx: &mut Ctx<'_>) {
        let Some(state) = self.replica.state().cloned() else { return };
        let (Some(epoch), true) = (self.lease.epoch(), self.is_active) else {
            if let Body::Heartbeat(Heartbeat { id, boot, .. }) = body
                && state.node(id).is_some_and(|node| node.spec().boot == boot)
            {
                self.heartbeats.record_standby_heartbeat(id, ctx.steady());
            }
            return;
        };
        match body {
            Body::Register(register) => {
                let command = RegisterNode { epoch, id: register.id, spec: register.spec };
                let purpose = Purpose::AnswerNode(from, register.id);
                self.commands.send(Command::RegisterNode(Box::new(command)), purpose, COMMAND_TIMEOUT, ctx);
            }
            Body::Heartbeat(Heartbeat { id, boot, .. }) => {
                let status = state.node(id).filter(|node| node.spec().boot == boot);
                match status.map(|node| node.server().status) {
                    None => ctx.answer(from, Reply::Node(Err(node_not_found()))),
                    Some(NodeStatus::Ready) => {
                        if let Some(to) = from {
                            self.answer_node(to, id, ctx);
                        }
                    }
                    Some(_) => {
                        let update = UpdateNodes { epoch, sign: NodeLiveness::Alive, nodes: vec![id] };
                        let purpose = Purpose::AnswerNode(from, id);
                        self.commands.send(Command::UpdateNodes(update), purpose, COMMAND_TIMEOUT, ctx);
                    }
                }
            }
            Body::GetWork(GetWork { id, since, seen, .. }) => {
                let node = state.node(id).filter(|_| state.index() >= seen.within(state.history()));
                let answer = node.map(|node| work(node, state.history(), since)).ok_or_else(node_not_found);
                ctx.answer(from, Reply::Work(answer));
            }
            Body::Report(Report { id, boot, all_since, allocs, .. }) => {
                let report = NodeReport { node: id, boot, all_since, allocs };
                let command = ReportAllocs { epoch, reports: vec![report] };
                self.commands.send(
                    Command::ReportAllocs(command),
                    Purpose::Report(from, id),
                    COMMAND_TIMEOUT,
                    ctx,
                );
            }
            Body::Services(RegisterServices { id, boot, allocs, .. }) => {
                let own = allocs.iter().map(|services| services.alloc).collect();
                let command = UpdateServices { epoch, nodes: vec![NodeServices { node: id, boot, allocs }] };
                let purpose = Purpose::Services(from, id, own);
                self.commands.send(Command::UpdateServices(command), purpose, COMMAND_TIMEOUT, ctx);
            }
            _ => {}
        }
    }

    /// Answers a node with its status and the time of its next heartbeat.
    fn answer_node(&mut self, to: Address, id: NodeId, ctx: &mut Ctx<'_>) {
        let Some(state): Option<Arc<State>> = self.replica.state().cloned() else { return };
        if !self.is_active {
            return;
        }
        let answer = state.node(id).ok_or_else(node_not_found).map(|node| {
            let server = node.server();
            let ttl = match server.status {
                NodeStatus::Down => Nanos::SECOND,
                NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected => {
                    self.heartbeats.beat(id, ctx.steady(), 0.5)
                }
            };
            let missed = server.last_missed_heartbeat_index;
            let waits = server.status == NodeStatus::Initializing
                && (missed.is_set() || node.allocs().any(|alloc| !alloc.is_terminal()));
            let loses_wake_ups = planted_bugs::is_planted(planted_bugs::Bug::LosesWakes);
            NodeResponse {
                status: server.status,
                ttl_ms: u32::try_from(ttl.0 / Nanos::MILLISECOND.0).unwrap_or_default(),
                work_index: WorkIndex {
                    history: state.history(),
                    index: if loses_wake_ups { Index::ZERO } else { node.work_index() },
                },
                report_all: waits.then_some(missed),
                services: Some(registered_services(&state, node)),
            }
        });
        ctx.answer(Some(to), Reply::Node(answer));
    }

    fn advance(&mut self, ctx: &mut Ctx<'_>) {
        // The simulated bus has no connection on which heartbeats could be delayed, so the last argument is zero.
        self.heartbeats.check_clock(ctx.steady(), ctx.wall(), Nanos::ZERO);
        let (Some(epoch), true) = (self.lease.epoch(), self.is_active) else { return };
        let missed = self.heartbeats.handle_timeout(ctx.steady(), 100);
        if !missed.is_empty() {
            let command = UpdateNodes { epoch, sign: NodeLiveness::Missed, nodes: missed.clone() };
            self.commands.send(Command::UpdateNodes(command), Purpose::Missed(missed), COMMAND_TIMEOUT, ctx);
        }
    }

    fn handle_outcome(
        &mut self,
        purpose: Purpose,
        result: Result<wire::command::Done, wire::command::CommandError>,
        ctx: &mut Ctx<'_>,
    ) {
        match purpose {
            Purpose::TakeLease => {
                if self.lease.granted(result.ok().as_ref(), ctx) {
                    self.activate(ctx);
                }
            }
            Purpose::AnswerNode(to, id) => {
                let Some(to) = to else { return };
                match result {
                    Ok(done) if done.refused_nodes.contains(&id) => {
                        ctx.answer(Some(to), Reply::Node(Err(node_not_found())));
                    }
                    Ok(done) if self.replica.index().is_some_and(|index| index >= done.index) => {
                        self.answer_node(to, id, ctx);
                    }
                    Ok(done) => self.waiting.push((done.index, to, id)),
                    Err(_) => ctx.answer(Some(to), Reply::Node(Err(not_ready()))),
                }
            }
            Purpose::Report(to, id) => {
                let answer = match result {
                    Ok(done) if !done.refused_nodes.contains(&id) => Ok(()),
                    Ok(_) | Err(_) => Err(not_ready()),
                };
                ctx.answer(to, Reply::ReportAccepted(answer));
            }
            Purpose::Services(to, id, own) => {
                let Some(to) = to else { return };
                match result {
                    Ok(done) if !done.refused_nodes.contains(&id) => {
                        let mut unknown = done.refused_allocs;
                        unknown.retain(|alloc| own.contains(alloc));
                        self.waiting_services.push((done.index, to, unknown));
                        self.answer_services(ctx);
                    }
                    Ok(_) | Err(_) => ctx.answer(Some(to), Reply::Services(Err(not_ready()))),
                }
            }
            Purpose::Missed(nodes) => {
                let now = ctx.steady();
                let state = self.replica.state().cloned();
                match (result, state) {
                    (Ok(_), Some(state)) => {
                        let alive = nodes.iter().filter(|id| expects_heartbeats(&state, **id));
                        alive.for_each(|id| self.heartbeats.track(*id, now));
                    }
                    _ => self.heartbeats.retry_report(&nodes, now),
                }
            }
        }
    }
}

fn expects_heartbeats(state: &State, id: NodeId) -> bool {
    state.node(id).is_some_and(|node| node.server().status != NodeStatus::Down)
}

fn nodes_with_heartbeats(state: &State) -> impl Iterator<Item = NodeId> {
    state.nodes().map(|node| node.id()).filter(|id| expects_heartbeats(state, *id))
}

fn work_index(state: &State, node: NodeRef<'_>) -> WorkIndex {
    WorkIndex { history: state.history(), index: node.work_index() }
}

/// What is registered of the services of a node's allocations.
fn registered_services(state: &State, node: NodeRef<'_>) -> RegisteredServices {
    let registrations = node.allocs().flat_map(|alloc| state.small_objects_of(alloc.id()));
    RegisteredServices {
        at: WorkIndex { history: state.history(), index: state.index() },
        digest: ServicesDigest::of(registrations),
    }
}

fn node_not_found() -> Refusal {
    Refusal { kind: RefusalKind::NotFound, message: "node not found".into() }
}

fn not_ready() -> Refusal {
    Refusal { kind: RefusalKind::NotReady, message: "later".into() }
}

impl Process for TrackerProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => {
                self.replica.start(ctx);
                ctx.subscribe(Subject::Heartbeat);
                ctx.timer(Nanos::ZERO, Timer::Poll);
            }
            Input::Timer(Timer::Poll) => ctx.timer(Nanos(250 * Nanos::MILLISECOND.0), Timer::Poll),
            Input::Timer(Timer::Lease) => {
                let action = self.lease.poll(self.replica.has_lost(), ctx);
                self.act_on_lease(action, ctx);
            }
            Input::Timer(Timer::Resend(id)) => self.commands.resend(id, ctx),
            Input::Timer(_) => {}
            Input::Message(message) => {
                let update = self.replica.handle_message(&message.body, ctx);
                self.handle_update(update, ctx);
                self.handle_message(message, ctx);
            }
            Input::Reply(call, reply) => {
                let action = self.lease.handle_reply(call, &reply, ctx);
                self.act_on_lease(action, ctx);
                if let Some((purpose, result)) = self.commands.handle_reply(call, &reply, ctx) {
                    self.handle_outcome(purpose, result, ctx);
                }
            }
            Input::DbReply(call, reply) => {
                let update = self.replica.handle_db_reply(call, &reply, ctx);
                self.handle_update(update, ctx);
            }
        }
        self.advance(ctx);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }

    fn replica(&self) -> Option<&Arc<State>> {
        self.replica.state()
    }
}
