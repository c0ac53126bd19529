//! Answers the requests of agents: registrations, heartbeats, requests for work, and reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use bus::{Bus, Request};
use model::node::{NodeStatus, Secret};
use model::{AllocId, Epoch, Index, Nanos, NodeId};
use state::{NodeRef, Replica, Snapshot};
use telemetry::clock;
use telemetry::metrics::catalogue::{
    CLIENT_GET_ALLOCS, CLIENT_GET_CLIENT_ALLOCS, CLIENT_REGISTER, CLIENT_UPDATE_ALLOC, CLIENT_UPDATE_STATUS,
};
use tokio::sync::Semaphore;
use wire::command::{Command, CommandError, DrainOwnNode, NodeReport, NodeServices, RegisterNode};
use wire::node::{
    DrainSelf, GetAllocs, GetWork, Heartbeat, NodeResponse, OwnDrain, Register, Report, ReportAccepted, Work,
    WorkAllocs, WorkIndex,
};
use wire::services::{
    AllocServices, RegisterServices, RegisteredServices, SERVICE_ALLOCS_MAX, ServicesAnswer, ServicesDigest,
    ServicesRejection,
};
use wire::{Refusal, RefusalKind, Subject, Wire};

use crate::actor::{NodeTracker, RecordHeartbeats};
use crate::batch::Batcher;
use crate::refusals::{invalid, unavailable, unknown};
use crate::work_trace::{self, Delivery};
use crate::{metrics, work};

/// The maximum number of requests of one kind that are handled concurrently.
pub(crate) const REQUESTS_MAX: usize = 1024;
/// The maximum number of nodes that wait to become ready. While more of them wait, no heartbeat is handled.
const BECOMING_READY_MAX: usize = 16_384;
/// The maximum number of allocations in one report.
const REPORT_ALLOCS_MAX: usize = 10_000;
/// The maximum number of allocations in one request.
const REQUESTED_ALLOCS_MAX: usize = 10_000;
/// How long a command for one node is retried.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// How long this process waits for its replica to reach an index.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers agents while this process is active.
#[derive(Clone)]
pub(crate) struct Server {
    bus: Bus,
    replica: Arc<Replica>,
    epoch: Epoch,
    timers: Addr<NodeTracker>,
    batcher: Batcher,
    becoming_ready_permits: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn new(
        bus: Bus,
        replica: Arc<Replica>,
        epoch: Epoch,
        timers: Addr<NodeTracker>,
        batcher: Batcher,
    ) -> Self {
        let becoming_ready_permits = Arc::new(Semaphore::new(BECOMING_READY_MAX));
        Self { bus, replica, epoch, timers, batcher, becoming_ready_permits }
    }

    /// The cluster's state.
    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Registers a node (N-2).
    pub(crate) async fn register(self, request: Request) {
        let Some((request, Register { id, spec })) = read(request, |register: &Register| register.id).await
        else {
            return;
        };
        let started_at = clock::monotonic();
        let command = Command::RegisterNode(Box::new(RegisterNode { epoch: self.epoch, id, spec }));
        let result = self.bus.command(&command, COMMAND_TIMEOUT).await;
        let answer = match result {
            Ok(done) => self.node_answer(id, done.index).await,
            Err(CommandError::Refused(refusal)) => Err(refusal),
            Err(error) => Err(unavailable(telemetry::chain(&error))),
        };
        answer_or_refuse(request, answer).await;
        CLIENT_REGISTER.record(started_at.elapsed());
    }

    /// Handles heartbeats. A node that is not ready asks to become ready (N-3): only such a node costs a command, and its
    /// answer waits for that.
    ///
    /// A heartbeat also counts if the node no longer waits for the answer, because it was this process that was late.
    pub(crate) async fn heartbeats(&self, requests: Vec<Request>) {
        let snapshot = self.replica.snapshot();
        let (mut ready, mut nodes) = (Vec::new(), Vec::new());
        for request in requests {
            let Some((request, beat)) = read(request, |beat: &Heartbeat| beat.id).await else { continue };
            match authenticate(&snapshot, beat.id, &beat.secret, Some(beat.boot)) {
                Ok(NodeStatus::Ready) => {
                    ready.push(request);
                    nodes.push(beat.id);
                }
                // The node repeats its request.
                Ok(_) if !request.is_waited_for() => {}
                Ok(NodeStatus::Initializing | NodeStatus::Down | NodeStatus::Disconnected) => {
                    let permit = Arc::clone(&self.becoming_ready_permits).acquire_owned().await;
                    let server = self.clone();
                    tokio::spawn(async move {
                        let started_at = clock::monotonic();
                        answer_or_refuse(request, server.become_ready(beat.id).await).await;
                        CLIENT_UPDATE_STATUS.record(started_at.elapsed());
                        drop(permit);
                    });
                }
                Err(refusal) => answer_or_refuse::<NodeResponse>(request, Err(refusal)).await,
            }
        }
        if nodes.is_empty() {
            return;
        }
        let ttls = self.timers.send(RecordHeartbeats(nodes.clone())).await;
        for (at, (request, id)) in ready.into_iter().zip(nodes).enumerate() {
            let answer = match &ttls {
                Ok(ttls) => {
                    snapshot.node(id).ok_or_else(unknown).map(|node| status_answer(node, &snapshot, ttls[at]))
                }
                Err(error) => Err(unavailable(error.to_string())),
            };
            answer_or_refuse(request, answer).await;
        }
    }

