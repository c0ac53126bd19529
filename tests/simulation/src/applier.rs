//! A process of the plan applier: [`Applier`] with messages and database around it, as in `plan_applier::actor`, `standby`
//! and `refusing`. It has no replica of its own: whether the database went back, it learns from other processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Epoch, HistoryId, Index, Nanos, ProcessId, Timestamp};
use plan_applier::cluster_clock::{ClusterClock, Reading};
use plan_applier::core::{Applier, Completion, Query, Received, Write, WriteOutcome};
use plan_applier::{Incoming, Reply as ApplierReply, RequestLog};
use state::State;
use wire::feed::Head;

use crate::disk::Disk;
use crate::messages::{Address, Body, DbReply, Input, Message, Reply, Statement, Subject, Timer};
use crate::world::{Ctx, Process};

const TAKE_OVER_INTERVAL: Nanos = Nanos(250 * Nanos::MILLISECOND.0);
const PROBE_TIMEOUT: Nanos = Nanos(200 * Nanos::MILLISECOND.0);
const UNANSWERED_PROBES_MAX: u32 = 2;
const HEAD_INTERVAL: Nanos = Nanos(330 * Nanos::MILLISECOND.0);
/// How long a requester waits for its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Subjects that only the active applier subscribes to.
const SUBJECTS: [Subject; 5] =
    [Subject::Command, Subject::Lease, Subject::ReadHead, Subject::Probe, Subject::LostWrites];

/// The applier process.
pub(crate) struct ApplierProcess {
    id: ProcessId,
    unanswered: u32,
    /// The attempt to take the lease, and when it began.
    taking: Option<(u64, Instant)>,
    probing: Option<u64>,
    loading: Option<(u64, Epoch, ClusterClock)>,
    active: Option<Active>,
    /// The history of a database that lacks writes, until it is marked.
    to_mark: Option<HistoryId>,
    marking: Option<u64>,
}

struct Active {
    epoch: Epoch,
    applier: Applier<Option<Address>>,
    clock: ClusterClock,
    /// The write in progress, and when it began.
    writing: Option<(u64, Instant)>,
    /// Whether to announce the head after the next write, which proves that this is still the applier.
    is_announcing: bool,
    /// Repeated requests whose answers are being read from the log.
    lookups: BTreeMap<u64, Option<Address>>,
}

impl ApplierProcess {
    pub(crate) fn new(id: ProcessId) -> Self {
        Self {
            id,
            unanswered: 0,
            taking: None,
            probing: None,
            loading: None,
            active: None,
            to_mark: None,
            marking: None,
        }
    }

    fn handle_db_reply(&mut self, call: u64, reply: DbReply, ctx: &mut Ctx<'_>) {
        if let Some((_, begun)) = self.taking.filter(|(known, _)| *known == call) {
            self.taking = None;
            match reply {
                DbReply::Taken(head, time) => {
                    let clock = ClusterClock::new(head.at, reading(time, begun, ctx));
                    self.loading = Some((ctx.database(Statement::Load), head.epoch, clock));
                }
                DbReply::Held(by) if by == self.id => self.unanswered = UNANSWERED_PROBES_MAX,
                DbReply::Held(_) => {
                    self.probing = Some(ctx.request(Subject::Probe, Body::Probe, PROBE_TIMEOUT))
                }
                _ => {}
            }
        } else if self.marking == Some(call) {
            self.marking = None;
            if matches!(reply, DbReply::Done(_)) {
                self.to_mark = None;
            }
        } else if let Some((_, epoch, clock)) = self.loading.take_if(|(known, ..)| *known == call) {
            if let DbReply::Loaded(head, state, requests) = reply
                && head.epoch == epoch
            {
                let head = Head { began: Some(head.index), ..head };
                let request_log = RequestLog::new(Timestamp::UNSET, requests);
                let applier = Applier::new(head, State::clone(&state), request_log, ctx.monotonic());
                self.activate(epoch, applier, clock, ctx);
            }
        } else if let Some(active) = &mut self.active {
            if let Some((_, begun)) = active.writing.take_if(|(known, _)| *known == call) {
                self.handle_write_reply(reply, begun, ctx);
            } else if let Some(to) = active.lookups.remove(&call)
                && let DbReply::Answer(Some(answer)) = reply
            {
                ctx.answer(to, Reply::Applier(ApplierReply::Answer(answer)));
            }
        }
    }

    fn activate(
        &mut self,
        epoch: Epoch,
        mut applier: Applier<Option<Address>>,
        mut clock: ClusterClock,
        ctx: &mut Ctx<'_>,
    ) {
        let id = ctx.request_id();
        applier.bootstrap(id, clock.now(ctx.monotonic()));
        let lookups = BTreeMap::new();
        self.active = Some(Active { epoch, applier, clock, writing: None, is_announcing: false, lookups });
        SUBJECTS.into_iter().for_each(|subject| ctx.subscribe(subject));
        ctx.timer(Nanos::ZERO, Timer::Heartbeat);
    }

