//! The object tables, one file per table and one for all small objects: writing the newest state of what change sets
//! touched, and reading the tables back.
//!
//! Rows are sent as one array per column, so that a statement takes thousands of them. Columns with times are rounded to
//! the precision of the database; the bodies contain the exact times.

mod allocs;
mod copy;
mod deployments;
mod evals;
mod jobs;
mod nodes;
mod pacer;
mod settings;
mod shares;
mod small;
mod submissions;
mod unblocked;

use model::Index;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgConnection;
use state::{State, Table};

use crate::error::{Error, unreadable};
use crate::loading::Loading;
use crate::touched::Touched;

pub(crate) use pacer::Pacer;

/// Maximum number of rows, and approximate maximum size of their bodies, in one statement. Larger statements are not
/// faster, and make both sides allocate memory from the system, again each time that a growing buffer doubles.
const CHUNK_ROWS: usize = 2_048;
const CHUNK_BYTES: usize = 128 << 10;

/// Writes the objects that `touched` names, as they are in `after`. The tables were at index `before`.
pub(crate) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    before: Index,
    after: &State,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    settings::project(transaction, touched, after).await?;
    small::project(transaction, touched, after).await?;
    jobs::project(transaction, touched, after, pacer).await?;
    submissions::project(transaction, touched, after).await?;
    nodes::project(transaction, touched, after).await?;
    evals::project(transaction, touched, after, pacer).await?;
    deployments::project(transaction, touched, after).await?;
    allocs::project(transaction, touched, before, after, pacer).await?;
    unblocked::project(transaction, touched, after).await
}

/// Reads the tables in scope. It does not read others, because the role may lack the right. The order ensures that no
/// object refers to one that is read later.
pub(crate) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    settings::load(transaction, into).await?;
    small::load(transaction, into).await?;
    if into.wants(Table::Jobs) {
        jobs::load(transaction, into).await?;
    }
    if into.wants(Table::JobSubmissions) {
        submissions::load(transaction, into).await?;
    }
    if into.wants(Table::Nodes) {
        nodes::load(transaction, into).await?;
    }
    if into.wants(Table::Evals) {
        evals::load(transaction, into).await?;
    }
    if into.wants(Table::Deployments) {
        deployments::load(transaction, into).await?;
    }
    if into.wants(Table::Allocs) {
        let shares = shares::load(transaction).await?;
        allocs::load(transaction, &shares, into).await?;
    }
    if into.wants(Table::Unblocked) {
        unblocked::load(transaction, into).await?;
    }
    Ok(())
}

/// Splits rows into chunks for one statement each, with their encoded bodies.
fn chunks<T>(mut rows: &[T], body: impl Fn(&T) -> Vec<u8>) -> impl Iterator<Item = (&[T], Vec<Vec<u8>>)> {
    std::iter::from_fn(move || {
        let (mut bodies, mut bytes) = (Vec::new(), 0);
        for row in rows.iter().take(CHUNK_ROWS) {
            let body = body(row);
            bytes += body.len();
            bodies.push(body);
            if bytes >= CHUNK_BYTES {
                break;
            }
        }
        let (chunk, rest) = rows.split_at(bodies.len());
        rows = rest;
        (!chunk.is_empty()).then_some((chunk, bodies))
    })
}

/// One column of rows.
fn column<'a, T, C>(rows: &'a [T], cell: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(cell).collect()
}

/// Splits `keys` into the objects that exist and the keys of those that do not.
fn split_present<'a, K, T>(
    keys: impl IntoIterator<Item = &'a K>,
    find: impl Fn(&K) -> Option<T>,
) -> (Vec<T>, Vec<&'a K>) {
    let (mut present, mut gone) = (Vec::new(), Vec::new());
    for key in keys {
        match find(key) {
            Some(object) => present.push(object),
            None => gone.push(key),
        }
    }
    (present, gone)
}

/// An index, version or epoch in the database's integer type.
fn int(number: u64) -> i64 {
    number.cast_signed()
}

/// Text in a form that a column can hold: PostgreSQL does not accept zero bytes, so the text is cut at the first one.
fn text(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

fn encode<T: Serialize>(object: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(object).expect("data in memory can always be encoded as MessagePack")
}

fn decode<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, Error> {
    model::messagepack::from_slice(body).map_err(unreadable(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_takes_no_more_than_so_many_rows_or_bytes() {
        let lengths = |rows: &[usize]| -> Vec<usize> {
            chunks(rows, |bytes| vec![0; *bytes]).map(|(chunk, _)| chunk.len()).collect()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1; 2 * CHUNK_ROWS + 1]), [CHUNK_ROWS, CHUNK_ROWS, 1]);
        assert_eq!(lengths(&[CHUNK_BYTES + 1, CHUNK_BYTES / 2, CHUNK_BYTES / 2, 1]), [1, 2, 1]);
    }

    #[test]
    fn text_that_postgres_cannot_hold_is_cut() {
        assert_eq!((text("a\0b"), text("ab"), text("")), ("a", "ab", ""));
    }
}