    async fn become_ready(&self, id: NodeId) -> Result<NodeResponse, Refusal> {
        match self.batcher.heartbeat(id).await {
            Ok(committed) => self.node_answer(id, committed.index).await,
            // The node was deleted meanwhile.
            Err(refusal) if refusal.kind == RefusalKind::NotReady => Err(unknown()),
            Err(refusal) => Err(refusal),
        }
    }

    /// A node's status at an index, with a new TTL unless it is down (N-3.12).
    async fn node_answer(&self, id: NodeId, index: Index) -> Result<NodeResponse, Refusal> {
        let snapshot = self.snapshot_at(index).await?;
        let node = snapshot.node(id).ok_or_else(unknown)?;
        let ttl = match node.server().status {
            NodeStatus::Down => Nanos::SECOND,
            NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected => {
                let ttls = self.timers.send(RecordHeartbeats(vec![id])).await;
                ttls.map_err(|error| unavailable(error.to_string()))?[0]
            }
        };
        Ok(status_answer(node, &snapshot, ttl))
    }

    /// Answers a node's request for its work (N-6), or for the rest of it.
    pub(crate) async fn work(self, request: Request) {
        let started_at = clock::monotonic();
        if request.is::<GetAllocs>() {
            let Some((request, ask)) = read(request, |ask: &GetAllocs| ask.id).await else { return };
            let answer = self.work_by_ids(&ask).await;
            answer_or_refuse(request, answer).await;
            return CLIENT_GET_ALLOCS.record(started_at.elapsed());
        }
        let Some((request, ask)) = read(request, |ask: &GetWork| ask.id).await else { return };
        let answer = self.work_since(&ask).await;
        answer_or_refuse(request, answer).await;
        CLIENT_GET_CLIENT_ALLOCS.record(started_at.elapsed());
    }

    async fn work_since(&self, ask: &GetWork) -> Result<Work, Refusal> {
        authenticate(&self.replica.snapshot(), ask.id, &ask.secret, None)?;
        let snapshot = self.snapshot_at_work(ask.seen).await?;
        let node = snapshot.node(ask.id).ok_or_else(unknown)?;
        let mut work = work::work(node, snapshot.history(), ask.since);
        work_trace::start_spans(&mut work.changed, ask.id, Delivery::Request);
        Ok(work)
    }

    async fn work_by_ids(&self, ask: &GetAllocs) -> Result<WorkAllocs, Refusal> {
        if ask.allocs.len() > REQUESTED_ALLOCS_MAX {
            return Err(invalid(format!(
                "{} allocations requested; at most {REQUESTED_ALLOCS_MAX}",
                ask.allocs.len()
            )));
        }
        authenticate(&self.replica.snapshot(), ask.id, &ask.secret, None)?;
        let snapshot = self.snapshot_at_work(ask.seen).await?;
        if snapshot.history() != ask.seen.history {
            return Err(unavailable("the list belongs to another history".to_owned()));
        }
        let mut allocs = work::by_ids(snapshot.node(ask.id).ok_or_else(unknown)?, &ask.allocs);
        work_trace::start_spans(&mut allocs, ask.id, Delivery::Request);
        Ok(allocs)
    }

    /// Handles a node's report about its allocations (N-7).
    pub(crate) async fn report(self, request: Request) {
        let (started_at, bytes) = (clock::monotonic(), request.payload().len());
        let Some((request, report)) = read(request, |report: &Report| report.id).await else { return };
        let answer = self.submit_report(report, bytes).await;
        answer_or_refuse(request, answer).await;
        CLIENT_UPDATE_ALLOC.record(started_at.elapsed());
    }

