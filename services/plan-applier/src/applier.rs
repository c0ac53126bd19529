//! [`Applier`]: what the active applier judges, writes and says, and in which order (design §§4 to 6). Pure: what is
//! asked, what became of a write, and moments go in; writes, and answers for whoever asked, come out.
//!
//! While one batch is being written, the next is judged on the overlay. Nothing is answered before what it was judged on
//! is durable: results with their commit; refusals and questions with the commit, or the check of the epoch, that begins
//! after them. A failed commit drops the overlay and all that was judged on it; whoever asked is told to ask again, which
//! is safe, because ids are remembered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::change::ChangeSet;
use model::{Index, RequestId, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{Snapshot, State};
use store::LogRow;
use wire::command::{Answer, Command, Done, RenewLease};
use wire::feed::Head;
use wire::{Refusal, RefusalKind};

use crate::batch::{Batch, Incoming, Reply};
use crate::leases::Leases;
use crate::pace::Pace;
use crate::queue::{Class, Queue};
use crate::remembered::{Known, Remembered};

/// How long the applier waits after a failed write before it tries the next.
const RETRY: Duration = Duration::from_millis(200);
/// Commands of more bytes than these together may take some milliseconds to judge. What comes together under load is a third
/// of them.
const SHORT_BYTES_MAX: usize = 128 << 10;
/// The most senders of the same command that are answered; more of them repeat it anyway.
const JOINED_MAX: usize = 16;

/// The active applier's memory. `A` is the address of somebody who asked.
#[derive(Debug)]
pub struct Applier<A> {
    /// Of this applier; its index is that of the last commit.
    head: Head,
    /// The state at the head.
    durable: State,
    /// The state with everything that is judged, and not yet durable in part.
    overlay: State,
    queue: Queue<Incoming>,
    /// Whether one waits whose cost its size says nothing of.
    has_dear: bool,
    waiting: BTreeMap<RequestId, Vec<Asker<A>>>,
    remembered: Remembered,
    leases: Leases,
    /// Judged, and to be written next.
    ready: Batch,
    /// To be answered with what is written next.
    questions: Vec<(Question, Asker<A>)>,
    writing: Option<Writing<A>>,
    renewal_due: bool,
    is_log_full: bool,
    pace: Pace,
    /// After a failed write, when the next may begin.
    not_before: Option<Instant>,
}

/// A question that needs no write, but an answer that is true.
#[derive(Debug, Clone)]
pub enum Question {
    /// Where the head is.
    Head,
    /// Whether a lease is still held; it is renewed by that.
    Renew(RenewLease),
}

/// What becomes of a command that was sent.
#[derive(Debug)]
pub enum Received<A> {
    /// It waits to be judged, or for the answer to the same command that came before it.
    Waits,
    /// It was carried out before: its answer is in the log at this index.
    Committed(A, Index),
    /// It will not be looked at, and this is why.
    Turned(A, Reply),
}

/// What is to be done with the database.
#[derive(Debug, Clone)]
pub enum Write {
    /// Append these change sets after the index.
    Commit(Index, Vec<LogRow>),
    /// Say what became of that commit.
    FindOut(Index, Vec<LogRow>),
    /// Renew the lease.
    Renew,
    /// Check the epoch.
    Confirm,
}

/// What became of a [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done, and durable.
    Done,
    /// It was not done.
    Failed,
    /// Nobody knows.
    Unknown,
    /// Another applier has taken over.
    Deposed,
}

/// What follows from a write's end.
#[derive(Debug)]
pub enum Ended<A> {
    /// The epoch held when it ended. What it wrote is durable: replicas learn of it first, and then those who asked.
    Durable {
        /// What the log got; nothing where there were only answers.
        rows: Vec<LogRow>,
        /// The same for replicas.
        sets: Vec<Arc<ChangeSet>>,
        /// The state after it.
        after: Snapshot,
        /// What is said to whom.
        said: Vec<(A, Reply)>,
    },
    /// Nothing was written, or nobody knows; those who asked for what was judged on it are told to ask again.
    Failed(Vec<(A, Reply)>),
    /// This applier is one no more.
    Deposed,
}

