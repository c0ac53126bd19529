//! The tables `scheduler_config` and `leases`: few rows each.

use model::change::Change;
use model::cluster::Lease;
use model::{Epoch, ProcessId};
use sqlx::postgres::PgConnection;
use state::{State, Table};

use super::{column, decode, encode, int, split_present};
use crate::error::{Error, database, unreadable};
use crate::head;
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    if touched.scheduler_config {
        project_scheduler_config(transaction, after).await?;
    }
    if !touched.leases.is_empty() {
        project_leases(transaction, touched, after).await?;
    }
    Ok(())
}

async fn project_scheduler_config(transaction: &mut PgConnection, after: &State) -> Result<(), Error> {
    let Some(config) = after.scheduler_config() else { return Ok(()) };
    sqlx::query!(
        "insert into scheduler_config (scheduler_algorithm, create_index, modify_index, body) values ($1, $2, $3, $4)
        on conflict (one) do update set (scheduler_algorithm, create_index, modify_index, body)
            = (excluded.scheduler_algorithm, excluded.create_index, excluded.modify_index, excluded.body)",
        config.algorithm.map(|algorithm| algorithm.as_str()),
        int(config.create_index.0),
        int(config.modify_index.0),
        &encode(config),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write the scheduler configuration"))
}

async fn project_leases(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    // Leases change their holder, but are never deleted.
    let (leases, _) = split_present(&touched.leases, |service| after.lease(*service));
    sqlx::query!(
        "insert into leases (service, holder, epoch, modify_index)
        select * from unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[])
        on conflict (service) do update set (holder, epoch, modify_index)
            = (excluded.holder, excluded.epoch, excluded.modify_index)",
        &column(&leases, |lease| lease.service.as_str()) as &[&str],
        &column(&leases, |lease| lease.holder.0),
        &column(&leases, |lease| int(lease.epoch.0)),
        &column(&leases, |lease| int(lease.modify_index.0)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write leases"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    if into.wants(Table::SchedulerConfig) {
        let config = sqlx::query_scalar!("select body from scheduler_config");
        let config = config.fetch_optional(&mut *transaction).await;
        if let Some(body) = config.map_err(database("read the scheduler configuration"))? {
            into.push(Change::SchedulerConfig(decode("scheduler configuration", &body)?)).await?;
        }
    }
    if into.wants(Table::Leases) {
        load_leases(transaction, into).await?;
    }
    Ok(())
}

async fn load_leases(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let leases =
        sqlx::query!("select service, holder, epoch, modify_index from leases").fetch_all(transaction).await;
    for row in leases.map_err(database("read leases"))? {
        into.push(Change::Lease(Lease {
            service: row.service.parse().map_err(unreadable("lease"))?,
            holder: ProcessId(row.holder),
            epoch: Epoch(row.epoch.cast_unsigned()),
            modify_index: head::index(row.modify_index),
        }))
        .await?;
    }
    Ok(())
}
