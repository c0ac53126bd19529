//! The table `deployments`.

use futures::TryStreamExt;
use model::TraceContext;
use model::change::Change;
use model::deployment::Deployment;
use sqlx::postgres::PgConnection;
use state::State;

use super::{chunks, column, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.deployments, |id| after.deployment(*id));
    let present: Vec<&Deployment> = present.into_iter().map(AsRef::as_ref).collect();
    for (deployments, bodies) in chunks(&present, encode) {
        upsert(transaction, deployments, &bodies).await?;
    }
    if gone.is_empty() {
        return Ok(());
    }
    let gone = column(&gone, |id| id.0);
    let deleted =
        sqlx::query!("delete from deployments where id = any($1)", &gone).execute(transaction).await;
    deleted.map(drop).map_err(database("delete deployments"))
}

async fn upsert(
    transaction: &mut PgConnection,
    deployments: &[&Deployment],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into deployments (id, namespace, job_id, job_create_index, job_version, status, status_description,
            create_index, modify_index, create_time, modify_time, trace_id, body)
        select id, namespace, job_id, job_create_index, job_version, status, status_description, create_index,
            modify_index, moment(create_time), moment(modify_time), trace_id, body
        from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bytea[])
            as rows (id, namespace, job_id, job_create_index, job_version, status, status_description, create_index,
            modify_index, create_time, modify_time, trace_id, body)
        on conflict (id) do update set (namespace, job_id, job_create_index, job_version, status, status_description,
            create_index, modify_index, create_time, modify_time, trace_id, body)
            = (excluded.namespace, excluded.job_id, excluded.job_create_index, excluded.job_version, excluded.status,
            excluded.status_description, excluded.create_index, excluded.modify_index, excluded.create_time,
            excluded.modify_time, excluded.trace_id, excluded.body)",
        &column(deployments, |deployment| deployment.id.0),
        &column(deployments, |deployment| text(&deployment.job.job.namespace)) as &[&str],
        &column(deployments, |deployment| text(&deployment.job.job.id)) as &[&str],
        &column(deployments, |deployment| int(deployment.job.create_index.0)),
        &column(deployments, |deployment| int(deployment.job.version)),
        &column(deployments, |deployment| deployment.status.as_str()) as &[&str],
        &column(deployments, |deployment| text(&deployment.status_description)) as &[&str],
        &column(deployments, |deployment| int(deployment.create_index.0)),
        &column(deployments, |deployment| int(deployment.modify_index.0)),
        &column(deployments, |deployment| deployment.create_time.0),
        &column(deployments, |deployment| deployment.modify_time.0),
        &column(deployments, |deployment| deployment.trace.map(TraceContext::trace_id_text)) as &[Option<String>],
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write deployments"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let mut bodies = sqlx::query_scalar!("select body from deployments").fetch(transaction);
    while let Some(body) = bodies.try_next().await.map_err(database("read deployments"))? {
        into.push(Change::Deployment(decode("deployment", &body)?)).await?;
    }
    Ok(())
}
