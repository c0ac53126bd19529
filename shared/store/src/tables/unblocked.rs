//! The table `unblocked`: the last index at which a class, quota or resource gained capacity.

use model::change::{Change, Unblocked};
use sqlx::postgres::PgConnection;
use state::{State, UnblockKey};

use super::{column, int, text};
use crate::error::{Error, database};
use crate::head;
use crate::loading::Loading;
use crate::touched::Touched;

const CLASS: &str = "class";
const QUOTA: &str = "quota";
const RESOURCE: &str = "resource";

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    if touched.unblocked.is_empty() && !touched.unblocked_forgotten.is_set() {
        return Ok(());
    }
    let forgotten = int(touched.unblocked_forgotten.0);
    let deleted =
        sqlx::query!("delete from unblocked where index < $1", forgotten).execute(&mut *transaction).await;
    deleted.map_err(database("delete unblock records"))?;
    // What gained capacity again after that index exists in the state.
    let present: Vec<_> = after.unblocked().filter(|(key, _)| touched.unblocked.contains(key)).collect();
    let parts = column(&present, |(key, _)| match key {
        UnblockKey::Class(name) => (CLASS, name),
        UnblockKey::Quota(name) => (QUOTA, name),
        UnblockKey::Resource(name) => (RESOURCE, name),
    });
    sqlx::query!(
        "insert into unblocked (kind, name, index) select * from unnest($1::text[], $2::text[], $3::bigint[])
        on conflict (kind, name) do update set index = excluded.index",
        &column(&parts, |(kind, _)| *kind) as &[&str],
        &column(&parts, |(_, name)| text(name)) as &[&str],
        &column(&present, |(_, index)| int(index.0)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write unblock records"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let rows = sqlx::query!("select kind, name, index from unblocked").fetch_all(transaction).await;
    for row in rows.map_err(database("read unblock records"))? {
        let (index, names) = (head::index(row.index), vec![row.name.into()]);
        let unblocked = match &*row.kind {
            CLASS => Unblocked { classes: names, ..Unblocked::default() },
            QUOTA => Unblocked { quotas: names, ..Unblocked::default() },
            _ => Unblocked { resources: names, ..Unblocked::default() },
        };
        into.push_at(index, vec![Change::Unblocked(unblocked)]).await?;
    }
    Ok(())
}
