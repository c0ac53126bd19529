//! The active applier's loop: messages and the database around [`Applier`], which decides.

use std::time::{Duration, Instant};

use bus::{Publisher, Request};
use model::{Index, TraceContext};
use state::State;
use store::{Error, Outcome, Tail, Writer};
use telemetry::{attribute, traces};
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};
use wire::Refusal;
use wire::command::{Answer, Command};
use wire::feed::Head;
use wire::refusal::RefusalKind;

use crate::applier::{Applier, Ended, Fate, Question, Received, Write};
use crate::batch::{Incoming, Reply};
use crate::garbage::Collection;
use crate::intake::{Ask, Intake};
use crate::keyring::Keyring;
use crate::projection::Projection;
use crate::span;
use crate::standby::Taken;
use crate::trimming::Trimming;
use crate::{Surroundings, measure};

/// How often the head is announced, and the lease renewed where nothing is committed. A lease that is shorter than a few
/// of these is renewed so many times before it ends.
const BEAT: Duration = Duration::from_secs(1);
const RENEWALS_PER_LEASE: u32 = 3;

/// Somebody who asked.
struct Sender {
    request: Request,
    /// What the asking is a part of.
    span: Span,
    /// When it asked.
    since: Instant,
}

/// Why the loop ends.
enum End {
    /// Another applier is active.
    Deposed,
    /// This process is to stop.
    Stopped,
}

struct Active<'a> {
    around: &'a Surroundings,
    publisher: Publisher,
    projection: std::sync::Arc<Projection>,
    trimming: Trimming,
    /// Garbage is collected for as long as this is.
    _collection: Collection,
    /// And keys are looked after.
    _keyring: Keyring,
    applier: Applier<Sender>,
    writing: Option<Writing>,
    /// When the database last confirmed the epoch.
    confirmed: Instant,
    /// The head is announced with the next write's end, which proves that this still is the applier.
    is_announcing: bool,
}

/// A write that is with the database.
struct Writing {
    begun: Instant,
    fate: JoinHandle<Result<Fate, Error>>,
    /// What the spans of its commands link to.
    link: Option<TraceContext>,
}

/// Applies commands until another applier is active or this one is to stop; or until the database turns out to be one that
/// nothing may be written to before an operator accepts it, which is answered.
///
/// # Errors
/// If NATS refuses to serve.
pub(crate) async fn run(around: &Surroundings, taken: Taken) -> anyhow::Result<Option<Error>> {
    let Taken { head, remembered } = taken;
    let snapshot = around.replica.snapshot();
    let mut applier = Applier::new(head, State::clone(&snapshot), remembered, telemetry::clock::monotonic());
    applier.bootstrap(around.bus.new_request_id(), telemetry::clock::now());
    let mut active = Active {
        around,
        publisher: Publisher::new(around.bus.clone()),
        projection: Projection::start(around, snapshot),
        trimming: Trimming::start(around),
        _collection: Collection::start(around).await?,
        _keyring: Keyring::start(around),
        applier,
        writing: None,
        confirmed: telemetry::clock::monotonic(),
        is_announcing: false,
    };
    let mut intake = Intake::open(&around.bus, head).await?;
    measure::active(head.epoch);
    let ended = active.serve(&mut intake).await;
    measure::standing_by(matches!(ended, Ok(End::Deposed)));
    drop(intake);
    active.projection.end();
    let sent_away = active.applier.send_everybody_away();
    say(sent_away).await;
    match ended {
        Ok(End::Deposed) => tracing::warn!(epoch = %head.epoch, "another applier is active"),
        Ok(End::Stopped) => tracing::info!(epoch = %head.epoch, "the applier stops"),
        Err(error) => return Ok(Some(error)),
    }
    Ok(None)
}