/// Somebody who waits for an answer, for so long.
#[derive(Debug)]
struct Asker<A> {
    who: A,
    until: Instant,
}

/// What is being written, and what hangs on it.
#[derive(Debug)]
struct Writing<A> {
    batch: Batch,
    begun: Instant,
    /// The state once it is durable.
    after: Snapshot,
    questions: Vec<(Question, Asker<A>)>,
    /// It is with the database; if not, it has to be found out what became of it.
    is_under_way: bool,
}

impl<A> Applier<A> {
    /// One that has taken over at `head`, where the cluster's state is `durable`.
    pub fn new(head: Head, durable: State, remembered: Remembered, now: Instant) -> Self {
        Self {
            ready: Batch::on(&durable),
            overlay: durable.clone(),
            durable,
            head,
            queue: Queue::new(),
            has_dear: false,
            waiting: BTreeMap::new(),
            remembered,
            leases: Leases::new(now),
            questions: Vec::new(),
            writing: None,
            renewal_due: false,
            is_log_full: false,
            pace: Pace::new(now),
            not_before: None,
        }
    }

    /// Makes what a cluster begins with, if it has not begun.
    pub fn bootstrap(&mut self, id: RequestId, wall: Timestamp) {
        self.ready.bootstrap(&mut self.overlay, id, wall);
    }

    /// Takes in a command of so many bytes, whose sender waits `until` then. A repeat joins the first or gets its answer.
    pub fn receive(&mut self, incoming: Incoming, bytes: usize, who: A, until: Instant) -> Received<A> {
        let id = incoming.id;
        if let Some(senders) = self.waiting.get_mut(&id)
            && !is_planted(Bug::ForgetsWhatIsUnderWay)
        {
            if senders.len() < JOINED_MAX {
                senders.push(Asker { who, until });
            }
            return Received::Waits;
        }
        match self.remembered.find(id) {
            Known::New => {}
            Known::Committed(_) if is_planted(Bug::ForgetsWhatWasCommitted) => {}
            Known::Committed(index) => return Received::Committed(who, index),
            Known::TooOld => {
                let message = "the request is too old to tell whether it was carried out: look it up".into();
                let refusal = Refusal { kind: RefusalKind::OutcomeUnknown, message };
                return Received::Turned(who, Reply::Refuse(refusal));
            }
        }
        if self.is_log_full && can_wait(&incoming.command) {
            return Received::Turned(who, retry("the log takes all the space that it may (--log-max-mb)"));
        }
        let is_dear = is_dear(&incoming.command);
        match self.queue.push(Class::of(&incoming.command), bytes, incoming) {
            Ok(()) => {
                self.has_dear |= is_dear;
                self.waiting.insert(id, vec![Asker { who, until }]);
                Received::Waits
            }
            Err(_full) => Received::Turned(who, retry("too many commands wait")),
        }
    }

    /// Takes in a question, whose sender waits `until` then.
    pub fn ask(&mut self, question: Question, who: A, until: Instant) {
        self.questions.push((question, Asker { who, until }));
    }

    /// The lease is to be renewed with the next write.
    pub fn renew(&mut self) {
        self.renewal_due = true;
    }

    /// Whether the log takes all the space that it may: then what can wait is turned away.
    pub fn set_log_full(&mut self, is_full: bool) {
        self.is_log_full = is_full;
    }

    /// How many commands wait to be judged.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many of those are plans.
    pub fn waiting_plans(&self) -> usize {
        self.queue.plans()
    }

    /// Whether it may take milliseconds to judge those.
    pub fn may_judge_long(&self) -> bool {
        self.has_dear || self.queue.bytes() > SHORT_BYTES_MAX
    }

    /// Where the head is, by the wall clock `wall`.
    pub fn head(&self, wall: Timestamp) -> Head {
        Head { at: self.head.at.max(wall), ..self.head }
    }

    /// Whether [`Self::judge`] has anything to do.
    pub fn has_to_judge(&self) -> bool {
        !self.queue.is_empty() && !self.ready.room.is_used_up()
    }

