//! Commands that carry what many nodes say: while one is on its way, and for a moment after it went out, the next one is
//! gathered (N-7.6).

use std::collections::HashSet;
use std::time::Duration;

use bus::{Bus, CommandError};
use model::{Epoch, Index, NodeId};
use telemetry::attribute;
use telemetry::traces::{self, Joined};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};
use wire::command::{Command, Done, NodeReport, NodeSign, ReportAllocs, UpdateNodes};
use wire::{Refusal, RefusalKind};

use crate::measure;
use crate::serve::unavailable;

/// How long a command is repeated; agents ask again after that.
const COMMAND_WITHIN: Duration = Duration::from_secs(20);
/// How many nodes wait to be gathered; the requests of more wait themselves.
const WAITING: usize = 4096;
/// The most nodes in one command.
const NODES_MAX: usize = 4096;
/// About how many bytes of reports go into one command; larger ones would hold up all others.
const BYTES: usize = 1 << 20;
/// The commands of one kind go out so far apart, unless they are full (N-7.6): from the first where little is said, to the
/// second where [`MUCH`] is. A job's allocations report within a moment of each other, and what is said of a job at once costs
/// little more than what is said of one of its allocations.
const PACE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));
/// How many bytes of reports in one command are much: those of a few hundred allocations.
const MUCH: usize = 128 << 10;

/// The index at which what a node said was taken, or why it was not: [`RefusalKind::NotReady`] where the command was
/// carried out without this node's part.
pub(crate) type Told = Result<Index, Refusal>;

/// Takes what nodes say.
#[derive(Debug, Clone)]
pub(crate) struct Gather {
    heard: mpsc::Sender<Saying<()>>,
    reports: mpsc::Sender<Saying<NodeReport>>,
}

/// What a node says, and who waits for what comes of it.
#[derive(Debug)]
struct Saying<T> {
    node: NodeId,
    said: T,
    bytes: usize,
    /// Of the work on the message in which it was said.
    span: Span,
    reply: oneshot::Sender<Told>,
}

impl Gather {
    /// Begins to send commands, from tasks that belong to `tasks`.
    pub(crate) fn start(bus: &Bus, epoch: Epoch, tasks: &mut JoinSet<()>) -> Self {
        let (heard, to_hear) = mpsc::channel(WAITING);
        let (reports, to_report) = mpsc::channel(WAITING);
        tasks.spawn(send(to_hear, bus.clone(), "gather nodes", move |said: Vec<(NodeId, ())>| {
            let nodes = said.into_iter().map(|(node, ())| node).collect();
            Command::UpdateNodes(UpdateNodes { epoch, sign: NodeSign::Heard, nodes, event: None })
        }));
        tasks.spawn(send(
            to_report,
            bus.clone(),
            "gather reports",
            move |said: Vec<(NodeId, NodeReport)>| {
                measure::gathered(said.len());
                let reports = said.into_iter().map(|(_, report)| report).collect();
                Command::ReportAllocs(ReportAllocs { epoch, reports })
            },
        ));
        Self { heard, reports }
    }

    /// A node that is not ready was heard of.
    pub(crate) async fn heard(&self, node: NodeId) -> Told {
        say(&self.heard, node, (), 0).await
    }

    /// A node reported; `bytes` is about the size of it.
    pub(crate) async fn reported(&self, report: NodeReport, bytes: usize) -> Told {
        say(&self.reports, report.node, report, bytes).await
    }
}

async fn say<T>(sender: &mpsc::Sender<Saying<T>>, node: NodeId, said: T, bytes: usize) -> Told {
    let (reply, told) = oneshot::channel();
    if sender.send(Saying { node, said, bytes, span: Span::current(), reply }).await.is_err() {
        return Err(gone());
    }
    told.await.unwrap_or_else(|_| Err(gone()))
}

/// How long after a command with so many bytes of reports the next one goes out.
fn pace(bytes: usize) -> Duration {
    let (shortest, longest) = PACE;
    shortest + (longest - shortest).mul_f64(bytes.min(MUCH) as f64 / MUCH as f64)
}

fn gone() -> Refusal {
    let message = "another node-tracker is active".into();
    Refusal { kind: RefusalKind::Deposed, message }
}

/// Sends one command after the other, each with all that was said while the one before was on its way.
async fn send<T>(
    mut sayings: mpsc::Receiver<Saying<T>>,
    bus: Bus,
    name: &'static str,
    command: impl Fn(Vec<(NodeId, T)>) -> Command,
) {
    let mut next_at = Instant::now();
    while let Some(first) = sayings.recv().await {
        let mut bytes = first.bytes;
        let mut gathered = vec![first];
        while gathered.len() < NODES_MAX && bytes < BYTES {
            // What has been said by then comes along, also where that moment is past.
            let Ok(Some(next)) = timeout_at(next_at, sayings.recv()).await else { break };
            bytes += next.bytes;
            gathered.push(next);
        }
        next_at = Instant::now() + pace(bytes);
        let spans: Vec<Span> =
            gathered.iter_mut().map(|one| std::mem::replace(&mut one.span, Span::none())).collect();
        let (said, replies): (Vec<_>, Vec<_>) =
            gathered.into_iter().map(|one| ((one.node, one.said), (one.node, one.reply))).unzip();
        let span = span(name, &spans);
        let answer = bus.command(&command(said), COMMAND_WITHIN).instrument(span).await;
        if let Err(error) = &answer {
            tracing::warn!(error = telemetry::chain(error), "what nodes said is not written down");
        }
        let (told, refused) = told(answer);
        for (node, reply) in replies {
            let told = if refused.contains(&node) { Err(not_ready()) } else { told.clone() };
            // Fails where the node does not wait any more; it will say it again.
            let _ = reply.send(told);
        }
    }
}

/// The span of a command for all that was said in messages that are traced; disabled if none is.
fn span(name: &'static str, said: &[Span]) -> Span {
    let traced: Vec<&Span> = said.iter().filter(|span| !span.is_disabled()).collect();
    if traced.is_empty() {
        return Span::none();
    }
    let span = tracing::info_span!(
        parent: None,
        "gather",
        otel.name = name,
        { attribute::MESSAGING_BATCH_MESSAGE_COUNT } = said.len().cast_signed() as i64,
    );
    let joined = traces::join(&span, traced.iter().filter_map(|span| traces::trace_of(span)));
    if let (Joined::Root, Some(batch)) = (joined, traces::trace_of(&span)) {
        traced.iter().for_each(|span| traces::link(span, &batch));
    }
    span
}

/// What all nodes of a command are told, but for those that are refused.
fn told(answer: Result<Done, CommandError>) -> (Told, HashSet<NodeId>) {
    let refusal = match answer {
        Ok(done) => return (Ok(done.index), done.refused_nodes.into_iter().collect()),
        Err(CommandError::Refused(refusal)) => refusal,
        Err(error) => unavailable(telemetry::chain(&error)),
    };
    (Err(refusal), HashSet::new())
}

fn not_ready() -> Refusal {
    Refusal { kind: RefusalKind::NotReady, message: "the node must be heard of first".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_said_the_longer_is_gathered() {
        let millis = |bytes| pace(bytes).as_millis();
        assert_eq!([0, MUCH / 2, MUCH, BYTES].map(millis), [50, 125, 200, 200]);
    }
}
