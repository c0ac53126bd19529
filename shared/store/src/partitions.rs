//! The partitions of the log: numbered parts, made ahead of the one that commits go to, and taken away in the end.
//!
//! Whatever alters the log's table itself would queue behind any forgotten transaction that has read it, and every
//! commit behind that (design §4). So a part is made as a plain table and attached, and in the end detached
//! `concurrently` and then dropped; each statement waits for a lock no longer than its connection allows, and is tried
//! again later. Which parts are due, [`trimming`](crate::trimming) decides.

use model::{Epoch, Index, Timestamp};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::error::{Error, commit, database};
use crate::head;
use crate::projection;
use crate::trimming::{Limits, LogSize, decide};

/// How many empty parts there are beyond the one that commits go to.
pub(crate) const AHEAD: u64 = 2;

/// One part of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) place: Place,
    /// What it takes of the disk.
    pub(crate) bytes: u64,
    /// What it holds; `None` if it is empty or cannot be seen any more.
    pub(crate) span: Option<Span>,
}

/// How far a part is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It belongs to the log.
    Attached,
    /// Detaching it was interrupted. There is never more than one.
    Detaching,
    /// It is a table of its own.
    Detached,
}

/// The change sets that a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    pub(crate) last: Index,
}

/// Ends the part that commits go to if it is time, makes the parts that are missing, and takes away those that are due:
/// as far as nobody is in the way.
pub(crate) async fn look_after(
    connection: &mut PgConnection,
    epoch: Epoch,
    now: Timestamp,
    limits: Limits,
) -> Result<LogSize, Error> {
    let projected = projection::read(connection).await?.index;
    let (current, parts) = list(connection).await?;
    let decision = decide(&parts, current, projected, now, limits);
    if decision.end {
        unless_busy(end(connection, epoch, current).await)?;
    }
    unless_busy(make(connection).await)?;
    let mut taken_away = 0;
    for part in &decision.due {
        if unless_busy(take_away(connection, part).await)? {
            taken_away += 1;
        } else if part.place != Place::Detached {
            // One at a time is detached.
            break;
        }
    }
    Ok(LogSize {
        bytes: parts.iter().map(|part| part.bytes).sum(),
        parts: parts.len(),
        held_up: decision.due.len() - taken_away,
        oldest: parts.iter().find_map(|part| part.span).map_or(Timestamp::UNSET, |span| span.first_at),
        is_full: decision.is_full,
    })
}

/// Whether it was done; `false` if it only has to be tried again later.
fn unless_busy(done: Result<(), Error>) -> Result<bool, Error> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.is_busy() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the parts that are missing, each in a transaction of its own.
pub(crate) async fn make(connection: &mut PgConnection) -> Result<(), Error> {
    let action = "make a part of the log";
    while missing(connection).await?.is_some() {
        let mut transaction = connection.begin().await.map_err(database(action))?;
        // What attaching takes as well: nobody else makes one meanwhile, and no commit waits for it.
        let lock = sqlx::query!("lock table changes in share update exclusive mode")
            .execute(&mut *transaction)
            .await;
        lock.map_err(database(action))?;
        let Some(number) = missing(&mut transaction).await? else { break };
        // Not checked when built: names and bounds are no parameters.
        let create = format!("create table changes_{number} (like changes including all)");
        let attach =
            format!("alter table changes attach partition changes_{number} for values in ({number})");
        for statement in [create, attach] {
            let made = sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await;
            made.map_err(database(action))?;
        }
        transaction.commit().await.map_err(commit(action))?;
        tracing::debug!(part = number, "made a part of the log");
    }
    Ok(())
}

/// The number of the next part that the log needs, unless there are enough.
async fn missing(connection: &mut PgConnection) -> Result<Option<u64>, Error> {
    let missing = sqlx::query_scalar!(
        r#"select needed.part as "part!" from head, generate_series(head.part, head.part + $1) as needed (part)
        where not exists (
            select from pg_inherits join pg_class on pg_class.oid = inhrelid
            where inhparent = 'changes'::regclass and relname = 'changes_' || needed.part
        )
        order by 1 limit 1"#,
        AHEAD.cast_signed(),
    );
    let missing = missing.fetch_optional(connection).await;
    Ok(missing.map_err(database("list the parts of the log"))?.map(i64::cast_unsigned))
}

/// The part that commits go to, and all parts that there are, by number.
async fn list(connection: &mut PgConnection) -> Result<(u64, Vec<Part>), Error> {
    let found = sqlx::query!(
        r#"select head.part as "current!", found.part as "number!", coalesce(bytes, 0) as "bytes!",
            is_attached as "is_attached!", is_detaching as "is_detaching!", first.at_ns as "first_at_ns?",
            last.at_ns as "last_at_ns?", last.index as "last?"
        from head
        cross join lateral (
            select substring(relname from '^changes_(\d{1,18})$')::bigint as part,
                pg_total_relation_size(pg_class.oid) as bytes,
                inhrelid is not null as is_attached,
                coalesce(inhdetachpending, false) as is_detaching
            from pg_class left join pg_inherits on inhrelid = pg_class.oid
            where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = 'changes'::regclass)
        ) found
        left join lateral (
            select at_ns from changes where changes.part = found.part order by index limit 1
        ) first on true
        left join lateral (
            select at_ns, index from changes where changes.part = found.part order by index desc limit 1
        ) last on true
        where found.part is not null
        order by found.part"#
    );
    let found = found.fetch_all(connection).await.map_err(database("list the parts of the log"))?;
    let current = found.first().map_or(0, |row| row.current.cast_unsigned());
    let parts = found.into_iter().map(|row| Part {
        number: row.number.cast_unsigned(),
        place: match (row.is_attached, row.is_detaching) {
            (true, false) => Place::Attached,
            (true, true) => Place::Detaching,
            (false, _) => Place::Detached,
        },
        bytes: row.bytes.cast_unsigned(),
        span: row.first_at_ns.zip(row.last_at_ns).zip(row.last).map(|((first_at, last_at), last)| Span {
            first_at: Timestamp(first_at),
            last_at: Timestamp(last_at),
            last: head::index(last),
        }),
    });
    Ok((current, parts.collect()))
}

/// Ends the part `current`: commits go to the next one, which must be there.
async fn end(connection: &mut PgConnection, epoch: Epoch, current: u64) -> Result<(), Error> {
    let action = "end a part of the log";
    let ended = sqlx::query!(
        "update head set part = part + 1 where applier_epoch = $1 and part = $2",
        epoch.0.cast_signed(),
        current.cast_signed(),
    );
    let ended = ended.execute(connection).await.map_err(commit(action))?;
    if ended.rows_affected() == 0 { Err(Error::Deposed { epoch }) } else { Ok(()) }
}

/// Takes a part a step or two further on its way out, until it is gone. Whoever still reads it may be in the way
/// ([`Error::is_busy`]); then the next call goes on where this one ended.
///
/// Needs no epoch: what may go once may always go.
async fn take_away(connection: &mut PgConnection, part: &Part) -> Result<(), Error> {
    let number = part.number;
    // Not checked when built: names are no parameters. Not in a transaction: these make their own.
    let detach = match part.place {
        Place::Attached => format!("alter table changes detach partition changes_{number} concurrently"),
        Place::Detaching => format!("alter table changes detach partition changes_{number} finalize"),
        Place::Detached => String::new(),
    };
    for statement in [detach, format!("drop table if exists changes_{number}")] {
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await;
        done.map_err(commit("take away a part of the log"))?;
    }
    tracing::debug!(part = number, "took away a part of the log");
    Ok(())
}
