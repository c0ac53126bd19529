//! [`NodeTracker`]: the actor that owns the heartbeats' timers, and the tasks that bring it news and report nodes that
//! are missed. It lives as long as the process: one that stands by keeps its timers warm.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message};
use bus::{Bus, Hearing, Reconnections};
use model::change::Change;
use model::node::NodeStatus;
use model::{Epoch, Nanos, NodeId, Timestamp};
use state::{Followed, Follower, Replica, Snapshot, State, Step};
use telemetry::{attribute, clock};
use tokio::sync::mpsc;
use tracing::Instrument as _;
use wire::command::{Command, NodeSign, UpdateNodes};

use crate::heartbeats::Heartbeats;
use crate::measure;

/// How long one command is repeated before its nodes get timers again.
const REPORT_WITHIN: Duration = Duration::from_secs(30);
/// The most nodes that one command reports as missed.
const MISSED_MAX: usize = 10_000;
/// How many messages wait for the actor; those who send more wait themselves.
const MAILBOX: usize = 1024;

/// How often it is looked whether a node is missed.
const LOOK: Duration = Duration::from_millis(100);

/// The nodes' timers.
pub(crate) struct NodeTracker {
    heartbeats: Heartbeats,
    hearing: Hearing,
    /// Who is told of nodes that are missed; nobody while another process is active.
    missed: Option<mpsc::Sender<Vec<NodeId>>>,
}

/// The state moved on.
#[derive(Message)]
#[rtype(result = "()")]
struct Moved(Followed);

/// Nodes were heard of. The answer is how long each may wait until its next heartbeat, in their order.
#[derive(Message)]
#[rtype(result = "Vec<Nanos>")]
pub(crate) struct Beats(pub(crate) Vec<NodeId>);

/// Nodes gave a sign of life to the active process, which is another.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Overheard(pub(crate) Vec<NodeId>);

/// This process is the active one from this state on, and tells of nodes that are missed here.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Activate(pub(crate) Snapshot, pub(crate) mpsc::Sender<Vec<NodeId>>);

/// This process is not the active one any more.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StandBy;

/// The connection was lost for a while, and with it what nodes said.
#[derive(Message)]
#[rtype(result = "()")]
struct WasDeaf;

/// Nodes were missed, and the applier could not be told.
#[derive(Message)]
#[rtype(result = "()")]
struct NotReported(Vec<NodeId>);

/// Nodes were missed, and are not down yet: an expiry that changes nothing does not come back with the state (N-4.9).
#[derive(Message)]
#[rtype(result = "()")]
struct NotDown(Vec<NodeId>);

/// The service ends.
#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Stops the actor when dropped. Its timer would keep it alive although nobody can reach it.
pub(crate) struct Retire(pub(crate) Addr<NodeTracker>);

impl Drop for Retire {
    fn drop(&mut self) {
        self.0.do_send(Stop);
    }
}

/// Brings the tracker every change. Awaiting the reply is the back-pressure.
pub(crate) async fn follow(mut follower: Follower, tracker: Addr<NodeTracker>) {
    while tracker.send(Moved(follower.next().await)).await.is_ok() {}
}

/// Tells the tracker whenever it may not have heard what nodes said.
pub(crate) async fn follow_connection(mut reconnections: Reconnections, tracker: Addr<NodeTracker>) {
    loop {
        reconnections.next().await;
        if tracker.send(WasDeaf).await.is_err() {
            return;
        }
    }
}

