//! The tables `host_volumes`, `csi_volumes` and `volume_claims`.

use futures::TryStreamExt;
use model::change::Change;
use model::volume::{CsiVolume, HostVolume, VolumeClaim};
use sqlx::postgres::PgConnection;
use state::{State, Table};
use uuid::Uuid;

use super::{chunks, column, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    if !touched.host_volumes.is_empty() {
        project_host_volumes(transaction, touched, after).await?;
    }
    if !touched.csi_volumes.is_empty() {
        project_csi_volumes(transaction, touched, after).await?;
    }
    if !touched.volume_claims.is_empty() {
        project_claims(transaction, touched, after).await?;
    }
    Ok(())
}

async fn project_host_volumes(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.host_volumes, |id| after.host_volume(*id));
    let present: Vec<&HostVolume> = present.into_iter().map(AsRef::as_ref).collect();
    for (volumes, bodies) in chunks(&present, encode) {
        upsert_host_volumes(transaction, volumes, &bodies).await?;
    }
    let gone = column(&gone, |id| id.0);
    let deleted =
        sqlx::query!("delete from host_volumes where id = any($1)", &gone).execute(transaction).await;
    deleted.map(drop).map_err(database("delete host volumes"))
}

async fn upsert_host_volumes(
    transaction: &mut PgConnection,
    volumes: &[&HostVolume],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into host_volumes (id, namespace, name, plugin_id, node_id, node_pool, state, capacity_bytes,
            create_index, modify_index, create_time, modify_time, body)
        select id, namespace, name, plugin_id, node_id, node_pool, state, capacity_bytes, create_index, modify_index,
            moment(create_time), moment(modify_time), body
        from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bytea[])
            as rows (id, namespace, name, plugin_id, node_id, node_pool, state, capacity_bytes, create_index,
            modify_index, create_time, modify_time, body)
        on conflict (id) do update set (namespace, name, plugin_id, node_id, node_pool, state, capacity_bytes,
            create_index, modify_index, create_time, modify_time, body)
            = (excluded.namespace, excluded.name, excluded.plugin_id, excluded.node_id, excluded.node_pool,
            excluded.state, excluded.capacity_bytes, excluded.create_index, excluded.modify_index,
            excluded.create_time, excluded.modify_time, excluded.body)",
        &column(volumes, |volume| volume.id.0),
        &column(volumes, |volume| text(&volume.namespace)) as &[&str],
        &column(volumes, |volume| text(&volume.name)) as &[&str],
        &column(volumes, |volume| text(&volume.plugin_id)) as &[&str],
        &column(volumes, |volume| volume.node_id.map(|id| id.0)) as &[Option<Uuid>],
        &column(volumes, |volume| text(&volume.node_pool)) as &[&str],
        &column(volumes, |volume| volume.state.as_str()) as &[&str],
        &column(volumes, |volume| volume.capacity_bytes),
        &column(volumes, |volume| int(volume.create_index.0)),
        &column(volumes, |volume| int(volume.modify_index.0)),
        &column(volumes, |volume| volume.create_time.0),
        &column(volumes, |volume| volume.modify_time.0),
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write host volumes"))
}

async fn project_csi_volumes(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.csi_volumes, |key| after.csi_volume(key));
    let present: Vec<&CsiVolume> = present.into_iter().map(AsRef::as_ref).collect();
    for (volumes, bodies) in chunks(&present, encode) {
        sqlx::query!(
            "insert into csi_volumes (namespace, volume_id, create_index, modify_index, body)
            select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[])
            on conflict (namespace, volume_id) do update set (create_index, modify_index, body)
                = (excluded.create_index, excluded.modify_index, excluded.body)",
            &column(volumes, |volume| text(&volume.key.namespace)) as &[&str],
            &column(volumes, |volume| text(&volume.key.id)) as &[&str],
            &column(volumes, |volume| int(volume.create_index.0)),
            &column(volumes, |volume| int(volume.modify_index.0)),
            &bodies,
        )
        .execute(&mut *transaction)
        .await
        .map_err(database("write CSI volumes"))?;
    }
    sqlx::query!(
        "delete from csi_volumes using unnest($1::text[], $2::text[]) as gone (namespace, volume_id)
        where (csi_volumes.namespace, csi_volumes.volume_id) = (gone.namespace, gone.volume_id)",
        &column(&gone, |key| text(&key.namespace)) as &[&str],
        &column(&gone, |key| text(&key.id)) as &[&str],
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete CSI volumes"))
}

async fn project_claims(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.volume_claims, |id| after.volume_claim(*id));
    let present: Vec<&VolumeClaim> = present.into_iter().map(AsRef::as_ref).collect();
    for (claims, bodies) in chunks(&present, encode) {
        sqlx::query!(
            "insert into volume_claims (id, namespace, job_id, task_group, alloc_id, volume_id, volume_name,
                create_index, modify_index, body)
            select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::text[],
                $8::bigint[], $9::bigint[], $10::bytea[])
            on conflict (id) do update set (namespace, job_id, task_group, alloc_id, volume_id, volume_name,
                create_index, modify_index, body)
                = (excluded.namespace, excluded.job_id, excluded.task_group, excluded.alloc_id, excluded.volume_id,
                excluded.volume_name, excluded.create_index, excluded.modify_index, excluded.body)",
            &column(claims, |claim| claim.id.0),
            &column(claims, |claim| text(&claim.job.namespace)) as &[&str],
            &column(claims, |claim| text(&claim.job.id)) as &[&str],
            &column(claims, |claim| text(&claim.task_group)) as &[&str],
            &column(claims, |claim| claim.alloc_id.0),
            &column(claims, |claim| claim.volume_id.0),
            &column(claims, |claim| text(&claim.volume_name)) as &[&str],
            &column(claims, |claim| int(claim.create_index.0)),
            &column(claims, |claim| int(claim.modify_index.0)),
            &bodies,
        )
        .execute(&mut *transaction)
        .await
        .map_err(database("write volume claims"))?;
    }
    let gone = column(&gone, |id| id.0);
    let deleted =
        sqlx::query!("delete from volume_claims where id = any($1)", &gone).execute(transaction).await;
    deleted.map(drop).map_err(database("delete volume claims"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    if into.wants(Table::HostVolumes) {
        let mut bodies = sqlx::query_scalar!("select body from host_volumes").fetch(&mut *transaction);
        while let Some(body) = bodies.try_next().await.map_err(database("read host volumes"))? {
            into.push(Change::HostVolume(decode("host volume", &body)?)).await?;
        }
    }
    if into.wants(Table::CsiVolumes) {
        let mut bodies = sqlx::query_scalar!("select body from csi_volumes").fetch(&mut *transaction);
        while let Some(body) = bodies.try_next().await.map_err(database("read CSI volumes"))? {
            into.push(Change::CsiVolume(decode("CSI volume", &body)?)).await?;
        }
    }
    if into.wants(Table::VolumeClaims) {
        let mut bodies = sqlx::query_scalar!("select body from volume_claims").fetch(transaction);
        while let Some(body) = bodies.try_next().await.map_err(database("read volume claims"))? {
            into.push(Change::VolumeClaim(decode("volume claim", &body)?)).await?;
        }
    }
    Ok(())
}