impl Active<'_> {
    async fn serve(&mut self, intake: &mut Intake) -> Result<End, Error> {
        let mut beat = tokio::time::interval(BEAT.min(self.around.writer.lease() / RENEWALS_PER_LEASE));
        loop {
            self.judge();
            if !self.applier.is_writing() && self.around.stop.is_cancelled() {
                return Ok(End::Stopped);
            }
            self.write();
            let pause = self.applier.poll_timeout();
            tokio::select! {
                fate = fate_of(&mut self.writing) => {
                    let (begun, fate, link) = fate?;
                    if let Some(end) = self.written(begun, fate, link).await {
                        return Ok(end);
                    }
                }
                ask = intake.next() => {
                    let mut next = ask;
                    while let Some(ask) = next {
                        self.ask(ask).await;
                        next = intake.try_next();
                    }
                }
                _ = beat.tick() => {
                    self.applier.renew();
                    self.is_announcing = true;
                }
                () = sleep_until(pause) => {}
                () = self.around.stop.cancelled(), if !self.applier.is_writing() => {}
            }
        }
    }

    /// Takes in something that was asked.
    async fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Command(request, command) => self.receive(request, command).await,
            Ask::Head(request) => self.question(Question::Head, request),
            Ask::Renew(request, renew) => self.question(Question::Renew(renew), request),
        }
    }

    fn question(&mut self, question: Question, request: Request) {
        let since = telemetry::clock::monotonic();
        let until = since + request.remaining();
        self.applier.ask(question, Sender { request, span: Span::none(), since }, until);
    }

    async fn receive(&mut self, request: Request, command: Command) {
        let id = request.id();
        let span = request.span();
        span.record(attribute::COMMAND, command.name());
        let trace = traces::trace_of(&span).or_else(|| request.trace());
        let bytes = request.payload().len();
        let since = telemetry::clock::monotonic();
        let until = since + request.remaining();
        let sender = Sender { request, span, since };
        self.applier.set_log_full(self.trimming.is_full());
        match self.applier.receive(Incoming { id, trace, command }, bytes, sender, until) {
            Received::Waits => {}
            Received::Committed(sender, index) => {
                measure::repeated();
                tokio::spawn(answer_from_log(self.around.clone(), index, sender.request));
            }
            Received::Turned(sender, reply) => say([(sender, reply)]).await,
        }
        measure::waiting(self.applier.waiting(), self.applier.waiting_plans());
    }

    fn judge(&mut self) {
        if !self.applier.has_to_judge() {
            return;
        }
        let (begun, wall) = (telemetry::clock::monotonic(), telemetry::clock::now());
        let has_plans = self.applier.waiting_plans() > 0;
        if self.applier.may_judge_long() {
            // This thread's other tasks go on elsewhere meanwhile; to have them do so costs more than to judge little.
            tokio::task::block_in_place(|| self.applier.judge(begun, wall));
        } else {
            self.applier.judge(begun, wall);
        }
        measure::judged(begun.elapsed(), has_plans);
        measure::waiting(self.applier.waiting(), self.applier.waiting_plans());
    }

    fn write(&mut self) {
        let begun = telemetry::clock::monotonic();
        if let Some(write) = self.applier.next_write(begun) {
            let (span, link) = span::commit(&write, self.applier.being_written());
            let fate = tokio::spawn(carry_out(self.around.writer.clone(), write, span));
            self.writing = Some(Writing { begun, fate, link });
        }
    }

    async fn written(&mut self, begun: Instant, fate: Fate, link: Option<TraceContext>) -> Option<End> {
        let now = telemetry::clock::monotonic();
        match self.applier.written(fate, now, telemetry::clock::now()) {
            Ended::Durable { rows, sets, after, said } => {
                measure::durable(&rows, now.duration_since(begun));
                measure::contact(now.duration_since(std::mem::replace(&mut self.confirmed, now)));
                if let Some(first) = rows.first().map(|row| row.index) {
                    self.projection.committed(&sets, &after);
                    self.around.replica.adopt(sets, after).expect("only the active applier moves this log");
                    let bytes: Vec<_> = rows.into_iter().map(|row| row.bytes).collect();
                    let history = self.applier.head(telemetry::clock::now()).history;
                    let publishing = telemetry::clock::monotonic();
                    if let Err(error) = self.publisher.publish(history, first, &bytes).await {
                        tracing::debug!(error = telemetry::chain(&error), "replicas read the log instead");
                    }
                    measure::published(publishing.elapsed());
                }
                if let Some(link) = &link {
                    said.iter().for_each(|(sender, _)| traces::link(&sender.span, link));
                }
                say(said).await;
                if std::mem::take(&mut self.is_announcing) {
                    self.announce().await;
                }
                None
            }
            Ended::Failed(said) => {
                say(said).await;
                None
            }
            Ended::Deposed => Some(End::Deposed),
        }
    }

    async fn announce(&self) {
        let head: Head = self.applier.head(telemetry::clock::now());
        if let Err(error) = self.publisher.announce(&head).await {
            tracing::debug!(error = telemetry::chain(&error), "the head is announced later");
        }
    }
}