    async fn submit_report(&self, report: Report, bytes: usize) -> Result<ReportAccepted, Refusal> {
        let Report { id, secret, boot, all_since, allocs } = report;
        if allocs.is_empty() && all_since.is_none() {
            return Err(invalid("must update at least one allocation".to_owned()));
        }
        if allocs.len() > REPORT_ALLOCS_MAX {
            return Err(invalid(format!(
                "{} allocations in one report; at most {REPORT_ALLOCS_MAX}",
                allocs.len()
            )));
        }
        authenticate(&self.replica.snapshot(), id, &secret, None)?;
        let result = self.batcher.report(NodeReport { node: id, boot, all_since, allocs }, bytes).await;
        match result {
            Ok(committed) => Ok(ReportAccepted { index: committed.index }),
            Err(refusal) if refusal.kind == RefusalKind::NotReady => Err(self.report_refused(id)),
            Err(refusal) => Err(refusal),
        }
    }

    /// Starts the drain of a node whose agent ends, or answers how far it is (N-10.13).
    pub(crate) async fn drain(self, request: Request) {
        let Some((request, ask)) = read(request, |ask: &DrainSelf| ask.id).await else { return };
        let answer = self.drain_self(&ask).await;
        answer_or_refuse(request, answer).await;
    }

    async fn drain_self(&self, ask: &DrainSelf) -> Result<OwnDrain, Refusal> {
        let mut snapshot = self.replica.snapshot();
        authenticate(&snapshot, ask.id, &ask.secret, None)?;
        if let Some(drain) = ask.drain {
            let command = Command::DrainOwnNode(DrainOwnNode { epoch: self.epoch, node: ask.id, drain });
            let index = match self.bus.command(&command, COMMAND_TIMEOUT).await {
                Ok(done) => done.index,
                Err(CommandError::Refused(refusal)) => return Err(refusal),
                Err(error) => return Err(unavailable(telemetry::chain(&error))),
            };
            snapshot = self.snapshot_at(index).await?;
        }
        let node = snapshot.node(ask.id).ok_or_else(unknown)?;
        let leaving = node.allocs().filter(|alloc| {
            let has_to_leave =
                alloc.transition().migrate == Some(true) || alloc.desired_status().is_terminal();
            has_to_leave && !alloc.client_status().is_terminal()
        });
        let leaving_allocs = u32::try_from(leaving.count()).unwrap_or(u32::MAX);
        Ok(OwnDrain { is_draining: node.server().drain.is_some(), leaving_allocs })
    }

    /// The refusal of a report by a node that is down or disconnected (N-7.3).
    fn report_refused(&self, id: NodeId) -> Refusal {
        let snapshot = self.replica.snapshot();
        let Some(node) = snapshot.node(id) else { return unknown() };
        let status = node.server().status.as_str();
        let message = format!("node {id} is not allowed to update allocs while in status {status}");
        Refusal { kind: RefusalKind::NotReady, message: message.into() }
    }

    /// Registers the services of a node's allocations.
    pub(crate) async fn services(self, request: Request) {
        let bytes = request.payload().len();
        let sender = |services: &RegisterServices| services.id;
        let Some((request, services)) = read(request, sender).await else { return };
        let answer = self.submit_services(services, bytes).await;
        answer_or_refuse(request, answer).await;
    }

    async fn submit_services(
        &self,
        services: RegisterServices,
        bytes: usize,
    ) -> Result<ServicesAnswer, Refusal> {
        let RegisterServices { id, secret, boot, allocs } = services;
        if allocs.len() > SERVICE_ALLOCS_MAX {
            let message = format!("services of {} allocations; at most {SERVICE_ALLOCS_MAX}", allocs.len());
            return Err(invalid(message));
        }
        authenticate(&self.replica.snapshot(), id, &secret, Some(boot))?;
        let (allocs, mut rejected) = checked(allocs);
        let own: BTreeSet<AllocId> = allocs.iter().map(|services| services.alloc).collect();
        let submitted = self.batcher.services(NodeServices { node: id, boot, allocs }, bytes).await;
        let committed = match submitted {
            Ok(committed) => committed,
            Err(refusal) if refusal.kind == RefusalKind::NotReady => return Err(self.report_refused(id)),
            Err(refusal) => return Err(refusal),
        };
        let snapshot = self.snapshot_at(committed.index).await?;
        // The command is about several nodes, and another one may have asked in vain for an allocation of this one.
        let is_own = |alloc: AllocId| {
            snapshot
                .alloc(alloc)
                .is_some_and(|found| found.node_id() == id && !found.client_status().is_terminal())
        };
        let refused = committed.refused_allocs.iter().copied();
        let unknown = refused.filter(|alloc| own.contains(alloc) && !is_own(*alloc));
        rejected.extend(unknown.map(|alloc| (alloc, ServicesRejection::Unknown)));
        Ok(ServicesAnswer {
            index: WorkIndex { history: snapshot.history(), index: committed.index },
            rejected,
        })
    }

