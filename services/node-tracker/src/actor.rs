//! [`NodeTracker`]: the actor that owns the heartbeat timers, and the tasks that bring it events and report nodes that
//! missed their heartbeats. It lives as long as the process: a standby keeps its timers up to date.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message};
use bus::{Bus, EchoMonitor, Reconnections};
use model::change::{Concern, NodeChange};
use model::node::NodeStatus;
use model::{Epoch, Nanos, NodeId, Timestamp};
use state::{FollowEvent, Follower, Replica, Snapshot, State, Step};
use telemetry::{attribute, clock};
use tokio::sync::mpsc;
use tracing::Instrument as _;
use wire::command::{Command, NodeLiveness, UpdateNodes};

use crate::core::Heartbeats;
use crate::metrics;

/// How long one command is retried. After that its nodes get timers again.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of nodes that one command reports as missed.
const MISSED_MAX: usize = 10_000;
/// The mailbox capacity. Senders wait while the mailbox is full.
const MAILBOX_CAPACITY: usize = 1024;

/// How often the timers are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The actor that owns the heartbeat timers.
pub(crate) struct NodeTracker {
    heartbeats: Heartbeats,
    echo_monitor: EchoMonitor,
    /// The channel for nodes that missed their heartbeats; `None` while another process is active.
    missed: Option<mpsc::Sender<Vec<NodeId>>>,
}

/// The replica's state has changed.
#[derive(Message)]
#[rtype(result = "()")]
struct StateChanged(FollowEvent);

/// The active process received heartbeats of these nodes. The response is the TTL of each, in the same order.
#[derive(Message)]
#[rtype(result = "Vec<Nanos>")]
pub(crate) struct RecordHeartbeats(pub(crate) Vec<NodeId>);

/// This standby received heartbeats of these nodes, which the active process answers.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RecordStandbyHeartbeats(pub(crate) Vec<NodeId>);

/// This process is active from this state on, and sends nodes that miss their heartbeats to this channel.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Activate(pub(crate) Snapshot, pub(crate) mpsc::Sender<Vec<NodeId>>);

/// This process is no longer active.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StandBy;

/// The connection was lost and made again. Heartbeats sent in between are lost.
#[derive(Message)]
#[rtype(result = "()")]
struct Reconnected;

/// The command that reports these nodes as missed failed.
#[derive(Message)]
#[rtype(result = "()")]
struct ReportFailed(Vec<NodeId>);

/// These nodes were reported as missed and are not down. A missed heartbeat that changes nothing writes no change set that
/// would give them timers again (N-4.9).
#[derive(Message)]
#[rtype(result = "()")]
struct StillAlive(Vec<NodeId>);

/// The service ends.
#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Stops the actor when dropped. The actor's timer would otherwise keep it alive after its last address is gone.
pub(crate) struct StopOnDrop(pub(crate) Addr<NodeTracker>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.do_send(Stop);
    }
}

/// Sends every state change to the tracker. Awaiting each reply is the back-pressure.
pub(crate) async fn follow(mut follower: Follower, tracker: Addr<NodeTracker>) {
    while tracker.send(StateChanged(follower.next().await)).await.is_ok() {}
}

/// Tells the tracker about each reconnection, before which heartbeats may have been lost.
pub(crate) async fn follow_connection(mut reconnections: Reconnections, tracker: Addr<NodeTracker>) {
    loop {
        reconnections.next().await;
        if tracker.send(Reconnected).await.is_err() {
            return;
        }
    }
}

