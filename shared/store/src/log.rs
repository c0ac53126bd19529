//! The table `changes`: the log of change sets. [`partitions`](crate::partitions) manages its partitions.

use std::time::Duration;

use model::change::ChangeSet;
use model::{Epoch, Index, RequestId, Timestamp};
use sqlx::postgres::PgConnection;
use uuid::Uuid;
use wire::feed::Head;
use wire::{LogRow, Wire};

use crate::error::{Error, commit, database};
use crate::head::{self, Location};

/// The log after an index.
#[derive(Debug)]
pub enum Tail {
    /// Change sets without a gap; at least one unless the index is that of the head.
    Page {
        /// The change sets, in order.
        rows: Vec<LogRow>,
        /// The head of the same statement.
        head: Head,
        /// The request of the change set at the index after which was read, if the log still has it. If it is another one
        /// than that of the reader's last change set, the reader's state belongs to other change sets than the log's.
        previous: Option<RequestId>,
    },
    /// The log does not go back that far, or has not reached the index: the caller has to load the state again.
    Trimmed,
}

/// Conditions for appending to the log, besides the expected index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendGuard {
    pub(crate) epoch: Epoch,
    /// The latest value returned by [`head::raise_fence`].
    pub(crate) fence: u64,
}

pub(crate) fn decode(bytes: &[u8]) -> Result<ChangeSet, Error> {
    Ok(wire::decode(ChangeSet::KIND, ChangeSet::VERSION, bytes)?)
}

/// Moves the head from `from` over `rows`, which follow it, and appends `rows` to the log. This is one statement and one
/// round trip, with all effects or none. Returns the time by the database's clock, or `None` if it had no effects.
///
/// Epoch, index and fence are conditions on the single row that is updated. A statement that waited for another transaction
/// evaluates them again on the row that the other transaction left. Conditions on any other table would be evaluated on the
/// snapshot from before the wait (`docs/architecture/leases.md`).
pub(crate) async fn append(
    connection: &mut PgConnection,
    guard: AppendGuard,
    from: Index,
    rows: &[LogRow],
    lease: Duration,
    location: &Location,
) -> Result<Option<Timestamp>, Error> {
    let last = rows.last().expect("a commit has at least one change set");
    let indexes: Vec<i64> = rows.iter().map(|row| row.index.0.cast_signed()).collect();
    let times: Vec<i64> = rows.iter().map(|row| row.at.0).collect();
    let request_ids: Vec<Uuid> = rows.iter().map(|row| row.request_id.0).collect();
    let bytes: Vec<&[u8]> = rows.iter().map(|row| &row.bytes[..]).collect();
    // One statement in two forms: with a row position to look at, and without.
    macro_rules! append {
        ($at:literal $(, $location:expr)?) => {
            sqlx::query_as!(
                Appended,
                "with moved as (
                    update head set index = $3, at_ns = $4,
                        lease_until = clock_timestamp() + $5::bigint * interval '1 millisecond'
                    where " + $at + "applier_epoch = $1 and index = $2 and fence = $10
                    returning part, ctid
                ), appended as (
                    insert into changes (part, index, applier_epoch, at_ns, request_id, bytes)
                    select part, index, $1, at_ns, request_id, bytes
                    from moved, unnest($6::bigint[], $7::bigint[], $8::uuid[], $9::bytea[])
                        as rows (index, at_ns, request_id, bytes)
                )
                select ctid::text as \"location!\",
                    (extract(epoch from clock_timestamp()) * 1000000000)::bigint as \"now_ns!\"
                from moved",
                guard.epoch.0.cast_signed(),
                from.0.cast_signed(),
                last.index.0.cast_signed(),
                last.at.0,
                head::millis(lease),
                &indexes,
                &times,
                &request_ids,
                &bytes as &[&[u8]],
                guard.fence.cast_signed(),
                $($location,)?
            )
        };
    }
    let action = "commit change sets";
    let at_location =
        append!("ctid = $11::text::tid and ", location.get()).fetch_optional(&mut *connection).await;
    let mut moved = at_location.map_err(commit(action))?;
    if moved.is_none() {
        moved = append!("").fetch_optional(connection).await.map_err(commit(action))?;
    }
    Ok(moved.map(|Appended { location: ctid, now_ns }| {
        location.set(ctid);
        Timestamp(now_ns)
    }))
}

/// The position of the head's row after change sets were appended, and the time by the database's clock.
struct Appended {
    location: String,
    now_ns: i64,
}