/// Tells the applier which nodes are missed (N-4.6).
pub(crate) async fn report_missed(
    mut missed: mpsc::Receiver<Vec<NodeId>>,
    bus: Bus,
    replica: Arc<Replica>,
    epoch: Epoch,
    tracker: Addr<NodeTracker>,
) {
    while let Some(nodes) = missed.recv().await {
        tracing::warn!(nodes = nodes.len(), first = %nodes[0], "nodes are missed");
        let update = UpdateNodes { epoch, sign: NodeSign::Missed, nodes: nodes.clone(), event: None };
        let begun = clock::monotonic();
        // What follows from it, such as evaluations of the nodes' jobs, begins here.
        let span = tracing::info_span!(
            parent: None,
            "expire nodes",
            { attribute::NODES } = nodes.len().cast_signed() as i64
        );
        let told = bus.command(&Command::UpdateNodes(update), REPORT_WITHIN).instrument(span).await;
        measure::missed(nodes.len(), begun.elapsed());
        let sent = match told {
            Ok(done) => {
                let seen = replica.wait_for(done.index).await;
                tracker
                    .send(NotDown(nodes.into_iter().filter(|id| is_to_be_heard_of(&seen, *id)).collect()))
                    .await
            }
            Err(error) => {
                tracing::warn!(error = telemetry::chain(&error), "cannot report that nodes are missed");
                tracker.send(NotReported(nodes)).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Every node that is not down has a timer; a disconnected one, too (N-4.9).
fn is_to_be_heard_of(state: &State, id: NodeId) -> bool {
    state.node(id).is_some_and(|node| match node.server().status {
        NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected => true,
        NodeStatus::Down => false,
    })
}

fn to_be_heard_of(state: &State) -> impl Iterator<Item = NodeId> {
    state.nodes().map(|node| node.id()).filter(|id| is_to_be_heard_of(state, *id))
}

impl NodeTracker {
    pub(crate) fn new(heartbeats: Heartbeats, hearing: Hearing) -> Self {
        Self { heartbeats, hearing, missed: None }
    }

    fn step(&mut self, step: &Step) {
        let now = clock::now();
        for change in step.changes() {
            #[allow(clippy::wildcard_enum_match_arm, reason = "all others are not about nodes")]
            match change {
                Change::Node(node) => {
                    self.look_at(&step.after, node.id, now);
                    if self.missed.is_none() {
                        // It has registered, which only the active process has heard.
                        self.heartbeats.overhear(node.id, now);
                    }
                }
                Change::NodeServerSide { id, .. } => self.look_at(&step.after, *id, now),
                Change::NodesChanged(changed) => {
                    changed.ids.iter().for_each(|id| self.look_at(&step.after, *id, now));
                }
                Change::NodesDeleted(ids) => ids.iter().for_each(|id| self.heartbeats.forget(*id)),
                _ => {}
            }
        }
    }

    fn look_at(&mut self, state: &State, id: NodeId, now: Timestamp) {
        if is_to_be_heard_of(state, id) {
            self.heartbeats.track(id, now);
        } else {
            self.heartbeats.forget(id);
        }
    }

    fn look(&mut self) {
        let now = clock::now();
        // The lease may be had again before heartbeats are heard again: they come over another connection.
        let unheard = self.hearing.deaf_for();
        self.heartbeats.look(now, Nanos(i64::try_from(unheard.as_nanos()).unwrap_or(i64::MAX)));
        let Some(missed) = &self.missed else { return };
        measure::unheard(unheard);
        measure::timers(self.heartbeats.len());
        // While the applier is told of others, these wait for the next look.
        let Ok(permit) = missed.try_reserve() else { return };
        let nodes = self.heartbeats.handle_timeout(now, MISSED_MAX);
        if !nodes.is_empty() {
            permit.send(nodes);
        }
    }
}

impl Actor for NodeTracker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(LOOK, |tracker, _| tracker.look());
    }
}

impl Handler<Moved> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Moved(followed): Moved, _: &mut Self::Context) {
        match followed {
            Followed::Reset(state) => self.heartbeats.restore(to_be_heard_of(&state), clock::now()),
            Followed::Step(step) => self.step(&step),
        }
    }
}

impl Handler<Beats> for NodeTracker {
    type Result = actix::MessageResult<Beats>;

    fn handle(&mut self, Beats(nodes): Beats, _: &mut Self::Context) -> Self::Result {
        measure::beats(nodes.len());
        let now = clock::now();
        let ttl = |node| self.heartbeats.beat(node, now, rand::random());
        actix::MessageResult(nodes.into_iter().map(ttl).collect())
    }
}

impl Handler<Overheard> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Overheard(nodes): Overheard, _: &mut Self::Context) {
        measure::overheard(nodes.len());
        let now = clock::now();
        nodes.into_iter().for_each(|node| self.heartbeats.overhear(node, now));
    }
}

impl Handler<Activate> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Activate(state, missed): Activate, _: &mut Self::Context) {
        self.heartbeats.take_over(to_be_heard_of(&state), clock::now());
        self.missed = Some(missed);
    }
}

impl Handler<StandBy> for NodeTracker {
    type Result = ();

    fn handle(&mut self, StandBy: StandBy, _: &mut Self::Context) {
        self.missed = None;
    }
}

impl Handler<WasDeaf> for NodeTracker {
    type Result = ();

    fn handle(&mut self, WasDeaf: WasDeaf, _: &mut Self::Context) {
        self.heartbeats.was_deaf(clock::now());
    }
}

impl Handler<NotReported> for NodeTracker {
    type Result = ();

    fn handle(&mut self, NotReported(nodes): NotReported, _: &mut Self::Context) {
        self.heartbeats.again(&nodes, clock::now());
    }
}

impl Handler<NotDown> for NodeTracker {
    type Result = ();

    fn handle(&mut self, NotDown(nodes): NotDown, _: &mut Self::Context) {
        let now = clock::now();
        nodes.iter().for_each(|node| self.heartbeats.track(*node, now));
    }
}

impl Handler<Stop> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Stop: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
