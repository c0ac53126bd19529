//! The table `evals`.

use futures::TryStreamExt;
use model::TraceContext;
use model::change::Change;
use model::eval::Evaluation;
use sqlx::postgres::PgConnection;
use state::State;
use uuid::Uuid;

use super::{Pacer, chunks, column, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    let (present, gone) = split_present(&touched.evals, |id| after.eval(*id));
    let present: Vec<&Evaluation> = present.into_iter().map(AsRef::as_ref).collect();
    for (evals, bodies) in chunks(&present, encode) {
        upsert(transaction, evals, &bodies).await?;
        pacer.add_written(evals.len()).await;
    }
    if gone.is_empty() {
        return Ok(());
    }
    let gone = column(&gone, |id| id.0);
    let deleted = sqlx::query!("delete from evals where id = any($1)", &gone).execute(transaction).await;
    deleted.map(drop).map_err(database("delete evaluations"))
}

async fn upsert(
    transaction: &mut PgConnection,
    evals: &[&Evaluation],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into evals (id, namespace, job_id, type, priority, triggered_by, status, status_description, node_id,
            deployment_id, wait_until, create_index, modify_index, create_time, modify_time, trace_id, body)
        select id, namespace, job_id, type, priority, triggered_by, status, status_description, node_id,
            deployment_id, moment(wait_until), create_index, modify_index, moment(create_time), moment(modify_time),
            trace_id, body
        from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[],
            $9::uuid[], $10::uuid[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
            $16::text[], $17::bytea[])
            as rows (id, namespace, job_id, type, priority, triggered_by, status, status_description, node_id,
            deployment_id, wait_until, create_index, modify_index, create_time, modify_time, trace_id, body)
        on conflict (id) do update set (namespace, job_id, type, priority, triggered_by, status, status_description,
            node_id, deployment_id, wait_until, create_index, modify_index, create_time, modify_time, trace_id,
            body)
            = (excluded.namespace, excluded.job_id, excluded.type, excluded.priority, excluded.triggered_by,
            excluded.status, excluded.status_description, excluded.node_id, excluded.deployment_id,
            excluded.wait_until, excluded.create_index, excluded.modify_index, excluded.create_time,
            excluded.modify_time, excluded.trace_id, excluded.body)",
        &column(evals, |eval| eval.id.0),
        &column(evals, |eval| text(&eval.job.namespace)) as &[&str],
        &column(evals, |eval| text(&eval.job.id)) as &[&str],
        &column(evals, |eval| eval.kind.as_str()) as &[&str],
        &column(evals, |eval| i32::from(eval.priority)),
        &column(evals, |eval| text(eval.trigger.as_str())) as &[&str],
        &column(evals, |eval| eval.status.as_str()) as &[&str],
        &column(evals, |eval| text(&eval.status_description)) as &[&str],
        &column(evals, |eval| eval.node_id.map(|id| id.0)) as &[Option<Uuid>],
        &column(evals, |eval| eval.deployment_id.map(|id| id.0)) as &[Option<Uuid>],
        &column(evals, |eval| eval.wait_until.0),
        &column(evals, |eval| int(eval.create_index.0)),
        &column(evals, |eval| int(eval.modify_index.0)),
        &column(evals, |eval| eval.create_time.0),
        &column(evals, |eval| eval.modify_time.0),
        &column(evals, |eval| eval.trace.map(TraceContext::trace_id_text)) as &[Option<String>],
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write evaluations"))
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let mut bodies = sqlx::query_scalar!("select body from evals").fetch(transaction);
    while let Some(body) = bodies.try_next().await.map_err(database("read evaluations"))? {
        into.push(Change::Eval(decode("evaluation", &body)?)).await?;
    }
    Ok(())
}