async fn say(said: impl IntoIterator<Item = (Sender, Reply)>) {
    for (Sender { request, span, since }, reply) in said {
        measure::said(&reply, since.elapsed());
        span.in_scope(|| tracing::debug!(request.id = %request.id(), "answering"));
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

/// Waits for what is being written; for ever if that is nothing.
async fn fate_of(writing: &mut Option<Writing>) -> Result<(Instant, Fate, Option<TraceContext>), Error> {
    let Some(Writing { begun, fate, link }) = writing else { return std::future::pending().await };
    let ended = (*begun, fate.await.expect("writing neither panics nor is cancelled")?, *link);
    *writing = None;
    Ok(ended)
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Does a write, and says what became of it.
///
/// # Errors
/// If the database is one that nothing may be written to before an operator accepts it.
async fn carry_out(writer: Writer, write: Write, span: Span) -> Result<Fate, Error> {
    let ended = carry_out_once(&writer, write).instrument(span.clone()).await;
    if let Err(error) = &ended {
        span::failed(&span, error);
    }
    drop(span);
    let error = match ended {
        Ok(fate) => return Ok(fate),
        Err(Error::Deposed { .. } | Error::Moved { .. }) => return Ok(Fate::Deposed),
        Err(error) if error.needs_acceptance() => return Err(error),
        Err(error) => error,
    };
    if matches!(error, Error::Unknown { .. }) {
        tracing::warn!(error = telemetry::chain(&error), "the outcome of a write is unknown");
        measure::write_failed("unknown");
        return Ok(Fate::Unknown);
    }
    tracing::error!(error = telemetry::chain(&error), "cannot write");
    measure::write_failed("failed");
    Ok(Fate::Failed)
}

async fn carry_out_once(writer: &Writer, write: Write) -> Result<Fate, Error> {
    match write {
        Write::Commit(from, rows) => writer.commit(from, rows).await.map(|()| Fate::Done),
        Write::FindOut(from, rows) => match writer.resolve_commit(from, rows).await {
            Ok(Outcome::Committed) => Ok(Fate::Done),
            Ok(Outcome::NotCommitted) => Ok(Fate::Failed),
            // As little is known as before.
            Err(Error::Database { .. } | Error::NotPrimary) => Ok(Fate::Unknown),
            Err(error) => Err(error),
        },
        Write::Renew => writer.renew().await.map(|_| Fate::Done),
        Write::Confirm => writer.confirm().await.map(|_| Fate::Done),
    }
}

/// Answers a repeat with what the first one was told.
async fn answer_from_log(around: Surroundings, index: Index, request: Request) {
    let answer = async {
        let Tail::Page { rows, .. } = around.database.changes_after(Index(index.0 - 1), 1).await? else {
            return Ok(None);
        };
        rows.first().map(store::LogRow::change_set).transpose()
    };
    let answer: Result<_, Error> = answer.await;
    let result = match answer {
        Ok(Some(set)) if set.index == index => {
            wire::decode::<Answer>(<Answer as wire::Wire>::KIND, <Answer as wire::Wire>::VERSION, &set.result)
        }
        Ok(_) => {
            let message = "the request was carried out, but its answer is not kept any more".into();
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
            let message = "the request was carried out, but its answer is unreadable".into();
            request.refuse(Refusal { kind: RefusalKind::OutcomeUnknown, message }).await;
        }
    }
}
