//! The loop of the active applier: while one batch commits, the next is judged on the overlay (design §§4 to 6).
//!
//! Nothing is answered before what it was judged on is durable: results with their commit, refusals and questions with
//! the commit, or the check of the epoch, that begins after them. A failed commit drops the overlay and all that was
//! judged on it; whoever asked is told to ask again, which is safe, because ids are remembered.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bus::{Publisher, Request};
use model::{Index, RequestId};
use state::State;
use store::{Error, Outcome, Tail, Writer};
use tokio::task::JoinHandle;
use tracing::Span;
use wire::Refusal;
use wire::command::{Answer, Command, Done, RenewLease};
use wire::feed::Head;
use wire::refusal::RefusalKind;

use crate::batch::{Batch, Incoming, Reply};
use crate::intake::{Ask, Intake};
use crate::leases::Leases;
use crate::projection::Projection;
use crate::queue::{Class, Queue};
use crate::remembered::{Known, Remembered};
use crate::standby::Taken;
use crate::{Surroundings, measure};

/// How often the head is announced, the lease renewed where nothing is committed, and partitions looked after.
const BEAT: Duration = Duration::from_secs(1);
/// How long the applier waits after a failed commit before it tries the next.
const RETRY: Duration = Duration::from_millis(200);
/// The most senders of the same command that are answered; more of them repeat it anyway.
const JOINED_MAX: usize = 16;

/// Somebody waits for a command's answer.
struct Waiting {
    span: Span,
    senders: Vec<Request>,
}

/// A question that needs no write, but an answer that is true.
enum Question {
    Head(Request),
    Renew(Request, RenewLease),
}

/// What is being written, and what hangs on it.
struct Writing {
    batch: Batch,
    questions: Vec<Question>,
    begun: Instant,
    outcome: JoinHandle<Result<(), Error>>,
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
    /// Of this applier; its index is that of the last commit.
    head: Head,
    /// The state with everything that is judged, and not yet durable in part.
    overlay: State,
    queue: Queue<Incoming>,
    waiting: HashMap<RequestId, Waiting>,
    remembered: Remembered,
    leases: Leases,
    /// Judged, and to be written next.
    ready: Batch,
    /// To be answered with what is written next.
    questions: Vec<Question>,
    renewal_due: bool,
}

/// Applies commands until another applier is active or this one is to stop.
///
/// # Errors
/// If the database is one that nothing may be written to before an operator accepts it, or NATS refuses to serve.
pub(crate) async fn run(around: &Surroundings, taken: Taken) -> anyhow::Result<()> {
    let Taken { head, remembered } = taken;
    let snapshot = around.replica.snapshot();
    let overlay = State::clone(&snapshot);
    let mut active = Active {
        around,
        publisher: Publisher::new(around.bus.clone()),
        projection: Projection::start(around, snapshot),
        head,
        ready: Batch::on(&overlay),
        overlay,
        queue: Queue::new(),
        waiting: HashMap::new(),
        remembered,
        leases: Leases::new(telemetry::clock::monotonic()),
        questions: Vec::new(),
        renewal_due: false,
    };
    active.ready.bootstrap(&mut active.overlay, around.bus.new_request_id(), telemetry::clock::now());
    let mut intake = Intake::open(&around.bus, head).await?;
    let ended = active.serve(&mut intake).await;
    drop(intake);
    active.projection.end();
    active.send_everybody_away("the applier is going").await;
    match ended? {
        End::Deposed => tracing::warn!(epoch = %head.epoch, "another applier is active"),
        End::Stopped => tracing::info!(epoch = %head.epoch, "the applier stops"),
    }
    Ok(())
}

