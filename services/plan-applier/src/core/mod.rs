//! [`Applier`]: the core of the plan applier. It decides what the active applier judges, writes and answers, and in which
//! order (`docs/architecture/commit-path.md`). Pure: requests, outcomes of writes and times go in; writes and answers come
//! out.
//!
//! While one batch is written, the next is judged on the overlay. Nothing is answered before the state that it was judged
//! on is durable: results are answered after their commit; refusals and queries after a commit, or a check of the epoch,
//! that began after they were judged or received. A failed commit discards the overlay and everything that was judged on
//! it. The senders are told to retry, which is safe because of the request log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::change::ChangeSet;
use model::plan::Plan;
use model::{Index, RequestId, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{Snapshot, State};
use wire::LogRow;
use wire::command::{Answer, Command, Done, RenewLease};
use wire::feed::{Head, LostWrites};
use wire::{Refusal, RefusalKind};

use crate::batch::{Batch, Incoming, Reply};
use crate::judge::Settings;
use crate::leases::Leases;
use crate::pace::Pace;
use crate::queue::Queue;
use crate::request_log::{Known, RequestLog};

/// The pause after a failed write.
const RETRY: Duration = Duration::from_millis(200);
/// Commands of more bytes than this, together, may take some milliseconds to judge. Under load, the commands that arrive
/// together have a third of it.
const FAST_BYTES_MAX: usize = 128 << 10;
/// Maximum number of senders of one command that are answered. Others repeat it anyway.
const WAITERS_MAX: usize = 16;
/// Maximum number of queries that wait for the next write. Further ones are told to retry.
const QUERIES_MAX: usize = 16_384;

/// The state of the active applier. `A` is the address of a sender.
#[derive(Debug)]
pub struct Applier<A> {
    /// This applier's head, at the index of the last commit.
    head: Head,
    /// The state at the head.
    durable: State,
    /// The state after all commands that were judged, including those that are not durable yet.
    overlay: State,
    settings: Settings,
    queue: Queue<Incoming>,
    /// Whether a waiting command is expensive: its cost does not depend on its size.
    has_expensive: bool,
    waiting: BTreeMap<RequestId, Vec<Waiter<A>>>,
    request_log: RequestLog,
    leases: Leases,
    /// The batch that was judged and is written next.
    ready: Batch,
    /// Queries to answer after the next write.
    queries: Vec<(Query, Waiter<A>)>,
    /// What another process has seen and the log lacks, if this is still the active applier.
    reported_loss: Option<LostWrites>,
    writing: Option<Writing<A>>,
    renewal_due: bool,
    is_log_full: bool,
    pace: Pace,
    /// After a failed write, when the next one may begin.
    not_before: Option<Instant>,
}

/// A request that needs no write, but a confirmed epoch.
#[derive(Debug, Clone)]
pub enum Query {
    /// A request for the head.
    Head,
    /// A request to renew a lease.
    Renew(RenewLease),
}

/// What happened to a command on its arrival.
#[derive(Debug)]
pub enum Received<A> {
    /// It waits to be judged, or for the answer to an earlier command with the same id.
    Waits,
    /// It was committed before; its answer is in the log at this index.
    Committed(A, Index),
    /// It will not be judged, for this reason.
    Rejected(A, Reply),
}

/// An operation on the database.
#[derive(Debug, Clone)]
pub enum Write {
    /// Append these change sets after the index.
    Commit(Index, Vec<LogRow>),
    /// Determine the outcome of that commit.
    ResolveCommit(Index, Vec<LogRow>),
    /// Renew the lease.
    Renew,
    /// Check the epoch.
    Confirm,
}

/// The outcome of a [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It succeeded and is durable.
    Done,
    /// It had no effect.
    Failed,
    /// It is unknown whether it had an effect.
    Unknown,
    /// Another applier has taken over.
    Deposed,
}

/// The consequences of a completed write.
#[derive(Debug)]
pub enum Completion<A> {
    /// The epoch was still valid when the write completed. Its change sets are durable: publish them first, and send the
    /// replies after that.
    Durable {
        /// The request of the last change set before them.
        previous: Option<RequestId>,
        /// The rows that were appended to the log; empty if there were only replies.
        rows: Vec<LogRow>,
        /// The same change sets, decoded, for replicas.
        sets: Vec<Arc<ChangeSet>>,
        /// The state after them.
        after: Snapshot,
        /// The replies to send.
        answers: Vec<(A, Reply)>,
    },
    /// Nothing was written, or the outcome is unknown. The replies tell the senders of what was judged on it to retry.
    Failed(Vec<(A, Reply)>),
    /// This applier is no longer the active one.
    Deposed,
    /// The database lacks a change set that another process has seen. Nothing more may be written.
    Lacks(LostWrites),
}

