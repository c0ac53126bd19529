//! The table `root_key_secrets`: the private halves of the keys that the cluster signs with. They are in no log.

use model::RootKeyId;
use sqlx::postgres::PgConnection;

use crate::error::{Error, database};

/// Keeps the private half of a key. One that is there already stays.
pub(crate) async fn keep_root_key(
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
    .map_err(database("keep the private half of a root key"))
}
