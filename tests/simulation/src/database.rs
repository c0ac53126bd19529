//! The database as the applier uses it: the head's row, which holds the epoch and the last index, and the log. Each
//! statement is carried out atomically. The tests of `store` and `make chaos` use a real PostgreSQL.

use std::sync::Arc;

use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index, Nanos, ProcessId, Timestamp};
use state::State;
use wire::Wire;
use wire::command::Answer;
use wire::feed::Head;

use crate::checks::Checks;
use crate::messages::{DbReply, Statement};

/// How long after each write an applier keeps its lease.
const LEASE: Nanos = Nanos::from_secs(1);

/// The simulated database.
pub(crate) struct Database {
    head: Head,
    lease_until: Timestamp,
    /// The change sets of the log, each with the epoch that wrote it. `states` holds the state after each, and first
    /// the empty state.
    log: Vec<(Epoch, Arc<ChangeSet>)>,
    states: Vec<Arc<State>>,
}

impl Database {
    pub(crate) fn new() -> Self {
        let head = Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index::ZERO,
            at: Timestamp::UNSET,
            epoch: Epoch(0),
            applier: ProcessId::from_bytes([0; 16]),
            began: None,
        };
        Self { head, lease_until: Timestamp::UNSET, log: Vec::new(), states: vec![Arc::default()] }
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
        self.log.get((index.0 as usize).checked_sub(1)?).map(|(_, set)| set)
    }

    /// Carries out a statement.
    pub(crate) fn execute(&mut self, statement: Statement, now: Timestamp, checks: &mut Checks) -> DbReply {
        match statement {
            Statement::TakeOver { process, force } => {
                if !force && self.head.applier != process && now < self.lease_until {
                    return DbReply::Held(self.head.applier);
                }
                self.head.epoch = Epoch(self.head.epoch.0 + 1);
                self.head.applier = process;
                self.lease_until = now + LEASE;
                DbReply::Taken(self.head)
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
                    self.append(epoch, set, checks);
                }
                DbReply::Done
            }
            Statement::ReadOutcome { epoch, from, rows } => {
                if epoch != self.head.epoch {
                    return DbReply::Deposed;
                }
                self.lease_until = now + LEASE;
                let is_there = |row: &wire::LogRow| {
                    let found = self.log.get(row.index.0 as usize - 1);
                    found.is_some_and(|(by, set)| *by == epoch && set.request_id == row.request_id)
                };
                debug_assert!(rows.first().is_none_or(|row| row.index == from.next()));
                if rows.iter().all(is_there) { DbReply::Done } else { DbReply::NotCommitted }
            }
            Statement::Renew(epoch) | Statement::Confirm(epoch) if epoch != self.head.epoch => {
                DbReply::Deposed
            }
            Statement::Renew(_) | Statement::Confirm(_) => {
                self.lease_until = now + LEASE;
                DbReply::Done
            }
            Statement::Load => {
                let requests = self.log.iter().map(|(_, set)| (set.request_id, set.index, set.at)).collect();
                DbReply::Loaded(self.head, Arc::clone(self.state(self.head.index)), requests)
            }
            Statement::ReadHead => DbReply::Head(self.head),
            Statement::AnswerAt(index) => DbReply::Answer(self.set(index).and_then(|set| {
                wire::decode::<Answer>(<Answer as Wire>::KIND, <Answer as Wire>::VERSION, &set.result).ok()
            })),
        }
    }

    fn append(&mut self, epoch: Epoch, set: ChangeSet, checks: &mut Checks) {
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
        if self.log.last().is_some_and(|(last, _)| *last > epoch) {
            checks.record_violation(format!("epoch {epoch} wrote index {} after a later one", set.index));
        }
        checks.check_commit(&before, &set, &after);
        (self.head.index, self.head.at) = (set.index, set.at);
        self.log.push((epoch, Arc::new(set)));
        self.states.push(Arc::new(after));
    }
}
