//! The row `head`: how far the log is, who may write it, and until when nobody else should try.

use std::time::Duration;

use model::{Epoch, HistoryId, Index, ProcessId, Timestamp};
use sqlx::postgres::PgConnection;
use uuid::Uuid;
use wire::feed::Head;

use crate::error::{Error, commit, database};

/// What came of trying to become the active applier.
#[derive(Debug)]
pub enum Take {
    /// It worked: the head with the new epoch. The last applier's last commit is in it.
    Active(Head),
    /// Another one's lease still lives.
    Held {
        /// Whose.
        by: ProcessId,
        /// For how long at most, if nobody renews it.
        remaining: Duration,
    },
}

/// The row's columns that make a [`Head`].
struct Row {
    index: i64,
    at_ns: i64,
    applier_epoch: i64,
    applier_id: Uuid,
    history: Uuid,
}

impl From<Row> for Head {
    fn from(row: Row) -> Self {
        Self {
            history: HistoryId(row.history),
            index: index(row.index),
            at: Timestamp(row.at_ns),
            epoch: Epoch(row.applier_epoch.cast_unsigned()),
            applier: ProcessId(row.applier_id),
        }
    }
}

/// An index as the database has it.
pub(crate) fn index(column: i64) -> Index {
    Index(column.cast_unsigned())
}

pub(crate) async fn read(connection: &mut PgConnection) -> Result<Head, Error> {
    let row = sqlx::query_as!(Row, "select index, at_ns, applier_epoch, applier_id, history from head");
    Ok(row.fetch_one(connection).await.map_err(database("read the head"))?.into())
}

/// Waits for whoever is writing the head; nobody else does until the transaction ends.
pub(crate) async fn lock(transaction: &mut PgConnection) -> Result<(), Error> {
    let locked = sqlx::query!("select index from head for update").fetch_one(transaction).await;
    locked.map(drop).map_err(database("lock the head"))
}

/// Raises the epoch, if no other process's lease lives or `force` is given. The row is locked already, so that the clock
/// is read after the wait for it.
pub(crate) async fn take(
    transaction: &mut PgConnection,
    process: ProcessId,
    lease: Duration,
    force: bool,
) -> Result<Take, Error> {
    let taken = sqlx::query_as!(
        Row,
        "update head set applier_epoch = applier_epoch + 1, applier_id = $1,
            lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
        where $3 or applier_id = $1 or lease_until <= clock_timestamp()
        returning index, at_ns, applier_epoch, applier_id, history",
        process.0,
        millis(lease),
        force,
    );
    let action = "take the applier's lease";
    if let Some(row) = taken.fetch_optional(&mut *transaction).await.map_err(database(action))? {
        return Ok(Take::Active(row.into()));
    }
    let held = sqlx::query!(
        r#"select applier_id, extract(epoch from lease_until - clock_timestamp())::float8 as "remaining_secs!" from head"#
    );
    let held = held.fetch_one(transaction).await.map_err(database(action))?;
    let remaining = Duration::try_from_secs_f64(held.remaining_secs).unwrap_or_default();
    Ok(Take::Held { by: ProcessId(held.applier_id), remaining })
}

/// Renews the lease; a transaction of its own unless it is in one.
pub(crate) async fn renew(
    connection: &mut PgConnection,
    epoch: Epoch,
    lease: Duration,
) -> Result<Head, Error> {
    let renewed = sqlx::query_as!(
        Row,
        "update head set lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
        where applier_epoch = $1
        returning index, at_ns, applier_epoch, applier_id, history",
        epoch.0.cast_signed(),
        millis(lease),
    );
    let row = renewed.fetch_optional(connection).await.map_err(commit("renew the applier's lease"))?;
    row.map(Head::from).ok_or(Error::Deposed { epoch })
}

/// The head, if the lease is still this epoch's; and whether it lives, for only then no other server can have another
/// applier by now.
pub(crate) async fn confirm(connection: &mut PgConnection, epoch: Epoch) -> Result<(Head, bool), Error> {
    let found = sqlx::query!(
        r#"select index, at_ns, applier_epoch, applier_id, history, lease_until > clock_timestamp() as "lives!"
        from head where applier_epoch = $1"#,
        epoch.0.cast_signed(),
    );
    let found = found.fetch_optional(connection).await.map_err(database("confirm the applier's epoch"))?;
    let found = found.ok_or(Error::Deposed { epoch })?;
    let row = Row {
        index: found.index,
        at_ns: found.at_ns,
        applier_epoch: found.applier_epoch,
        applier_id: found.applier_id,
        history: found.history,
    };
    Ok((row.into(), found.lives))
}

/// Begins a new history in whatever database this is, and deposes whoever wrote the old one.
pub(crate) async fn begin_history(connection: &mut PgConnection, history: HistoryId) -> Result<(), Error> {
    sqlx::query!(
        "update head set history = $1, applier_epoch = applier_epoch + 1, lease_until = '-infinity',
            system_identifier = (select system_identifier from pg_control_system())",
        history.0,
    )
    .execute(connection)
    .await
    .map(drop)
    .map_err(commit("begin a new history"))
}

/// A duration as statements take it.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
