//! The tables `scheduler_config`, `node_pools`, `namespaces`, `root_keys` and `leases`: few rows each.

use futures::TryStreamExt;
use model::change::Change;
use model::cluster::{Lease, Namespace, NodePool};
use model::keyring::RootKey;
use model::{Epoch, ProcessId};
use sqlx::postgres::PgConnection;
use state::{State, Table};

use super::{column, decode, encode, int, split_present, text};
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
    if !touched.node_pools.is_empty() {
        project_node_pools(transaction, touched, after).await?;
    }
    if !touched.namespaces.is_empty() {
        project_namespaces(transaction, touched, after).await?;
    }
    if !touched.root_keys.is_empty() {
        project_root_keys(transaction, touched, after).await?;
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

async fn project_node_pools(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.node_pools, |name| after.node_pool(name));
    let pools: Vec<&NodePool> = present.into_iter().map(AsRef::as_ref).collect();
    sqlx::query!(
        "insert into node_pools (name, description, create_index, modify_index, body)
        select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[])
        on conflict (name) do update set (description, create_index, modify_index, body)
            = (excluded.description, excluded.create_index, excluded.modify_index, excluded.body)",
        &column(&pools, |pool| text(&pool.name)) as &[&str],
        &column(&pools, |pool| text(&pool.description)) as &[&str],
        &column(&pools, |pool| int(pool.create_index.0)),
        &column(&pools, |pool| int(pool.modify_index.0)),
        &column(&pools, |pool| encode(pool)),
    )
    .execute(&mut *transaction)
    .await
    .map_err(database("write node pools"))?;
    let gone = column(&gone, |name| text(name));
    let deleted = sqlx::query!("delete from node_pools where name = any($1)", &gone as &[&str]);
    deleted.execute(transaction).await.map(drop).map_err(database("delete node pools"))
}

async fn project_namespaces(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.namespaces, |name| after.namespace(name));
    let namespaces: Vec<&Namespace> = present.into_iter().map(AsRef::as_ref).collect();
    sqlx::query!(
        "insert into namespaces (name, description, create_index, modify_index, body)
        select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[])
        on conflict (name) do update set (description, create_index, modify_index, body)
            = (excluded.description, excluded.create_index, excluded.modify_index, excluded.body)",
        &column(&namespaces, |namespace| text(&namespace.name)) as &[&str],
        &column(&namespaces, |namespace| text(&namespace.description)) as &[&str],
        &column(&namespaces, |namespace| int(namespace.create_index.0)),
        &column(&namespaces, |namespace| int(namespace.modify_index.0)),
        &column(&namespaces, |namespace| encode(namespace)),
    )
    .execute(&mut *transaction)
    .await
    .map_err(database("write namespaces"))?;
    let gone = column(&gone, |name| text(name));
    let deleted = sqlx::query!("delete from namespaces where name = any($1)", &gone as &[&str]);
    deleted.execute(transaction).await.map(drop).map_err(database("delete namespaces"))
}

async fn project_root_keys(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    // Root keys are never deleted.
    let (keys, _) = split_present(&touched.root_keys, |id| after.root_key(*id));
    let keys: Vec<&RootKey> = keys.into_iter().map(AsRef::as_ref).collect();
    sqlx::query!(
        "insert into root_keys (id, create_time, create_index, modify_index, body)
        select id, moment(create_time), create_index, modify_index, body
        from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])
            as rows (id, create_time, create_index, modify_index, body)
        on conflict (id) do update set (create_time, create_index, modify_index, body)
            = (excluded.create_time, excluded.create_index, excluded.modify_index, excluded.body)",
        &column(&keys, |key| key.id.0),
        &column(&keys, |key| key.create_time.0),
        &column(&keys, |key| int(key.create_index.0)),
        &column(&keys, |key| int(key.modify_index.0)),
        &column(&keys, |key| encode(key)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write root keys"))
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
    if into.wants(Table::NodePools) {
        let mut bodies = sqlx::query_scalar!("select body from node_pools").fetch(&mut *transaction);
        while let Some(body) = bodies.try_next().await.map_err(database("read node pools"))? {
            into.push(Change::NodePool(decode("node pool", &body)?)).await?;
        }
    }
    if into.wants(Table::Namespaces) {
        let mut bodies = sqlx::query_scalar!("select body from namespaces").fetch(&mut *transaction);
        while let Some(body) = bodies.try_next().await.map_err(database("read namespaces"))? {
            into.push(Change::Namespace(decode("namespace", &body)?)).await?;
        }
    }
    if into.wants(Table::RootKeys) {
        let mut bodies = sqlx::query_scalar!("select body from root_keys").fetch(&mut *transaction);
        while let Some(body) = bodies.try_next().await.map_err(database("read root keys"))? {
            into.push(Change::RootKey(decode("root key", &body)?)).await?;
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