    /// A snapshot that is at least as new as the work index that the agent knows. An index of another history is ignored.
    /// If the applier is at another history than the snapshot, the request is refused until the replica has been reloaded.
    async fn snapshot_at_work(&self, seen: WorkIndex) -> Result<Snapshot, Refusal> {
        let history = self.replica.snapshot().history();
        let snapshot = self.snapshot_at(seen.within(history)).await?;
        let is_over = self.bus.contact().head().is_some_and(|head| head.history != snapshot.history());
        if is_over {
            return Err(unavailable("the node-tracker is reloading the cluster state".to_owned()));
        }
        Ok(snapshot)
    }

    /// A snapshot that includes everything committed up to an index.
    async fn snapshot_at(&self, index: Index) -> Result<Snapshot, Refusal> {
        let snapshot = tokio::time::timeout(REPLICA_TIMEOUT, self.replica.wait_for(index)).await;
        snapshot.map_err(|_| unavailable(format!("the node-tracker has not reached index {index} yet")))
    }
}

/// The sets, of which those that are not valid are replaced by empty ones, and what is wrong with these.
fn checked(mut allocs: Vec<AllocServices>) -> (Vec<AllocServices>, Vec<(AllocId, ServicesRejection)>) {
    let mut rejected = Vec::new();
    for services in &mut allocs {
        if let Err(reason) = services.check() {
            metrics::refused("services");
            rejected.push((services.alloc, ServicesRejection::Refused(reason.into())));
            services.services.clear();
        }
    }
    (allocs, rejected)
}

/// What is registered of the services of a node's allocations.
fn registered_services(node: NodeRef<'_>, snapshot: &Snapshot) -> RegisteredServices {
    let registrations = node.allocs().flat_map(|alloc| snapshot.small_objects_of(alloc.id()));
    RegisteredServices {
        at: WorkIndex { history: snapshot.history(), index: snapshot.index() },
        digest: ServicesDigest::of(registrations),
    }
}

/// The answer to a node's registration or heartbeat.
fn status_answer(node: NodeRef<'_>, snapshot: &Snapshot, ttl: Nanos) -> NodeResponse {
    let server = node.server();
    let missed = server.last_missed_heartbeat_index;
    // This includes a node that was deleted and returns with its allocations. Its index is 0.
    let waits = server.status == NodeStatus::Initializing
        && (missed.is_set() || node.allocs().any(|alloc| !alloc.is_terminal()));
    NodeResponse {
        status: server.status,
        ttl_ms: u32::try_from(ttl.0 / Nanos::MILLISECOND.0).unwrap_or(u32::MAX),
        work_index: WorkIndex { history: snapshot.history(), index: node.work_index() },
        report_all: waits.then_some(missed),
        services: Some(registered_services(node, snapshot)),
    }
}

/// Reads a request's body. The request must arrive on a subject of the node that it names (see [`Subject`]).
pub(crate) async fn read<T: Wire>(request: Request, sender: impl Fn(&T) -> NodeId) -> Option<(Request, T)> {
    let (request, body) = request.read::<T>().await?;
    if Subject::node_of(request.subject()) == Some(sender(&body)) {
        return Some((request, body));
    }
    metrics::refused("another node's subject");
    let message = format!("a message of node {} arrived on {}", sender(&body), request.subject());
    tracing::warn!(subject = request.subject(), node.id = %sender(&body), "a node sent a message in the name of another");
    request.refuse(Refusal { kind: RefusalKind::Invalid, message: message.into() }).await;
    None
}

/// The status of a known node, after checking its secret and boot.
pub(crate) fn authenticate(
    snapshot: &Snapshot,
    id: NodeId,
    secret: &Secret,
    boot: Option<u32>,
) -> Result<NodeStatus, Refusal> {
    let node = snapshot.node(id).ok_or_else(unknown)?;
    if node.spec().secret_id != *secret {
        metrics::refused("secret");
        let message = "node secret ID does not match".into();
        return Err(Refusal { kind: RefusalKind::Conflict, message });
    }
    if boot.is_some_and(|boot| boot != node.spec().boot) {
        // The agent has restarted. It must register before anything else.
        metrics::refused("boot");
        return Err(unknown());
    }
    Ok(node.server().status)
}

/// Sends the answer, or the refusal, which is also logged.
pub(crate) async fn answer_or_refuse<T: Wire>(request: Request, answer: Result<T, Refusal>) {
    if let Err(refusal) = &answer {
        tracing::debug!(
            subject = request.subject(),
            reason = &*refusal.message,
            "refused a request of a node"
        );
    }
    request.answer_or_refuse(answer).await;
}
