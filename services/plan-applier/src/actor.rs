//! The actor of the active applier: the loop that connects the core, [`Applier`], with messages and the database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Commit, DatabaseMatch, Publisher, Request};
use model::change::{Change, ChangeSet};
use model::{Epoch, Index, NodeId, Timestamp, TraceContext};
use state::State;
use store::{Error, Outcome, Tail, Writer};
use telemetry::metrics::catalogue::APPLIER;
use telemetry::repeats::{Outage, Repeats};
use telemetry::{attribute, clock, traces};
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};
use wire::Refusal;
use wire::command::{Answer, Command, MarkRejectedNode};
use wire::feed::Head;
use wire::refusal::RefusalKind;

use crate::batch::{Incoming, Reply};
use crate::core::{Applier, Completion, Query, Received, Write, WriteOutcome};
use crate::garbage::Collection;
use crate::intake::{DECODED_AHEAD_MAX, Intake, IntakeRequest};
use crate::keyring::Keyring;
use crate::projection::Projection;
use crate::rejections::Rejections;
use crate::span;
use crate::standby::Takeover;
use crate::timekeeper::Timekeeper;
use crate::trimming::Trimming;
use crate::{Context, lost_writes, metrics};

/// How often the head is announced, and the lease renewed if nothing is committed. A lease shorter than a few of these
/// intervals is renewed more often.
const TICK: Duration = Duration::from_secs(1);
const RENEWALS_PER_LEASE: u32 = 3;
/// How long the command that marks a rejected node is retried.
const MARK_TIMEOUT: Duration = Duration::from_secs(30);

/// The sender of a request.
struct Requester {
    request: Request,
    /// The span of the request.
    span: Span,
    /// When the request arrived.
    since: Instant,
}

/// Why the loop ended.
enum Exit {
    /// Another applier is active.
    Deposed,
    /// Another applier is active that writes another database.
    OtherDatabase,
    /// This process is to stop.
    Stopped,
}

impl Exit {
    /// Why this process is no longer active.
    fn reason(&self) -> &'static str {
        match self {
            Self::Deposed => "another applier is active",
            Self::OtherDatabase => "an applier of another database is active",
            Self::Stopped => "the applier stops",
        }
    }
}

struct Active<'a> {
    context: &'a Context,
    publisher: Publisher,
    projection: Arc<Projection>,
    trimming: Trimming,
    /// Collects garbage until it is dropped.
    _collection: Collection,
    /// Creates a signing key until it is dropped.
    _keyring: Keyring,
    applier: Applier<Requester>,
    epoch: Epoch,
    time: Timekeeper,
    writing: Option<Writing>,
    /// Limits the lines about writes that fail.
    outage: Arc<Outage>,
    /// When the database last confirmed the epoch.
    confirmed: Instant,
    /// Whether to announce the head when the next write completes, which proves that this process is still the applier.
    is_announcing: bool,
    /// Whether an applier of another database is active, so that this one has to stop.
    is_disputed: bool,
    /// Rejections of nodes in plans, if they are tracked.
    rejections: Option<Rejections>,
}

/// A write that was passed to the database.
struct Writing {
    begun: Instant,
    outcome: JoinHandle<Result<WriteOutcome, Error>>,
    /// The context that the spans of its commands link to.
    link: Option<TraceContext>,
}

