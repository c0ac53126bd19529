//! The schema of the database: plan appliers migrate it, all other services wait for it.

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::error::{Error, code, commit, database};
use crate::partitions;
use crate::roles;
use crate::server::Limits;

/// The migrations in `migrations/`, which only move forward. A schema that is newer than this program knows is left alone,
/// so that older programs keep working during a rolling upgrade.
static MIGRATOR: Migrator = {
    let mut migrator = sqlx::migrate!();
    // Migrations use the lock on a row of `migration_lock` instead of sqlx's advisory lock.
    migrator.locking = false;
    migrator.ignore_missing = true;
    migrator
};

/// Limits for migrations, which may rewrite tables. No other service works meanwhile.
pub(crate) const MIGRATING: Limits = Limits {
    name: "drover migration",
    statement: Duration::from_hours(1),
    lock: Duration::from_mins(10),
    idle_in_transaction: Duration::from_mins(1),
    timeout: Duration::from_hours(2),
    durable: true,
    settings: &[],
};

/// The version that this program needs.
fn needed() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Migrates the schema and updates the rights on it in one transaction, which holds the lock on the row of
/// `migration_lock`. So a new table and the rights on it become visible together.
pub(crate) async fn migrate(connection: &mut PgConnection) -> Result<(), Error> {
    // Not checked at compile time: no migration creates the table.
    let lock = "create table if not exists migration_lock (one boolean primary key default true check (one));
        insert into migration_lock default values on conflict do nothing";
    // If two sessions create the table at the same moment, one of them fails. The table exists then, and the second attempt
    // succeeds.
    if connection.execute(lock).await.is_err() {
        connection.execute(lock).await.map_err(database("create the migration lock"))?;
    }
    let mut transaction = connection.begin().await.map_err(database("begin a migration"))?;
    let locked = transaction.execute("select from migration_lock for update").await;
    locked.map_err(database("take the migration lock"))?;
    MIGRATOR.run_direct(None, &mut *transaction, false).await?;
    partitions::create_missing(&mut transaction).await?;
    roles::apply(&mut transaction).await?;
    transaction.commit().await.map_err(commit("migrate the schema"))
}

/// Fails if the schema is older than this program needs.
pub(crate) async fn check(connection: &mut PgConnection) -> Result<(), Error> {
    const UNDEFINED_TABLE: &str = "42P01";
    // Not checked at compile time: the migrator creates the table.
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
