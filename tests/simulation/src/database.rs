//! The database as the applier uses it: the head's row, which holds the epoch and the last index, and the log. Each
//! statement is carried out atomically. The tests of `store` and `make chaos` use a real PostgreSQL.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index, Nanos, ProcessId, RequestId, Timestamp};
use state::{Scope, State};
use wire::Wire;
use wire::command::Answer;
use wire::feed::Head;

use crate::checks::Checks;
use crate::messages::{DbReply, Run, Statement};

/// How long after each write an applier keeps its lease.
const LEASE: Nanos = Nanos::from_secs(1);

/// The simulated database.
pub(crate) struct Database {
    head: Head,
    lease_until: Timestamp,
    /// Whether nothing is written before an operator accepts the database.
    is_marked: bool,
    log: Vec<Logged>,
    /// The state after each change set of the log, and first the empty state.
    states: Vec<Arc<State>>,
    /// What restores have taken out of the log: index and request of each change set.
    lost: BTreeSet<(Index, RequestId)>,
}

/// A change set of the log, and the applier that wrote it.
struct Logged {
    epoch: Epoch,
    applier: ProcessId,
    set: Arc<ChangeSet>,
}

impl Database {
    pub(crate) fn new() -> Self {
        let history = HistoryId::from_bytes([1; 16]);
        Self {
            head: beginning(history),
            lease_until: Timestamp::UNSET,
            is_marked: false,
            log: Vec::new(),
            states: vec![Arc::new(State::new(history, Scope::ALL))],
            lost: BTreeSet::new(),
        }
    }

    /// Replaces the log with an earlier copy of itself. Returns the requests that it lacks then.
    pub(crate) fn restore(&mut self, index: Index) -> Vec<RequestId> {
        let lost = self.log.split_off(index.0 as usize);
        self.states.truncate(index.0 as usize + 1);
        self.head = beginning(self.head.history);
        if let Some(Logged { epoch, applier, set }) = self.log.last() {
            self.head = Head { index: set.index, at: set.at, epoch: *epoch, applier: *applier, ..self.head };
        }
        self.lease_until = Timestamp::UNSET;
        self.lost.extend(lost.iter().map(|logged| (logged.set.index, logged.set.request_id)));
        lost.iter().map(|logged| logged.set.request_id).collect()
    }

    /// Whether a restore has taken a request out of the log at an index.
    pub(crate) fn has_lost(&self, index: Index, request: RequestId) -> bool {
        self.lost.contains(&(index, request))
    }

    /// Whether an operator has to accept the database.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// An operator accepts the database: a new history begins with what it contains.
    pub(crate) fn accept(&mut self, history: HistoryId) {
        self.head.history = history;
        self.head.epoch = Epoch(self.head.epoch.0 + 1);
        self.lease_until = Timestamp::UNSET;
        self.is_marked = false;
        let mut state = State::new(history, Scope::ALL);
        self.states = vec![Arc::new(state.clone())];
        for logged in &self.log {
            state.apply(&logged.set).expect("the log could be applied before");
            self.states.push(Arc::new(state.clone()));
        }
    }

    /// Whether a state is one of this database's history and log.
    pub(crate) fn contains(&self, state: &State) -> bool {
        let request = self.set(state.index()).map(|set| set.request_id);
        state.history() == self.head.history
            && state.index() <= self.head.index
            && state.last_request() == request
    }

    pub(crate) fn history(&self) -> HistoryId {
        self.head.history
    }

    pub(crate) fn index(&self) -> Index {
        self.head.index
    }

    /// Returns the state at a committed index.
    pub(crate) fn state(&self, index: Index) -> &Arc<State> {
        &self.states[index.0 as usize]
    }

    /// Returns the change set of an index.
    pub(crate) fn set(&self, index: Index) -> Option<&Arc<ChangeSet>> {
        self.log.get((index.0 as usize).checked_sub(1)?).map(|logged| &logged.set)
    }

    /// The change sets after an index.
    pub(crate) fn after(&self, index: Index) -> Run {
        let sets = self.log.iter().zip(self.states.iter().skip(1)).skip(index.0 as usize);
        Run {
            history: self.head.history,
            previous: self.set(index).map(|set| set.request_id),
            first: index.next(),
            sets: sets.map(|(logged, state)| (Arc::clone(&logged.set), Arc::clone(state))).collect(),
        }
    }

