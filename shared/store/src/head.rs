//! The row `head`: the last index of the log, the epoch that may write, and the lease of the active applier.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Epoch, HistoryId, Index, ProcessId, Timestamp};
use sqlx::postgres::PgConnection;
use uuid::Uuid;
use wire::feed::Head;

use crate::error::{Error, commit, database};

/// The outcome of an attempt to become the active applier.
#[derive(Debug)]
pub enum TakeOutcome {
    /// The attempt succeeded. The head has the new epoch; it includes the last commit of the previous applier.
    Active(Confirmed),
    /// The lease of another applier has not ended.
    Held {
        /// The process that holds the lease.
        by: ProcessId,
        /// How long the lease lasts unless it is renewed.
        remaining: Duration,
    },
}

/// The head of the active applier, at a time of the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmed {
    /// The head.
    pub head: Head,
    /// The time by the database's clock when the head was read. It is read with the head, at no further cost.
    pub now: Timestamp,
}

/// The last known position of the head's row in its table: its `ctid`. An open transaction, or a long dump, keeps all later
/// versions of the row, and searching them for the newest takes longer and longer. The position is only a hint: a statement
/// that does not find the row there searches for it.
#[derive(Debug)]
pub(crate) struct Location(Mutex<String>);

impl Default for Location {
    /// An unknown position.
    fn default() -> Self {
        Self(Mutex::new("(0,0)".to_owned()))
    }
}

impl Location {
    pub(crate) fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, ctid: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ctid;
    }
}

/// The columns of the row that make a [`Head`].
struct Row {
    index: i64,
    at_ns: i64,
    applier_epoch: i64,
    applier_id: Uuid,
    history: Uuid,
}

/// The columns of a [`Confirmed`].
struct ConfirmedRow {
    index: i64,
    at_ns: i64,
    applier_epoch: i64,
    applier_id: Uuid,
    history: Uuid,
    now_ns: i64,
}

/// The same, the position of the row, and whether the lease has not expired.
struct CheckedRow {
    index: i64,
    at_ns: i64,
    applier_epoch: i64,
    applier_id: Uuid,
    history: Uuid,
    now_ns: i64,
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
            began: None,
        }
    }
}

impl From<ConfirmedRow> for Confirmed {
    fn from(row: ConfirmedRow) -> Self {
        let ConfirmedRow { index, at_ns, applier_epoch, applier_id, history, now_ns } = row;
        let head = Row { index, at_ns, applier_epoch, applier_id, history }.into();
        Self { head, now: Timestamp(now_ns) }
    }
}

/// Converts an index column.
pub(crate) fn index(column: i64) -> Index {
    Index(column.cast_unsigned())
}

pub(crate) async fn read(connection: &mut PgConnection) -> Result<Head, Error> {
    let row = sqlx::query_as!(Row, "select index, at_ns, applier_epoch, applier_id, history from head");
    Ok(row.fetch_one(connection).await.map_err(database("read the head"))?.into())
}

/// Locks the head's row until the transaction ends. Waits for any transaction that is writing the row.
pub(crate) async fn lock(transaction: &mut PgConnection) -> Result<(), Error> {
    let locked = sqlx::query!("select index from head for update").fetch_one(transaction).await;
    locked.map(drop).map_err(database("lock the head"))
}

/// Raises the epoch, if no other process has an unexpired lease or if `force` is set. The caller has locked the row already, so
/// that the clock is read after the wait for the lock.
pub(crate) async fn take_lease(
    transaction: &mut PgConnection,
    process: ProcessId,
    lease: Duration,
    force: bool,
) -> Result<TakeOutcome, Error> {
    let taken = sqlx::query_as!(
        ConfirmedRow,
        "update head set applier_epoch = applier_epoch + 1, applier_id = $1,
            lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
        where ($3 or applier_id = $1 or lease_until <= clock_timestamp()) and refuses_writes is null
        returning index, at_ns, applier_epoch, applier_id, history,
            (extract(epoch from clock_timestamp()) * 1000000000)::bigint as \"now_ns!\"",
        process.0,
        millis(lease),
        force,
    );
    let action = "take the applier's lease";
    if let Some(row) = taken.fetch_optional(&mut *transaction).await.map_err(database(action))? {
        return Ok(TakeOutcome::Active(row.into()));
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
    Ok(TakeOutcome::Held { by: ProcessId(held.applier_id), remaining })
}

/// Renews the lease. Outside of a transaction, the statement is a transaction of its own.
pub(crate) async fn renew(
    connection: &mut PgConnection,
    epoch: Epoch,
    lease: Duration,
) -> Result<Confirmed, Error> {
    let renewed = sqlx::query_as!(
        ConfirmedRow,
        "update head set lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
        where applier_epoch = $1
        returning index, at_ns, applier_epoch, applier_id, history,
            (extract(epoch from clock_timestamp()) * 1000000000)::bigint as \"now_ns!\"",
        epoch.0.cast_signed(),
        millis(lease),
    );
    let row = renewed.fetch_optional(connection).await.map_err(commit("renew the applier's lease"))?;
    row.map(Confirmed::from).ok_or(Error::Deposed { epoch })
}

/// Raises the fence: commits that were sent with an older fence have no effect if the server executes them later. The
/// caller has locked the row already.
pub(crate) async fn raise_fence(transaction: &mut PgConnection) -> Result<u64, Error> {
    let raised = sqlx::query_scalar!("update head set fence = fence + 1 returning fence");
    let raised = raised.fetch_one(transaction).await.map_err(database("fence off late commits"))?;
    Ok(raised.cast_unsigned())
}

/// Reads the head if the epoch still owns it, and whether the lease has not expired. Only an unexpired lease makes it certain
/// that no other server has another applier by now.
pub(crate) async fn confirm(
    connection: &mut PgConnection,
    epoch: Epoch,
    location: &Location,
) -> Result<(Confirmed, bool), Error> {
    // One statement in two forms: with a row position to look at, and without.
    macro_rules! confirm {
        ($at:literal $(, $location:expr)?) => {
            sqlx::query_as!(
                CheckedRow,
                "select index, at_ns, applier_epoch, applier_id, history,
                    (extract(epoch from clock_timestamp()) * 1000000000)::bigint as \"now_ns!\",
                    ctid::text as \"location!\", lease_until > clock_timestamp() as \"lives!\"
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
    let CheckedRow { index, at_ns, applier_epoch, applier_id, history, now_ns, location: ctid, lives } =
        found.ok_or(Error::Deposed { epoch })?;
    location.set(ctid);
    let row = ConfirmedRow { index, at_ns, applier_epoch, applier_id, history, now_ns };
    Ok((row.into(), lives))
}

/// Marks the database so that every applier refuses it until an operator accepts it, and deposes the current applier. With
/// `history`, does so only if the database still has it: an operator may have accepted the database meanwhile.
pub(crate) async fn mark_refused(
    connection: &mut PgConnection,
    reason: &str,
    history: Option<HistoryId>,
) -> Result<(), Error> {
    sqlx::query!(
        "update head set refuses_writes = $1, applier_epoch = applier_epoch + 1, lease_until = '-infinity'
        where refuses_writes is null and history = coalesce($2, history)",
        reason,
        history.map(|history| history.0),
    )
    .execute(connection)
    .await
    .map(drop)
    .map_err(commit("mark the database as refused"))
}

/// Begins a new history from whatever the database contains, and deposes the applier of the old one.
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

/// A duration in milliseconds, as statements expect it.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
