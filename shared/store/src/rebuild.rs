//! A check of the projection: builds the object tables again from the log, in a schema of their own, and compares them with
//! the real ones row by row. It is for tests, and for operators who doubt the tables. The log must go back to the first
//! change set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::change::ChangeSet;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use state::State;

use crate::args::Args;
use crate::error::{Error, commit, database};
use crate::log::{self, Tail};
use crate::projection::{self, Projected};
use crate::schema;
use crate::server::{Limits, Server};
use crate::tables::{self, Pacer};
use crate::touched::Touched;

/// The schema in which the tables are built. Its previous content is deleted.
const SCHEMA: &str = "drover_rebuilt";
/// How much of the log is applied at once.
const PAGE_ROWS: u32 = 4_096;
const PAGE_BYTES: usize = 16 << 20;
/// How often the comparison is attempted while the real tables keep changing.
const ATTEMPTS_MAX: u32 = 16;
/// Maximum number of differences reported for each table.
const DIFFERENCES_MAX: u32 = 20;

const COMPARING: Limits = Limits { name: "drover comparison", durable: false, ..schema::MIGRATING };
const BUILDING: Limits = Limits {
    idle_in_transaction: Duration::from_mins(10),
    settings: &[
        ("search_path", SCHEMA),
        ("synchronous_commit", "off"),
        ("plan_cache_mode", "force_custom_plan"),
    ],
    ..COMPARING
};

/// A row of the real tables that differs from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// The row's primary key.
    pub row: String,
    /// The difference.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.table, self.row, self.what)
    }
}

/// Builds the object tables again from the log, up to the index of the real tables, and returns all differences. Only one
/// call may run in a database at a time, and its role must be allowed to create schemas there.
///
/// # Errors
/// [`Error::Gap`] if the log does not go back to its beginning; [`Error::TablesChanging`] if the tables change during every
/// attempt; or if the database fails.
pub async fn compare_with_log(args: &Args) -> Result<Vec<Difference>, Error> {
    let server = Server::new(args)?;
    let mut real = server.ready(|| server.open(&COMPARING)).await?;
    run(&mut real, format!("drop schema if exists {SCHEMA} cascade")).await?;
    run(&mut real, format!("create schema {SCHEMA}")).await?;
    let mut scratch = server.open(&BUILDING).await?;
    schema::migrate(&mut scratch).await?;

    let mut state = State::default();
    for _ in 0..ATTEMPTS_MAX {
        build(&mut real, &mut scratch, &mut state).await?;
        // One snapshot of all tables.
        let begin = "begin isolation level repeatable read, read only";
        let mut snapshot = real.begin_with(begin).await.map_err(database("begin a comparison"))?;
        if projection::read(&mut snapshot).await?.index != state.index() {
            continue;
        }
        let differences = compare(&mut snapshot).await?;
        snapshot.commit().await.map_err(database("end a comparison"))?;
        run(&mut real, format!("drop schema {SCHEMA} cascade")).await?;
        return Ok(differences);
    }
    Err(Error::TablesChanging)
}

/// Brings the tables in the separate schema to the index of the real ones.
async fn build(real: &mut PgConnection, scratch: &mut PgConnection, state: &mut State) -> Result<(), Error> {
    let target = projection::read(real).await?.index;
    while state.index() < target {
        let before = state.index();
        let Tail::Page { rows, .. } = log::read_after(real, before, PAGE_ROWS, PAGE_BYTES).await? else {
            return Err(Error::Gap { after: before });
        };
        let mut sets: Vec<Arc<ChangeSet>> = Vec::new();
        for row in rows.iter().filter(|row| row.index <= target) {
            let set = row.change_set()?;
            state.apply(&set)?;
            sets.push(Arc::new(set));
        }
        let mut transaction = scratch.begin().await.map_err(database("begin to build tables"))?;
        let touched = Touched::by(sets.iter().map(|set| &**set));
        tables::project(&mut transaction, &touched, before, state, &mut Pacer::unlimited()).await?;
        projection::advance(&mut transaction, Projected { index: state.index(), at: state.at() }).await?;
        transaction.commit().await.map_err(commit("build tables"))?;
    }
    Ok(())
}

async fn compare(snapshot: &mut PgConnection) -> Result<Vec<Difference>, Error> {
    // Not checked at compile time: no migration creates the schema. Selects all tables with a primary key, except those of
    // the log, and except secrets, which are not in the log.
    let found = sqlx::query_as::<_, (String, String, Vec<String>)>(
        "select quote_ident(current_schema()), relname::text, array_agg(attname::text order by attnum)
        from pg_index join pg_class on pg_class.oid = indrelid
        join pg_attribute on attrelid = indrelid and attnum = any (indkey)
        where indisprimary and relkind = 'r' and relnamespace = $1::regnamespace
            and relname !~ '^changes_' and relname <> all ($2)
        group by relname order by relname",
    )
    .bind(SCHEMA)
    .bind(["_sqlx_migrations", "head", "migration_lock", "projection", "root_key_secrets"].map(str::to_owned))
    .fetch_all(&mut *snapshot)
    .await
    .map_err(database("list the tables to compare"))?;

    let mut differences = Vec::new();
    for (schema, table, key) in found {
        let rows = sqlx::query_as::<_, (String, String)>(AssertSqlSafe(comparison(&schema, &table, &key)));
        let rows = rows.fetch_all(&mut *snapshot).await.map_err(database("compare tables"))?;
        let table = table.as_str();
        differences.extend(rows.into_iter().map(|(row, what)| Difference {
            table: table.to_owned(),
            row,
            what,
        }));
    }
    Ok(differences)
}

/// The statement that selects the rows in which two tables differ, with a description of each difference.
fn comparison(schema: &str, table: &str, key: &[String]) -> String {
    let all_keys =
        |form: fn(&String) -> String, between| key.iter().map(form).collect::<Vec<_>>().join(between);
    let row = all_keys(|key| format!("coalesce(own.{key}, rebuilt.{key})"), ", ");
    let is_same_row = all_keys(|key| format!("own.{key} = rebuilt.{key}"), " and ");
    let first_key = &key[0];
    format!(
        "select concat_ws(', ', {row}), case
            when own.{first_key} is null then 'missing'
            when rebuilt.{first_key} is null then 'should not be there'
            else (
                select string_agg(format('%s is %s, rebuilt %s', key, coalesce(left(own.value, 200), 'null'),
                    coalesce(left(rebuilt.value, 200), 'null')), '; ' order by key)
                from jsonb_each_text(to_jsonb(own)) own full join jsonb_each_text(to_jsonb(rebuilt)) rebuilt using (key)
                where own.value is distinct from rebuilt.value
            ) end
        from {schema}.{table} own
        full join {SCHEMA}.{table} rebuilt on {is_same_row}
        where own::text is distinct from rebuilt::text
        order by 1 limit {DIFFERENCES_MAX}"
    )
}

async fn run(connection: &mut PgConnection, statement: String) -> Result<(), Error> {
    // Not checked at compile time: names cannot be parameters.
    let done = sqlx::query(AssertSqlSafe(statement)).execute(connection).await;
    done.map(drop).map_err(commit("prepare the schema for a comparison"))
}
