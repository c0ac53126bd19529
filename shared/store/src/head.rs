//! The row `head`: how far the log is, who may write it, and until when nobody else should try.

use std::sync::{Mutex, PoisonError};
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

/// Where the head's row was last: its `ctid`. A transaction that is left open, or a long dump, keeps all versions of the
/// row that come after it, and to look through them for the newest takes longer and longer. A hint only: whoever does not
/// find the row there looks for it.
#[derive(Debug)]
pub(crate) struct Location(Mutex<String>);

impl Default for Location {
    /// Nowhere.
    fn default() -> Self {
        Self(Mutex::new("(0,0)".to_owned()))
    }
}

impl Location {
    pub(crate) fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, now: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// The row's columns that make a [`Head`].
struct Row {
    index: i64,
    at_ns: i64,
    applier_epoch: i64,
    applier_id: Uuid,
    history: Uuid,
}

/// The same, with where the row is and whether the lease lives.
struct Confirmed {
    index: i64,
    at_ns: i64,
    applier_epoch: i64,
    applier_id: Uuid,
    history: Uuid,
    location: String,
    lives: bool,
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
        where ($3 or applier_id = $1 or lease_until <= clock_timestamp()) and refuses_writes is null
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
        r#"select applier_id, extract(epoch from lease_until - clock_timestamp())::float8 as "remaining_secs!", refuses_writes
        from head"#
    );
    let held = held.fetch_one(transaction).await.map_err(database(action))?;
    if let Some(reason) = held.refuses_writes {
        return Err(Error::Refusing { reason });
    }
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

/// Whatever was sent to be committed before does nothing from now on, should the server come upon it later. The row is
/// locked already.
pub(crate) async fn raise_fence(transaction: &mut PgConnection) -> Result<u64, Error> {
    let raised = sqlx::query_scalar!("update head set fence = fence + 1 returning fence");
    let raised = raised.fetch_one(transaction).await.map_err(database("fence off late commits"))?;
    Ok(raised.cast_unsigned())
}

/// The head, if the lease is still this epoch's; and whether it lives, for only then no other server can have another
/// applier by now.
pub(crate) async fn confirm(
    connection: &mut PgConnection,
    epoch: Epoch,
    location: &Location,
) -> Result<(Head, bool), Error> {
    // The same twice, with a location to look at and without.
    macro_rules! confirm {
        ($at:literal $(, $location:expr)?) => {
            sqlx::query_as!(
                Confirmed,
                "select index, at_ns, applier_epoch, applier_id, history, ctid::text as \"location!\",
                    lease_until > clock_timestamp() as \"lives!\"
                from head where " + $at + "applier_epoch = $1",
                epoch.0.cast_signed(),
                $($location,)?
            )
        };
    }
    let action = "confirm the applier's epoch";
    let at_location =
        confirm!("ctid = $2::text::tid and ", location.get()).fetch_optional(&mut *connection).await;
    let mut found = at_location.map_err(database(action))?;
    if found.is_none() {
        found = confirm!("").fetch_optional(connection).await.map_err(database(action))?;
    }
    let Confirmed { index, at_ns, applier_epoch, applier_id, history, location: now, lives } =
        found.ok_or(Error::Deposed { epoch })?;
    location.set(now);
    Ok((Row { index, at_ns, applier_epoch, applier_id, history }.into(), lives))
}

/// Has everybody refuse the database until an operator accepts it, and deposes whoever writes it.
pub(crate) async fn refuse(connection: &mut PgConnection, reason: &str) -> Result<(), Error> {
    sqlx::query!(
        "update head set refuses_writes = $1, applier_epoch = applier_epoch + 1, lease_until = '-infinity'
        where refuses_writes is null",
        reason,
    )
    .execute(connection)
    .await
    .map(drop)
    .map_err(commit("have the database refused"))
}

/// Begins a new history in whatever database this is, and deposes whoever wrote the old one.
pub(crate) async fn begin_history(connection: &mut PgConnection, history: HistoryId) -> Result<(), Error> {
    sqlx::query!(
        "update head set history = $1, applier_epoch = applier_epoch + 1, lease_until = '-infinity', refuses_writes = null,
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
