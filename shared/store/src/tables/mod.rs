//! The object tables, a file a table: writing the newest state of what change sets touched, and reading all of it back.
//!
//! Rows travel as arrays, a column each, so that a statement takes thousands of them. Times in columns are rounded to
//! what the database can hold; the exact ones are in the bodies.

mod allocs;
mod copy;
mod deployments;
mod evals;
mod jobs;
mod nodes;
mod settings;
mod shares;
mod spread;
mod submissions;
mod unblocked;
mod volumes;

use model::Index;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgConnection;
use state::{State, Table};

use crate::error::{Error, unreadable};
use crate::load::Loading;
use crate::touched::Touched;

pub(crate) use spread::Spread;

/// The most rows, and about the most bytes of bodies, that one statement writes. With more of them it is no faster, and both
/// sides go to the system for the memory that they take; a buffer that grows does so each time that it doubles.
const CHUNK_ROWS: usize = 2_048;
const CHUNK_BYTES: usize = 128 << 10;

/// Writes what `touched` names as it is in `after`; the tables were at `before`.
pub(crate) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    before: Index,
    after: &State,
    spread: &mut Spread,
) -> Result<(), Error> {
    settings::project(transaction, touched, after).await?;
    jobs::project(transaction, touched, after, spread).await?;
    submissions::project(transaction, touched, after).await?;
    nodes::project(transaction, touched, after).await?;
    evals::project(transaction, touched, after, spread).await?;
    deployments::project(transaction, touched, after).await?;
    allocs::project(transaction, touched, before, after, spread).await?;
    volumes::project(transaction, touched, after).await?;
    unblocked::project(transaction, touched, after).await
}

/// Reads the tables of the scope, and no others, for which the role may lack the right; in an order in which nothing refers
/// to what comes later.
pub(crate) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    settings::load(transaction, into).await?;
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
    volumes::load(transaction, into).await?;
    if into.wants(Table::Unblocked) {
        unblocked::load(transaction, into).await?;
    }
    Ok(())
}

/// Cuts rows into pieces that one statement can take, each with its bodies.
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

/// Those of `keys` that are there now, as they are, and those that are gone.
fn sort_out<'a, K, T>(
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

/// An index, version or epoch as the database takes it.
fn int(number: u64) -> i64 {
    number.cast_signed()
}

/// Text as a column can hold it: PostgreSQL's ends where a zero byte is.
fn text(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

fn encode<T: Serialize>(object: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(object).expect("plain data in memory always has a MessagePack form")
}

fn decode<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, Error> {
    rmp_serde::from_slice(body).map_err(unreadable(what))
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