    /// Carries out a statement.
    pub(crate) fn execute(&mut self, statement: Statement, now: Timestamp, checks: &mut Checks) -> DbReply {
        match statement {
            Statement::TakeOver { process, force } => {
                if self.is_marked {
                    return DbReply::Refusing;
                }
                if !force && self.head.applier != process && now < self.lease_until {
                    return DbReply::Held(self.head.applier);
                }
                self.head.epoch = Epoch(self.head.epoch.0 + 1);
                self.head.applier = process;
                self.lease_until = now + LEASE;
                DbReply::Taken(self.head, now)
            }
            Statement::Commit { epoch, from, rows } => {
                let may_write =
                    epoch == self.head.epoch || planted_bugs::is_planted(planted_bugs::Bug::SkipsEpochCheck);
                if !may_write || from != self.head.index {
                    return DbReply::Deposed;
                }
                self.lease_until = now + LEASE;
                for row in rows {
                    let set = row.change_set().expect("rows of the applier can be decoded");
                    self.append(epoch, set, now, checks);
                }
                DbReply::Done(now)
            }
            Statement::ReadOutcome { epoch, from, rows } => {
                if epoch != self.head.epoch {
                    return DbReply::Deposed;
                }
                self.lease_until = now + LEASE;
                let is_there = |row: &wire::LogRow| {
                    let found = self.log.get(row.index.0 as usize - 1);
                    found.is_some_and(|logged| {
                        logged.epoch == epoch && logged.set.request_id == row.request_id
                    })
                };
                debug_assert!(rows.first().is_none_or(|row| row.index == from.next()));
                if rows.iter().all(is_there) { DbReply::Done(now) } else { DbReply::NotCommitted }
            }
            Statement::Renew(epoch) | Statement::Confirm(epoch) if epoch != self.head.epoch => {
                DbReply::Deposed
            }
            Statement::Renew(_) | Statement::Confirm(_) => {
                self.lease_until = now + LEASE;
                DbReply::Done(now)
            }
            Statement::Mark(history) => {
                if !self.is_marked && history == self.head.history {
                    self.is_marked = true;
                    self.head.epoch = Epoch(self.head.epoch.0 + 1);
                    self.lease_until = Timestamp::UNSET;
                }
                DbReply::Done(now)
            }
            Statement::Load => {
                let request = |Logged { set, .. }: &Logged| (set.request_id, set.index, set.at);
                let requests = self.log.iter().map(request).collect();
                DbReply::Loaded(self.head, Arc::clone(self.state(self.head.index)), requests)
            }
            Statement::ReadAfter(index) if index > self.head.index => DbReply::NotReached,
            Statement::ReadAfter(index) => DbReply::Run(self.head, Arc::new(self.after(index))),
            Statement::AnswerAt(index) => DbReply::Answer(self.set(index).and_then(|set| {
                wire::decode::<Answer>(<Answer as Wire>::KIND, <Answer as Wire>::VERSION, &set.result).ok()
            })),
        }
    }

    fn append(&mut self, epoch: Epoch, set: ChangeSet, now: Timestamp, checks: &mut Checks) {
        let before = Arc::clone(&self.states[self.states.len() - 1]);
        let mut after = State::clone(&before);
        if set.index != before.index().next() {
            return checks.record_violation(format!(
                "index {} was committed after {}",
                set.index,
                before.index()
            ));
        }
        if let Err(error) = after.apply(&set) {
            return checks.record_violation(format!(
                "the change set at index {} cannot be applied: {error}",
                set.index
            ));
        }
        if self.log.last().is_some_and(|last| last.epoch > epoch) {
            checks.record_violation(format!("epoch {epoch} wrote index {} after a later one", set.index));
        }
        checks.check_time(&set, now);
        checks.check_commit(&before, &set, &after);
        (self.head.index, self.head.at) = (set.index, set.at);
        self.log.push(Logged { epoch, applier: self.head.applier, set: Arc::new(set) });
        self.states.push(Arc::new(after));
    }
}

/// The head of an empty log.
fn beginning(history: HistoryId) -> Head {
    Head {
        history,
        index: Index::ZERO,
        at: Timestamp::UNSET,
        epoch: Epoch(0),
        applier: ProcessId::from_bytes([0; 16]),
        began: None,
    }
}