/// Applies commands until another applier is active or this one is to stop. Returns an error if the database turns out to
/// be one that may not be written to before an operator accepts it.
///
/// # Errors
/// If a subscription to NATS fails.
pub(crate) async fn run(context: &Context, takeover: Takeover) -> anyhow::Result<Option<Error>> {
    let Takeover { head, request_log, time } = takeover;
    let snapshot = context.replica.snapshot();
    let applier = Applier::new(head, State::clone(&snapshot), request_log, telemetry::clock::monotonic());
    let mut applier = applier.with_settings(context.garbage.judging());
    applier.bootstrap(context.bus.new_request_id(), time.now());
    let mut active = Active {
        context,
        publisher: Publisher::new(context.bus.clone(), context.database.address()),
        projection: Projection::start(context, snapshot),
        trimming: Trimming::start(context, time.clone()),
        _collection: Collection::start(context, time.clone()).await?,
        _keyring: Keyring::start(context),
        applier,
        epoch: head.epoch,
        time,
        writing: None,
        outage: Arc::default(),
        confirmed: telemetry::clock::monotonic(),
        is_announcing: false,
        is_disputed: false,
        rejections: context
            .garbage
            .rejections()
            .map(|threshold| Rejections::new(threshold, clock::monotonic())),
    };
    let mut intake = Intake::open(&context.bus, head).await?;
    metrics::became_active(head.epoch);
    active.record_lease(active.confirmed);
    let ended = active.serve(&mut intake).await;
    metrics::no_longer_active(matches!(ended, Ok(Exit::Deposed | Exit::OtherDatabase)));
    let reason = ended.as_ref().map_or_else(|error| telemetry::chain(error), |exit| exit.reason().to_owned());
    context.bus.leases().lost(APPLIER, telemetry::clock::monotonic(), &reason);
    drop(intake);
    active.projection.end();
    let rejected = active.applier.reject_all();
    send_replies(rejected).await;
    match ended {
        Ok(Exit::Deposed) => tracing::warn!(epoch = %head.epoch, "another applier is active"),
        Ok(Exit::OtherDatabase) => {
            tracing::error!(epoch = %head.epoch, "an applier of another database is active: nothing is written");
        }
        Ok(Exit::Stopped) => tracing::info!(epoch = %head.epoch, "the applier stops"),
        Err(error) => return Ok(Some(error)),
    }
    Ok(None)
}