    /// Judges what waits, as far as the next batch has room for it.
    pub fn judge(&mut self, now: Instant, wall: Timestamp) {
        if !self.has_to_judge() {
            return;
        }
        let Self { queue, ready, overlay, leases, waiting, .. } = self;
        for (bytes, incoming) in queue.take(ready.room) {
            ready.room.take(bytes);
            // Nobody waits any more who would hear of it; a repeat comes with an id that is new then.
            let is_given_up =
                waiting.get(&incoming.id).is_some_and(|all| all.iter().all(|asker| asker.until <= now));
            if is_given_up {
                waiting.remove(&incoming.id);
                continue;
            }
            ready.add(overlay, incoming, wall, &|lease| leases.is_live(lease, now));
            // Whoever has just taken a lease is there, also for those who want it in the same batch.
            ready.leases.drain(..).for_each(|lease| leases.taken(&lease, now));
        }
        self.has_dear &= !self.queue.is_empty();
    }

    /// What is to be done with the database next, if anything and if nothing is under way: what is judged is written at its
    /// [`Pace`], or the epoch is checked where there are only answers. Tell [`Self::written`] what became of it.
    pub fn next_write(&mut self, now: Instant) -> Option<Write> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        self.not_before = None;
        if let Some(writing) = &mut self.writing {
            if writing.is_under_way {
                return None;
            }
            writing.is_under_way = true;
            return Some(Write::FindOut(writing.batch.from(), writing.batch.rows.clone()));
        }
        // What is judged may have to wait; questions do not.
        let has_to_wait = self.is_paced() && now < self.pace.next();
        if (self.ready.is_empty() || has_to_wait) && self.questions.is_empty() && !self.renewal_due {
            return None;
        }
        let (batch, after) = if has_to_wait {
            (Batch::on(&self.durable), Arc::new(self.durable.clone()))
        } else {
            (std::mem::replace(&mut self.ready, Batch::on(&self.overlay)), Arc::new(self.overlay.clone()))
        };
        let questions = std::mem::take(&mut self.questions);
        let renews = std::mem::take(&mut self.renewal_due);
        let write = match (batch.rows.is_empty(), renews) {
            (false, _) => {
                self.pace.begin(now);
                Write::Commit(batch.from(), batch.rows.clone())
            }
            (true, true) => Write::Renew,
            (true, false) => Write::Confirm,
        };
        self.writing = Some(Writing { batch, begun: now, after, questions, is_under_way: true });
        Some(write)
    }

    /// When [`Self::next_write`] may have something again, although nothing happens until then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let paced = (self.writing.is_none() && self.is_paced()).then(|| self.pace.next());
        self.not_before.or(paced)
    }

    /// Whether what is judged may have to wait for its pace. A full batch has nothing to wait for.
    fn is_paced(&self) -> bool {
        !self.ready.rows.is_empty() && !self.ready.room.is_used_up()
    }

    /// The change sets that are being written.
    pub fn being_written(&self) -> &[Arc<ChangeSet>] {
        self.writing.as_ref().map_or(&[], |writing| &writing.batch.sets)
    }

    /// Whether a write is under way, or what became of one is still to be found out.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// What became of the write.
    ///
    /// # Panics
    /// If none was under way.
    pub fn written(&mut self, fate: Fate, now: Instant, wall: Timestamp) -> Ended<A> {
        let mut writing = self.writing.take().expect("it was asked for");
        let is_commit = !writing.batch.rows.is_empty();
        match fate {
            Fate::Done => self.durable(writing, now, wall),
            Fate::Deposed => {
                self.questions.extend(writing.questions);
                Ended::Deposed
            }
            Fate::Unknown if is_commit && is_planted(Bug::TakesUnknownForDone) => {
                self.durable(writing, now, wall)
            }
            Fate::Unknown if is_commit => {
                // Nothing is said to anyone before it is known (design §5).
                writing.is_under_way = false;
                self.writing = Some(writing);
                self.not_before = Some(now + RETRY);
                Ended::Failed(Vec::new())
            }
            Fate::Failed | Fate::Unknown => self.failed(writing, now),
        }
    }

    /// Sends away all that wait. To be called when this applier ends.
    pub fn send_everybody_away(&mut self) -> Vec<(A, Reply)> {
        let commands = std::mem::take(&mut self.waiting).into_values().flatten();
        let questions = self.writing.take().into_iter().flat_map(|writing| writing.questions);
        let questions = questions.chain(self.questions.drain(..)).map(|(_, asker)| asker);
        commands.chain(questions).map(|asker| (asker.who, retry("the applier is going"))).collect()
    }

    fn durable(&mut self, writing: Writing<A>, now: Instant, wall: Timestamp) -> Ended<A> {
        let Batch { rows, sets, replies, .. } = writing.batch;
        let after = writing.after;
        if !rows.is_empty() {
            self.pace.took(now.saturating_duration_since(writing.begun), now);
        }
        for row in &rows {
            self.remembered.note(row.request_id, row.index, row.at);
        }
        if let Some(last) = sets.last() {
            (self.head.index, self.head.at) = (last.index, last.at);
            self.durable = State::clone(&after);
        }
        let mut said = Vec::new();
        for (id, reply) in replies {
            let senders = self.waiting.remove(&id).into_iter().flatten();
            said.extend(senders.map(|asker| (asker.who, reply.clone())));
        }
        for (question, asker) in writing.questions {
            said.push((asker.who, self.answer(&question, now, wall)));
        }
        Ended::Durable { rows, sets, after, said }
    }

    fn failed(&mut self, writing: Writing<A>, now: Instant) -> Ended<A> {
        let mut replies = writing.batch.replies;
        if !writing.batch.rows.is_empty() {
            // What was judged ahead stands on what failed.
            let ahead = std::mem::replace(&mut self.ready, Batch::on(&self.durable));
            self.overlay = self.durable.clone();
            replies.extend(ahead.replies);
        }
        self.not_before = Some(now + RETRY);
        let mut said = Vec::new();
        for (id, judged) in replies {
            let senders = self.waiting.remove(&id).into_iter().flatten();
            let retry = retry("the database cannot be written to");
            let reply = if is_planted(Bug::SaysWhatWasNotWritten) { judged } else { retry };
            said.extend(senders.map(|asker| (asker.who, reply.clone())));
        }
        self.questions.extend(writing.questions);
        self.questions.retain(|(_, asker)| asker.until > now);
        Ended::Failed(said)
    }

    fn answer(&mut self, question: &Question, now: Instant, wall: Timestamp) -> Reply {
        match question {
            Question::Head => Reply::Head(self.head(wall)),
            Question::Renew(renew) => {
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

/// What nodes say, and who does a service's work, is small, and not to hear it would make everything worse.
fn can_wait(command: &Command) -> bool {
    match Class::of(command) {
        Class::Nodes => false,
        Class::Plans { .. } => true,
        Class::Rest => !matches!(command, Command::TakeLease(_)),
    }
}

/// Whether a command's cost is not bounded by its size: it may be about any number of allocations.
fn is_dear(command: &Command) -> bool {
    match command {
        Command::RegisterJob(_)
        | Command::EvaluateJob(_)
        | Command::SubmitPlan(_)
        | Command::UpdateEvals(_)
        | Command::RegisterNode(_)
        | Command::ReportAllocs(_)
        | Command::UpdateDeployments(_)
        | Command::SetNamespace(_)
        | Command::SetNodePool(_)
        | Command::SetSchedulerConfig(_)
        | Command::AddRootKey(_)
        | Command::TakeLease(_) => false,
        Command::DeregisterJob(_)
        | Command::Transition(_)
        | Command::DeleteEvals(_)
        | Command::UpdateNodes(_)
        | Command::DeregisterNodes(_)
        | Command::SetEligibility(_)
        | Command::EvaluateNode(_)
        | Command::FailDeployment(_)
        | Command::CollectGarbage(_)
        | Command::DeleteNamespace(_)
        | Command::DeleteNodePool(_) => true,
    }
}

fn retry(reason: &'static str) -> Reply {
    Reply::Answer(Answer::Retry { reason: reason.into() })
}

#[cfg(test)]
mod tests;
