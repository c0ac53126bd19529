//! Loading the state: the object tables, and the log after them, in one repeatable-read transaction.

use fail::fail_point;
use futures::TryStreamExt;
use model::Index;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use state::{Scope, State};
use wire::feed::Head;

use crate::error::{Error, database};
use crate::head;
use crate::loading::Loading;
use crate::log;
use crate::projection;
use crate::tables;

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

/// Loads everything in one transaction. Returns `None` if the log has a gap after the tables because it is being trimmed.
pub(crate) async fn load(connection: &mut PgConnection, scope: Scope) -> Result<Option<Loaded>, Error> {
    // Not checked at compile time: the statement has neither parameters nor a result.
    let begin = "begin isolation level repeatable read, read only";
    let mut transaction = connection.begin_with(begin).await.map_err(database("begin a load"))?;
    let head = head::read(&mut transaction).await?;
    let projected = projection::read(&mut transaction).await?;
    fail_point!("load.begun");
    let mut loading = Loading::new(State::new(head.history, scope), projected);
    tables::load(&mut transaction, &mut loading).await?;
    loading.end_tables().await?;
    fail_point!("load.tables");
    let is_complete = catch_up(&mut transaction, &mut loading, projected.index, head.index).await?;
    let last_request = log::request_at(&mut transaction, head.index).await?;
    // The state may still be under construction. The transaction has read everything that it needs.
    transaction.commit().await.map_err(database("end a load"))?;
    if !is_complete {
        return Ok(None);
    }
    let mut state = loading.finish().await?;
    state.set_last_request(last_request);
    Ok(Some(Loaded { state, head, projected: projected.index }))
}

/// Reads the log after the tables up to `head`. Returns whether the log was complete.
async fn catch_up(
    transaction: &mut PgConnection,
    loading: &mut Loading,
    tables: Index,
    head: Index,
) -> Result<bool, Error> {
    let rows = sqlx::query_scalar!(
        "select bytes from changes where index > $1 and index <= $2 order by index",
        tables.0.cast_signed(),
        head.0.cast_signed(),
    );
    let mut rows = rows.fetch(transaction);
    let mut last = tables;
    while let Some(bytes) = rows.try_next().await.map_err(database("read the log"))? {
        let set = log::decode(&bytes)?;
        if set.index != last.next() {
            return Ok(false);
        }
        last = set.index;
        loading.apply(set).await?;
    }
    Ok(last == head)
}
