//! The schema: migrated by appliers only, waited for by everybody else.

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::error::{Error, code, commit, database};
use crate::partitions;
use crate::roles;
use crate::server::Limits;

/// The migrations in `migrations/`, which only move forward. A newer schema than this program knows is left as it is:
/// in a rolling upgrade, older programs go on.
static MIGRATOR: Migrator = {
    let mut migrator = sqlx::migrate!();
    // Ours is the lock on a row, not an advisory one.
    migrator.locking = false;
    migrator.ignore_missing = true;
    migrator
};

/// Migrations may rewrite tables; nobody else works meanwhile.
pub(crate) const MIGRATING: Limits = Limits {
    name: "drover migration",
    statement: Duration::from_hours(1),
    lock: Duration::from_mins(10),
    idle_in_transaction: Duration::from_mins(1),
    patience: Duration::from_hours(2),
    settings: &[],
};

/// The version that this program needs.
fn needed() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Brings the schema and the rights on it up to date in one transaction, which holds the lock on the row of
/// `migration_lock` meanwhile. Who sees a new table sees its rights.
pub(crate) async fn migrate(connection: &mut PgConnection) -> Result<(), Error> {
    // Not checked when built: the table is none of a migration's.
    let lock = "create table if not exists migration_lock (one boolean primary key default true check (one));
        insert into migration_lock default values on conflict do nothing";
    // Of two that make the table at the same moment one fails; then it is there.
    if connection.execute(lock).await.is_err() {
        connection.execute(lock).await.map_err(database("make the migrations' lock"))?;
    }
    let mut transaction = connection.begin().await.map_err(database("begin a transaction"))?;
    let locked = transaction.execute("select from migration_lock for update").await;
    locked.map_err(database("take the migrations' lock"))?;
    MIGRATOR.run_direct(None, &mut *transaction, false).await?;
    partitions::make(&mut transaction).await?;
    roles::apply(&mut transaction).await?;
    transaction.commit().await.map_err(commit("migrate the schema"))
}

/// Refuses a schema that is older than this program needs.
pub(crate) async fn check(connection: &mut PgConnection) -> Result<(), Error> {
    const UNDEFINED_TABLE: &str = "42P01";
    // Not checked when built: the table is the migrator's.
    let found =
        sqlx::query_scalar::<_, Option<i64>>("select max(version) from _sqlx_migrations where success");
    let found = match found.fetch_one(connection).await {
        Ok(found) => found.unwrap_or_default(),
        Err(error) if code(&error).is_some_and(|code| code == UNDEFINED_TABLE) => 0,
        Err(error) => return Err(database("read the schema's version")(error)),
    };
    let needed = needed();
    if found < needed { Err(Error::Schema { needed, found }) } else { Ok(()) }
}