/// A sender that waits for an answer until a deadline.
#[derive(Debug)]
struct Waiter<A> {
    address: A,
    until: Instant,
}

/// The write that is in progress, and what depends on it.
#[derive(Debug)]
struct Writing<A> {
    batch: Batch,
    begun: Instant,
    /// The state once it is durable.
    after: Snapshot,
    queries: Vec<(Query, Waiter<A>)>,
    reported_loss: Option<LostWrites>,
    /// Whether the write has been passed to the database. If not, the outcome of the commit has to be determined.
    is_in_progress: bool,
}

impl<A> Applier<A> {
    /// An applier that has taken over at `head`, where the state is `durable`.
    pub fn new(head: Head, durable: State, request_log: RequestLog, now: Instant) -> Self {
        Self {
            ready: Batch::on(&durable),
            overlay: durable.clone(),
            settings: Settings::default(),
            durable,
            head,
            queue: Queue::new(),
            has_expensive: false,
            waiting: BTreeMap::new(),
            request_log,
            leases: Leases::new(now),
            queries: Vec::new(),
            reported_loss: None,
            writing: None,
            renewal_due: false,
            is_log_full: false,
            pace: Pace::new(now),
            not_before: None,
        }
    }

    /// Sets the settings by which commands are judged.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// Adds the objects that every cluster begins with, unless they exist.
    pub fn bootstrap(&mut self, id: RequestId, time: Timestamp) {
        self.ready.bootstrap(&mut self.overlay, id, time);
    }

    /// Receives a command of `bytes` bytes, whose sender waits until `until`. A repeat joins the first one, or gets its
    /// answer.
    pub fn receive(&mut self, incoming: Incoming, bytes: usize, address: A, until: Instant) -> Received<A> {
        let id = incoming.id;
        if let Some(waiters) = self.waiting.get_mut(&id)
            && !is_planted(Bug::ReexecutesPending)
        {
            if waiters.len() < WAITERS_MAX {
                waiters.push(Waiter { address, until });
            }
            return Received::Waits;
        }
        match self.request_log.lookup(id) {
            Known::New => {}
            Known::Committed(_) if is_planted(Bug::ReexecutesCommitted) => {}
            Known::Committed(index) => return Received::Committed(address, index),
            Known::TooOld => {
                let message =
                    "the request is too old to determine whether it was carried out: look up its effects"
                        .into();
                let refusal = Refusal { kind: RefusalKind::OutcomeUnknown, message };
                return Received::Rejected(address, Reply::Refuse(refusal));
            }
        }
        if let Command::SubmitPlan(submit) = &incoming.command
            && self.is_from_another_log(&submit.plan)
        {
            let message = format!("the plan's snapshot {} is not of this log", submit.plan.snapshot_index);
            let refusal = Refusal { kind: RefusalKind::Conflict, message: message.into() };
            return Received::Rejected(address, Reply::Refuse(refusal));
        }
        let info = incoming.command.info();
        if self.is_log_full && info.is_deferrable {
            return Received::Rejected(address, retry("the log has reached its size limit (--log-max-mb)"));
        }
        match self.queue.push(info.class, bytes, incoming) {
            Ok(()) => {
                self.has_expensive |= info.is_expensive;
                self.waiting.insert(id, vec![Waiter { address, until }]);
                Received::Waits
            }
            Err(_full) => Received::Rejected(address, retry("too many commands are waiting")),
        }
    }

    /// Whether a plan was made from a snapshot that this log has never had.
    fn is_from_another_log(&self, plan: &Plan) -> bool {
        let (index, Some(request)) = (plan.snapshot_index, plan.snapshot_request) else { return false };
        // A replica may have read from the database what this applier does not know yet to be durable.
        let writing = self.writing.as_ref().and_then(|writing| {
            let row = writing.batch.rows.iter().find(|row| row.index == index)?;
            Some(row.request_id == request)
        });
        match writing {
            Some(is_same) => !is_same,
            None => index > self.head.index || self.request_log.has_another(&self.head, index, request),
        }
    }

    /// Receives a query, whose sender waits until `until`. Returns the reply if there are too many queries.
    pub fn ask(&mut self, query: Query, address: A, until: Instant) -> Option<(A, Reply)> {
        if self.queries.len() >= QUERIES_MAX {
            return Some((address, retry("too many queries are waiting")));
        }
        self.queries.push((query, Waiter { address, until }));
        None
    }

