//! The table `root_key_secrets`: the private keys that the cluster signs with. They are not in the log.

use model::{Epoch, RootKeyId};
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use crate::error::{Error, database};

/// Stores a private key. An existing entry for the same id is kept.
pub(crate) async fn store_root_key(
    connection: &mut PgConnection,
    id: RootKeyId,
    secret: &[u8],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into root_key_secrets (id, secret) values ($1, $2) on conflict (id) do nothing",
        id.0,
        secret,
    )
    .execute(connection)
    .await
    .map(drop)
    .map_err(database("store the private half of a root key"))
}

/// Removes the private keys with other ids than `kept`, if the epoch still owns the log. Returns how many were removed. A
/// key of a later epoch is not removed: when the statement sees it, it also sees that the epoch is over.
pub(crate) async fn remove_other_root_keys(
    connection: &mut PgConnection,
    epoch: Epoch,
    kept: &[Uuid],
) -> Result<u64, Error> {
    let removed = sqlx::query!(
        "delete from root_key_secrets
        where id <> all($1::uuid[]) and exists (select from head where applier_epoch = $2)",
        kept,
        epoch.0.cast_signed(),
    );
    let removed = removed.execute(connection).await;
    Ok(removed.map_err(database("remove private halves of root keys"))?.rows_affected())
}
