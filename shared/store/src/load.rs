//! Loading the state: the object tables, and the log after them, in one repeatable-read transaction.

use fail::fail_point;
use futures::TryStreamExt;
use model::change::{Cause, Change, ChangeSet};
use model::{Index, RequestId, Timestamp};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use state::{Scope, State, Table};
use wire::feed::Head;

use crate::error::{Error, database};
use crate::head;
use crate::log;
use crate::projection::{self, Projected};
use crate::tables;

/// How many objects are passed to the state at once. Further rows stay with the server until then.
const BATCH: usize = 1_024;

/// A loaded state.
#[derive(Debug)]
pub struct Loaded {
    /// The state, at the head's index.
    pub state: State,
    /// The head of the same transaction.
    pub head: Head,
    /// The last index in the object tables. Later change sets are in the log and still have to be projected.
    pub projected: Index,
}

/// A state that is being loaded.
pub(crate) struct Loading {
    state: State,
    at: Projected,
    batch: Vec<Change>,
}

/// Loads everything in one transaction. Returns `None` if the log has a gap after the tables because it is being trimmed.
pub(crate) async fn load(connection: &mut PgConnection, scope: Scope) -> Result<Option<Loaded>, Error> {
    // Not checked at compile time: the statement has neither parameters nor a result.
    let begin = "begin isolation level repeatable read, read only";
    let mut transaction = connection.begin_with(begin).await.map_err(database("begin a load"))?;
    let head = head::read(&mut transaction).await?;
    let projected = projection::read(&mut transaction).await?;
    fail_point!("load.begun");
    let mut loading = Loading { state: State::new(head.history, scope), at: projected, batch: Vec::new() };
    tables::load(&mut transaction, &mut loading).await?;
    let mut state = loading.finish()?;
    fail_point!("load.tables");
    let complete = catch_up(&mut transaction, &mut state, head.index).await?;
    transaction.commit().await.map_err(database("end a load"))?;
    Ok(complete.then_some(Loaded { state, head, projected: projected.index }))
}

/// Applies the log up to `head`. Returns whether the log was complete.
async fn catch_up(transaction: &mut PgConnection, state: &mut State, head: Index) -> Result<bool, Error> {
    let rows = sqlx::query_scalar!(
        "select bytes from changes where index > $1 and index <= $2 order by index",
        state.index().0.cast_signed(),
        head.0.cast_signed(),
    );
    let mut rows = rows.fetch(transaction);
    while let Some(bytes) = rows.try_next().await.map_err(database("read the log"))? {
        let set = log::decode(&bytes)?;
        if set.index != state.index().next() {
            return Ok(false);
        }
        state.apply(&set)?;
    }
    Ok(state.index() == head)
}

impl Loading {
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

    fn finish(mut self) -> Result<State, Error> {
        self.flush()?;
        Ok(self.state)
    }
}

/// A change set for `State::load`, which uses only these fields of it.
fn change_set(index: Index, at: Timestamp, changes: Vec<Change>) -> ChangeSet {
    let request_id = RequestId::from_bytes([0; 16]);
    ChangeSet { index, at, request_id, cause: Cause::Settings, trace: None, result: Vec::new(), changes }
}