impl Active<'_> {
    async fn serve(&mut self, intake: &mut Intake) -> Result<End, Error> {
        let mut writing: Option<Writing> = None;
        let mut beat = tokio::time::interval(BEAT);
        let partitions = tokio::spawn(look_after_partitions(self.around.writer.clone()));
        let _partitions = AbortOnDrop(partitions);
        loop {
            self.judge();
            if writing.is_none() {
                if self.around.stop.is_cancelled() {
                    return Ok(End::Stopped);
                }
                writing = self.write();
            }
            tokio::select! {
                outcome = outcome_of(&mut writing) => {
                    let Some(written) = writing.take() else { continue };
                    if let Some(end) = self.written(written, outcome).await? {
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
                    self.renewal_due = true;
                    self.announce().await;
                }
                () = self.around.stop.cancelled(), if writing.is_none() => {}
            }
        }
    }

    /// Takes in something that was asked.
    async fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Command(request, command) => self.enqueue(request, command).await,
            Ask::Head(request) => self.questions.push(Question::Head(request)),
            Ask::Renew(request, renew) => self.questions.push(Question::Renew(request, renew)),
        }
    }

    /// A repeat joins the first or gets its answer; a new command waits for its batch.
    async fn enqueue(&mut self, request: Request, command: Command) {
        let id = request.id();
        if let Some(waiting) = self.waiting.get_mut(&id) {
            if waiting.senders.len() < JOINED_MAX {
                waiting.senders.push(request);
            }
            return;
        }
        match self.remembered.find(id) {
            Known::New => {}
            Known::Committed(index) => {
                measure::repeated();
                tokio::spawn(answer_from_log(self.around.clone(), index, request));
                return;
            }
            Known::TooOld => {
                let message = "the request is too old to tell whether it was carried out: look it up".into();
                request.refuse(Refusal { kind: RefusalKind::OutcomeUnknown, message }).await;
                return;
            }
        }
        let span = tracing::info_span!("plan-applier.command", command = name_of(&command), request.id = %id, index = tracing::field::Empty);
        if let Some(trace) = request.trace() {
            telemetry::adopt(&span, &trace);
        }
        let trace = span.in_scope(telemetry::current_trace).or_else(|| request.trace());
        let (class, bytes) = (Class::of(&command), request.payload().len());
        match self.queue.push(class, bytes, Incoming { id, trace, command }) {
            Ok(()) => {
                self.waiting.insert(id, Waiting { span, senders: vec![request] });
            }
            Err(_full) => request.answer(&Answer::Retry { reason: "too many commands wait".into() }).await,
        }
        measure::waiting(self.queue.len());
    }

    /// Judges what waits, as far as the next batch has room for it.
    fn judge(&mut self) {
        if self.queue.is_empty() || self.ready.room.is_used_up() {
            return;
        }
        let begun = telemetry::clock::monotonic();
        let wall = telemetry::clock::now();
        let Self { queue, ready, overlay, leases, waiting, .. } = self;
        // A large plan takes milliseconds, in which this thread's other tasks go on elsewhere.
        tokio::task::block_in_place(|| {
            for (bytes, incoming) in queue.take(ready.room) {
                ready.room.take(bytes);
                // Nobody waits any more who would hear of it; a repeat comes with an id that is new then.
                let waits = waiting.get(&incoming.id).map(|waiting| &waiting.senders);
                if waits.is_some_and(|senders| senders.iter().all(|sender| sender.remaining().is_zero())) {
                    waiting.remove(&incoming.id);
                    continue;
                }
                ready.add(overlay, incoming, wall, &|lease| leases.is_live(lease, begun));
                // Whoever has just taken a lease is there, also for those who want it in the same batch.
                ready.leases.drain(..).for_each(|lease| leases.taken(&lease, begun));
            }
        });
        measure::judged(telemetry::clock::monotonic().duration_since(begun));
        measure::waiting(self.queue.len());
    }

    /// Begins to write what is judged; or to check the epoch, where there are only answers.
    fn write(&mut self) -> Option<Writing> {
        if self.ready.is_empty() && self.questions.is_empty() && !self.renewal_due {
            return None;
        }
        let batch = std::mem::replace(&mut self.ready, Batch::on(&self.overlay));
        let questions = std::mem::take(&mut self.questions);
        let renew = std::mem::take(&mut self.renewal_due);
        let writer = self.around.writer.clone();
        let (from, rows) = (batch.from, batch.rows.clone());
        let outcome = tokio::spawn(async move {
            if !rows.is_empty() {
                commit(&writer, from, rows).await
            } else if renew {
                writer.renew().await.map(drop)
            } else {
                writer.confirm().await.map(drop)
            }
        });
        Some(Writing { batch, questions, begun: telemetry::clock::monotonic(), outcome })
    }

    /// What was written is durable, or failed.
    async fn written(&mut self, written: Writing, outcome: Result<(), Error>) -> Result<Option<End>, Error> {
        let Writing { batch, questions, begun, .. } = written;
        match outcome {
            Ok(()) => {
                measure::committed(&batch, telemetry::clock::monotonic().duration_since(begun));
                self.publish(batch).await;
                for question in questions {
                    self.answer_question(question).await;
                }
                Ok(None)
            }
            Err(Error::Deposed { .. } | Error::Moved { .. }) => {
                self.answer_retry(batch, "another applier is active").await;
                Ok(Some(End::Deposed))
            }
            Err(error @ (Error::WentBack { .. } | Error::OtherSystem { .. })) => Err(error),
            Err(error) => {
                tracing::error!(error = telemetry::chain(&error), "cannot commit");
                // What was judged ahead stands on what failed.
                let ahead = std::mem::replace(&mut self.ready, Batch::on(&self.overlay));
                self.answer_retry(batch, "the database cannot be written to").await;
                self.answer_retry(ahead, "the database cannot be written to").await;
                self.overlay = State::clone(&self.around.replica.snapshot());
                self.ready = Batch::on(&self.overlay);
                self.questions.extend(questions);
                self.questions.retain(|question| !question.request().remaining().is_zero());
                tokio::time::sleep(RETRY).await;
                Ok(None)
            }
        }
    }

    /// A batch is durable: everybody learns of it, this process first.
    async fn publish(&mut self, batch: Batch) {
        let Batch { rows, steps, replies, .. } = batch;
        for row in &rows {
            self.remembered.note(row.request_id, row.index, row.at);
        }
        if let Some((last, _)) = steps.last() {
            (self.head.index, self.head.at) = (last.index, last.at);
            self.projection.committed(&steps);
            self.around.replica.adopt(steps).expect("only the active applier moves this log");
            let first = rows[0].index;
            let bytes: Vec<_> = rows.into_iter().map(|row| row.bytes).collect();
            if let Err(error) = self.publisher.publish(self.head.history, first, &bytes).await {
                tracing::debug!(error = telemetry::chain(&error), "replicas read the log instead");
            }
        }
        for (id, reply) in replies {
            let Some(waiting) = self.waiting.remove(&id) else { continue };
            if let Reply::Answer(Answer::Done(done)) = &reply {
                waiting.span.record("index", done.index.0);
            }
            for sender in waiting.senders {
                match &reply {
                    Reply::Answer(answer) => sender.answer(answer).await,
                    Reply::Refuse(refusal) => sender.refuse(refusal.clone()).await,
                }
            }
        }
    }

    async fn answer_question(&mut self, question: Question) {
        match question {
            Question::Head(request) => request.answer(&self.head_now()).await,
            Question::Renew(request, renew) => {
                let snapshot = self.around.replica.snapshot();
                let lease = snapshot.lease(renew.service);
                if self.leases.renew(lease, &renew, telemetry::clock::monotonic()) {
                    let done = Done { index: self.head.index, epoch: Some(renew.epoch), ..Done::default() };
                    request.answer(&Answer::Done(done)).await;
                } else {
                    let message = format!("epoch {} no longer holds the lease", renew.epoch).into();
                    request.refuse(Refusal { kind: RefusalKind::Deposed, message }).await;
                }
            }
        }
    }

    async fn answer_retry(&mut self, batch: Batch, reason: &'static str) {
        for (id, _) in batch.replies {
            self.send_away(id, reason).await;
        }
    }

    async fn send_everybody_away(&mut self, reason: &'static str) {
        let ids: Vec<RequestId> = self.waiting.keys().copied().collect();
        for id in ids {
            self.send_away(id, reason).await;
        }
    }

    async fn send_away(&mut self, id: RequestId, reason: &'static str) {
        let Some(waiting) = self.waiting.remove(&id) else { return };
        for sender in waiting.senders {
            sender.answer(&Answer::Retry { reason: reason.into() }).await;
        }
    }

    async fn announce(&self) {
        if let Err(error) = self.publisher.announce(&self.head_now()).await {
            tracing::debug!(error = telemetry::chain(&error), "the head is announced later");
        }
    }

    fn head_now(&self) -> Head {
        Head { at: self.head.at.max(telemetry::clock::now()), ..self.head }
    }
}

