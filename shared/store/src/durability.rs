//! What a server and a session have to be like so that a commit is durable when it is answered.

use sqlx::postgres::PgConnection;

use crate::error::{Error, database};

/// Makes commits of the session wait until they are durable, on a synchronous standby as well if the server has one. Fails if
/// the server itself may lose them, unless `allow_unsafe` is set.
pub(crate) async fn require(connection: &mut PgConnection, allow_unsafe: bool) -> Result<(), Error> {
    // A setting of the server, the database or the role may be weaker. `remote_apply` waits for more than `on`.
    let found = sqlx::query!(
        r#"select current_setting('fsync') as "fsync!", current_setting('full_page_writes') as "full_page_writes!",
            set_config('synchronous_commit', case current_setting('synchronous_commit')
                when 'remote_apply' then 'remote_apply' else 'on' end, false) as "synchronous_commit!""#
    );
    let found = found.fetch_one(connection).await.map_err(database("make commits durable"))?;
    let settings = [("fsync", found.fsync), ("full_page_writes", found.full_page_writes)];
    let off: Vec<&'static str> =
        settings.into_iter().filter(|(_, value)| value == "off").map(|(name, _)| name).collect();
    if off.is_empty() || allow_unsafe { Ok(()) } else { Err(Error::Unsafe { off: off.join(" and ") }) }
}
