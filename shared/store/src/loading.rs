//! [`Loading`]: a state that is being loaded. It takes the objects of the tables in batches.

use model::change::{Cause, Change, ChangeSet};
use model::{Index, RequestId, Timestamp};
use state::{State, Table};

use crate::error::Error;
use crate::projection::Projected;

/// How many objects are passed to the state at once. Further rows stay with the server until then.
const BATCH: usize = 1_024;

/// A state that is being loaded.
pub(crate) struct Loading {
    state: State,
    at: Projected,
    batch: Vec<Change>,
}

impl Loading {
    /// Starts with an empty state. The tables are at the index `at`.
    pub(crate) fn new(state: State, at: Projected) -> Self {
        Self { state, at, batch: Vec::new() }
    }

    /// Whether a table is in scope.
    pub(crate) fn wants(&self, table: Table) -> bool {
        self.state.scope().has(table)
    }

    /// Adds an object that carries its own indexes.
    pub(crate) fn push(&mut self, change: Change) -> Result<(), Error> {
        self.batch.push(change);
        if self.batch.len() < BATCH { Ok(()) } else { self.flush() }
    }

    /// Adds changes that carry no indexes and happened at `index`.
    pub(crate) fn push_at(&mut self, index: Index, changes: Vec<Change>) -> Result<(), Error> {
        self.flush()?;
        Ok(self.state.load(&change_set(index, self.at.at, changes))?)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let set = change_set(self.at.index, self.at.at, std::mem::take(&mut self.batch));
        Ok(self.state.load(&set)?)
    }

    /// The complete state.
    pub(crate) fn finish(mut self) -> Result<State, Error> {
        self.flush()?;
        Ok(self.state)
    }
}

/// A change set for `State::load`, which uses only these fields of it.
fn change_set(index: Index, at: Timestamp, changes: Vec<Change>) -> ChangeSet {
    let request_id = RequestId::from_bytes([0; 16]);
    ChangeSet { index, at, request_id, cause: Cause::Settings, trace: None, result: Vec::new(), changes }
}