    /// Receives the report that another process has seen a change set which the log may lack. It proves that only if this is
    /// still the active applier, which is checked before anything else is written.
    pub fn report_loss(&mut self, lost: LostWrites) {
        if self.request_log.lacks(&self.head, &lost) && !is_planted(Bug::IgnoresLostWrites) {
            self.reported_loss = Some(lost);
        }
    }

    /// Requests that the next write renews the lease.
    pub fn renew(&mut self) {
        self.renewal_due = true;
    }

    /// Sets whether the log has reached its size limit. Commands that can wait are rejected while it has.
    pub fn set_log_full(&mut self, is_full: bool) {
        self.is_log_full = is_full;
    }

    /// The number of commands that wait to be judged.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many of them are plans.
    pub fn waiting_plans(&self) -> usize {
        self.queue.plans()
    }

    /// Whether judging them may take milliseconds.
    pub fn may_be_slow(&self) -> bool {
        self.has_expensive || self.queue.bytes() > FAST_BYTES_MAX
    }

    /// The head, with the time advanced to `time`, the cluster's.
    pub fn head(&self, time: Timestamp) -> Head {
        Head { at: self.head.at.max(time), ..self.head }
    }

    /// Whether [`Self::judge`] has anything to do.
    pub fn has_to_judge(&self) -> bool {
        !self.queue.is_empty() && !self.ready.budget.is_exhausted()
    }

    /// Judges waiting commands, as many as the next batch may take. `time` is the cluster's time.
    pub fn judge(&mut self, now: Instant, time: Timestamp) {
        if !self.has_to_judge() {
            return;
        }
        let Self { queue, ready, overlay, settings, leases, waiting, .. } = self;
        ready.budget = queue.take(ready.budget, |incoming: Incoming| {
            // All its senders have stopped waiting. A repeat is a new request then.
            let is_abandoned =
                waiting.get(&incoming.id).is_some_and(|all| all.iter().all(|waiter| waiter.until <= now));
            if is_abandoned {
                waiting.remove(&incoming.id);
                return 0;
            }
            let written = ready.add(overlay, incoming, time, &|lease| leases.is_live(lease, now), *settings);
            // The process that was just granted a lease counts as alive for later requests in the same batch.
            ready.leases.drain(..).for_each(|lease| leases.grant(&lease, now));
            written
        });
        self.has_expensive &= !self.queue.is_empty();
    }

