//! [`NodeTracker`]: the actor that owns the heartbeats' timers, and the tasks that bring it news and report nodes that
//! are missed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use bus::Bus;
use model::change::Change;
use model::node::{NodeEvent, NodeStatus};
use model::{Epoch, Index, Nanos, NodeId, Timestamp};
use state::{Followed, Follower, Replica, State, Step};
use telemetry::clock;
use tokio::sync::mpsc;
use wire::command::{Command, NodeSign, UpdateNodes};

use crate::heartbeats::Heartbeats;
use crate::measure;

/// How long one command is repeated before its nodes get timers again.
const REPORT_WITHIN: Duration = Duration::from_secs(30);
/// The most nodes that one command reports as missed.
const MISSED_MAX: usize = 10_000;
/// How many messages wait for the actor; those who send more wait themselves.
const MAILBOX: usize = 1024;

/// The active tracker's timers.
pub(crate) struct NodeTracker {
    heartbeats: Heartbeats,
    missed: mpsc::Sender<Vec<NodeId>>,
    timer: Option<(Timestamp, SpawnHandle)>,
}

/// The state moved on.
#[derive(Message)]
#[rtype(result = "()")]
struct Moved(Followed);

/// A node was heard of. The answer is how long it may wait until its next heartbeat.
#[derive(Message)]
#[rtype(result = "Nanos")]
pub(crate) struct Beat(pub(crate) NodeId);

/// Nodes were missed, and the applier could not be told.
#[derive(Message)]
#[rtype(result = "()")]
struct NotReported(Vec<NodeId>);

/// Nodes were missed, and are not down yet: an expiry that changes nothing does not come back with the state (N-4.9).
#[derive(Message)]
#[rtype(result = "()")]
struct NotDown(Vec<NodeId>);

/// This process is not the active one any more.
#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Stops the actor when dropped. Its timers would keep it alive although nobody can reach it.
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
        measure::missed(nodes.len());
        let event = NodeEvent {
            message: "Node heartbeat missed".into(),
            subsystem: "Cluster".into(),
            details: BTreeMap::new(),
            timestamp: clock::now(),
            // The applier knows it.
            create_index: Index::ZERO,
        };
        let update = UpdateNodes { epoch, sign: NodeSign::Missed, nodes: nodes.clone(), event: Some(event) };
        let sent = match bus.command(&Command::UpdateNodes(update), REPORT_WITHIN).await {
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

impl NodeTracker {
    pub(crate) fn new(heartbeats: Heartbeats, missed: mpsc::Sender<Vec<NodeId>>) -> Self {
        Self { heartbeats, missed, timer: None }
    }

    fn step(&mut self, step: &Step) {
        let now = clock::now();
        for change in &step.set.changes {
            #[allow(clippy::wildcard_enum_match_arm, reason = "all others are not about nodes")]
            match change {
                Change::Node(node) => self.look_at(&step.after, node.id, now),
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

    /// After anything has happened: sees to the next moment at which something is due.
    fn set_timer(&mut self, ctx: &mut Context<Self>) {
        measure::timers(self.heartbeats.len());
        let due = self.heartbeats.poll_timeout();
        // One that comes too early does no harm, and most timers move on before they are due.
        if self.timer.is_some_and(|(set, _)| due.is_some_and(|due| set <= due)) {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.timer = due.map(|due| {
            let length = Nanos::MILLISECOND.max(due - clock::now());
            let timer = ctx.run_later(Duration::from_nanos(length.0.unsigned_abs()), |tracker, ctx| {
                tracker.timer = None;
                tracker.time_passed();
                tracker.set_timer(ctx);
            });
            (due, timer)
        });
    }

    fn time_passed(&mut self) {
        let now = clock::now();
        let Ok(permit) = self.missed.try_reserve() else {
            // The applier is being told of others; these are told next.
            let waiting = self.heartbeats.handle_timeout(now, MISSED_MAX);
            return self.heartbeats.again(&waiting, now);
        };
        let missed = self.heartbeats.handle_timeout(now, MISSED_MAX);
        if !missed.is_empty() {
            permit.send(missed);
        }
    }
}

impl Actor for NodeTracker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        measure::timers(0);
    }
}

impl Handler<Moved> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Moved(followed): Moved, ctx: &mut Self::Context) {
        match followed {
            Followed::Reset(state) => {
                let nodes = state.nodes().map(|node| node.id()).filter(|id| is_to_be_heard_of(&state, *id));
                self.heartbeats.restore(nodes, clock::now());
            }
            Followed::Step(step) => self.step(&step),
        }
        self.set_timer(ctx);
    }
}

impl Handler<Beat> for NodeTracker {
    type Result = actix::MessageResult<Beat>;

    fn handle(&mut self, Beat(node): Beat, ctx: &mut Self::Context) -> Self::Result {
        measure::beat();
        let ttl = self.heartbeats.beat(node, clock::now(), rand::random());
        self.set_timer(ctx);
        actix::MessageResult(ttl)
    }
}

impl Handler<NotReported> for NodeTracker {
    type Result = ();

    fn handle(&mut self, NotReported(nodes): NotReported, ctx: &mut Self::Context) {
        self.heartbeats.again(&nodes, clock::now());
        self.set_timer(ctx);
    }
}

impl Handler<NotDown> for NodeTracker {
    type Result = ();

    fn handle(&mut self, NotDown(nodes): NotDown, ctx: &mut Self::Context) {
        let now = clock::now();
        nodes.iter().for_each(|node| self.heartbeats.track(*node, now));
        self.set_timer(ctx);
    }
}

impl Handler<Stop> for NodeTracker {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
