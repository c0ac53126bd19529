//! The tables of small objects, which have the columns that the kinds declare.
//!
//! The statements are not checked at compile time, because they are made of the declarations. They contain no values:
//! all values are parameters.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use model::SmallObject;
use model::change::Change;
use model::small_object::{Cell, Column};
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres};
use state::{State, Stored, Table};
use uuid::Uuid;

use super::{chunks, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::loading::Loading;
use crate::touched::Touched;

/// The name of an object table, in statements and in errors.
struct ObjectTable {
    name: &'static str,
    select: &'static str,
    /// What is attempted.
    reading: &'static str,
    writing: &'static str,
    deleting: &'static str,
}

macro_rules! object_table {
    ($name:ident) => {
        &ObjectTable {
            name: stringify!($name),
            select: concat!("select body from ", stringify!($name)),
            reading: concat!("read the table ", stringify!($name)),
            writing: concat!("write the table ", stringify!($name)),
            deleting: concat!("delete from the table ", stringify!($name)),
        }
    };
}

macro_rules! small_tables {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        pub(super) async fn project(
            transaction: &mut PgConnection,
            touched: &Touched,
            after: &State,
        ) -> Result<(), Error> {
            $(
                if !touched.small.$all.is_empty() {
                    let keys = &touched.small.$all;
                    project_table::<$object>(transaction, object_table!($all), keys, after).await?;
                }
            )+
            Ok(())
        }

        pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
            $(
                if into.wants(Table::$small) {
                    load_table::<$object>(transaction, object_table!($all), Change::$put, into).await?;
                }
            )+
            Ok(())
        }
    };
}

model::for_each_small_object!(small_tables);

async fn project_table<T: Stored>(
    transaction: &mut PgConnection,
    table: &ObjectTable,
    touched: &BTreeSet<T::Key>,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(touched, |key| after.small_object::<T, _>(key));
    let present: Vec<&T> = present.into_iter().map(|object| &**object).collect();
    for (objects, bodies) in chunks(&present, encode) {
        upsert(transaction, table, objects, bodies).await?;
    }
    if gone.is_empty() { Ok(()) } else { delete::<T>(transaction, table, &gone).await }
}

async fn upsert<T: SmallObject>(
    transaction: &mut PgConnection,
    table: &ObjectTable,
    objects: &[&T],
    bodies: Vec<Vec<u8>>,
) -> Result<(), Error> {
    let mut query: PgQuery<'_> = sqlx::query(AssertSqlSafe(upsert_statement::<T>(table.name)));
    let keys: Vec<&T::Key> = objects.iter().map(|object| object.key()).collect();
    for column in T::KEY_COLUMNS {
        query = bind(query, column, &keys);
    }
    for column in T::COLUMNS {
        query = bind(query, column, objects);
    }
    let create_indexes: Vec<i64> = objects.iter().map(|object| int(object.create_index().0)).collect();
    let modify_indexes: Vec<i64> = objects.iter().map(|object| int(object.modify_index().0)).collect();
    let query = query.bind(create_indexes).bind(modify_indexes).bind(bodies);
    query.execute(transaction).await.map(drop).map_err(database(table.writing))
}

async fn delete<T: SmallObject>(
    transaction: &mut PgConnection,
    table: &ObjectTable,
    keys: &[&T::Key],
) -> Result<(), Error> {
    let mut query: PgQuery<'_> = sqlx::query(AssertSqlSafe(delete_statement::<T>(table.name)));
    for column in T::KEY_COLUMNS {
        query = bind(query, column, keys);
    }
    query.execute(transaction).await.map(drop).map_err(database(table.deleting))
}

async fn load_table<T: SmallObject>(
    transaction: &mut PgConnection,
    table: &ObjectTable,
    put: fn(Box<T>) -> Change,
    into: &mut Loading,
) -> Result<(), Error> {
    let mut bodies = sqlx::query_scalar::<_, Vec<u8>>(table.select).fetch(transaction);
    while let Some(body) = bodies.try_next().await.map_err(database(table.reading))? {
        into.push(put(Box::new(decode(T::NAME, &body)?))).await?;
    }
    Ok(())
}

type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

