//! Batches reports and signs of life of many nodes into commands. While a command is in flight, and for an interval after
//! it was sent, the next batch is collected (N-7.6).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use model::{AllocId, Epoch, Index, NodeId};
use telemetry::repeats::{Outage, Repeats};
use telemetry::traces::{self, Joined};
use telemetry::{attribute, clock};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};
use wire::command::{
    Command, CommandError, Done, NodeLiveness, NodeReport, NodeServices, ReportAllocs, UpdateNodes,
    UpdateServices,
};
use wire::{Refusal, RefusalKind};

use crate::metrics;
use crate::refusals::unavailable;

/// How long a command is retried. After that agents repeat their requests.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// The capacity of each queue. Requests wait while their queue is full.
const QUEUE_CAPACITY: usize = 4096;
/// The maximum number of nodes in one command.
const NODES_MAX: usize = 4096;
/// The approximate maximum size of the reports in one command, in bytes. A larger command would delay all others.
const BATCH_BYTES: usize = 1 << 20;
/// The minimum interval between commands of one kind that are not full (N-7.6). It grows with the size of the previous
/// command, from the first value up to the second at [`LARGE_BATCH_BYTES`]. The allocations of a job report at almost the
/// same time, and a command with reports of many of them costs little more than one with a single report.
const INTERVAL_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));
/// The size of the reports in a large command, in bytes: those of a few hundred allocations.
const LARGE_BATCH_BYTES: usize = 128 << 10;

/// The commit of a node's message, or the reason why it was not committed. It is [`RefusalKind::NotReady`] if the command was
/// committed without this node's part.
pub(crate) type Outcome = Result<Committed, Refusal>;

/// The commit of a command with messages of nodes.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    /// Its index.
    pub(crate) index: Index,
    /// The allocations, of any node, whose part was refused.
    pub(crate) refused_allocs: Arc<[AllocId]>,
}

/// Queues messages of nodes and waits for the outcome of their commands.
#[derive(Debug, Clone)]
pub(crate) struct Batcher {
    heartbeats: mpsc::Sender<Queued<()>>,
    reports: mpsc::Sender<Queued<NodeReport>>,
    services: mpsc::Sender<Queued<NodeServices>>,
}

/// A message of a node that waits for its command.
#[derive(Debug)]
struct Queued<T> {
    node: NodeId,
    body: T,
    bytes: usize,
    /// The span in which the message was received.
    span: Span,
    reply: oneshot::Sender<Outcome>,
}

impl Batcher {
    /// Spawns the tasks that send commands into `tasks`.
    pub(crate) fn start(bus: &Bus, epoch: Epoch, tasks: &mut JoinSet<()>) -> Self {
        let (heartbeats, heartbeat_receiver) = mpsc::channel(QUEUE_CAPACITY);
        let (reports, report_receiver) = mpsc::channel(QUEUE_CAPACITY);
        let (services, service_receiver) = mpsc::channel(QUEUE_CAPACITY);
        tasks.spawn(send_batches(
            heartbeat_receiver,
            bus.clone(),
            "gather nodes",
            move |messages: Vec<(NodeId, ())>| {
                let nodes = messages.into_iter().map(|(node, ())| node).collect();
                Command::UpdateNodes(UpdateNodes { epoch, sign: NodeLiveness::Alive, nodes })
            },
        ));
        tasks.spawn(send_batches(
            report_receiver,
            bus.clone(),
            "gather reports",
            move |messages: Vec<(NodeId, NodeReport)>| {
                metrics::report_batch(messages.len());
                let reports = messages.into_iter().map(|(_, report)| report).collect();
                Command::ReportAllocs(ReportAllocs { epoch, reports })
            },
        ));
        tasks.spawn(send_batches(
            service_receiver,
            bus.clone(),
            "gather services",
            move |messages: Vec<(NodeId, NodeServices)>| {
                let nodes = messages.into_iter().map(|(_, services)| services).collect();
                Command::UpdateServices(UpdateServices { epoch, nodes })
            },
        ));
        Self { heartbeats, reports, services }
    }

    /// Submits a heartbeat of a node that is not ready.
    pub(crate) async fn heartbeat(&self, node: NodeId) -> Outcome {
        submit(&self.heartbeats, node, (), 0).await
    }

    /// Submits a node's report, of approximately `bytes` bytes.
    pub(crate) async fn report(&self, report: NodeReport, bytes: usize) -> Outcome {
        submit(&self.reports, report.node, report, bytes).await
    }

    /// Submits the services of a node's allocations, of approximately `bytes` bytes.
    pub(crate) async fn services(&self, services: NodeServices, bytes: usize) -> Outcome {
        submit(&self.services, services.node, services, bytes).await
    }
}