impl Question {
    fn request(&self) -> &Request {
        match self {
            Self::Head(request) | Self::Renew(request, _) => request,
        }
    }
}

/// Waits for what is being written; for ever if that is nothing.
async fn outcome_of(writing: &mut Option<Writing>) -> Result<(), Error> {
    match writing {
        Some(writing) => (&mut writing.outcome).await.expect("writing neither panics nor is cancelled"),
        None => std::future::pending().await,
    }
}

/// Commits, and finds out what became of it before anything is said to anyone (design §5).
async fn commit(writer: &Writer, from: Index, rows: Vec<store::LogRow>) -> Result<(), Error> {
    let mut failed = match writer.commit(from, rows.clone()).await {
        Err(error @ Error::Unknown { .. }) => error,
        known => return known,
    };
    loop {
        tracing::warn!(error = telemetry::chain(&failed), index = %from.next(), "the outcome of a commit is unknown");
        match writer.find_out(from, rows.clone()).await {
            Ok(Outcome::Committed) => return Ok(()),
            Ok(Outcome::NotCommitted) => return Err(failed),
            Err(error @ (Error::Unknown { .. } | Error::Database { .. } | Error::NotPrimary)) => {
                failed = error
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(RETRY).await;
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

async fn look_after_partitions(writer: Writer) {
    loop {
        if let Err(error) = writer.make_partitions().await {
            tracing::debug!(error = telemetry::chain(&error), "partitions are made later");
        }
        tokio::time::sleep(BEAT).await;
    }
}

/// Ends a task with the one that needs it.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn name_of(command: &Command) -> &'static str {
    match command {
        Command::RegisterJob(_) => "RegisterJob",
        Command::DeregisterJob(_) => "DeregisterJob",
        Command::EvaluateJob(_) => "EvaluateJob",
        Command::Transition(_) => "Transition",
        Command::SubmitPlan(_) => "SubmitPlan",
        Command::UpdateEvals(_) => "UpdateEvals",
        Command::RegisterNode(_) => "RegisterNode",
        Command::UpdateNodes(_) => "UpdateNodes",
        Command::ReportAllocs(_) => "ReportAllocs",
        Command::DeregisterNodes(_) => "DeregisterNodes",
        Command::SetSchedulerConfig(_) => "SetSchedulerConfig",
        Command::TakeLease(_) => "TakeLease",
    }
}