/// Binds the content of a column in some rows, as one array.
fn bind<'q, R>(query: PgQuery<'q>, column: &Column<R>, rows: &[&R]) -> PgQuery<'q> {
    match &column.cell {
        Cell::Text(cell) => query.bind(rows.iter().map(|row| text(cell(row))).collect::<Vec<&str>>()),
        Cell::Number(cell) => query.bind(rows.iter().map(|row| cell(row)).collect::<Vec<i64>>()),
        Cell::Id(cell) => query.bind(rows.iter().map(|row| cell(row)).collect::<Vec<Option<Uuid>>>()),
        Cell::Time(cell) => query.bind(rows.iter().map(|row| cell(row).0).collect::<Vec<i64>>()),
    }
}

/// A column in a statement.
struct SqlColumn {
    name: &'static str,
    /// The type in which values are sent.
    sent: &'static str,
    is_time: bool,
}

impl SqlColumn {
    fn of<R>(column: &Column<R>) -> Self {
        let (sent, is_time) = match column.cell {
            Cell::Text(_) => ("text", false),
            Cell::Number(_) => ("bigint", false),
            Cell::Id(_) => ("uuid", false),
            Cell::Time(_) => ("bigint", true),
        };
        Self { name: column.name, sent, is_time }
    }

    fn new(name: &'static str, sent: &'static str) -> Self {
        Self { name, sent, is_time: false }
    }
}

/// Writes rows. Each parameter is an array with the content of a column.
fn upsert_statement<T: SmallObject>(table: &str) -> String {
    let own = T::KEY_COLUMNS.iter().map(SqlColumn::of).chain(T::COLUMNS.iter().map(SqlColumn::of));
    let indexes = ["create_index", "modify_index"].map(|name| SqlColumn::new(name, "bigint"));
    let columns: Vec<SqlColumn> = own.chain(indexes).chain([SqlColumn::new("body", "bytea")]).collect();
    let (key, others) = columns.split_at(T::KEY_COLUMNS.len());
    let names = list(&columns, |column| column.name.to_owned());
    let selected = list(&columns, |column| match column.is_time {
        true => format!("moment({})", column.name),
        false => column.name.to_owned(),
    });
    let excluded = list(others, |column| format!("excluded.{}", column.name));
    let (key, others) =
        (list(key, |column| column.name.to_owned()), list(others, |column| column.name.to_owned()));
    format!(
        "insert into {table} ({names}) select {selected} from unnest({}) as rows ({names}) \
         on conflict ({key}) do update set ({others}) = ({excluded})",
        arrays(&columns),
    )
}

/// Deletes rows by their keys. Each parameter is an array with the content of a column of the key.
fn delete_statement<T: SmallObject>(table: &str) -> String {
    let key: Vec<SqlColumn> = T::KEY_COLUMNS.iter().map(SqlColumn::of).collect();
    let names = list(&key, |column| column.name.to_owned());
    let stored = list(&key, |column| format!("{table}.{}", column.name));
    let gone = list(&key, |column| format!("gone.{}", column.name));
    let arrays = arrays(&key);
    format!("delete from {table} using unnest({arrays}) as gone ({names}) where ({stored}) = ({gone})")
}

fn list(columns: &[SqlColumn], form: impl Fn(&SqlColumn) -> String) -> String {
    columns.iter().map(form).collect::<Vec<_>>().join(", ")
}

/// The parameters of a statement: one array for each column.
fn arrays(columns: &[SqlColumn]) -> String {
    let parameters = columns.iter().zip(1..).map(|(column, number)| format!("${number}::{}[]", column.sent));
    parameters.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use model::keyring::RootKey;
    use model::volume::CsiVolume;

    use super::*;

    #[test]
    fn a_row_is_written_by_its_key() {
        assert_eq!(
            upsert_statement::<RootKey>("root_keys"),
            "insert into root_keys (id, create_time, create_index, modify_index, body) \
             select id, moment(create_time), create_index, modify_index, body \
             from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) \
             as rows (id, create_time, create_index, modify_index, body) \
             on conflict (id) do update set (create_time, create_index, modify_index, body) \
             = (excluded.create_time, excluded.create_index, excluded.modify_index, excluded.body)"
        );
    }

    #[test]
    fn a_row_is_deleted_by_all_columns_of_its_key() {
        assert_eq!(
            delete_statement::<CsiVolume>("csi_volumes"),
            "delete from csi_volumes using unnest($1::text[], $2::text[]) as gone (namespace, volume_id) \
             where (csi_volumes.namespace, csi_volumes.volume_id) = (gone.namespace, gone.volume_id)"
        );
    }
}