async fn submit<T>(sender: &mpsc::Sender<Queued<T>>, node: NodeId, body: T, bytes: usize) -> Outcome {
    let (reply, outcome) = oneshot::channel();
    if sender.send(Queued { node, body, bytes, span: Span::current(), reply }).await.is_err() {
        return Err(deposed());
    }
    outcome.await.unwrap_or_else(|_| Err(deposed()))
}

/// The interval after a command with `bytes` bytes of reports.
fn interval_after(bytes: usize) -> Duration {
    let (shortest, longest) = INTERVAL_RANGE;
    shortest + (longest - shortest).mul_f64(bytes.min(LARGE_BATCH_BYTES) as f64 / LARGE_BATCH_BYTES as f64)
}

fn deposed() -> Refusal {
    let message = "another node-tracker is active".into();
    Refusal { kind: RefusalKind::Deposed, message }
}

/// Sends one command after the other. Each carries the messages that were queued since the one before was sent.
async fn send_batches<T>(
    mut queue: mpsc::Receiver<Queued<T>>,
    bus: Bus,
    name: &'static str,
    command: impl Fn(Vec<(NodeId, T)>) -> Command,
) {
    let mut send_at = Instant::now();
    let outage = Outage::default();
    while let Some(first) = queue.recv().await {
        let mut bytes = first.bytes;
        let mut batch = vec![first];
        while batch.len() < NODES_MAX && bytes < BATCH_BYTES {
            // Queued messages are taken even if that time has passed.
            let Ok(Some(next)) = timeout_at(send_at, queue.recv()).await else { break };
            bytes += next.bytes;
            batch.push(next);
        }
        send_at = Instant::now() + interval_after(bytes);
        let spans: Vec<Span> =
            batch.iter_mut().map(|one| std::mem::replace(&mut one.span, Span::none())).collect();
        let (messages, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|one| ((one.node, one.body), (one.node, one.reply))).unzip();
        let span = span(name, &spans);
        let answer = bus.command(&command(messages), COMMAND_TIMEOUT).instrument(span).await;
        log_outcome(&outage, &answer);
        let (outcome, refused) = outcome_of(answer);
        for (node, reply) in replies {
            let outcome = if refused.contains(&node) { Err(not_ready()) } else { outcome.clone() };
            // Fails if the node has stopped waiting. The node repeats its message.
            let _ = reply.send(outcome);
        }
    }
}

fn log_outcome(outage: &Outage, answer: &Result<Done, CommandError>) {
    match answer {
        Ok(_) => {
            if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                tracing::info!(attempts, lasting_secs, "node messages are committed again");
            }
        }
        Err(error) => {
            let error = telemetry::chain(error);
            if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, clock::monotonic()) {
                tracing::warn!(error, attempts, lasting_secs, "cannot commit a batch of node messages");
            }
        }
    }
}

/// The span of a command. It is disabled if none of its messages has a trace.
fn span(name: &'static str, spans: &[Span]) -> Span {
    let traced: Vec<&Span> = spans.iter().filter(|span| !span.is_disabled()).collect();
    if traced.is_empty() {
        return Span::none();
    }
    let span = tracing::info_span!(
        parent: None,
        "gather",
        otel.name = name,
        { attribute::MESSAGING_BATCH_MESSAGE_COUNT } = spans.len().cast_signed() as i64,
    );
    let joined = traces::join(&span, traced.iter().filter_map(|span| traces::trace_of(span)));
    if let (Joined::Root, Some(batch)) = (joined, traces::trace_of(&span)) {
        traced.iter().for_each(|span| traces::link(span, &batch));
    }
    span
}

/// The outcome for the nodes of a command, and the nodes that the applier refused.
fn outcome_of(answer: Result<Done, CommandError>) -> (Outcome, HashSet<NodeId>) {
    let refusal = match answer {
        Ok(done) => {
            let refused_allocs = done.refused_allocs.into();
            let committed = Committed { index: done.index, refused_allocs };
            return (Ok(committed), done.refused_nodes.into_iter().collect());
        }
        Err(CommandError::Refused(refusal)) => refusal,
        Err(error) => unavailable(telemetry::chain(&error)),
    };
    (Err(refusal), HashSet::new())
}

fn not_ready() -> Refusal {
    Refusal { kind: RefusalKind::NotReady, message: "the node must send a heartbeat first".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_grows_with_the_number_of_reports() {
        let millis = |bytes| interval_after(bytes).as_millis();
        assert_eq!(
            [0, LARGE_BATCH_BYTES / 2, LARGE_BATCH_BYTES, BATCH_BYTES].map(millis),
            [50, 125, 200, 200]
        );
    }
}
