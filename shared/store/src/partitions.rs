//! The partitions of the log: they are numbered, created ahead of the current one, which commits go to, and dropped when
//! they are no longer needed.
//!
//! A statement that alters the log's parent table would queue behind any open transaction that has read it, and every
//! commit would queue behind that statement (`docs/architecture/log.md`). So a partition is created as a plain table and attached; later it
//! is detached `concurrently` and then dropped. Each statement waits for a lock only as long as its connection allows, and
//! is tried again later. [`trimming`](crate::trimming) decides which partitions are due.

use model::{Epoch, Timestamp};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::error::{Error, commit, database};
use crate::head;
use crate::projection;
use crate::trimming::{AHEAD, Attachment, Limits, LogSize, Part, Span, decide};

/// Closes the current partition if it is time, creates the missing partitions, and drops those that are due. Skips every
/// step that another transaction blocks.
pub(crate) async fn maintain(
    connection: &mut PgConnection,
    epoch: Epoch,
    now: Timestamp,
    limits: Limits,
) -> Result<LogSize, Error> {
    let projected = projection::read(connection).await?.index;
    let (current, parts) = list(connection).await?;
    let decision = decide(&parts, current, projected, now, limits);
    if decision.close {
        unless_busy(close(connection, epoch, current).await)?;
    }
    unless_busy(create_missing(connection).await)?;
    let mut dropped = 0;
    for part in &decision.due {
        if unless_busy(drop_part(connection, part).await)? {
            dropped += 1;
        } else if part.attachment != Attachment::Detached {
            // Only one partition can be detached at a time.
            break;
        }
    }
    Ok(LogSize {
        bytes: parts.iter().map(|part| part.bytes).sum(),
        parts: parts.len(),
        held_up: decision.due.len() - dropped,
        oldest: parts.iter().find_map(|part| part.span).map_or(Timestamp::UNSET, |span| span.first_at),
        is_full: decision.is_full,
    })
}

/// Whether the statement succeeded; `false` if it was only blocked and has to be tried again later.
fn unless_busy(result: Result<(), Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_busy() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates the missing partitions, each in a transaction of its own.
pub(crate) async fn create_missing(connection: &mut PgConnection) -> Result<(), Error> {
    let action = "create a log partition";
    while next_missing(connection).await?.is_some() {
        let mut transaction = connection.begin().await.map_err(database(action))?;
        // Attaching takes the same lock mode. The lock keeps others from creating a partition, and blocks no commit.
        let lock = sqlx::query!("lock table changes in share update exclusive mode")
            .execute(&mut *transaction)
            .await;
        lock.map_err(database(action))?;
        let Some(number) = next_missing(&mut transaction).await? else { break };
        // Not checked at compile time: names and bounds cannot be parameters.
        let create = format!("create table changes_{number} (like changes including all)");
        let attach =
            format!("alter table changes attach partition changes_{number} for values in ({number})");
        for statement in [create, attach] {
            let made = sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await;
            made.map_err(database(action))?;
        }
        transaction.commit().await.map_err(commit(action))?;
        tracing::debug!(part = number, "created a log partition");
    }
    Ok(())
}

/// The number of the next missing partition, if any is missing.
async fn next_missing(connection: &mut PgConnection) -> Result<Option<u64>, Error> {
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
    Ok(missing.map_err(database("list the log's partitions"))?.map(i64::cast_unsigned))
}

/// The number of the current partition, and all existing partitions by number.
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
    let found = found.fetch_all(connection).await.map_err(database("list the log's partitions"))?;
    let current = found.first().map_or(0, |row| row.current.cast_unsigned());
    let parts = found.into_iter().map(|row| Part {
        number: row.number.cast_unsigned(),
        attachment: match (row.is_attached, row.is_detaching) {
            (true, false) => Attachment::Attached,
            (true, true) => Attachment::Detaching,
            (false, _) => Attachment::Detached,
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

/// Closes the partition `current`: commits go to the next one, which must exist.
async fn close(connection: &mut PgConnection, epoch: Epoch, current: u64) -> Result<(), Error> {
    let action = "close a log partition";
    let closed = sqlx::query!(
        "update head set part = part + 1 where applier_epoch = $1 and part = $2",
        epoch.0.cast_signed(),
        current.cast_signed(),
    );
    let closed = closed.execute(connection).await.map_err(commit(action))?;
    if closed.rows_affected() == 0 { Err(Error::Deposed { epoch }) } else { Ok(()) }
}

/// Detaches and drops a partition. A transaction that still reads it may block this ([`Error::is_busy`]); the next call
/// continues where this one stopped.
///
/// Needs no epoch: a partition that was due once stays due.
async fn drop_part(connection: &mut PgConnection, part: &Part) -> Result<(), Error> {
    let number = part.number;
    // Not checked at compile time: names cannot be parameters. Not in a transaction: these statements manage transactions
    // themselves.
    let detach = match part.attachment {
        Attachment::Attached => format!("alter table changes detach partition changes_{number} concurrently"),
        Attachment::Detaching => format!("alter table changes detach partition changes_{number} finalize"),
        Attachment::Detached => String::new(),
    };
    for statement in [detach, format!("drop table if exists changes_{number}")] {
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await;
        done.map_err(commit("drop a log partition"))?;
    }
    tracing::debug!(part = number, "dropped a log partition");
    Ok(())
}