/// Whether the log has the change sets of these requests after `from`, consecutively and committed by this epoch.
pub(crate) async fn contains(
    transaction: &mut PgConnection,
    epoch: Epoch,
    from: Index,
    requests: &[Uuid],
) -> Result<bool, Error> {
    let found = sqlx::query_scalar!(
        r#"select count(*) as "count!"
        from unnest($3::uuid[]) with ordinality as mine (request_id, place)
        join changes on changes.index = $2 + mine.place and changes.request_id = mine.request_id
        where changes.applier_epoch = $1 and changes.index > $2 and changes.index <= $2 + cardinality($3::uuid[])"#,
        epoch.0.cast_signed(),
        from.0.cast_signed(),
        requests,
    );
    let found =
        found.fetch_one(transaction).await.map_err(database("look up the change sets of a commit"))?;
    Ok(found.cast_unsigned() == requests.len() as u64)
}

/// The newest `max` requests of change sets at or after `since`, with index and time, the oldest first.
///
/// Reads back from the head, a page at a time: time never decreases along the log, so that no index by time is needed.
pub(crate) async fn requests_since(
    connection: &mut PgConnection,
    since: Timestamp,
    max: usize,
) -> Result<Vec<(RequestId, Index, Timestamp)>, Error> {
    const PAGE_ROWS: i64 = 10_000;
    let mut requests = Vec::new();
    let mut before = i64::MAX;
    loop {
        let page = sqlx::query!(
            "select index, request_id, at_ns from changes where index < $1 order by index desc limit $2",
            before,
            PAGE_ROWS,
        );
        let page = page.fetch_all(&mut *connection).await.map_err(database("read the log's requests"))?;
        let recent = page.iter().take_while(|row| row.at_ns >= since.0);
        requests.extend(
            recent.map(|row| (RequestId(row.request_id), head::index(row.index), Timestamp(row.at_ns))),
        );
        match page.last() {
            Some(last) if last.at_ns >= since.0 && requests.len() < max => before = last.index,
            Some(_) | None => break,
        }
    }
    requests.truncate(max);
    requests.reverse();
    Ok(requests)
}

/// The request of the change set at an index, if the log has it.
pub(crate) async fn request_at(
    connection: &mut PgConnection,
    index: Index,
) -> Result<Option<RequestId>, Error> {
    let found = sqlx::query_scalar!("select request_id from changes where index = $1", index.0.cast_signed());
    let found = found.fetch_optional(connection).await.map_err(database("read the log"))?;
    Ok(found.map(RequestId))
}

/// Reads change sets after `index`: at most `rows_max`, and after the first only while their total size is at most
/// `bytes_max`.
pub(crate) async fn read_after(
    connection: &mut PgConnection,
    index: Index,
    rows_max: u32,
    bytes_max: usize,
) -> Result<Tail, Error> {
    // One statement, so that the head and the log come from one snapshot.
    let found = sqlx::query!(
        r#"select head.index as head_index, head.at_ns as head_at_ns, applier_epoch, applier_id, history,
            (select request_id from changes where index = $1) as "previous?",
            page.index as "index?", page.at_ns as "at_ns?", page.request_id as "request_id?", page.bytes as "bytes?"
        from head left join lateral (
            select index, at_ns, request_id, bytes
            from (
                select index, at_ns, request_id, bytes,
                    sum(octet_length(bytes)) over (order by index rows unbounded preceding) as bytes_to_here
                from changes where index > $1 and index <= $1 + $2
            ) summed
            where bytes_to_here <= $3 or index = $1 + 1
        ) page on true
        order by page.index"#,
        index.0.cast_signed(),
        i64::from(rows_max),
        i64::try_from(bytes_max).unwrap_or(i64::MAX),
    );
    let found = found.fetch_all(connection).await.map_err(database("read the log"))?;
    let first = found.first().expect("the left join keeps the row of the head");
    let head = Head {
        history: model::HistoryId(first.history),
        index: head::index(first.head_index),
        at: Timestamp(first.head_at_ns),
        epoch: Epoch(first.applier_epoch.cast_unsigned()),
        applier: model::ProcessId(first.applier_id),
        began: None,
    };
    let previous = first.previous.map(RequestId);
    let rows: Vec<LogRow> = found
        .into_iter()
        .filter_map(|row| {
            Some(LogRow {
                index: head::index(row.index?),
                at: Timestamp(row.at_ns?),
                request_id: RequestId(row.request_id?),
                bytes: row.bytes?.into(),
            })
        })
        .collect();
    let is_gapless = rows.iter().zip(index.0 + 1..).all(|(row, expected)| row.index.0 == expected);
    if !is_gapless || index > head.index || (rows.is_empty() && index < head.index) {
        return Ok(Tail::Trimmed);
    }
    Ok(Tail::Page { rows, head, previous })
}
