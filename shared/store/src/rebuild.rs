//! A check of the projection: the object tables are built anew from the log, beside the real ones, and compared with
//! them row by row. For tests, and for whoever doubts the tables; the log must go back to the first change set.

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
use crate::tables::{self, Spread};
use crate::touched::Touched;

/// Where the tables are built; whatever is in there goes.
const SCHEMA: &str = "drover_rebuilt";
/// How much of the log is applied at once.
const PAGE_ROWS: u32 = 4_096;
const PAGE_BYTES: usize = 16 << 20;
/// How often the tables may move on between building and comparing.
const COMPARISONS_MAX: u32 = 16;
/// Differences that are told of each table.
const DIFFERENCES_MAX: u32 = 20;

const COMPARING: Limits = Limits { name: "drover comparison", ..schema::MIGRATING };
const BUILDING: Limits = Limits {
    idle_in_transaction: Duration::from_mins(10),
    settings: &[
        ("search_path", SCHEMA),
        ("synchronous_commit", "off"),
        ("plan_cache_mode", "force_custom_plan"),
    ],
    ..COMPARING
};

/// A row that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// The row's primary key.
    pub row: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.table, self.row, self.what)
    }
}

/// Builds the object tables anew from the log, as far as the real ones are, and says where those differ. One at a time
/// in a database, whose user must be allowed to make schemas there.
///
/// # Errors
/// [`Error::Gap`] if the log does not go back to its beginning; [`Error::Moving`] if the tables do not rest; or if the
/// database fails.
pub async fn compare_with_log(args: &Args) -> Result<Vec<Difference>, Error> {
    let server = Server::new(args)?;
    let mut real = server.ready(|| server.open(&COMPARING)).await?;
    run(&mut real, format!("drop schema if exists {SCHEMA} cascade")).await?;
    run(&mut real, format!("create schema {SCHEMA}")).await?;
    let mut scratch = server.open(&BUILDING).await?;
    schema::migrate(&mut scratch).await?;

    let mut state = State::default();
    for _ in 0..COMPARISONS_MAX {
        build(&mut real, &mut scratch, &mut state).await?;
        // One moment of all tables.
        let begin = "begin isolation level repeatable read, read only";
        let mut moment = real.begin_with(begin).await.map_err(database("begin to compare"))?;
        if projection::read(&mut moment).await?.index != state.index() {
            continue;
        }
        let differences = compare(&mut moment).await?;
        moment.commit().await.map_err(database("end a comparison"))?;
        run(&mut real, format!("drop schema {SCHEMA} cascade")).await?;
        return Ok(differences);
    }
    Err(Error::Moving)
}

/// Brings the tables in the schema of their own to where the real ones are.
async fn build(real: &mut PgConnection, scratch: &mut PgConnection, state: &mut State) -> Result<(), Error> {
    let goal = projection::read(real).await?.index;
    while state.index() < goal {
        let before = state.index();
        let Tail::Page { rows, .. } = log::after(real, before, PAGE_ROWS, PAGE_BYTES).await? else {
            return Err(Error::Gap { after: before });
        };
        let mut sets: Vec<Arc<ChangeSet>> = Vec::new();
        for row in rows.iter().filter(|row| row.index <= goal) {
            let set = row.change_set()?;
            state.apply(&set)?;
            sets.push(Arc::new(set));
        }
        let mut transaction = scratch.begin().await.map_err(database("begin to build tables"))?;
        let touched = Touched::by(sets.iter().map(|set| &**set));
        tables::project(&mut transaction, &touched, before, state, &mut Spread::none()).await?;
        projection::advance(&mut transaction, Projected { index: state.index(), at: state.at() }).await?;
        transaction.commit().await.map_err(commit("build tables"))?;
    }
    Ok(())
}

async fn compare(moment: &mut PgConnection) -> Result<Vec<Difference>, Error> {
    // Not checked when built: the schema is none of a migration's. All tables with a key but those of the log,
    // and but secrets, which are in no log.
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
    .fetch_all(&mut *moment)
    .await
    .map_err(database("list the tables to compare"))?;

    let mut differences = Vec::new();
    for (schema, table, key) in found {
        let rows = sqlx::query_as::<_, (String, String)>(AssertSqlSafe(comparison(&schema, &table, &key)));
        let rows = rows.fetch_all(&mut *moment).await.map_err(database("compare tables"))?;
        let table = table.as_str();
        differences.extend(rows.into_iter().map(|(row, what)| Difference {
            table: table.to_owned(),
            row,
            what,
        }));
    }
    Ok(differences)
}

/// The statement that finds the rows of two tables that differ, with what differs.
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
    // Not checked when built: names are no parameters.
    let done = sqlx::query(AssertSqlSafe(statement)).execute(connection).await;
    done.map(drop).map_err(commit("make room for tables to compare with"))
}