    /// The next operation on the database, if one is due and none is in progress. Judged commands are written at their
    /// [`Pace`]; if there are only answers, the epoch is checked. Report the outcome to [`Self::written`].
    pub fn next_write(&mut self, now: Instant) -> Option<Write> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        self.not_before = None;
        if let Some(writing) = &mut self.writing {
            if writing.is_in_progress {
                return None;
            }
            writing.is_in_progress = true;
            return Some(Write::ResolveCommit(writing.batch.from(), writing.batch.rows.clone()));
        }
        // Judged commands may have to wait for their pace; queries do not. After a report of lost writes, no
        // command is written.
        let reported_loss = self.reported_loss.take();
        let has_to_wait = reported_loss.is_some() || (self.is_paced() && now < self.pace.next());
        let has_nothing_else = self.queries.is_empty() && !self.renewal_due && reported_loss.is_none();
        if (self.ready.is_empty() || has_to_wait) && has_nothing_else {
            return None;
        }
        let (batch, after) = if has_to_wait {
            (Batch::on(&self.durable), Arc::new(self.durable.clone()))
        } else {
            (std::mem::replace(&mut self.ready, Batch::on(&self.overlay)), Arc::new(self.overlay.clone()))
        };
        let queries = std::mem::take(&mut self.queries);
        let renews = std::mem::take(&mut self.renewal_due);
        let write = match (batch.rows.is_empty(), renews) {
            (false, _) => {
                self.pace.begin(now);
                Write::Commit(batch.from(), batch.rows.clone())
            }
            (true, true) => Write::Renew,
            (true, false) => Write::Confirm,
        };
        self.writing =
            Some(Writing { batch, begun: now, after, queries, reported_loss, is_in_progress: true });
        Some(write)
    }

    /// When [`Self::next_write`] may return something although nothing else has happened.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let paced = (self.writing.is_none() && self.is_paced()).then(|| self.pace.next());
        self.not_before.or(paced)
    }

    /// Whether the judged commands may have to wait for their pace. A full batch does not wait.
    fn is_paced(&self) -> bool {
        !self.ready.rows.is_empty() && !self.ready.budget.is_exhausted()
    }

    /// The change sets that are being written.
    pub fn being_written(&self) -> &[Arc<ChangeSet>] {
        self.writing.as_ref().map_or(&[], |writing| &writing.batch.sets)
    }

    /// Whether a write is in progress, or its outcome still has to be determined.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Reports the outcome of the write.
    ///
    /// # Panics
    /// If no write was in progress.
    pub fn written(&mut self, outcome: WriteOutcome, now: Instant, time: Timestamp) -> Completion<A> {
        let mut writing = self.writing.take().expect("a write is in progress");
        let is_commit = !writing.batch.rows.is_empty();
        match outcome {
            WriteOutcome::Done => self.durable(writing, now, time),
            WriteOutcome::Deposed => {
                self.queries.extend(writing.queries);
                Completion::Deposed
            }
            WriteOutcome::Unknown if is_commit && is_planted(Bug::AssumesUnknownCommitted) => {
                self.durable(writing, now, time)
            }
            WriteOutcome::Unknown if is_commit => {
                // Nothing is answered before the outcome is known (`docs/architecture/commit-path.md`).
                writing.is_in_progress = false;
                self.writing = Some(writing);
                self.not_before = Some(now + RETRY);
                Completion::Failed(Vec::new())
            }
            WriteOutcome::Failed | WriteOutcome::Unknown => self.failed(writing, now),
        }
    }

    /// Answers all waiting senders with *retry*. Call it when this applier ends.
    pub fn reject_all(&mut self) -> Vec<(A, Reply)> {
        let commands = std::mem::take(&mut self.waiting).into_values().flatten();
        let queries = self.writing.take().into_iter().flat_map(|writing| writing.queries);
        let queries = queries.chain(self.queries.drain(..)).map(|(_, waiter)| waiter);
        commands
            .chain(queries)
            .map(|waiter| (waiter.address, retry("the applier is shutting down")))
            .collect()
    }

    fn durable(&mut self, writing: Writing<A>, now: Instant, time: Timestamp) -> Completion<A> {
        if let Some(lost) = writing.reported_loss {
            self.queries.extend(writing.queries);
            return Completion::Lacks(lost);
        }
        let Batch { rows, sets, replies, .. } = writing.batch;
        let after = writing.after;
        if !rows.is_empty() {
            self.pace.took(now.saturating_duration_since(writing.begun), now);
        }
        for row in &rows {
            self.request_log.record(row.request_id, row.index, row.at);
        }
        let previous = self.durable.last_request();
        if let Some(last) = sets.last() {
            (self.head.index, self.head.at) = (last.index, last.at);
            self.durable = State::clone(&after);
        }
        let mut answers = Vec::new();
        for (id, reply) in replies {
            let waiters = self.waiting.remove(&id).into_iter().flatten();
            answers.extend(waiters.map(|waiter| (waiter.address, reply.clone())));
        }
        for (query, waiter) in writing.queries {
            answers.push((waiter.address, self.answer(&query, now, time)));
        }
        Completion::Durable { previous, rows, sets, after, answers }
    }

    fn failed(&mut self, writing: Writing<A>, now: Instant) -> Completion<A> {
        let mut replies = writing.batch.replies;
        if !writing.batch.rows.is_empty() {
            // Commands that were judged on top of the failed commit depend on it.
            let ahead = std::mem::replace(&mut self.ready, Batch::on(&self.durable));
            self.overlay = self.durable.clone();
            replies.extend(ahead.replies);
        }
        self.not_before = Some(now + RETRY);
        let mut answers = Vec::new();
        for (id, judged) in replies {
            let waiters = self.waiting.remove(&id).into_iter().flatten();
            let retry = retry("cannot write to the database");
            let reply = if is_planted(Bug::RepliesAfterFailedCommit) { judged } else { retry };
            answers.extend(waiters.map(|waiter| (waiter.address, reply.clone())));
        }
        self.reported_loss = self.reported_loss.take().or(writing.reported_loss);
        self.queries.extend(writing.queries);
        self.queries.retain(|(_, waiter)| waiter.until > now);
        Completion::Failed(answers)
    }

    fn answer(&mut self, query: &Query, now: Instant, time: Timestamp) -> Reply {
        match query {
            Query::Head => Reply::Head(self.head(time)),
            Query::Renew(renew) => {
                if self.leases.renew(self.durable.lease(renew.service), renew, now) {
                    let done = Done { index: self.head.index, epoch: Some(renew.epoch), ..Done::default() };
                    Reply::Answer(Answer::Done(done))
                } else {
                    let message = format!("epoch {} no longer holds the lease", renew.epoch).into();
                    Reply::Refuse(Refusal { kind: RefusalKind::Deposed, message })
                }
            }
        }
    }
}

fn retry(reason: &'static str) -> Reply {
    Reply::Answer(Answer::Retry { reason: reason.into() })
}

#[cfg(test)]
mod tests;