impl Active<'_> {
    async fn serve(&mut self, intake: &mut Intake) -> Result<Exit, Error> {
        let mut tick = tokio::time::interval(TICK.min(self.context.writer.lease() / RENEWALS_PER_LEASE));
        loop {
            self.judge();
            if !self.applier.is_writing() {
                if self.context.stop.is_cancelled() {
                    return Ok(Exit::Stopped);
                }
                if self.is_disputed {
                    return Ok(Exit::OtherDatabase);
                }
            }
            self.write();
            let wake_at = self.applier.poll_timeout();
            tokio::select! {
                completed = write_completed(&mut self.writing) => {
                    let (begun, outcome, link) = completed?;
                    if let Some(exit) = self.written(begun, outcome, link).await? {
                        return Ok(exit);
                    }
                }
                request = intake.next() => {
                    let mut next = request;
                    let mut more = DECODED_AHEAD_MAX;
                    while let Some(request) = next {
                        self.handle(request).await;
                        more -= 1;
                        // However many there are, what was received is judged and written.
                        next = if more > 0 { intake.try_next() } else { None };
                    }
                }
                _ = tick.tick() => {
                    self.applier.renew();
                    self.is_announcing = true;
                    self.is_disputed =
                        matches!(self.context.bus.contact().database(), DatabaseMatch::Other(_));
                }
                () = sleep_until(wake_at) => {}
                () = self.context.stop.cancelled(), if !self.applier.is_writing() => {}
            }
        }
    }

    /// Handles a request.
    async fn handle(&mut self, request: IntakeRequest) {
        match request {
            IntakeRequest::Command(request, command) => self.receive(request, command).await,
            IntakeRequest::Head(request) => self.query(Query::Head, request).await,
            IntakeRequest::Renew(request, renew) => self.query(Query::Renew(renew), request).await,
            IntakeRequest::Lost(lost) => self.applier.report_loss(lost),
        }
    }

    async fn query(&mut self, query: Query, request: Request) {
        let since = telemetry::clock::monotonic();
        let until = since + request.remaining();
        send_replies(self.applier.ask(query, Requester { request, span: Span::none(), since }, until)).await;
    }

    async fn receive(&mut self, mut request: Request, command: Command) {
        let id = request.id();
        let span = request.span();
        span.record(attribute::COMMAND, command.name());
        let trace = traces::trace_of(&span).or_else(|| request.trace());
        let bytes = request.payload().len();
        // The queue of commands has its own limit.
        request.discard_payload();
        let since = telemetry::clock::monotonic();
        let until = since + request.remaining();
        let requester = Requester { request, span, since };
        self.applier.set_log_full(self.trimming.is_full());
        match self.applier.receive(Incoming { id, trace, command }, bytes, requester, until) {
            Received::Waits => {}
            Received::Committed(requester, index) => {
                metrics::repeated();
                tokio::spawn(answer_from_log(self.context.clone(), index, requester.request));
            }
            Received::Rejected(requester, reply) => send_replies([(requester, reply)]).await,
        }
        metrics::waiting(self.applier.waiting(), self.applier.waiting_plans());
    }

    fn judge(&mut self) {
        if !self.applier.has_to_judge() {
            return;
        }
        let (begun, time) = (telemetry::clock::monotonic(), self.time.now());
        let has_plans = self.applier.waiting_plans() > 0;
        if self.applier.may_be_slow() {
            // Moves this thread's other tasks to other threads. For short judging, moving them would cost more than it
            // saves.
            tokio::task::block_in_place(|| self.applier.judge(begun, time));
        } else {
            self.applier.judge(begun, time);
        }
        metrics::judged(begun.elapsed(), has_plans);
        metrics::waiting(self.applier.waiting(), self.applier.waiting_plans());
    }

    fn write(&mut self) {
        let begun = telemetry::clock::monotonic();
        if let Some(write) = self.applier.next_write(begun) {
            let (span, link) = span::commit(&write, self.applier.being_written());
            let (writer, outage) = (self.context.writer.clone(), Arc::clone(&self.outage));
            let outcome = tokio::spawn(perform(writer, write, self.time.clone(), span, outage));
            self.writing = Some(Writing { begun, outcome, link });
        }
    }

    async fn written(
        &mut self,
        begun: Instant,
        outcome: WriteOutcome,
        link: Option<TraceContext>,
    ) -> Result<Option<Exit>, Error> {
        let now = telemetry::clock::monotonic();
        match self.applier.written(outcome, now, self.time.now()) {
            Completion::Durable { previous, rows, sets, after, answers } => {
                metrics::write_succeeded(&rows, now.duration_since(begun));
                metrics::epoch_confirmed(now.duration_since(std::mem::replace(&mut self.confirmed, now)));
                self.record_lease(begun);
                // The holder of a lease needs the cluster's time at once.
                self.is_announcing |= sets.iter().any(|set| grants_lease(set));
                if let Some(first) = rows.first().map(|row| row.index) {
                    self.projection.committed(&sets, &after);
                    let encoded: Vec<_> = rows.into_iter().map(|row| row.bytes).collect();
                    let bytes = encoded.iter().map(|set| set.len()).sum();
                    self.context
                        .replica
                        .adopt(sets, after, bytes)
                        .expect("only the active applier appends to the log");
                    let head = self.applier.head(self.time.now());
                    let publishing = telemetry::clock::monotonic();
                    let (history, by) = (head.history, head.committer());
                    let commit = Commit { history, by, previous, first, sets: &encoded };
                    if let Err(error) = self.publisher.publish(commit).await {
                        tracing::debug!(
                            error = telemetry::chain(&error),
                            "cannot publish change sets: replicas read the log"
                        );
                    }
                    metrics::published(publishing.elapsed());
                }
                if let Some(link) = &link {
                    answers.iter().for_each(|(requester, _)| traces::link(&requester.span, link));
                }
                self.track_rejections(answers.iter().map(|(_, reply)| reply));
                send_replies(answers).await;
                if std::mem::take(&mut self.is_announcing) {
                    self.announce().await;
                }
                Ok(None)
            }
            Completion::Failed(answers) => {
                send_replies(answers).await;
                Ok(None)
            }
            Completion::Deposed => Ok(Some(Exit::Deposed)),
            Completion::Lacks(lost) => Err(lost_writes::error(&lost, &self.applier.head(self.time.now()))),
        }
    }

    /// Records the nodes that were rejected in plans. Those that are rejected too often are marked by a command.
    fn track_rejections<'r>(&mut self, replies: impl Iterator<Item = &'r Reply>) {
        let Some(rejections) = &mut self.rejections else { return };
        let now = clock::monotonic();
        for reply in replies {
            let Reply::Answer(Answer::Done(done)) = reply else { continue };
            for node in done.plan.iter().flat_map(|plan| &plan.rejected_nodes) {
                let score = rejections.record(*node, now);
                metrics::node_rejected(*node, score.rejections);
                if score.is_reported {
                    tokio::spawn(mark_rejected(self.context.clone(), *node));
                }
            }
        }
    }

    /// Records that the lease was renewed by a write that began at this time.
    fn record_lease(&self, begun: Instant) {
        let Context { bus, writer, .. } = self.context;
        bus.leases().held(APPLIER, self.epoch, begun + writer.lease());
    }

    async fn announce(&self) {
        let head: Head = self.applier.head(self.time.now());
        if let Err(error) = self.publisher.announce(&head).await {
            tracing::debug!(error = telemetry::chain(&error), "cannot announce the head");
        }
    }
}

