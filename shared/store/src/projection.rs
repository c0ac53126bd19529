//! The row `projection`: the last index in the object tables, and the epoch that writes them.

use model::{Epoch, Index, Timestamp};
use sqlx::postgres::PgConnection;

use crate::error::{Error, database};
use crate::head;

/// How far the object tables are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Projected {
    /// The last change set whose effects they contain.
    pub(crate) index: Index,
    /// The cluster's time at that index.
    pub(crate) at: Timestamp,
}

/// Claims the object tables for an epoch until the transaction ends. Waits for any other transaction that writes them.
pub(crate) async fn claim(transaction: &mut PgConnection, epoch: Epoch) -> Result<Projected, Error> {
    let claimed = sqlx::query!(
        "update projection set applier_epoch = $1 where applier_epoch <= $1 returning projected_index, at_ns",
        epoch.0.cast_signed(),
    );
    let claimed = claimed.fetch_optional(transaction).await.map_err(database("claim the object tables"))?;
    let claimed = claimed.ok_or(Error::Deposed { epoch })?;
    Ok(Projected { index: head::index(claimed.projected_index), at: Timestamp(claimed.at_ns) })
}

/// Terminates other sessions that write the object tables, if `epoch` is the newest. An applier that was stopped in the
/// middle of a projection would otherwise keep locks on their rows. Its uncommitted rows are rolled back.
pub(crate) async fn terminate_others(
    connection: &mut PgConnection,
    epoch: Epoch,
    application: &str,
) -> Result<(), Error> {
    let ended = sqlx::query!(
        "select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = $1 and datname = current_database() and usename = current_user
            and pid <> pg_backend_pid() and exists (select from head where applier_epoch = $2)",
        application,
        epoch.0.cast_signed(),
    );
    let ended = ended.fetch_all(connection).await.map_err(database("terminate other projections"))?;
    if !ended.is_empty() {
        tracing::info!(sessions = ended.len(), "terminated projection sessions of an older epoch");
    }
    Ok(())
}

/// Records the index that the object tables have reached, as part of this transaction.
pub(crate) async fn advance(transaction: &mut PgConnection, to: Projected) -> Result<(), Error> {
    let (index, at_ns) = (to.index.0.cast_signed(), to.at.0);
    let advanced = sqlx::query!("update projection set projected_index = $1, at_ns = $2", index, at_ns);
    advanced.execute(transaction).await.map(drop).map_err(database("advance the projection"))
}

pub(crate) async fn read(connection: &mut PgConnection) -> Result<Projected, Error> {
    let row = sqlx::query!("select projected_index, at_ns from projection").fetch_one(connection).await;
    let row = row.map_err(database("read the projection's index"))?;
    Ok(Projected { index: head::index(row.projected_index), at: Timestamp(row.at_ns) })
}
