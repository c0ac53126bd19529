//! What agents ask of the active tracker, and how it is answered.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use bus::{Bus, CommandError, Request};
use model::node::{NodeStatus, Secret};
use model::{Epoch, Index, Nanos, NodeId};
use state::{NodeRef, Replica, Snapshot};
use telemetry::clock;
use telemetry::metrics::catalogue::{
    CLIENT_GET_ALLOCS, CLIENT_GET_CLIENT_ALLOCS, CLIENT_REGISTER, CLIENT_UPDATE_ALLOC, CLIENT_UPDATE_STATUS,
};
use tokio::sync::Semaphore;
use wire::command::{Command, NodeReport, RegisterNode};
use wire::node::{
    AskAllocs, AskWork, Heartbeat, NodeAnswer, Register, Report, Reported, Work, WorkAllocs, WorkIndex,
};
use wire::{Refusal, RefusalKind, Subject, Wire};

use crate::actor::{Beats, NodeTracker};
use crate::gather::Gather;
use crate::hand_out::{self, By};
use crate::{measure, work};

/// The most requests of one kind that are looked at at once.
pub(crate) const REQUESTS_MAX: usize = 1024;
/// The most nodes that wait to become ready at once; while more ask, no heartbeat is looked at.
const ASKING_TO_BE_READY_MAX: usize = 16_384;
/// The most allocations that one report may be about.
const REPORT_ALLOCS_MAX: usize = 10_000;
/// The most allocations that may be asked for at once.
const ASKED_ALLOCS_MAX: usize = 10_000;
/// How long a command for one node is repeated.
const COMMAND_WITHIN: Duration = Duration::from_secs(20);
/// How long this process may take to see what was committed.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// What it takes to answer agents.
#[derive(Clone)]
pub(crate) struct Server {
    bus: Bus,
    replica: Arc<Replica>,
    epoch: Epoch,
    timers: Addr<NodeTracker>,
    gather: Gather,
    asking_to_be_ready: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn new(
        bus: Bus,
        replica: Arc<Replica>,
        epoch: Epoch,
        timers: Addr<NodeTracker>,
        gather: Gather,
    ) -> Self {
        let asking_to_be_ready = Arc::new(Semaphore::new(ASKING_TO_BE_READY_MAX));
        Self { bus, replica, epoch, timers, gather, asking_to_be_ready }
    }

    /// A node registers (N-2).
    pub(crate) async fn register(self, request: Request) {
        let Some((request, Register { id, spec })) = read(request, |register: &Register| register.id).await
        else {
            return;
        };
        let begun = clock::monotonic();
        let command = Command::RegisterNode(Box::new(RegisterNode { epoch: self.epoch, id, spec }));
        let told = self.bus.command(&command, COMMAND_WITHIN).await;
        let answer = match told {
            Ok(done) => self.node_answer(id, done.index).await,
            Err(CommandError::Refused(refusal)) => Err(refusal),
            Err(error) => Err(unavailable(telemetry::chain(&error))),
        };
        answer_or_refuse(request, answer).await;
        CLIENT_REGISTER.record(begun.elapsed());
    }

    /// Nodes are there, and those that are not ready ask to be (N-3). Only these take a command, and wait for it.
    ///
    /// A node is there also if this process was too late to answer it: it was not the node that was silent.
    pub(crate) async fn heartbeats(&self, requests: Vec<Request>) {
        let snapshot = self.replica.snapshot();
        let (mut ready, mut nodes) = (Vec::new(), Vec::new());
        for request in requests {
            let Some((request, beat)) = read(request, |beat: &Heartbeat| beat.id).await else { continue };
            match known(&snapshot, beat.id, &beat.secret, Some(beat.boot)) {
                Ok(NodeStatus::Ready) => {
                    ready.push(request);
                    nodes.push(beat.id);
                }
                // It asks again.
                Ok(_) if !request.is_waited_for() => {}
                Ok(NodeStatus::Initializing | NodeStatus::Down | NodeStatus::Disconnected) => {
                    let permit = Arc::clone(&self.asking_to_be_ready).acquire_owned().await;
                    let server = self.clone();
                    tokio::spawn(async move {
                        let begun = clock::monotonic();
                        answer_or_refuse(request, server.to_be_ready(beat.id).await).await;
                        CLIENT_UPDATE_STATUS.record(begun.elapsed());
                        drop(permit);
                    });
                }
                Err(refusal) => answer_or_refuse::<NodeAnswer>(request, Err(refusal)).await,
            }
        }
        if nodes.is_empty() {
            return;
        }
        let ttls = self.timers.send(Beats(nodes.clone())).await;
        for (at, (request, id)) in ready.into_iter().zip(nodes).enumerate() {
            let answer = match &ttls {
                Ok(ttls) => {
                    snapshot.node(id).ok_or_else(unknown).map(|node| stands(node, &snapshot, ttls[at]))
                }
                Err(error) => Err(unavailable(error.to_string())),
            };
            answer_or_refuse(request, answer).await;
        }
    }