/// Reports nodes that missed their heartbeats to the applier (N-4.6).
pub(crate) async fn report_missed(
    mut missed: mpsc::Receiver<Vec<NodeId>>,
    bus: Bus,
    replica: Arc<Replica>,
    epoch: Epoch,
    tracker: Addr<NodeTracker>,
) {
    while let Some(nodes) = missed.recv().await {
        tracing::warn!(nodes = nodes.len(), first = %nodes[0], "nodes missed their heartbeats");
        let update = UpdateNodes { epoch, sign: NodeLiveness::Missed, nodes: nodes.clone() };
        let started_at = clock::monotonic();
        // A new trace begins here. It includes the consequences, such as evaluations of the nodes' jobs.
        let span = tracing::info_span!(
            parent: None,
            "expire nodes",
            { attribute::NODES } = nodes.len().cast_signed() as i64
        );
        let result = bus.command(&Command::UpdateNodes(update), REPORT_TIMEOUT).instrument(span).await;
        metrics::missed(nodes.len(), started_at.elapsed());
        let sent = match result {
            Ok(done) => {
                let snapshot = replica.wait_for(done.index).await;
                tracker
                    .send(StillAlive(nodes.into_iter().filter(|id| needs_timer(&snapshot, *id)).collect()))
                    .await
            }
            Err(error) => {
                tracing::warn!(
                    error = telemetry::chain(&error),
                    "cannot report nodes that missed their heartbeats"
                );
                tracker.send(ReportFailed(nodes)).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Whether a node has a timer. Every node has one that is not down, including a disconnected node (N-4.9).
fn needs_timer(state: &State, id: NodeId) -> bool {
    state.node(id).is_some_and(|node| match node.server().status {
        NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected => true,
        NodeStatus::Down => false,
    })
}

fn nodes_with_timer(state: &State) -> impl Iterator<Item = NodeId> {
    state.nodes().map(|node| node.id()).filter(|id| needs_timer(state, *id))
}

impl NodeTracker {
    pub(crate) fn new(heartbeats: Heartbeats, echo_monitor: EchoMonitor) -> Self {
        Self { heartbeats, echo_monitor, missed: None }
    }

    fn step(&mut self, step: &Step) {
        let now = clock::steady();
        for change in step.changes() {
            let Concern::Nodes(change) = change.concern() else { continue };
            match change {
                NodeChange::Node(node) => {
                    self.update_timer(&step.after, node.id, now);
                    if self.missed.is_none() {
                        // The node has registered. Only the active process received the request.
                        self.heartbeats.record_standby_heartbeat(node.id, now);
                    }
                }
                NodeChange::NodeServerSide { id, .. } => self.update_timer(&step.after, *id, now),
                NodeChange::NodesChanged(changed) => {
                    changed.ids.iter().for_each(|id| self.update_timer(&step.after, *id, now));
                }
                NodeChange::NodesDeleted(ids) => ids.iter().for_each(|id| self.heartbeats.forget(*id)),
            }
        }
    }

    fn update_timer(&mut self, state: &State, id: NodeId, now: Timestamp) {
        if needs_timer(state, id) {
            self.heartbeats.track(id, now);
        } else {
            self.heartbeats.forget(id);
        }
    }

    fn check_timers(&mut self) {
        let now = clock::steady();
        // The lease may return before heartbeats do, because they use another connection.
        let receive_lag = self.echo_monitor.receive_lag();
        let lag = Nanos(i64::try_from(receive_lag.as_nanos()).unwrap_or(i64::MAX));
        self.heartbeats.check_clock(now, clock::now(), lag);
        let Some(missed) = &self.missed else { return };
        metrics::deaf_time(receive_lag);
        metrics::timers(self.heartbeats.len());
        // While a command is in flight, nodes that miss their heartbeats wait for the next check.
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
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
        ctx.run_interval(CHECK_INTERVAL, |tracker, _| tracker.check_timers());
    }
}

impl Handler<StateChanged> for NodeTracker {
    type Result = ();

    fn handle(&mut self, StateChanged(followed): StateChanged, _: &mut Self::Context) {
        match followed {
            FollowEvent::Reset(state) => self.heartbeats.restore(nodes_with_timer(&state), clock::steady()),
            FollowEvent::Step(step) => self.step(&step),
        }
    }
}

impl Handler<RecordHeartbeats> for NodeTracker {
    type Result = actix::MessageResult<RecordHeartbeats>;

    fn handle(&mut self, RecordHeartbeats(nodes): RecordHeartbeats, _: &mut Self::Context) -> Self::Result {
        metrics::heartbeats(nodes.len());
        let now = clock::steady();
        let ttl = |node| self.heartbeats.beat(node, now, rand::random());
        actix::MessageResult(nodes.into_iter().map(ttl).collect())
    }
}

impl Handler<RecordStandbyHeartbeats> for NodeTracker {
    type Result = ();

    fn handle(&mut self, RecordStandbyHeartbeats(nodes): RecordStandbyHeartbeats, _: &mut Self::Context) {
        metrics::standby_heartbeats(nodes.len());
        let now = clock::steady();
        nodes.into_iter().for_each(|node| self.heartbeats.record_standby_heartbeat(node, now));
    }
}

impl Handler<Activate> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Activate(state, missed): Activate, _: &mut Self::Context) {
        self.heartbeats.take_over(nodes_with_timer(&state), clock::steady());
        self.missed = Some(missed);
    }
}

impl Handler<StandBy> for NodeTracker {
    type Result = ();

    fn handle(&mut self, StandBy: StandBy, _: &mut Self::Context) {
        self.missed = None;
    }
}

impl Handler<Reconnected> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Reconnected: Reconnected, _: &mut Self::Context) {
        self.heartbeats.extend_all(clock::steady());
    }
}

impl Handler<ReportFailed> for NodeTracker {
    type Result = ();

    fn handle(&mut self, ReportFailed(nodes): ReportFailed, _: &mut Self::Context) {
        self.heartbeats.retry_report(&nodes, clock::steady());
    }
}

impl Handler<StillAlive> for NodeTracker {
    type Result = ();

    fn handle(&mut self, StillAlive(nodes): StillAlive, _: &mut Self::Context) {
        let now = clock::steady();
        nodes.iter().for_each(|node| self.heartbeats.track(*node, now));
    }
}

impl Handler<Stop> for NodeTracker {
    type Result = ();

    fn handle(&mut self, Stop: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
