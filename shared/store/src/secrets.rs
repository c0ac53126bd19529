//! The table `root_key_secrets`: the private keys that the cluster signs with. They are not in the log.

use model::RootKeyId;
use sqlx::postgres::PgConnection;

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