    async fn to_be_ready(&self, id: NodeId) -> Result<NodeAnswer, Refusal> {
        match self.gather.heard(id).await {
            Ok(index) => self.node_answer(id, index).await,
            // It was forgotten meanwhile.
            Err(refusal) if refusal.kind == RefusalKind::NotReady => Err(unknown()),
            Err(refusal) => Err(refusal),
        }
    }

    /// How a node stands at an index, with a new time for its next heartbeat unless it is down (N-3.12).
    async fn node_answer(&self, id: NodeId, index: Index) -> Result<NodeAnswer, Refusal> {
        let snapshot = self.seen(index).await?;
        let node = snapshot.node(id).ok_or_else(unknown)?;
        let ttl = match node.server().status {
            NodeStatus::Down => Nanos::SECOND,
            NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected => {
                let ttls = self.timers.send(Beats(vec![id])).await;
                ttls.map_err(|error| unavailable(error.to_string()))?[0]
            }
        };
        Ok(stands(node, &snapshot, ttl))
    }

    /// A node asks for its work (N-6), or for the rest of it.
    pub(crate) async fn work(self, request: Request) {
        let begun = clock::monotonic();
        if request.is::<AskAllocs>() {
            let Some((request, ask)) = read(request, |ask: &AskAllocs| ask.id).await else { return };
            let answer = self.asked(&ask).await;
            answer_or_refuse(request, answer).await;
            return CLIENT_GET_ALLOCS.record(begun.elapsed());
        }
        let Some((request, ask)) = read(request, |ask: &AskWork| ask.id).await else { return };
        let answer = self.work_since(&ask).await;
        answer_or_refuse(request, answer).await;
        CLIENT_GET_CLIENT_ALLOCS.record(begun.elapsed());
    }

    async fn work_since(&self, ask: &AskWork) -> Result<Work, Refusal> {
        known(&self.replica.snapshot(), ask.id, &ask.secret, None)?;
        let snapshot = self.seen_work(ask.seen).await?;
        let node = snapshot.node(ask.id).ok_or_else(unknown)?;
        let mut work = work::work(node, snapshot.history(), ask.since);
        hand_out::trace(&mut work.changed, ask.id, By::Request);
        Ok(work)
    }

    async fn asked(&self, ask: &AskAllocs) -> Result<WorkAllocs, Refusal> {
        if ask.allocs.len() > ASKED_ALLOCS_MAX {
            return Err(invalid(format!(
                "{} allocations asked for; at most {ASKED_ALLOCS_MAX}",
                ask.allocs.len()
            )));
        }
        known(&self.replica.snapshot(), ask.id, &ask.secret, None)?;
        let snapshot = self.seen_work(ask.seen).await?;
        if snapshot.history() != ask.seen.history {
            return Err(unavailable("the list is of another history".to_owned()));
        }
        let mut allocs = work::asked(snapshot.node(ask.id).ok_or_else(unknown)?, &ask.allocs);
        hand_out::trace(&mut allocs, ask.id, By::Request);
        Ok(allocs)
    }

    /// A node reports how its allocations fare (N-7).
    pub(crate) async fn report(self, request: Request) {
        let (begun, bytes) = (clock::monotonic(), request.payload().len());
        let Some((request, report)) = read(request, |report: &Report| report.id).await else { return };
        let answer = self.reported(report, bytes).await;
        answer_or_refuse(request, answer).await;
        CLIENT_UPDATE_ALLOC.record(begun.elapsed());
    }

    async fn reported(&self, report: Report, bytes: usize) -> Result<Reported, Refusal> {
        let Report { id, secret, boot, all_since, allocs } = report;
        if allocs.is_empty() && all_since.is_none() {
            return Err(invalid("must update at least one allocation".to_owned()));
        }
        if allocs.len() > REPORT_ALLOCS_MAX {
            return Err(invalid(format!(
                "{} allocations reported at once; at most {REPORT_ALLOCS_MAX}",
                allocs.len()
            )));
        }
        known(&self.replica.snapshot(), id, &secret, None)?;
        let told = self.gather.reported(NodeReport { node: id, boot, all_since, allocs }, bytes).await;
        match told {
            Ok(index) => Ok(Reported { index }),
            Err(refusal) if refusal.kind == RefusalKind::NotReady => Err(self.may_not_report(id)),
            Err(refusal) => Err(refusal),
        }
    }

