//! The tables `jobs`, `job_summaries` and `plan_indexes`: versions of jobs, their summaries, and the indexes of their last
//! plans.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use model::alloc::GroupSummary;
use model::change::{Change, JobSummary};
use model::job::Job;
use model::{EvalId, Index, JobKey, JobVersionKey};
use sqlx::postgres::PgConnection;
use state::{State, Table};

use super::{Pacer, chunks, column, decode, encode, int, split_present, text};
use crate::error::{Error, database};
use crate::head;
use crate::loading::Loading;
use crate::touched::Touched;

pub(super) async fn project(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    project_versions(transaction, touched, after, pacer).await?;
    project_summaries(transaction, &touched.summaries, after, pacer).await?;
    project_plans(transaction, &touched.plans, after).await
}

pub(super) async fn load(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    load_versions(transaction, into).await?;
    if into.wants(Table::JobSummaries) {
        load_summaries(transaction, into).await?;
    }
    load_plans(transaction, into).await
}

async fn project_versions(
    transaction: &mut PgConnection,
    touched: &Touched,
    after: &State,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    // A deletion removes versions without naming them. Versions of a job that is registered again are written below.
    delete_jobs(transaction, &touched.jobs_deleted.iter().collect::<Vec<_>>()).await?;
    let (present, gone) = split_present(&touched.job_versions, |key| after.job_version(key));
    delete_versions(transaction, &gone).await?;
    let present: Vec<&Job> = present.into_iter().map(AsRef::as_ref).collect();
    for (jobs, bodies) in chunks(&present, encode) {
        upsert_versions(transaction, jobs, &bodies).await?;
        pacer.add_written(jobs.len()).await;
    }
    Ok(())
}

async fn delete_jobs(transaction: &mut PgConnection, gone: &[&JobKey]) -> Result<(), Error> {
    if gone.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "delete from jobs using unnest($1::text[], $2::text[]) as gone (namespace, job_id)
        where (jobs.namespace, jobs.job_id) = (gone.namespace, gone.job_id)",
        &column(gone, |job| text(&job.namespace)) as &[&str],
        &column(gone, |job| text(&job.id)) as &[&str],
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete jobs"))
}

async fn delete_versions(transaction: &mut PgConnection, gone: &[&JobVersionKey]) -> Result<(), Error> {
    if gone.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "delete from jobs
        using unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) as gone (namespace, job_id, created, version)
        where (jobs.namespace, jobs.job_id, jobs.create_index, jobs.version)
            = (gone.namespace, gone.job_id, gone.created, gone.version)",
        &column(gone, |key| text(&key.job.namespace)) as &[&str],
        &column(gone, |key| text(&key.job.id)) as &[&str],
        &column(gone, |key| int(key.create_index.0)),
        &column(gone, |key| int(key.version)),
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete job versions"))
}

async fn upsert_versions(
    transaction: &mut PgConnection,
    jobs: &[&Job],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    sqlx::query!(
        "insert into jobs (namespace, job_id, create_index, version, name, type, priority, status, status_description,
            stopped, stable, parent_id, node_pool, version_tag, modify_index, job_modify_index, submit_time, body)
        select namespace, job_id, create_index, version, name, type, priority, status, status_description, stopped,
            stable, parent_id, node_pool, version_tag, modify_index, job_modify_index, moment(submit_time), body
        from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
            $9::text[], $10::bool[], $11::bool[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::bigint[],
            $17::bigint[], $18::bytea[])
            as rows (namespace, job_id, create_index, version, name, type, priority, status, status_description,
            stopped, stable, parent_id, node_pool, version_tag, modify_index, job_modify_index, submit_time, body)
        on conflict (namespace, job_id, create_index, version) do update set (name, type, priority, status,
            status_description, stopped, stable, parent_id, node_pool, version_tag, modify_index, job_modify_index,
            submit_time, body)
            = (excluded.name, excluded.type, excluded.priority, excluded.status, excluded.status_description,
            excluded.stopped, excluded.stable, excluded.parent_id, excluded.node_pool, excluded.version_tag,
            excluded.modify_index, excluded.job_modify_index, excluded.submit_time, excluded.body)",
        &column(jobs, |job| text(&job.spec.namespace)) as &[&str],
        &column(jobs, |job| text(&job.spec.id)) as &[&str],
        &column(jobs, |job| int(job.create_index.0)),
        &column(jobs, |job| int(job.version)),
        &column(jobs, |job| text(&job.spec.name)) as &[&str],
        &column(jobs, |job| job.spec.kind.as_str()) as &[&str],
        &column(jobs, |job| i32::from(job.spec.priority)),
        &column(jobs, |job| job.status.as_str()) as &[&str],
        &column(jobs, |job| text(&job.status_description)) as &[&str],
        &column(jobs, |job| job.spec.stop),
        &column(jobs, |job| job.stable),
        &column(jobs, |job| text(&job.spec.parent_id)) as &[&str],
        &column(jobs, |job| text(&job.spec.node_pool)) as &[&str],
        &column(jobs, |job| job.version_tag.as_ref().map(|tag| text(&tag.name))) as &[Option<&str>],
        &column(jobs, |job| int(job.modify_index.0)),
        &column(jobs, |job| int(job.job_modify_index.0)),
        &column(jobs, |job| job.submit_time.0),
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write job versions"))
}