/// Marks a node that is rejected in plans again and again as ineligible.
async fn mark_rejected(context: Context, node: NodeId) {
    let command = Command::MarkRejectedNode(MarkRejectedNode { node });
    match context.bus.command(&command, MARK_TIMEOUT).await {
        Ok(_) => tracing::warn!(node.id = %node, "marked a node as ineligible: plans are rejected on it"),
        Err(error) => tracing::warn!(
            node.id = %node, error = telemetry::chain(&error),
            "cannot mark a node on which plans are rejected as ineligible"
        ),
    }
}

async fn send_replies(replies: impl IntoIterator<Item = (Requester, Reply)>) {
    for (Requester { request, span, since }, reply) in replies {
        metrics::replied(&reply, since.elapsed());
        let log = || tracing::debug!(request.id = %request.id(), "answering");
        match request.trace() {
            Some(trace) if span.is_disabled() => traces::in_trace(&trace, log),
            Some(_) | None => span.in_scope(log),
        }
        match reply {
            Reply::Answer(answer) => {
                match &answer {
                    Answer::Done(done) => drop(span.record(attribute::INDEX, done.index.0.cast_signed())),
                    Answer::Retry { reason } => traces::fail(&span, "retry", reason),
                }
                request.answer(&answer).await;
            }
            Reply::Refuse(refusal) => request.refuse(refusal).instrument(span).await,
            Reply::Head(head) => request.answer(&head).await,
        }
    }
}