    /// Why the applier refused a node's report (N-7.3).
    fn may_not_report(&self, id: NodeId) -> Refusal {
        let snapshot = self.replica.snapshot();
        let Some(node) = snapshot.node(id) else { return unknown() };
        let status = node.server().status.as_str();
        let message = format!("node {id} is not allowed to update allocs while in status {status}");
        Refusal { kind: RefusalKind::NotReady, message: message.into() }
    }

    /// The state, once this process sees what an agent has heard of. What it heard of another history says nothing; but
    /// which of the two is over is the applier's to say.
    async fn seen_work(&self, seen: WorkIndex) -> Result<Snapshot, Refusal> {
        let history = self.replica.snapshot().history();
        let snapshot = self.seen(seen.within(history)).await?;
        let is_over = self.bus.contact().head().is_some_and(|head| head.history != snapshot.history());
        if is_over {
            return Err(unavailable("the state of the cluster is being loaded anew".to_owned()));
        }
        Ok(snapshot)
    }

    /// The state, once this process sees what was committed at an index.
    async fn seen(&self, index: Index) -> Result<Snapshot, Refusal> {
        let seen = tokio::time::timeout(SEEN_WITHIN, self.replica.wait_for(index)).await;
        seen.map_err(|_| unavailable(format!("index {index} has not arrived here yet")))
    }
}

/// What a node is told of itself.
fn stands(node: NodeRef<'_>, snapshot: &Snapshot, ttl: Nanos) -> NodeAnswer {
    let server = node.server();
    let missed = server.last_missed_heartbeat_index;
    // Also of one that was forgotten and comes back with its allocations: then the index is 0.
    let waits = server.status == NodeStatus::Initializing
        && (missed.is_set() || node.allocs().any(|alloc| !alloc.is_terminal()));
    NodeAnswer {
        status: server.status,
        ttl_ms: u32::try_from(ttl.0 / Nanos::MILLISECOND.0).unwrap_or(u32::MAX),
        work_index: WorkIndex { history: snapshot.history(), index: node.work_index() },
        report_all: waits.then_some(missed),
    }
}

/// The body of a request that came on its sender's own subject (see [`Subject`]).
async fn read<T: Wire>(request: Request, sender: impl Fn(&T) -> NodeId) -> Option<(Request, T)> {
    let (request, body) = request.read::<T>().await?;
    if Subject::node_of(request.subject()) == Some(sender(&body)) {
        return Some((request, body));
    }
    measure::refused("another node's subject");
    let message = format!("the message of node {} came on {}", sender(&body), request.subject());
    tracing::warn!(subject = request.subject(), node.id = %sender(&body), "a node speaks for another");
    request.refuse(Refusal { kind: RefusalKind::Invalid, message: message.into() }).await;
    None
}

/// The status of a node that is known, and proves to be it.
fn known(snapshot: &Snapshot, id: NodeId, secret: &Secret, boot: Option<u32>) -> Result<NodeStatus, Refusal> {
    let node = snapshot.node(id).ok_or_else(unknown)?;
    if node.spec().secret_id != *secret {
        measure::refused("secret");
        let message = "node secret ID does not match".into();
        return Err(Refusal { kind: RefusalKind::Conflict, message });
    }
    if boot.is_some_and(|boot| boot != node.spec().boot) {
        // Its agent has started anew, and is to register before anything else.
        measure::refused("boot");
        return Err(unknown());
    }
    Ok(node.server().status)
}

async fn answer_or_refuse<T: Wire>(request: Request, answer: Result<T, Refusal>) {
    if let Err(refusal) = &answer {
        tracing::debug!(subject = request.subject(), reason = &*refusal.message, "refused a node");
    }
    request.answer_or_refuse(answer).await;
}

fn unknown() -> Refusal {
    measure::refused("unknown");
    Refusal { kind: RefusalKind::NotFound, message: "node not found".into() }
}

fn invalid(message: String) -> Refusal {
    measure::refused("invalid");
    Refusal { kind: RefusalKind::Invalid, message: message.into() }
}

/// Whether what was asked for is done is not known; the node asks again.
pub(crate) fn unavailable(message: String) -> Refusal {
    Refusal { kind: RefusalKind::OutcomeUnknown, message: message.into() }
}
