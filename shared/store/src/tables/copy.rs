//! New rows in the binary form of COPY, which PostgreSQL writes in half the time that arrays take: it needs to take no array
//! apart, and fills whole pages at once.

use serde::Serialize;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::{CHUNK_ROWS, Spread, text};

/// What every COPY in binary form begins with: a signature, no flags, nothing further.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Where the fields of a row would be counted, at the end of all rows.
const TRAILER: i16 = -1;
/// Where the length of a field would be, if there is none.
const NULL: i32 = -1;
/// Bytes that are sent at once: rows are made while the server reads those before.
const PIECE_BYTES: usize = 128 << 10;
/// Bytes after which a statement ends.
const COPIED_BYTES: usize = 1 << 20;
/// Seconds between the epochs of Unix and of PostgreSQL, 2000-01-01.
const EPOCH_SECS: f64 = 946_684_800.0;

/// Rows on their way, field by field in the order of the statement's columns.
pub(super) struct Rows {
    bytes: Vec<u8>,
}

/// Writes all of `items` with a statement of the form `copy table (…) from stdin (format binary)`, which has so many columns;
/// `fill` adds the fields of one row. A statement takes so many as fit into a [`CHUNK_ROWS`], so that its time is limited.
pub(super) async fn copy<T>(
    transaction: &mut PgConnection,
    statement: &str,
    columns: i16,
    items: &[T],
    fill: impl Fn(&mut Rows, &T),
    spread: &mut Spread,
) -> Result<(), sqlx::Error> {
    let mut items = items.iter().peekable();
    while items.peek().is_some() {
        let mut copying = transaction.copy_in_raw(statement).await?;
        let mut rows = Rows { bytes: HEADER.to_vec() };
        let (mut sent, mut waiting) = (0, 0);
        for item in items.by_ref().take(CHUNK_ROWS) {
            rows.bytes.extend(columns.to_be_bytes());
            fill(&mut rows, item);
            waiting += 1;
            if rows.bytes.len() >= PIECE_BYTES {
                sent += rows.bytes.len();
                copying.send(&*rows.bytes).await?;
                rows.bytes.clear();
                spread.wrote(std::mem::take(&mut waiting)).await;
                if sent >= COPIED_BYTES {
                    break;
                }
            }
        }
        rows.bytes.extend(TRAILER.to_be_bytes());
        copying.send(&*rows.bytes).await?;
        copying.finish().await?;
        spread.wrote(waiting).await;
    }
    Ok(())
}

impl Rows {
    pub(super) fn uuid(&mut self, id: Uuid) -> &mut Self {
        self.field(id.as_bytes())
    }

    pub(super) fn uuid_if_any(&mut self, id: Option<Uuid>) -> &mut Self {
        match id {
            Some(id) => self.uuid(id),
            None => self.null(),
        }
    }

    /// A text, as a column can hold it.
    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.field(text(value).as_bytes())
    }

    pub(super) fn int(&mut self, value: u64) -> &mut Self {
        self.field(&value.cast_signed().to_be_bytes())
    }

    /// A moment in nanoseconds of Unix time, 0 for none: to the microsecond what the function `moment` of the schema makes of
    /// it, for changes of the row are written with that.
    pub(super) fn moment(&mut self, ns: i64) -> &mut Self {
        if ns == 0 {
            return self.null();
        }
        let us = ((ns as f64 / 1e9 - EPOCH_SECS) * 1e6).round_ties_even() as i64;
        self.field(&us.to_be_bytes())
    }

    /// An object as bytes.
    pub(super) fn encoded(&mut self, object: &impl Serialize) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend([0; size_of::<i32>()]);
        let body = start + size_of::<i32>();
        rmp_serde::encode::write_named(&mut self.bytes, object)
            .expect("plain data in memory always has a MessagePack form");
        let length = length(self.bytes.len() - body);
        self.bytes[start..body].copy_from_slice(&length.to_be_bytes());
        self
    }

    fn field(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(length(bytes.len()).to_be_bytes());
        self.bytes.extend(bytes);
        self
    }

    fn null(&mut self) -> &mut Self {
        self.bytes.extend(NULL.to_be_bytes());
        self
    }
}

fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("what fits a message fits a field")
}