/// Waits for the write in progress; forever if there is none.
async fn write_completed(
    writing: &mut Option<Writing>,
) -> Result<(Instant, WriteOutcome, Option<TraceContext>), Error> {
    let Some(Writing { begun, outcome, link }) = writing else { return std::future::pending().await };
    let completed = (*begun, outcome.await.expect("the write task neither panics nor is cancelled")?, *link);
    *writing = None;
    Ok(completed)
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

fn grants_lease(set: &ChangeSet) -> bool {
    set.changes.iter().any(|change| matches!(change, Change::Lease(_)))
}

/// Performs a write and returns its outcome. Passes the database's time to `time`.
///
/// # Errors
/// If the database may not be written to before an operator accepts it.
async fn perform(
    writer: Writer,
    write: Write,
    time: Timekeeper,
    span: Span,
    outage: Arc<Outage>,
) -> Result<WriteOutcome, Error> {
    let begun = clock::monotonic();
    let result = perform_once(&writer, write).instrument(span.clone()).await;
    if let Ok((_, Some(now))) = result {
        time.observe(now, begun, clock::monotonic());
    }
    let result = result.map(|(outcome, _)| outcome);
    if let Err(error) = &result {
        span::failed(&span, error);
    }
    drop(span);
    let error = match result {
        Ok(WriteOutcome::Unknown) => return Ok(WriteOutcome::Unknown),
        Ok(outcome) => {
            if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                tracing::info!(attempts, lasting_secs, "the database can be written to again");
            }
            return Ok(outcome);
        }
        Err(Error::Deposed { .. } | Error::Moved { .. }) => return Ok(WriteOutcome::Deposed),
        Err(error) if error.needs_acceptance() => return Err(error),
        Err(error) => error,
    };
    let text = telemetry::chain(&error);
    let repeats = outage.failed(&text, clock::monotonic());
    if error.is_unknown() {
        if let Some(Repeats { attempts, lasting_secs, .. }) = repeats {
            tracing::warn!(error = text, attempts, lasting_secs, "the outcome of a write is unknown");
        }
        metrics::write_failed("unknown");
        return Ok(WriteOutcome::Unknown);
    }
    if let Some(Repeats { attempts, lasting_secs, .. }) = repeats {
        tracing::error!(error = text, attempts, lasting_secs, "cannot write to the database");
    }
    metrics::write_failed("failed");
    Ok(WriteOutcome::Failed)
}

/// Performs a write. Returns its outcome, and the database's time if the write succeeded.
async fn perform_once(writer: &Writer, write: Write) -> Result<(WriteOutcome, Option<Timestamp>), Error> {
    let done = |now| (WriteOutcome::Done, Some(now));
    match write {
        Write::Commit(from, rows) => writer.commit(from, rows).await.map(done),
        Write::ResolveCommit(from, rows) => match writer.resolve_commit(from, rows).await {
            Ok(Outcome::Committed) => Ok((WriteOutcome::Done, None)),
            Ok(Outcome::NotCommitted) => Ok((WriteOutcome::Failed, None)),
            Err(error) if matches!(error, Error::Deposed { .. }) || error.needs_acceptance() => Err(error),
            // The outcome is as unknown as before, whatever kept the writer from finding out.
            Err(_) => Ok((WriteOutcome::Unknown, None)),
        },
        Write::Renew => writer.renew().await.map(|confirmed| done(confirmed.now)),
        Write::Confirm => writer.confirm().await.map(|confirmed| done(confirmed.now)),
    }
}

/// Answers a repeated command with the answer to the first one.
async fn answer_from_log(context: Context, index: Index, request: Request) {
    let answer = async {
        let Tail::Page { rows, .. } = context.database.changes_after(Index(index.0 - 1), 1).await? else {
            return Ok(None);
        };
        Ok(rows.first().map(wire::LogRow::change_set).transpose()?)
    };
    let answer: Result<_, Error> = answer.await;
    let result = match answer {
        Ok(Some(set)) if set.index == index => {
            wire::decode::<Answer>(<Answer as wire::Wire>::KIND, <Answer as wire::Wire>::VERSION, &set.result)
        }
        Ok(_) => {
            let message = "the request was carried out, but its answer is no longer in the log".into();
            return request.refuse(Refusal { kind: RefusalKind::OutcomeUnknown, message }).await;
        }
        Err(error) => {
            let reason = format!("cannot look up the answer: {}", telemetry::chain(&error)).into();
            return request.answer(&Answer::Retry { reason }).await;
        }
    };
    match result {
        Ok(answer) => request.answer(&answer).await,
        Err(error) => {
            tracing::error!(error = telemetry::chain(&error), %index, "unreadable answer in the log");
            let message = "the request was carried out, but its answer in the log is unreadable".into();
            request.refuse(Refusal { kind: RefusalKind::OutcomeUnknown, message }).await;
        }
    }
}