async fn load_versions(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let mut bodies = sqlx::query_scalar!("select body from jobs").fetch(transaction);
    while let Some(body) = bodies.try_next().await.map_err(database("read job versions"))? {
        into.push(Change::Job(decode("job version", &body)?)).await?;
    }
    Ok(())
}

async fn project_summaries(
    transaction: &mut PgConnection,
    touched: &BTreeSet<JobKey>,
    after: &State,
    pacer: &mut Pacer,
) -> Result<(), Error> {
    let (present, gone) = split_present(touched, |key| after.job_summary(key));
    let present: Vec<&JobSummary> = present.into_iter().map(AsRef::as_ref).collect();
    for (summaries, bodies) in chunks(&present, encode) {
        upsert_summaries(transaction, summaries, &bodies).await?;
        pacer.add_written(summaries.len()).await;
    }
    if gone.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "delete from job_summaries using unnest($1::text[], $2::text[]) as gone (namespace, job_id)
        where (job_summaries.namespace, job_summaries.job_id) = (gone.namespace, gone.job_id)",
        &column(&gone, |job| text(&job.namespace)) as &[&str],
        &column(&gone, |job| text(&job.id)) as &[&str],
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete job summaries"))
}

async fn upsert_summaries(
    transaction: &mut PgConnection,
    summaries: &[&JobSummary],
    bodies: &[Vec<u8>],
) -> Result<(), Error> {
    let sums = |count: fn(&GroupSummary) -> u32| {
        column(summaries, |summary| summary.groups.values().map(|group| i64::from(count(group))).sum::<i64>())
    };
    sqlx::query!(
        "insert into job_summaries (namespace, job_id, queued, starting, running, complete, failed, lost, unknown,
            create_index, modify_index, body)
        select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[])
        on conflict (namespace, job_id) do update set (queued, starting, running, complete, failed, lost, unknown,
            create_index, modify_index, body)
            = (excluded.queued, excluded.starting, excluded.running, excluded.complete, excluded.failed,
            excluded.lost, excluded.unknown, excluded.create_index, excluded.modify_index, excluded.body)",
        &column(summaries, |summary| text(&summary.job.namespace)) as &[&str],
        &column(summaries, |summary| text(&summary.job.id)) as &[&str],
        &sums(|group| group.queued),
        &sums(|group| group.starting),
        &sums(|group| group.running),
        &sums(|group| group.complete),
        &sums(|group| group.failed),
        &sums(|group| group.lost),
        &sums(|group| group.unknown),
        &column(summaries, |summary| int(summary.create_index.0)),
        &column(summaries, |summary| int(summary.modify_index.0)),
        bodies,
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("write job summaries"))
}

async fn load_summaries(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    let mut bodies = sqlx::query_scalar!("select body from job_summaries").fetch(transaction);
    while let Some(body) = bodies.try_next().await.map_err(database("read job summaries"))? {
        into.push(Change::JobSummary(decode("job summary", &body)?)).await?;
    }
    Ok(())
}

async fn project_plans(
    transaction: &mut PgConnection,
    touched: &BTreeSet<JobKey>,
    after: &State,
) -> Result<(), Error> {
    if touched.is_empty() {
        return Ok(());
    }
    let index = |key: &JobKey| Some(after.plan_index(key)).filter(|index| index.is_set());
    let (present, gone) = split_present(touched, |key| index(key).map(|index| (key.clone(), index)));
    sqlx::query!(
        "insert into plan_indexes (namespace, job_id, index)
        select * from unnest($1::text[], $2::text[], $3::bigint[])
        on conflict (namespace, job_id) do update set index = excluded.index",
        &column(&present, |(job, _)| text(&job.namespace)) as &[&str],
        &column(&present, |(job, _)| text(&job.id)) as &[&str],
        &column(&present, |(_, index)| int(index.0)),
    )
    .execute(&mut *transaction)
    .await
    .map_err(database("write plan indexes"))?;
    if gone.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "delete from plan_indexes using unnest($1::text[], $2::text[]) as gone (namespace, job_id)
        where (plan_indexes.namespace, plan_indexes.job_id) = (gone.namespace, gone.job_id)",
        &column(&gone, |job| text(&job.namespace)) as &[&str],
        &column(&gone, |job| text(&job.id)) as &[&str],
    )
    .execute(transaction)
    .await
    .map(drop)
    .map_err(database("delete plan indexes"))
}

async fn load_plans(transaction: &mut PgConnection, into: &mut Loading) -> Result<(), Error> {
    /// No evaluation has this id: a plan must not touch evaluations here, which are loaded with their own indexes.
    const NO_EVAL: EvalId = EvalId::from_bytes([0; 16]);
    let rows = sqlx::query!("select namespace, job_id, index from plan_indexes order by index");
    let mut rows = rows.fetch(transaction);
    let (mut index, mut changes) = (Index::ZERO, Vec::new());
    while let Some(row) = rows.try_next().await.map_err(database("read plan indexes"))? {
        if head::index(row.index) != index {
            into.push_at(index, std::mem::take(&mut changes)).await?;
            index = head::index(row.index);
        }
        changes.push(Change::PlanApplied { job: JobKey::new(row.namespace, row.job_id), eval_id: NO_EVAL });
    }
    into.push_at(index, changes).await
}
