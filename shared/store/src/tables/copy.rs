//! Inserting rows with COPY in binary form. It takes PostgreSQL half the time of a statement with arrays: no arrays have to
//! be unpacked, and whole pages are filled at once.

use serde::Serialize;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::{CHUNK_ROWS, Pacer, text};

/// The header of a binary COPY: a signature, no flags, no header extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The field count that marks the end of the rows.
const TRAILER: i16 = -1;
/// The field length that marks a null.
const NULL: i32 = -1;
/// Bytes that are sent at once. Further rows are encoded while the server reads them.
const SEND_BYTES: usize = 128 << 10;
/// Bytes after which a statement ends.
const STATEMENT_BYTES: usize = 1 << 20;
/// Seconds between the epochs of Unix and of PostgreSQL, 2000-01-01.
const EPOCH_SECS: f64 = 946_684_800.0;

/// Encoded rows that have not been sent yet, field by field in the order of the statement's columns.
pub(super) struct Rows {
    bytes: Vec<u8>,
}

/// Writes all of `items` with a statement of the form `copy table (…) from stdin (format binary)`, which has `columns`
/// columns. `fill` encodes the fields of one row. A statement takes at most [`CHUNK_ROWS`] rows, so that its duration is
/// limited.
pub(super) async fn copy<T>(
    transaction: &mut PgConnection,
    statement: &str,
    columns: i16,
    items: &[T],
    fill: impl Fn(&mut Rows, &T),
    pacer: &mut Pacer,
) -> Result<(), sqlx::Error> {
    let mut items = items.iter().peekable();
    while items.peek().is_some() {
        let mut copying = transaction.copy_in_raw(statement).await?;
        let mut rows = Rows { bytes: HEADER.to_vec() };
        let (mut sent, mut unsent_rows) = (0, 0);
        for item in items.by_ref().take(CHUNK_ROWS) {
            rows.bytes.extend(columns.to_be_bytes());
            fill(&mut rows, item);
            unsent_rows += 1;
            if rows.bytes.len() >= SEND_BYTES {
                sent += rows.bytes.len();
                copying.send(&*rows.bytes).await?;
                rows.bytes.clear();
                pacer.add_written(std::mem::take(&mut unsent_rows)).await;
                if sent >= STATEMENT_BYTES {
                    break;
                }
            }
        }
        rows.bytes.extend(TRAILER.to_be_bytes());
        copying.send(&*rows.bytes).await?;
        copying.finish().await?;
        pacer.add_written(unsent_rows).await;
    }
    Ok(())
}

impl Rows {
    pub(super) fn uuid(&mut self, id: Uuid) -> &mut Self {
        self.field(id.as_bytes())
    }

    pub(super) fn optional_uuid(&mut self, id: Option<Uuid>) -> &mut Self {
        match id {
            Some(id) => self.uuid(id),
            None => self.null(),
        }
    }

    /// A text, in the form that a column can hold.
    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.field(text(value).as_bytes())
    }

    pub(super) fn int(&mut self, value: u64) -> &mut Self {
        self.field(&value.cast_signed().to_be_bytes())
    }

    /// A time in nanoseconds of Unix time; 0 is written as null. The result equals that of the schema's function `moment`
    /// to the microsecond, because updates of the same row use that function.
    pub(super) fn moment(&mut self, ns: i64) -> &mut Self {
        if ns == 0 {
            return self.null();
        }
        let us = ((ns as f64 / 1e9 - EPOCH_SECS) * 1e6).round_ties_even() as i64;
        self.field(&us.to_be_bytes())
    }

    /// An object, encoded in MessagePack.
    pub(super) fn encoded(&mut self, object: &impl Serialize) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend([0; size_of::<i32>()]);
        let body = start + size_of::<i32>();
        rmp_serde::encode::write_named(&mut self.bytes, object)
            .expect("data in memory can always be encoded as MessagePack");
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
    i32::try_from(bytes).expect("a field is smaller than 2 GiB")
}