    fn handle_write_reply(&mut self, reply: DbReply, begun: Instant, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        let outcome = match reply {
            DbReply::Done(time) => {
                drop(active.clock.observe(reading(time, begun, ctx)));
                WriteOutcome::Done
            }
            DbReply::Deposed => WriteOutcome::Deposed,
            DbReply::Lost => WriteOutcome::Unknown,
            _ => WriteOutcome::Failed,
        };
        let time = active.clock.now(ctx.monotonic());
        match active.applier.written(outcome, ctx.monotonic(), time) {
            Completion::Durable { rows, answers, .. } => {
                for row in &rows {
                    let durable = ctx.world.database.set(row.index).map(|set| set.request_id);
                    if durable != Some(row.request_id) {
                        ctx.world
                            .checks
                            .record_violation(format!("index {} was published but not committed", row.index));
                        return;
                    }
                }
                let head = active.applier.head(time);
                if let Some(first) = rows.first() {
                    let mut run = ctx.world.database.after(Index(first.index.0 - 1));
                    run.sets.truncate(rows.len());
                    ctx.publish(Subject::Changes, Body::Changes(head.committer(), Arc::new(run)));
                }
                let is_announcing = std::mem::take(&mut active.is_announcing);
                send_replies(answers, ctx);
                if is_announcing {
                    ctx.publish(Subject::Head, Body::Head(head));
                }
            }
            Completion::Failed(answers) => send_replies(answers, ctx),
            Completion::Deposed => self.retire(ctx),
            Completion::Lacks(lost) => {
                self.to_mark = Some(lost.history);
                self.retire(ctx);
            }
        }
    }

    fn retire(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(mut active) = self.active.take() {
            send_replies(active.applier.reject_all(), ctx);
        }
        SUBJECTS.into_iter().for_each(|subject| ctx.unsubscribe(subject));
        self.unanswered = 0;
    }

    fn handle_message(&mut self, Message { from, body }: Message, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        let until = ctx.monotonic() + REQUEST_TIMEOUT;
        match body {
            Body::Command(id, command) => {
                match active.applier.receive(Incoming { id, trace: None, command }, 100, from, until) {
                    Received::Waits => {}
                    Received::Committed(to, index) => {
                        active.lookups.insert(ctx.database(Statement::AnswerAt(index)), to);
                    }
                    Received::Rejected(to, reply) => ctx.answer(to, Reply::Applier(reply)),
                }
            }
            Body::Renew(renew) => {
                let rejected = active.applier.ask(Query::Renew(renew), from, until);
                send_replies(rejected, ctx);
            }
            Body::ReadHead if planted_bugs::is_planted(planted_bugs::Bug::ReadsFromMemory) => {
                let head = active.applier.head(active.clock.now(ctx.monotonic()));
                ctx.answer(from, Reply::Applier(ApplierReply::Head(head)));
            }
            Body::ReadHead => send_replies(active.applier.ask(Query::Head, from, until), ctx),
            Body::Probe => ctx.answer(from, Reply::Probed),
            Body::LostWrites(lost) => active.applier.report_loss(lost),
            _ => {}
        }
    }

    /// Judges the next commands and starts the next write. Called after every input.
    fn advance(&mut self, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        let time = active.clock.now(ctx.monotonic());
        active.applier.judge(ctx.monotonic(), time);
        let epoch = active.epoch;
        if let Some(write) = active.applier.next_write(ctx.monotonic()) {
            let statement = match write {
                Write::Commit(from, rows) => Statement::Commit { epoch, from, rows },
                Write::ResolveCommit(from, rows) => Statement::ReadOutcome { epoch, from, rows },
                Write::Renew => Statement::Renew(epoch),
                Write::Confirm => Statement::Confirm(epoch),
            };
            active.writing = Some((ctx.database(statement), ctx.monotonic()));
        } else if let Some(at) = active.applier.poll_timeout() {
            let wait = at.saturating_duration_since(ctx.monotonic());
            ctx.timer(Nanos(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)), Timer::Task(0));
        }
    }
}

/// A reading of the database's clock by a statement that began at `begun`.
fn reading(time: Timestamp, begun: Instant, ctx: &Ctx<'_>) -> Reading {
    Reading { time, begun, ended: ctx.monotonic(), wall: ctx.wall() }
}

fn send_replies(replies: impl IntoIterator<Item = (Option<Address>, ApplierReply)>, ctx: &mut Ctx<'_>) {
    for (to, reply) in replies {
        ctx.answer(to, Reply::Applier(reply));
    }
}

impl Process for ApplierProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => ctx.timer(Nanos::ZERO, Timer::Poll),
            Input::Timer(Timer::Poll) => {
                ctx.timer(TAKE_OVER_INTERVAL, Timer::Poll);
                if let Some(history) = self.to_mark {
                    if self.marking.is_none() {
                        self.marking = Some(ctx.database(Statement::Mark(history)));
                    }
                } else if self.active.is_none() && self.taking.is_none() && self.loading.is_none() {
                    let force = self.unanswered >= UNANSWERED_PROBES_MAX;
                    let taking = ctx.database(Statement::TakeOver { process: self.id, force });
                    self.taking = Some((taking, ctx.monotonic()));
                }
            }
            Input::Timer(Timer::Heartbeat) => {
                if let Some(active) = &mut self.active {
                    active.applier.renew();
                    active.is_announcing = true;
                    ctx.timer(HEAD_INTERVAL, Timer::Heartbeat);
                }
            }
            Input::Timer(_) => {}
            Input::Message(message) => self.handle_message(message, ctx),
            Input::Reply(call, reply) => {
                if self.probing == Some(call) {
                    self.probing = None;
                    let no_responders = matches!(reply, Reply::NoResponders);
                    self.unanswered = if no_responders { self.unanswered + 1 } else { 0 };
                }
            }
            Input::DbReply(call, reply) => self.handle_db_reply(call, reply, ctx),
        }
        self.advance(ctx);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }
}
